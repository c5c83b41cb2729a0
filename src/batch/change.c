/*
 * Paths are printed into the arena, so that a transaction may be built far from where it is sent.
 */
#include "batch/change.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "batch/name.h"

/* Ids and the names of states and locks are short, and checked before they come here. */
enum { BATCH_PATH_MAX = 1024 };

#define PRINT_PATH(ret_path, t, fmt)                                                               \
    do {                                                                                           \
        char text[BATCH_PATH_MAX];                                                                 \
        va_list args;                                                                              \
        int len;                                                                                   \
                                                                                                   \
        va_start(args, fmt);                                                                       \
        len = vsnprintf(text, sizeof text, fmt, args);                                             \
        va_end(args);                                                                              \
        assert(len > 0 && len < BATCH_PATH_MAX);                                                   \
        ret_path = arena_text((t)->a, (struct str){text, (size_t)len});                            \
    } while (0)

static int add(struct batch_change *t, struct keeper_op op)
{
    if (t->count == t->cap) {
        struct keeper_op *more;

        t->cap = t->cap ? 2 * t->cap : 16;
        more = arena_alloc(t->a, (size_t)t->cap * sizeof *more);
        if (t->count)
            memcpy(more, t->ops, (size_t)t->count * sizeof *more);
        t->ops = more;
    }
    t->ops[t->count] = op;
    return t->count++;
}

int batch_change_create(struct batch_change *t, struct str data, int flags, const char *fmt, ...)
{
    const char *path;

    PRINT_PATH(path, t, fmt);
    return add(t, keeper_op_create(path, data, flags));
}

int batch_change_set(struct batch_change *t, struct str data, int32_t version, const char *fmt, ...)
{
    const char *path;

    PRINT_PATH(path, t, fmt);
    return add(t, keeper_op_set(path, data, version));
}

int batch_change_delete(struct batch_change *t, const char *fmt, ...)
{
    const char *path;

    PRINT_PATH(path, t, fmt);
    return add(t, keeper_op_delete(path, KEEPER_ANY_VERSION));
}

int batch_change_check(struct batch_change *t, int32_t version, const char *fmt, ...)
{
    const char *path;

    PRINT_PATH(path, t, fmt);
    return add(t, keeper_op_check(path, version));
}

static int list_op(struct batch_change *t, struct batch_view *v, int64_t key, bool add_it)
{
    struct batch_change_list *l = arena_alloc(t->a, sizeof *l);
    char entry[BATCH_ENTRY_LEN + 1];

    *l = (struct batch_change_list){.view = v, .key = key, .add = add_it};
    if (t->lists)
        t->last_list->next = l;
    else
        t->lists = l;
    t->last_list = l;
    batch_entry(v->prefix, v->priority, key, entry);
    return add_it ? batch_change_create(t, NO_BYTES, 0, "%s/%s", v->dir, entry)
                  : batch_change_delete(t, "%s/%s", v->dir, entry);
}

int batch_change_list_add(struct batch_change *t, struct batch_view *v, int64_t key)
{
    return list_op(t, v, key, true);
}

int batch_change_list_remove(struct batch_change *t, struct batch_view *v, int64_t key)
{
    return list_op(t, v, key, false);
}

static void tell_views(const struct batch_change *t, int err)
{
    for (const struct batch_change_list *l = t->lists; l; l = l->next) {
        if (err == DROVER_UNKNOWN)
            batch_view_doubt(l->view, 1);
        else if (err)
            batch_view_failed(l->view, 1);
        else if (l->add)
            batch_view_add(l->view, l->key);
        else
            batch_view_remove(l->view, l->key);
    }
}

static int ask_witness(const struct keeper_op *op, struct keeper *k)
{
    const char *path = op->path.p;
    struct buf data = {0};
    struct keeper_stat stat;
    int err = keeper_sync(k, path);

    if (!err)
        err = keeper_get(k, path, &data, &stat);
    if (err)
        err = DROVER_UNKNOWN;
    else if (stat.version == op->version)
        err = DROVER_BAD_VERSION;
    else if (stat.version != op->version + 1 || !str_eq((struct str){data.p, data.len}, op->data))
        err = DROVER_UNKNOWN;
    buf_release(&data);
    return err;
}

int batch_change_commit(struct batch_change *t, struct keeper *k, int witness)
{
    size_t count = (size_t)t->count;
    int err;

    t->failed = -1;
    t->results = arena_zalloc(t->a, count * sizeof *t->results);
    for (const struct batch_change_list *l = t->lists; l; l = l->next)
        batch_view_expect(l->view, 1);
    err = keeper_multi(k, t->ops, count, t->results);
    for (int i = t->count - 1; err && i >= 0; i--)
        if (t->results[i].err && t->results[i].err != DROVER_NOT_TRIED)
            t->failed = i;
    if (err == DROVER_SESSION_EXPIRED || err == DROVER_UNKNOWN)
        t->failed = -1;
    keeper_results_release(t->results, count);
    if (err == DROVER_UNKNOWN && witness >= 0)
        err = ask_witness(&t->ops[witness], k);
    tell_views(t, err);
    return err;
}
