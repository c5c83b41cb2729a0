/* Changing the token of an access item. */
#include "batch/item.h"

/* Members of `changes` replace those of `old`, or remove them if they are null. */
static struct str merge(struct batch_call *c, const struct json *old, const struct json *changes)
{
    struct buf b = {0};
    json_open(&b, '{');
    json_each(v, old) {
        const struct json *new = changes->first;
        while (new && !str_eq(new->key, v->key))
            new = new->next;
        if (!new)
            json_key_str(&b, v->key), json_put(&b, v);
        else if (new->kind != JSON_NULL)
            json_key_str(&b, v->key), json_put(&b, new);
    }
    json_each(v, changes)
        if (v->kind != JSON_NULL && !json_get(old, arena_text(c->a, v->key)))
            json_key_str(&b, v->key), json_put(&b, v);
    json_close(&b, '}');
    return arena_take(c->a, &b);
}

int batch_access_set(struct batch_call *c, enum batch_kind_id kind, struct str id,
                     const struct json *changes, int64_t token)
{
    static const struct json nothing = {.kind = JSON_OBJECT};
    int err = DROVER_BAD_VERSION;

    for (int i = 0; i < BATCH_TRIES && batch_is_conflict(err); i++) {
        struct batch_txn t = BATCH_TXN(c);
        struct keeper_stat stat = {0};
        struct batch_item item;
        struct str text = NO_BYTES;

        TRY(batch_item_read(c, kind, id, &item));
        if (token) {
            TRY(batch_lock_guard(c, &t, item.path, token, KEEPER_ANY_VERSION, true));
            txn_check(&t.txn, OP_ANY, item.version, "%s/status", item.path);
        }
        TRY(batch_optional(batch_node_get(c, &text, &stat, "%s/token", item.path)));
        const struct json *old = json_parse(c->a, text, NULL);
        if (!old || old->kind != JSON_OBJECT) /* not written yet, or not valid */
            old = &nothing;
        text = merge(c, old, changes);
        if (stat.czxid)
            txn_set(&t.txn, OP_ANY, text, stat.version, "%s/token", item.path);
        else
            batch_item_add_node(&t, &item, "token", text);
        err = batch_txn_commit(c, &t, OP_ANY);
    }
    return err;
}
