/* The JSON of a world's lists. */
#include "world/record.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/json.h"
#include "world/name.h"

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
}

struct str world_record_write(struct arena *a, const struct world_record *r)
{
    struct buf b = {0};
    json_open(&b, '{');
    world_record_put(&b, r);
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
        json_get_text(v, "error", &r.error, NULL) < 0 || !is_named(key, &r) ||
        !is_path_of(r.path, key))
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
