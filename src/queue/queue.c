#include "queue/queue.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/random.h"
#include "keeper/path.h"
#include "keeper/txn.h"

enum { INIT_TRIES = 10, REMOVE_TRIES = 10 };

/* Names and paths. */

bool queues_valid_namespace(const char *ns)
{
    struct str path = str_of(ns);
    return path.len <= QUEUE_NAMESPACE_LEN_MAX && path_is_valid(path, false);
}

/* Needs no escape in JSON, and none but what it may have in a URL. */
static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

bool queue_valid_name(struct str name)
{
    if (!name.len || name.len > QUEUE_NAME_LEN_MAX || memchr("._-", name.p[0], 3) ||
        str_eq(name, STR(QUEUE_ERROR)))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!is_name_char(name.p[i]))
            return false;
    return true;
}

bool queue_is_made_name(struct str name)
{
    if (name.len != QUEUE_NAME_LEN)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!memchr("0123456789abcdefABCDEF", name.p[i], 22))
            return false;
    return true;
}

void queue_make_name(char ret_name[QUEUE_NAME_LEN + 1])
{
    random_hex(ret_name, QUEUE_NAME_LEN);
}

void queues_path(const struct queues *qs, char path[QUEUE_PATH_SIZE], const char *fmt, ...)
{
    const char *ns = strcmp(qs->ns, "/") ? qs->ns : "";
    int len = snprintf(path, QUEUE_PATH_SIZE, "%s/", ns);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(path + len, QUEUE_PATH_SIZE - (size_t)len, fmt, ap);
    va_end(ap);
}

/* Node data. Spaces as in the document, whose examples are the output of Python's json. */

void queue_put_last(struct buf *b, int64_t last)
{
    if (last)
        buf_printf(b, "{\"last\": \"%" PRId64 "\"}", last);
    else
        buf_printf(b, "{\"last\": \"\"}");
}

/* Digits, and the suffix L that Python 2 writes after large numbers. */
int queue_parse_id(struct str text, int64_t *ret_id)
{
    int64_t id = 0;
    if (text.len && text.p[text.len - 1] == 'L')
        text.len--;
    for (size_t i = 0; i < text.len; i++) {
        int digit = text.p[i] - '0';
        if (digit < 0 || digit > 9 || id > (INT64_MAX - digit) / 10)
            return DROVER_DAMAGED;
        id = id * 10 + digit;
    }
    *ret_id = id;
    return 0;
}

int queue_parse_last(struct str data, int64_t *ret_last)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct json *v = json_parse(&a, data, NULL);
    struct str text;
    return json_get_text(v, "last", &text, NULL) == 1 ? queue_parse_id(text, ret_last)
                                                      : DROVER_DAMAGED;
}

void queue_put_owner(struct buf *b, const char *worker)
{
    buf_printf(b, "{\"worker\": \"%s\"}", worker);
}

int queue_parse_owner(struct str data, char worker[256])
{
    CLEANUP(arena_release) struct arena a = {0};
    struct json *v = json_parse(&a, data, NULL);
    struct str text;
    if (json_get_text(v, "worker", &text, NULL) != 1 || text.len >= 256)
        return DROVER_DAMAGED;
    snprintf(worker, 256, "%.*s", STR_ARGS(text));
    return 0;
}

/* The namespace. */

/* Creates the missing nodes in one transaction. */
static int make_missing(const struct queues *qs)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct txn t = {.a = &a};
    char path[QUEUE_PATH_SIZE];
    queues_path(qs, path, "workers");
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        TRY(txn_create_missing(&t, qs->keeper, path));
        *slash = '/';
    }
    TRY(txn_create_missing(&t, qs->keeper, path));
    queues_path(qs, path, "queues");
    TRY(txn_create_missing(&t, qs->keeper, path));
    return txn_commit(&t, qs->keeper, 0);
}

/* Repeats if another client created one of them meanwhile, or if an answer was lost. */
int queues_init(const struct queues *qs)
{
    int err = DROVER_EXISTS;
    if (!queues_valid_namespace(qs->ns))
        return DROVER_BAD_ARGUMENT;
    for (int i = 0; i < INIT_TRIES && (err == DROVER_EXISTS || err == DROVER_UNKNOWN); i++)
        err = make_missing(qs);
    return err;
}

/* Queues. */

int queue_create(const struct queues *qs, const char *name)
{
    char path[QUEUE_PATH_SIZE];
    CLEANUP(buf_release) struct buf data = {0};
    struct keeper_stat parent;
    if (!queue_valid_name(str_of(name)))
        return DROVER_BAD_ARGUMENT;
    TRY(queues_init(qs));
    queues_path(qs, path, "queues");
    TRY(keeper_exists(qs->keeper, path, &parent));
    if (parent.child_count >= QUEUE_COUNT_MAX)
        return DROVER_TOO_BIG;
    queues_path(qs, path, "queues/%s", name);
    queue_put_last(&data, 0);
    int err = keeper_create(qs->keeper, path, buf_str(&data), 0, NULL);
    if (err == DROVER_UNKNOWN && !keeper_sync(qs->keeper, path) &&
        !keeper_exists(qs->keeper, path, NULL))
        err = 0;
    return err;
}

/* Deletes the owner node too, if there is one: a node with children cannot be deleted. */
static int remove_once(const struct queues *qs, struct arena *a, const char *path)
{
    struct txn t = {.a = a};
    TRY(keeper_exists(qs->keeper, path, NULL));
    int owner = keeper_exists(qs->keeper, arena_printf(a, "%s/owner", path), NULL);
    if (owner && owner != DROVER_NO_NODE)
        return owner;
    if (!owner)
        txn_delete(&t, 0, KEEPER_ANY_VERSION, "%s/owner", path);
    txn_delete(&t, 0, KEEPER_ANY_VERSION, "%s", path);
    int err = txn_commit(&t, qs->keeper, 0);
    return err == DROVER_NO_NODE || err == DROVER_NOT_EMPTY ? DROVER_NOT_TRIED : err;
}

/* The owner may come or go between the check and the deletion, hence several tries. */
int queue_remove(const struct queues *qs, const char *name)
{
    CLEANUP(arena_release) struct arena a = {0};
    char path[QUEUE_PATH_SIZE];
    int err = DROVER_NOT_TRIED;
    if (!queue_valid_name(str_of(name)))
        return DROVER_BAD_ARGUMENT;
    queues_path(qs, path, "queues/%s", name);
    for (int i = 0; i < REMOVE_TRIES && err == DROVER_NOT_TRIED; i++)
        err = remove_once(qs, &a, path);
    return err == DROVER_NOT_TRIED ? DROVER_NOT_EMPTY : err;
}

int queue_look(const struct queues *qs, const char *name, struct buf *ret_data,
               struct queue_info *ret_info)
{
    CLEANUP(buf_release) struct buf owner = {0};
    char path[QUEUE_PATH_SIZE];
    struct queue_info info = {0};
    struct keeper_stat stat;
    queues_path(qs, path, "queues/%s", name);
    TRY(keeper_get(qs->keeper, path, ret_data, &stat));
    info.version = stat.version;
    int parsed = queue_parse_last(buf_str(ret_data), &info.last);
    queues_path(qs, path, "queues/%s/owner", name);
    int err = keeper_get(qs->keeper, path, &owner, &stat);
    if (err && err != DROVER_NO_NODE)
        return err;
    if (!err && queue_parse_owner(buf_str(&owner), info.worker))
        snprintf(info.worker, sizeof info.worker, "?");
    info.fence = err ? 0 : stat.czxid;
    *ret_info = info;
    return parsed;
}

int queue_get(const struct queues *qs, const char *name, struct queue_info *ret_info)
{
    CLEANUP(buf_release) struct buf data = {0};
    if (!queue_valid_name(str_of(name)))
        return DROVER_BAD_ARGUMENT;
    return queue_look(qs, name, &data, ret_info);
}

int queue_set_last(const struct queues *qs, const char *name, int64_t last, int32_t version)
{
    CLEANUP(buf_release) struct buf data = {0};
    char path[QUEUE_PATH_SIZE];
    if (!queue_valid_name(str_of(name)) || last < 0)
        return DROVER_BAD_ARGUMENT;
    queues_path(qs, path, "queues/%s", name);
    queue_put_last(&data, last);
    return keeper_set(qs->keeper, path, buf_str(&data), version, NULL);
}

int queues_list(const struct queues *qs, struct keeper_names *ret_names)
{
    char path[QUEUE_PATH_SIZE];
    struct keeper_names names = {0};
    size_t kept = 0;
    queues_path(qs, path, "queues");
    int err = keeper_children(qs->keeper, path, &names, NULL);
    if (err && err != DROVER_NO_NODE)
        return err;
    for (size_t i = 0; i < names.count; i++)
        if (queue_valid_name(str_of(names.names[i])))
            names.names[kept++] = names.names[i];
    names.count = kept;
    *ret_names = names;
    return 0;
}

static int compare_name(const void *key, const void *name)
{
    const struct str *k = key;
    const char *text = *(char *const *)name;
    int order = strncmp(k->p, text, k->len);
    return order ? order : -(text[k->len] != '\0');
}

bool queues_have(const struct keeper_names *names, struct str name)
{
    return queue_valid_name(name) && names->count &&
           bsearch(&name, names->names, names->count, sizeof *names->names, compare_name);
}
