/*
 * The names of tasks, worlds and nodes, and the JSON of a world's lists. All names from outside are
 * checked here, once.
 */
#include "world/record.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/json.h"
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
    do {
        struct str node = str_cut(&rest, '|');
        if (node.len && check_text(node, NODE_LEN_MAX, "node", ret_error))
            return DROVER_BAD_ARGUMENT;
        if (!world_split_name(node, &(size_t){0}, &name, &type))
            return err_set(ret_error, DROVER_BAD_ARGUMENT,
                           "'%.*s' is not a node: NAME_TYPE, or NAME_TYPE|NAME_TYPE for a child",
                           (int)(key.len < 200 ? key.len : 200), key.p);
    } while (rest.p);
    return 0;
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
    size_t len = key.len;
    while (len && key.p[len - 1] != '|')
        len--;
    return (struct str){key.p, len ? len - 1 : 0};
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

/* Records. */

void world_record_put(struct buf *b, const struct world_record *r)
{
    json_member_text(b, "name", r->name);
    json_member_text(b, "type", r->type);
    json_member_text(b, "path", r->path);
    json_member_text(b, "parent", r->parent);
    if (r->failures) {
        json_member_int(b, "failures", r->failures);
        json_member_text(b, "error", r->error);
    }
    if (r->attempts)
        json_member_int(b, "attempts", r->attempts);
    if (r->attempts && r->tries)
        json_member_int(b, "tries", r->tries);
}

struct str world_record_write(struct arena *a, const struct world_record *r)
{
    struct buf b = {0};
    json_open(&b, '{');
    world_record_put(&b, r);
    if (r->failed)
        json_member_bool(&b, "failed", true);
    json_close(&b, '}');
    return arena_take(a, &b);
}

/* Whether the last part of the key is name_type. */
static bool is_named(struct str key, const struct world_record *r)
{
    struct str last = world_key_last(key);
    return r->name.len && r->type.len && last.len == r->name.len + 1 + r->type.len &&
           str_starts(last, r->name) && last.p[r->name.len] == '_' &&
           memcmp(last.p + r->name.len + 1, r->type.p, r->type.len) == 0;
}

/* Whether a path is "/zoott_<world>/" and the key with slashes, for any world. */
static bool is_path_of(struct str path, struct str key)
{
    struct str prefix = STR(WORLD_ROOT_PREFIX);
    if (path.len < prefix.len + 2 + key.len || !str_starts(path, prefix))
        return false;
    size_t root_len = path.len - key.len - 1;
    if (path.p[root_len] != '/' || memchr(path.p + 1, '/', root_len - 1))
        return false;
    for (size_t i = 0; i < key.len; i++)
        if (path.p[root_len + 1 + i] != (key.p[i] == '|' ? '/' : key.p[i]))
            return false;
    return true;
}

int world_record_read(struct arena *a, struct str json, struct str key,
                      struct world_record *ret_record)
{
    struct json *v = json_parse(a, json, NULL);
    struct world_record r = {0};
    if (!v || json_get_text(v, "name", &r.name, NULL) != 1 ||
        json_get_text(v, "type", &r.type, NULL) != 1 ||
        json_get_text(v, "path", &r.path, NULL) != 1 ||
        json_get_text(v, "parent", &r.parent, NULL) < 0 ||
        json_get_int(v, "failures", &r.failures, NULL) < 0 ||
        json_get_text(v, "error", &r.error, NULL) < 0 ||
        json_get_int(v, "attempts", &r.attempts, NULL) < 0 ||
        json_get_int(v, "tries", &r.tries, NULL) < 0 ||
        json_get_bool(v, "failed", &r.failed, NULL) < 0 || r.attempts < 0 || r.tries < 0 ||
        r.tries > WORLD_ATTEMPTS_MAX || !is_named(key, &r) || !is_path_of(r.path, key))
        return DROVER_DAMAGED;
    *ret_record = r;
    return 0;
}

void world_record_make(struct arena *a, const char *root, struct str key, struct str type,
                       struct world_record *ret_record)
{
    struct str last = world_key_last(key), parent = world_parent_key(key);
    *ret_record = (struct world_record){
        .name = {last.p, last.len - type.len - 1},
        .type = type,
        .path = str_of(world_path(a, root, key)),
    };
    if (parent.len)
        ret_record->parent = str_of(world_path(a, root, parent));
}

bool world_record_is_of(const struct world_record *r, const char *root)
{
    size_t len = strlen(root);
    return r->path.len > len && str_starts(r->path, str_of(root)) && r->path.p[len] == '/';
}

struct str world_holder_write(struct arena *a, const struct world_holder *h)
{
    struct buf b = {0};
    buf_printf(&b, "{\"session\":\"%016" PRIx64 "\"", (uint64_t)h->session);
    json_member_text(&b, "claim", str_of(h->claim));
    json_member_int(&b, "czxid", h->czxid);
    json_member_int(&b, "version", h->version);
    json_close(&b, '}');
    return arena_take(a, &b);
}

int world_holder_read(struct arena *a, struct str json, struct world_holder *ret_holder)
{
    struct json *v = json_parse(a, json, NULL);
    struct str session, claim;
    struct world_holder h = {0};
    char *end;
    if (!v || json_get_text(v, "session", &session, NULL) != 1 || session.len != 16 ||
        json_get_text(v, "claim", &claim, NULL) != 1 || claim.len != CLAIM_LEN ||
        json_get_int(v, "czxid", &h.czxid, NULL) != 1 ||
        json_get_int(v, "version", &h.version, NULL) != 1)
        return DROVER_DAMAGED;
    h.session = (int64_t)strtoull(arena_text(a, session), &end, 16);
    if (*end)
        return DROVER_DAMAGED;
    memcpy(h.claim, claim.p, CLAIM_LEN);
    *ret_holder = h;
    return 0;
}
