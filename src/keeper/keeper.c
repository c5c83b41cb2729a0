/*
 * What all keepers share: the checks of arguments, so that implementations get only valid paths and
 * requests of a size that both can handle; and single changes, which are transactions of one
 * operation.
 */
#include "keeper/keeper.h"

#include <stdlib.h>

#include "base/mem.h"
#include "keeper/path.h"

enum { ENSURE_TRIES = 5 };

struct keeper_op keeper_op_create(const char *path, struct str data, int flags)
{
    return (struct keeper_op){
        .kind = KEEPER_CREATE, .flags = flags, .path = str_of(path), .data = data};
}

struct keeper_op keeper_op_set(const char *path, struct str data, int32_t version)
{
    return (struct keeper_op){
        .kind = KEEPER_SET, .version = version, .path = str_of(path), .data = data};
}

struct keeper_op keeper_op_delete(const char *path, int32_t version)
{
    return (struct keeper_op){.kind = KEEPER_DELETE, .version = version, .path = str_of(path)};
}

struct keeper_op keeper_op_check(const char *path, int32_t version)
{
    return (struct keeper_op){.kind = KEEPER_CHECK, .version = version, .path = str_of(path)};
}

void keeper_results_release(struct keeper_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(results[i].path);
        results[i].path = NULL;
    }
}

void keeper_names_release(struct keeper_names *n)
{
    free(n->names);
    free(n->text);
    *n = (struct keeper_names){0};
}

/*
 * ZooKeeper's encoding: a request header of 8 bytes; per operation a multi header of 9, the path
 * and the data each after 4 bytes of length, the access list (31 for the open one) and the flags.
 * The bound is a little high, so that a request that passes here passes there.
 */
size_t keeper_request_size(const struct keeper_op *ops, size_t count)
{
    size_t size = 64;
    for (size_t i = 0; i < count; i++)
        size += 64 + ops[i].path.len + ops[i].data.len + ops[i].acl.len;
    return size;
}

static bool op_is_valid(const struct keeper_op *op)
{
    bool create = op->kind == KEEPER_CREATE, sequential = create && (op->flags & KEEPER_SEQUENTIAL);
    int flags = KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL | KEEPER_NO_STAT;
    return !(create && (op->flags & ~flags)) && op->kind != KEEPER_SET_ACL && !op->acl.len &&
           !op->refused && path_is_valid(op->path, sequential) &&
           !(op->kind == KEEPER_DELETE && path_is_special(op->path));
}

/*
 * A malformed operation fails the whole request with BAD_ARGUMENT before any of it is executed, as
 * in ZooKeeper's clients. Returns 0 or the error, also in results if not NULL.
 */
static int request_check(const struct keeper_op *ops, size_t count, struct keeper_result *results)
{
    bool too_big = count > KEEPER_MULTI_MAX || keeper_request_size(ops, count) > KEEPER_REQUEST_MAX;
    size_t bad = 0;
    while (!too_big && bad < count && op_is_valid(&ops[bad]))
        bad++;
    int err = too_big ? DROVER_TOO_BIG : bad < count ? DROVER_BAD_ARGUMENT : 0;
    for (size_t i = 0; err && results && i < count; i++)
        results[i].err = too_big || i == bad ? err : i < bad ? 0 : DROVER_NOT_TRIED;
    return err;
}

int keeper_multi(struct keeper *k, const struct keeper_op *ops, size_t count,
                 struct keeper_result *results)
{
    if (results)
        memset(results, 0, count * sizeof *results);
    int err = request_check(ops, count, results);
    if (err || !count)
        return err;
    if (results)
        return k->ops->multi(k, ops, count, results);
    results = mem_zalloc(count * sizeof *results);
    err = k->ops->multi(k, ops, count, results);
    keeper_results_release(results, count);
    free(results);
    return err;
}

int keeper_commit(struct keeper *k, const struct keeper_op *ops, size_t count, keeper_done_fn *done,
                  void *arg)
{
    TRY(request_check(ops, count, NULL));
    return count ? k->ops->commit(k, ops, count, done, arg) : DROVER_BAD_ARGUMENT;
}

int keeper_get(struct keeper *k, const char *path, struct buf *ret_data,
               struct keeper_stat *ret_stat)
{
    struct keeper_stat stat;
    if (!path_is_valid(str_of(path), false))
        return DROVER_BAD_ARGUMENT;
    TRY(k->ops->get(k, str_of(path), ret_data, &stat));
    if (ret_stat)
        *ret_stat = stat;
    return 0;
}

int keeper_exists(struct keeper *k, const char *path, struct keeper_stat *ret_stat)
{
    return keeper_get(k, path, NULL, ret_stat);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void keeper_names_take(struct keeper_names *ret_names, struct buf *text, size_t count)
{
    char **names = mem_zalloc((count + 1) * sizeof *names), *at = text->p;
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1)
        names[i] = at;
    qsort(names, count, sizeof *names, by_bytes);
    *ret_names = (struct keeper_names){names, count, text->p};
    *text = (struct buf){0};
}

int keeper_children(struct keeper *k, const char *path, struct keeper_names *ret_names,
                    struct keeper_stat *ret_stat)
{
    CLEANUP(buf_release) struct buf text = {0};
    struct keeper_stat stat;
    size_t count = 0;
    if (!path_is_valid(str_of(path), false))
        return DROVER_BAD_ARGUMENT;
    TRY(k->ops->children(k, str_of(path), &text, &count, &stat));
    keeper_names_take(ret_names, &text, count);
    if (ret_stat)
        *ret_stat = stat;
    return 0;
}

int keeper_create(struct keeper *k, const char *path, struct str data, int flags, char **ret_path)
{
    struct keeper_op op = keeper_op_create(path, data, flags);
    struct keeper_result result;
    int err = keeper_multi(k, &op, 1, &result);
    if (!err && ret_path)
        *ret_path = result.path;
    else
        free(result.path);
    return err;
}

int keeper_set(struct keeper *k, const char *path, struct str data, int32_t version,
               struct keeper_stat *ret_stat)
{
    struct keeper_op op = keeper_op_set(path, data, version);
    struct keeper_result result;
    TRY(keeper_multi(k, &op, 1, &result));
    if (ret_stat)
        *ret_stat = result.stat;
    return 0;
}

int keeper_delete(struct keeper *k, const char *path, int32_t version)
{
    struct keeper_op op = keeper_op_delete(path, version);
    return keeper_multi(k, &op, 1, NULL);
}

int keeper_ensure(struct keeper *k, const char *path, struct str data)
{
    int err = DROVER_UNKNOWN;
    for (int i = 0; i < ENSURE_TRIES && err == DROVER_UNKNOWN; i++) {
        err = keeper_exists(k, path, NULL);
        if (err == DROVER_NO_NODE)
            err = keeper_create(k, path, data, 0, NULL);
        if (err == DROVER_EXISTS)
            err = 0;
    }
    return err;
}

int keeper_sync(struct keeper *k, const char *path)
{
    if (!path_is_valid(str_of(path), false))
        return DROVER_BAD_ARGUMENT;
    return k->ops->sync(k, str_of(path));
}

int keeper_watch(struct keeper *k, const char *path, enum keeper_watch_kind kind,
                 keeper_watch_fn *fn, void *arg, struct keeper_watch **ret_watch)
{
    if (!path_is_valid(str_of(path), false))
        return DROVER_BAD_ARGUMENT;
    return k->ops->watch(k, str_of(path), kind, fn, arg, ret_watch);
}

void keeper_unwatch(struct keeper *k, struct keeper_watch *w)
{
    k->ops->unwatch(k, w);
}

bool keeper_has_gate(const struct keeper *k)
{
    return k->ops->has_gate;
}

void keeper_session(struct keeper *k, struct keeper_session *ret_session)
{
    *ret_session = k->session;
}

void keeper_dispatch(struct keeper *k)
{
    k->ops->dispatch(k);
}

void keeper_close(struct keeper *k)
{
    k->ops->close(k, true);
}

void keeper_abandon(struct keeper *k)
{
    k->ops->close(k, false);
}
