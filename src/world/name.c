/* Names of tasks, worlds and nodes. All names from outside are checked here, once. */
#include "world/name.h"

#include "keeper/path.h"

enum { NODE_LEN_MAX = 2 * WORLD_NAME_LEN_MAX + 1 };

static int check_text(struct str s, size_t len_max, const char *what, struct err_info *e)
{
    char path[NODE_LEN_MAX + 2] = "/";
    if (!s.len)
        return err_set(e, DROVER_BAD_ARGUMENT, "the %s is empty", what);
    if (s.len > len_max)
        return err_set(e, DROVER_BAD_ARGUMENT, "the %s is longer than %zu bytes", what, len_max);
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 || c == 0x7f)
            return err_set(e, DROVER_BAD_ARGUMENT, "the %s holds a control character", what);
        if (c == ' ' || c == '/' || c == '\\' || c == '|')
            return err_set(e, DROVER_BAD_ARGUMENT,
                           "the %s '%.*s' holds '%c': no space, '/', '\\' or '|' may be in it",
                           what, STR_ARGS(s), (char)c);
    }
    memcpy(path + 1, s.p, s.len);
    if (!path_is_valid((struct str){path, s.len + 1}, false))
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "the %s holds a character that a node's name cannot have", what);
    return 0;
}

int world_check_name(struct str name, const char *what, struct err_info *ret_error)
{
    /* "." and ".." are harmless: the rest of the node's name surrounds them. */
    if (str_eq(name, STR(".")) || str_eq(name, STR("..")))
        return 0;
    return check_text(name, WORLD_NAME_LEN_MAX, what, ret_error);
}

int world_check_world(struct str world, struct err_info *ret_error)
{
    int err = world_check_name(world, "world's name", ret_error);
    if (!err && world.len == 1 && strchr("pwc", world.p[0]))
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "a world cannot be named '%c': zoott_%c is a list of tasks", world.p[0],
                       world.p[0]);
    return err;
}

int world_check_key(struct str key, struct err_info *ret_error)
{
    struct str rest = key, name, type;

    if (key.len > WORLD_KEY_LEN_MAX)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "the task's path is longer than %d bytes",
                       WORLD_KEY_LEN_MAX);
    for (;;) {
        const char *bar = rest.len ? memchr(rest.p, '|', rest.len) : NULL;
        struct str node = {rest.p, bar ? (size_t)(bar - rest.p) : rest.len};

        if (node.len && check_text(node, NODE_LEN_MAX, "node", ret_error))
            return DROVER_BAD_ARGUMENT;
        if (!world_split_name(node, &(size_t){0}, &name, &type))
            return err_set(ret_error, DROVER_BAD_ARGUMENT,
                           "'%.*s' is not a node: NAME_TYPE, or NAME_TYPE|NAME_TYPE for a child",
                           (int)(key.len < 200 ? key.len : 200), key.p);
        if (!bar)
            return 0;
        rest = (struct str){bar + 1, rest.len - node.len - 1};
    }
}

char *world_root_path(struct arena *a, struct str world)
{
    return arena_printf(a, WORLD_ROOT_PREFIX "%.*s", STR_ARGS(world));
}

static char *replace(char *text, char from, char to)
{
    for (char *c = text; *c; c++)
        if (*c == from)
            *c = to;
    return text;
}

char *world_path(struct arena *a, const char *root, struct str key)
{
    char *path = arena_printf(a, "%s/%.*s", root, STR_ARGS(key));
    replace(path + strlen(root), '|', '/');
    return path;
}

char *world_key(struct arena *a, const char *root, struct str path)
{
    size_t skip = strlen(root) + 1;
    if (path.len < skip || !str_starts(path, str_of(root)) || path.p[skip - 1] != '/')
        skip = 0;
    return replace(arena_text(a, (struct str){path.p + skip, path.len - skip}), '/', '|');
}

struct str world_parent_key(struct str key)
{
    const char *bar = key.len ? memrchr(key.p, '|', key.len) : NULL;
    return (struct str){key.p, bar ? (size_t)(bar - key.p) : 0};
}

struct str world_key_last(struct str key)
{
    struct str parent = world_parent_key(key);
    size_t skip = parent.len ? parent.len + 1 : 0;
    return (struct str){key.p + skip, key.len - skip};
}

char *world_list_path(struct arena *a, const char *dir, struct str key)
{
    return arena_printf(a, "%s/%.*s", dir, STR_ARGS(key));
}

bool world_split_name(struct str node, size_t *at, struct str *ret_name, struct str *ret_type)
{
    for (size_t i = *at; i + 1 < node.len; i++) {
        if (i == 0 || node.p[i] != '_')
            continue;
        *ret_name = (struct str){node.p, i};
        *ret_type = (struct str){node.p + i + 1, node.len - i - 1};
        *at = i + 1;
        return true;
    }
    return false;
}
