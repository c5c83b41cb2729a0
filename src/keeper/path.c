/*
 * One pass over the bytes: UTF-8 is decoded as it goes and each part is judged when its slash or the
 * end is reached.
 */
#include "keeper/path.h"

#include <stdint.h>

/* Decodes one character of at least two bytes. Returns its length, 0 when it is not UTF-8. */
static size_t decode(const unsigned char *p, size_t left, uint32_t *ret_char)
{
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t c = p[0] & (0xff >> (len + 1));

    if (p[0] < 0xc2 || p[0] > 0xf4 || left < len)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    *ret_char = c;
    return c < least[len] ? 0 : len;
}

static bool allowed(uint32_t c)
{
    return c > 0x9f && !(c >= 0xd800 && c <= 0xf8ff) && c < 0xfff0;
}

static bool part_is_valid(struct str part)
{
    return part.len && !str_eq(part, STR(".")) && !str_eq(part, STR(".."));
}

bool path_is_valid(struct str path, bool sequential)
{
    const unsigned char *p = (const unsigned char *)path.p;
    size_t max_len = PATH_MAX_LEN - (sequential ? PATH_NUMBER_MAX_LEN : 0), part = 1, i = 1;
    uint32_t c;

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
            size_t len = decode(p + i, path.len - i, &c);

            if (!len || !allowed(c))
                return false;
            i += len;
        }
    }
    if (sequential) /* digits will follow, so any last part will do */
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
