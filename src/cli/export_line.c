#include "cli/export_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/json.h"
#include "keeper/acl.h"
#include "keeper/jute.h"
#include "keeper/path.h"

enum { VALUES_MAX = 100 * 1000, SUM_DIGITS = 8 };

static const int64_t ZXID_MAX = INT64_MAX / 2; /* leaves numbers for later transactions */

/* Writing. */

static void end_line(struct buf *b)
{
    json_close(b, '}');
    buf_put_str(b, STR("\n"));
}

void export_put_head(struct buf *b, const struct export_head *h)
{
    json_open(b, '{');
    json_member_text(b, "drover", STR("export"));
    json_member_int(b, "version", EXPORT_VERSION);
    json_member_text(b, "from", h->from_ensemble ? STR("ensemble") : STR("embedded"));
    json_member_int(b, "zxid", h->zxid);
    json_member_int(b, "time", h->time_ms);
    end_line(b);
}

static void put_acl(struct buf *b, struct str acl)
{
    struct reader r = {acl.p, acl.len, false};
    int32_t count = jute_i32(&r);
    json_member_open(b, "acl", '[');
    for (int32_t i = 0; i < count && !r.bad; i++) {
        int32_t permissions = jute_i32(&r);
        struct str scheme = jute_bytes(&r), id = jute_bytes(&r);
        json_open(b, '{');
        json_member_text(b, "scheme", scheme);
        json_member_text(b, "id", id);
        json_member_int(b, "permissions", permissions);
        json_close(b, '}');
    }
    json_close(b, ']');
}

static void put_data(struct buf *b, struct str data)
{
    CLEANUP(buf_release) struct buf text = {0};
    if (!data.p)
        return;
    if (json_is_text(data)) {
        json_member_text(b, "data", data);
        return;
    }
    base64_put(&text, (const unsigned char *)data.p, data.len);
    json_member_text(b, "base64", buf_str(&text));
}

static void put_unless(struct buf *b, const char *name, int64_t value, int64_t usual)
{
    if (value != usual)
        json_member_int(b, name, value);
}

int export_put_node(struct buf *b, const struct transfer_node *n, struct err_info *ret_error)
{
    if (!json_is_text(n->path))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "a node whose path is not UTF-8");
    json_open(b, '{');
    json_member_text(b, "path", n->path);
    put_data(b, n->data);
    json_member_int(b, "czxid", n->czxid);
    json_member_int(b, "ctime", n->ctime_ms);
    put_unless(b, "mzxid", n->mzxid, n->czxid);
    put_unless(b, "mtime", n->mtime_ms, n->ctime_ms);
    put_unless(b, "pzxid", n->pzxid, n->czxid);
    put_unless(b, "version", n->version, 0);
    put_unless(b, "aversion", n->aversion, 0);
    put_unless(b, "created", n->creations, 0);
    if (n->acl.len && !str_eq(n->acl, ACL_OPEN_LIST))
        put_acl(b, n->acl);
    if (n->owner == KEEPER_CONTAINER)
        json_member_bool(b, "container", true);
    else if (n->owner)
        json_member_int(b, "ttl", n->owner & KEEPER_TTL_MAX_MS);
    end_line(b);
    return 0;
}

void export_put_end(struct buf *b, const struct export_end *e)
{
    char sum[SUM_DIGITS + 1];
    snprintf(sum, sizeof sum, "%08" PRIx32, e->sum);
    json_open(b, '{');
    json_member_int(b, "end", e->nodes);
    json_member_text(b, "crc32c", str_of(sum));
    end_line(b);
}

/* Reading. */

/* A member that is missing is `usual`. */
static int read_int(const struct json *v, const char *name, int64_t min, int64_t max, int64_t usual,
                    int64_t *ret, struct err_info *e)
{
    int64_t number = usual;
    int found = json_get_int(v, name, &number, e);
    if (found < 0)
        return found;
    if (number < min || number > max)
        return err_set(e, DROVER_BAD_ARGUMENT, "%s is missing or out of range", name);
    *ret = number;
    return 0;
}

static int read_small(const struct json *v, const char *name, int32_t *ret, struct err_info *e)
{
    int64_t number = 0;
    TRY(read_int(v, name, INT32_MIN, INT32_MAX, 0, &number, e));
    *ret = (int32_t)number;
    return 0;
}

static int read_head(const struct json *v, struct export_head *h, struct err_info *e)
{
    static const char *const NAMES[] = {"drover", "version", "from", "zxid", "time", NULL};
    struct str from = {0};
    int64_t version = 0;
    TRY(read_int(v, "version", 1, INT64_MAX, 0, &version, e));
    if (version > EXPORT_VERSION)
        return err_set(e, DROVER_NEWER_VERSION, "it was written by a newer version of drover");
    TRY(json_only(v, NAMES, e));
    int found = json_get_text(v, "from", &from, e);
    if (found < 0)
        return found;
    if (!str_eq(from, STR("embedded")) && !str_eq(from, STR("ensemble")))
        return err_set(e, DROVER_BAD_ARGUMENT, "from is neither embedded nor ensemble");
    h->from_ensemble = str_eq(from, STR("ensemble"));
    TRY(read_int(v, "zxid", 0, ZXID_MAX, -1, &h->zxid, e));
    return read_int(v, "time", 0, INT64_MAX, -1, &h->time_ms, e);
}

static int read_sum(struct str text, uint32_t *ret_sum, struct err_info *e)
{
    uint32_t sum = 0;
    bool ok = text.len == SUM_DIGITS;
    for (size_t i = 0; ok && i < text.len; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = text.p[i] ? strchr(digits, text.p[i]) : NULL;
        ok = digit != NULL;
        sum = sum << 4 | (ok ? (uint32_t)(digit - digits) : 0);
    }
    if (!ok)
        return err_set(e, DROVER_BAD_ARGUMENT, "crc32c is not a sum");
    *ret_sum = sum;
    return 0;
}

static int read_end(const struct json *v, struct export_end *end, struct err_info *e)
{
    static const char *const NAMES[] = {"end", "crc32c", NULL};
    struct str sum;
    TRY(json_only(v, NAMES, e));
    TRY(read_int(v, "end", 0, INT64_MAX, -1, &end->nodes, e));
    int found = json_get_text(v, "crc32c", &sum, e);
    if (found < 0)
        return found;
    end->has_sum = found;
    return found ? read_sum(sum, &end->sum, e) : 0;
}

static int read_data(struct arena *a, const struct json *v, struct str *ret_data,
                     struct err_info *e)
{
    struct str text, coded;
    int has_text = json_get_text(v, "data", &text, e);
    if (has_text < 0)
        return has_text;
    int has_coded = json_get_text(v, "base64", &coded, e);
    if (has_coded < 0)
        return has_coded;
    if (has_text && has_coded)
        return err_set(e, DROVER_BAD_ARGUMENT, "data and base64 exclude each other");
    if (has_text)
        *ret_data = text;
    if (has_coded) {
        struct buf bytes = {0};
        bool ok = base64_read(coded, &bytes);
        *ret_data = arena_take(a, &bytes);
        if (!ok)
            return err_set(e, DROVER_BAD_ARGUMENT, "base64 is not valid");
    }
    return 0;
}

static int read_entry(const struct json *v, struct buf *acl, struct err_info *e)
{
    static const char *const NAMES[] = {"scheme", "id", "permissions", NULL};
    struct str scheme = {0}, id = {0};
    int64_t permissions;
    TRY(json_only(v, NAMES, e));
    if (json_get_text(v, "scheme", &scheme, e) != 1 || json_get_text(v, "id", &id, e) != 1)
        return err_set(e, DROVER_BAD_ARGUMENT, "an access list without scheme or id");
    TRY(read_int(v, "permissions", 0, ACL_ALL, -1, &permissions, e));
    jute_put_i32(acl, (int32_t)permissions);
    jute_put_bytes(acl, scheme);
    jute_put_bytes(acl, id);
    return 0;
}

static int read_acl(struct arena *a, const struct json *v, struct str *ret_acl, struct err_info *e)
{
    const struct json *list;
    int found = json_get_list(v, "acl", &list, e);
    if (found <= 0)
        return found;
    struct buf acl = {0};
    int err = 0;
    jute_put_i32(&acl, (int32_t)list->count);
    json_each(entry, list)
        if (!err)
            err = read_entry(entry, &acl, e);
    struct str bytes = arena_take(a, &acl);
    if (!err && !acl_list_is_valid(bytes))
        err = err_set(e, DROVER_BAD_ARGUMENT, "an access list that is not valid");
    if (!err)
        *ret_acl = bytes;
    return err;
}

static int read_owner(const struct json *v, int64_t *ret_owner, struct err_info *e)
{
    bool container = false;
    int64_t ttl_ms = 0;
    int found = json_get_bool(v, "container", &container, e);
    if (found < 0)
        return found;
    TRY(read_int(v, "ttl", 0, KEEPER_TTL_MAX_MS, 0, &ttl_ms, e));
    if (container && ttl_ms)
        return err_set(e, DROVER_BAD_ARGUMENT, "container and ttl exclude each other");
    *ret_owner = container ? KEEPER_CONTAINER : ttl_ms ? keeper_ttl(ttl_ms) : 0;
    return 0;
}

static int read_numbers(const struct json *v, struct transfer_node *n, struct err_info *e)
{
    TRY(read_int(v, "czxid", 0, ZXID_MAX, -1, &n->czxid, e));
    TRY(read_int(v, "mzxid", 0, ZXID_MAX, n->czxid, &n->mzxid, e));
    TRY(read_int(v, "pzxid", 0, ZXID_MAX, n->czxid, &n->pzxid, e));
    TRY(read_int(v, "ctime", 0, INT64_MAX, -1, &n->ctime_ms, e));
    TRY(read_int(v, "mtime", 0, INT64_MAX, n->ctime_ms, &n->mtime_ms, e));
    TRY(read_small(v, "version", &n->version, e));
    TRY(read_small(v, "aversion", &n->aversion, e));
    return read_small(v, "created", &n->creations, e);
}

static int read_node(struct arena *a, const struct json *v, struct transfer_node *n,
                     struct err_info *e)
{
    static const char *const NAMES[] = {"path",  "data",    "base64",    "czxid",   "ctime",
                                        "mzxid", "mtime",   "pzxid",     "version", "aversion",
                                        "acl",   "created", "container", "ttl",     NULL};
    *n = (struct transfer_node){0};
    TRY(json_only(v, NAMES, e));
    if (json_get_text(v, "path", &n->path, e) != 1 || !path_is_valid(n->path, false))
        return err_set(e, DROVER_BAD_ARGUMENT, "path is missing or not a path");
    TRY(read_data(a, v, &n->data, e));
    TRY(read_numbers(v, n, e));
    TRY(read_acl(a, v, &n->acl, e));
    return read_owner(v, &n->owner, e);
}

int export_read(struct arena *a, struct str line, struct export_line *ret_line,
                struct err_info *ret_error)
{
    struct json *v;
    static const struct json_limit limit = {.values_max = VALUES_MAX};
    TRY(json_read(a, line, &limit, &v, ret_error));
    if (v->kind != JSON_OBJECT)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "it is not an object");
    if (json_get(v, "drover")) {
        ret_line->kind = EXPORT_HEAD;
        return read_head(v, &ret_line->head, ret_error);
    }
    if (json_get(v, "end")) {
        ret_line->kind = EXPORT_END;
        return read_end(v, &ret_line->end, ret_error);
    }
    ret_line->kind = EXPORT_NODE;
    return read_node(a, v, &ret_line->node, ret_error);
}
