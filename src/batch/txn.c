#include "batch/txn.h"

#include <stdio.h>

/* Entries are offered in the order of their keys; names that are not entries are never offered. */
static void classify(void *arg, struct str name, struct str data, const struct keeper_stat *stat,
                     struct list_class *ret_class)
{
    const struct batch_view *v = arg;

    (void)data, (void)stat;
    ret_class->order = batch_entry_key(v->prefix, v->priority, name);
    ret_class->idle = ret_class->order < 0;
    ret_class->group = BATCH_VIEW_GROUP;
}

static void ready(void *arg, struct str group, uint32_t count)
{
    const struct batch_view *v = arg;

    (void)group;
    v->available(v->arg, v, count);
}

static void lock_path(void *arg, struct str name, struct buf *ret_path)
{
    const struct batch_view *v = arg;

    buf_printf(ret_path, "%s/%s/lock", v->items, name.p + name.len - BATCH_ID_LEN);
}

static void changed(void *arg)
{
    struct batch_view *v = arg;

    v->changed = true;
    if (v->stale)
        v->stale(v->arg);
}

void batch_view_open(struct batch_view *v, const char *parent, const char *state)
{
    struct list_view_options o = {.dir = v->dir,
                                  .lock_path = lock_path,
                                  .classify = classify,
                                  .ready = v->available ? ready : NULL,
                                  .changed = changed,
                                  .arg = v};

    snprintf(v->dir, sizeof v->dir, "%s/%s", parent, state);
    v->list = list_view_new(&o);
}

void batch_view_close(struct batch_view *v)
{
    list_view_free(v->list);
}

struct batch_entry_name batch_view_entry(const struct batch_view *v, int64_t key)
{
    struct batch_entry_name entry;

    batch_entry(v->prefix, v->priority, key, entry.text);
    return entry;
}

bool batch_view_has(const struct batch_view *v, int64_t key)
{
    struct list_item item;

    return list_view_find(v->list, NULL, str_of(batch_view_entry(v, key).text), &item);
}

static struct batch_entry_name note(struct batch_txn *t, struct batch_view *v, int64_t key,
                                    bool add)
{
    struct batch_txn_list *l = arena_alloc(t->txn.a, sizeof *l);

    *l = (struct batch_txn_list){.view = v, .key = key, .add = add};
    if (t->lists)
        t->last_list->next = l;
    else
        t->lists = l;
    t->last_list = l;
    return batch_view_entry(v, key);
}

void batch_txn_list_add(struct batch_txn *t, int name, struct batch_view *v, int64_t key)
{
    struct batch_entry_name entry = note(t, v, key, true);

    txn_create(&t->txn, name, NO_BYTES, 0, "%s/%s", v->dir, entry.text);
}

void batch_txn_list_remove(struct batch_txn *t, int name, struct batch_view *v, int64_t key)
{
    struct batch_entry_name entry = note(t, v, key, false);

    txn_delete(&t->txn, name, KEEPER_ANY_VERSION, "%s/%s", v->dir, entry.text);
}

int batch_txn_commit(struct batch_txn *t, struct keeper *k, int witness)
{
    for (const struct batch_txn_list *l = t->lists; l; l = l->next)
        list_view_expect(l->view->list, 1);
    int err = txn_commit(&t->txn, k, witness);
    for (const struct batch_txn_list *l = t->lists; l; l = l->next) {
        struct batch_entry_name entry = batch_view_entry(l->view, l->key);
        struct list_class class = {.order = l->key, .group = BATCH_VIEW_GROUP};

        list_view_done(l->view->list, 1, err);
        if (!err && l->add)
            list_view_add(l->view->list, str_of(entry.text), &class, 0);
        else if (!err)
            list_view_remove(l->view->list, str_of(entry.text));
    }
    return err;
}
