/* One pass over the bytes. Each part is checked when its slash or the end is reached. */
#include "keeper/path.h"

#include <stdint.h>

/* ZooKeeper allows no control characters, private use or specials, and nothing beyond U+FFFF. */
static bool allowed(const unsigned char *p, size_t len)
{
    if (len < 2 || len > 3)
        return false;
    uint32_t c = len == 2 ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu)
                          : (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    return c > 0x9f && !(c >= 0xe000 && c <= 0xf8ff) && c < 0xfff0;
}

static bool part_is_valid(struct str part)
{
    return part.len && !str_eq(part, STR(".")) && !str_eq(part, STR(".."));
}

bool path_is_valid(struct str path, bool sequential)
{
    const unsigned char *p = (const unsigned char *)path.p;
    size_t max_len = PATH_MAX_LEN - (sequential ? PATH_NUMBER_MAX_LEN : 0), part = 1, i = 1;

    if (path.len == 0 || path.len > max_len || p[0] != '/')
        return false;
    if (path.len == 1)
        return true;
    while (i < path.len) {
        if (p[i] == '/') {
            if (!part_is_valid((struct str){path.p + part, i - part}))
                return false;
            part = ++i;
        } else if (p[i] < 0x80) {
            if (p[i] < 0x20 || p[i] == 0x7f)
                return false;
            i++;
        } else {
            size_t len = utf8_len(path.p + i, path.p + path.len);
            if (!allowed(p + i, len))
                return false;
            i += len;
        }
    }
    if (sequential) /* digits will follow, so any last part is valid */
        return true;
    return part_is_valid((struct str){path.p + part, path.len - part});
}

bool path_is_special(struct str path)
{
    return str_eq(path, STR("/")) || str_eq(path, STR("/zookeeper")) ||
           str_eq(path, STR("/zookeeper/quota")) || str_eq(path, STR("/zookeeper/config"));
}

static size_t last_slash(struct str path)
{
    const char *slash = memrchr(path.p, '/', path.len);
    return slash ? (size_t)(slash - path.p) : 0;
}

struct str path_parent(struct str path)
{
    size_t slash = last_slash(path);
    return (struct str){path.p, slash ? slash : 1};
}

struct str path_name(struct str path)
{
    size_t slash = last_slash(path);
    return (struct str){path.p + slash + 1, path.len - slash - 1};
}
