#include "batch/txn.h"

#include "batch/name.h"

static void note(struct batch_txn *t, struct batch_view *v, int64_t key, bool add)
{
    struct batch_txn_list *l = arena_alloc(t->txn.a, sizeof *l);

    *l = (struct batch_txn_list){.view = v, .key = key, .add = add};
    if (t->lists)
        t->last_list->next = l;
    else
        t->lists = l;
    t->last_list = l;
}

void batch_txn_list_add(struct batch_txn *t, int name, struct batch_view *v, int64_t key)
{
    char entry[BATCH_ENTRY_LEN + 1];

    note(t, v, key, true);
    batch_entry(v->prefix, v->priority, key, entry);
    txn_create(&t->txn, name, NO_BYTES, 0, "%s/%s", v->dir, entry);
}

void batch_txn_list_remove(struct batch_txn *t, int name, struct batch_view *v, int64_t key)
{
    char entry[BATCH_ENTRY_LEN + 1];

    note(t, v, key, false);
    batch_entry(v->prefix, v->priority, key, entry);
    txn_delete(&t->txn, name, KEEPER_ANY_VERSION, "%s/%s", v->dir, entry);
}

int batch_txn_commit(struct batch_txn *t, struct keeper *k, int witness)
{
    int err;

    for (const struct batch_txn_list *l = t->lists; l; l = l->next)
        batch_view_expect(l->view, 1);
    err = txn_commit(&t->txn, k, witness);
    for (const struct batch_txn_list *l = t->lists; l; l = l->next) {
        if (err == DROVER_UNKNOWN)
            batch_view_doubt(l->view, 1);
        else if (err)
            batch_view_failed(l->view, 1);
        else if (l->add)
            batch_view_add(l->view, l->key);
        else
            batch_view_remove(l->view, l->key);
    }
    return err;
}
