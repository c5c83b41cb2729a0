#include "keeper/txn.h"

#include <assert.h>
#include <stdarg.h>

/* The path, printed into the arena. */
#define PRINTED(t, fmt)                                                                            \
    ({                                                                                             \
        va_list args;                                                                              \
        va_start(args, fmt);                                                                       \
        const char *path = arena_vprintf((t)->a, fmt, args);                                       \
        va_end(args);                                                                              \
        path;                                                                                      \
    })

static void *grow(struct txn *t, const void *old, size_t size)
{
    void *more = arena_alloc(t->a, (size_t)t->cap * size);
    if (t->count)
        memcpy(more, old, (size_t)t->count * size);
    return more;
}

void txn_add(struct txn *t, int name, struct keeper_op op)
{
    if (t->count == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 8;
        t->ops = grow(t, t->ops, sizeof *t->ops);
        t->names = grow(t, t->names, sizeof *t->names);
    }
    t->ops[t->count] = op;
    t->names[t->count++] = name;
}

void txn_create(struct txn *t, int name, struct str data, int flags, const char *fmt, ...)
{
    txn_add(t, name, keeper_op_create(PRINTED(t, fmt), data, flags));
}

void txn_set(struct txn *t, int name, struct str data, int32_t version, const char *fmt, ...)
{
    txn_add(t, name, keeper_op_set(PRINTED(t, fmt), data, version));
}

void txn_delete(struct txn *t, int name, int32_t version, const char *fmt, ...)
{
    txn_add(t, name, keeper_op_delete(PRINTED(t, fmt), version));
}

void txn_check(struct txn *t, int name, int32_t version, const char *fmt, ...)
{
    txn_add(t, name, keeper_op_check(PRINTED(t, fmt), version));
}

int txn_create_missing(struct txn *t, struct keeper *k, const char *path)
{
    for (int i = 0; i < t->count; i++)
        if (t->ops[i].kind == KEEPER_CREATE && str_eq(t->ops[i].path, str_of(path)))
            return 0;
    int err = keeper_exists(k, path, NULL);
    if (err != DROVER_NO_NODE)
        return err;
    txn_create(t, 0, STR(""), 0, "%s", path);
    return 0;
}

static int index_of(const struct txn *t, int name)
{
    for (int i = 0; i < t->count; i++)
        if (t->names[i] == name)
            return i;
    assert(!"no operation has this name");
}

static int ask_witness(struct txn *t, struct keeper *k, int at)
{
    const struct keeper_op *op = &t->ops[at];
    struct keeper_stat *stat = &t->results[at].stat;
    CLEANUP(buf_release) struct buf data = {0};
    if (keeper_sync(k, op->path.p) || keeper_get(k, op->path.p, &data, stat))
        return DROVER_UNKNOWN;
    if (stat->version == op->version)
        return DROVER_BAD_VERSION;
    bool ours = stat->version == op->version + 1 && str_eq(buf_str(&data), op->data);
    return ours ? 0 : DROVER_UNKNOWN;
}

int txn_commit(struct txn *t, struct keeper *k, int witness)
{
    size_t count = (size_t)t->count;
    int at = 0;
    t->failed = 0;
    if (!count)
        return 0;
    t->results = arena_zalloc(t->a, count * sizeof *t->results);
    int err = keeper_multi(k, t->ops, count, t->results);
    keeper_results_release(t->results, count);
    if (err == DROVER_UNKNOWN && witness)
        return ask_witness(t, k, index_of(t, witness));
    if (err == DROVER_UNKNOWN || err == DROVER_SESSION_EXPIRED)
        return err;
    while (at < t->count && !t->results[at].err)
        at++;
    if (at == t->count - 1 || (at < t->count && t->results[at + 1].err == DROVER_NOT_TRIED))
        t->failed = t->names[at];
    return err;
}

const struct keeper_stat *txn_stat(const struct txn *t, int name)
{
    return &t->results[index_of(t, name)].stat;
}
