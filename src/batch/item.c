/* Creating, reading and deleting items. */
#include "batch/item.h"

#include <ctype.h>
#include <stdio.h>

#include "base/thread.h"

void batch_item_init(struct batch_item *i, struct batch_kind *kind, int64_t number)
{
    i->kind = kind;
    i->number = number;
    batch_id(kind->prefix, number, i->id);
    snprintf(i->path, sizeof i->path, "%s/%s", kind->dir, i->id);
}

int batch_item_name(struct batch_call *c, enum batch_kind_id kind, struct str id,
                    struct batch_item *ret_item)
{
    struct batch_kind *k = &c->store->kinds[kind];
    int64_t number = batch_id_number(k->prefix, id);
    if (number < 0)
        return BATCH_FAIL(c, DROVER_NO_NODE, "there is no %s '%.*s'", k->machine->noun,
                          (int)(id.len < 100 ? id.len : 100), id.p);
    batch_item_init(ret_item, k, number);
    return 0;
}

/* Creating. */

struct str batch_json_text(struct batch_call *c, const struct json *v, struct str otherwise)
{
    struct buf b = {0};
    if (!v)
        return otherwise;
    json_put(&b, v);
    return arena_take(c->a, &b);
}

void batch_item_add_node(struct batch_txn *t, const struct batch_item *i, const char *name,
                         struct str data)
{
    txn_create(&t->txn, OP_ANY, data, 0, "%s%s%s", i->path, name ? "/" : "", name ? name : "");
}

int batch_item_create(struct batch_call *c, enum batch_kind_id kind, batch_add_fn *add, void *arg,
                      int64_t *ret_number)
{
    const struct batch_kind *k = &c->store->kinds[kind];
    bool again = true;
    int err = 0;
    for (int i = 0; i < BATCH_TRIES && again; i++) {
        struct batch_txn t = BATCH_TXN(c);
        int32_t version;
        LOCKED(&c->store->creating);
        TRY(batch_next_number(c, k, ret_number, &version));
        txn_set(&t.txn, OP_ANY, NO_BYTES, version, "%s", k->dir);
        TRY(add(c, &t, *ret_number, arg));
        err = batch_txn_commit(c, &t, OP_ANY);
        again = batch_is_conflict(err) && t.txn.failed != OP_UNIQUE;
    }
    return err;
}

/* The UUID of a submission, checked. p NULL: it has none. */
static int read_uuid(struct batch_call *c, const struct json *submission, struct str *ret_uuid)
{
    struct str uuid = {0};
    int err = json_get_text(submission, "batchID", &uuid, c->why);
    if (err > 0)
        err = batch_name_check("batchID", uuid, c->why);
    if (!err)
        *ret_uuid = uuid;
    return err;
}

struct batch_creation {
    struct batch_item item;
    struct str data, uuid;
};

static int add_item(struct batch_call *c, struct batch_txn *t, int64_t number, void *arg)
{
    struct batch_creation *new = arg;
    struct batch_item *i = &new->item;
    batch_item_init(i, i->kind, number);
    if (new->uuid.p)
        txn_create(&t->txn, OP_UNIQUE, str_of(i->id), 0, "/batch-uuids/%.*s", STR_ARGS(new->uuid));
    batch_item_add_node(t, i, NULL, NO_BYTES);
    batch_item_add_node(t, i, i->kind->nodes[0], new->data);
    batch_item_add_node(t, i, "status", batch_status_write(i->kind->machine, &i->status, c->a));
    batch_txn_list_add(t, OP_ANY, &i->kind->views[i->status.state], number);
    return 0;
}

int batch_item_new(struct batch_call *c, enum batch_kind_id kind, const struct json *data,
                   char ret_id[BATCH_ID_LEN + 1])
{
    struct batch_kind *k = &c->store->kinds[kind];
    struct batch_creation new = {
        .item = {.kind = k, .status = {.state = k->machine->first, .modified = batch_now(c)}},
        .data = batch_json_text(c, data, NO_BYTES)};
    struct str holder = STR("");
    if (kind == BATCH_KIND_BATCH)
        TRY(read_uuid(c, data, &new.uuid));
    int err = batch_item_create(c, kind, add_item, &new, &new.item.number);
    if (err == DROVER_EXISTS && new.uuid.p) {
        batch_node_get(c, &holder, NULL, "/batch-uuids/%.*s", STR_ARGS(new.uuid));
        return BATCH_FAIL(c, err, "the batch '%.*s' exists already: %.*s", STR_ARGS(new.uuid),
                          STR_ARGS(holder));
    }
    if (err)
        return err;
    memcpy(ret_id, new.item.id, sizeof new.item.id);
    batch_publish(c, &new.item, BATCH_NO_STATE, k->machine->first);
    return 0;
}

/* Reading. */

int batch_find(struct batch_call *c, struct str uuid, char ret_bid[BATCH_ID_LEN + 1])
{
    struct batch_item b;
    struct str bid;
    TRY(batch_name_check("the UUID", uuid, c->why));
    int err = batch_node_get(c, &bid, NULL, "/batch-uuids/%.*s", STR_ARGS(uuid));
    if (err == DROVER_NO_NODE)
        return BATCH_FAIL(c, err, "there is no batch with the UUID '%.*s'", STR_ARGS(uuid));
    if (err)
        return err;
    TRY(batch_item_name(c, BATCH_KIND_BATCH, bid, &b));
    memcpy(ret_bid, b.id, sizeof b.id);
    return 0;
}

/* The number is input: a foreign client may have written it. */
int batch_item_read_priority(struct batch_call *c, struct batch_item *j)
{
    struct keeper_stat stat;
    struct str text = {0};
    int value = 0, err = batch_node_get(c, &text, &stat, "%s/priority", j->path);
    if (err == DROVER_NO_NODE)
        return BATCH_FAIL(c, DROVER_DAMAGED, "job %s has no priority; see 'drover batch fsck'",
                          j->id);
    if (err)
        return err;
    for (size_t i = 0; i < text.len && i < 4; i++)
        value = isdigit((unsigned char)text.p[i]) ? value * 10 + text.p[i] - '0' : 1000;
    if (text.len == 0 || text.len > 3 || value > BATCH_PRIORITY_MAX)
        return BATCH_FAIL(c, DROVER_DAMAGED,
                          "job %s: its priority is '%.*s'; see 'drover batch fsck'", j->id,
                          (int)(text.len < 20 ? text.len : 20), text.p);
    j->priority = value;
    j->priority_version = stat.version;
    return 0;
}

int batch_item_read_bid(struct batch_call *c, struct batch_item *j)
{
    struct str text = STR("");
    TRY(batch_optional(batch_node_get(c, &text, NULL, "%s/bid", j->path)));
    int64_t number = batch_id_number(BATCH_ID_BATCH, text);
    if (number < 0)
        return BATCH_FAIL(c, DROVER_DAMAGED, "job %s names no batch; see 'drover batch fsck'",
                          j->id);
    batch_id(BATCH_ID_BATCH, number, j->bid);
    return 0;
}

int batch_item_read(struct batch_call *c, enum batch_kind_id kind, struct str id,
                    struct batch_item *ret_item)
{
    struct batch_item i = {.batch_version = -1};
    struct keeper_stat stat;
    struct err_info why;
    struct str text;
    TRY(batch_item_name(c, kind, id, &i));
    int err = batch_node_get(c, &text, &stat, "%s/status", i.path);
    if (err == DROVER_NO_NODE)
        return BATCH_FAIL(c, err, "there is no %s %s", i.kind->machine->noun, i.id);
    if (err)
        return err;
    err = batch_status_read(i.kind->machine, c->a, text, &i.status, &why);
    if (err)
        return BATCH_FAIL(c, err, "%s %s: %s", i.kind->machine->noun, i.id, why.text);
    i.version = stat.version;
    if (kind == BATCH_KIND_JOB) {
        TRY(batch_item_read_priority(c, &i));
        TRY(batch_item_read_bid(c, &i));
    }
    *ret_item = i;
    return 0;
}

int batch_item_read_rest(struct batch_call *c, struct batch_item *i)
{
    struct keeper_stat stat;
    for (int n = 0; i->kind->nodes[n]; n++)
        TRY(batch_optional(
            batch_node_get(c, &i->nodes[n], NULL, "%s/%s", i->path, i->kind->nodes[n])));
    for (int l = 0; i->kind->id == BATCH_KIND_BATCH && l < BATCH_LIST_COUNT; l++) {
        TRY(batch_node_stat(c, &stat, "%s/states/%s", i->path, BATCH_LISTS[l]));
        i->counts[l] = stat.child_count;
    }
    TRY(batch_node_stat(c, &stat, "%s/lock", i->path));
    i->token = stat.czxid;
    return 0;
}

int batch_item_get(struct batch_call *c, enum batch_kind_id kind, struct str id,
                   struct batch_item *ret_item)
{
    TRY(batch_item_read(c, kind, id, ret_item));
    return batch_item_read_rest(c, ret_item);
}

/* Deleting. */

int batch_item_add_deletion(struct batch_call *c, struct batch_txn *t, const char *path)
{
    enum { DEPTH_MAX = 20 }; /* those of the specification have 5 parts */
    struct keeper_names names;
    int depth = 0;
    for (const char *at = path; *at; at++)
        depth += *at == '/';
    if (depth > DEPTH_MAX)
        return BATCH_FAIL(c, DROVER_TOO_BIG, "there are more than %d levels of nodes in %.*s",
                          DEPTH_MAX, 100, path);
    TRY(batch_node_children(c, &names, NULL, "%s", path));
    for (size_t i = 0; i < names.count; i++) {
        if (strcmp(names.names[i], "lock") == 0)
            return BATCH_FAIL(c, DROVER_LOCKED, "%s is locked", path);
        TRY(batch_item_add_deletion(c, t, arena_printf(c->a, "%s/%s", path, names.names[i])));
    }
    txn_delete(&t->txn, OP_ANY, KEEPER_ANY_VERSION, "%s", path);
    return 0;
}

/* Adds the deletion of a job and its entries in the lists. */
static int add_job_deletion(struct batch_call *c, struct batch_txn *t, const struct batch_item *j,
                            const char *bid, enum batch_list list)
{
    int entry;
    TRY(batch_job_locate(c, j, &entry));
    txn_check(&t->txn, OP_ANY, j->version, "%s/status", j->path);
    TRY(batch_item_add_deletion(c, t, j->path));
    if (entry >= 0)
        batch_job_entry(c, t, j, entry, false);
    batch_txn_job_list(t, OP_ANY, bid, list, j->id, false);
    return 0;
}

/* Deletes the jobs of a list of a batch, up to LOT of them in one transaction. */
static int delete_jobs(struct batch_call *c, const struct batch_item *b, enum batch_list list)
{
    enum { LOT = 40 };
    struct keeper_names names = {0};
    struct batch_item j;
    int err = 0;

    TRY(batch_optional(
        batch_node_children(c, &names, NULL, "%s/states/%s", b->path, BATCH_LISTS[list])));
    for (size_t i = 0; i < names.count && !err;) {
        struct batch_txn t = BATCH_TXN(c);
        for (size_t end = i + LOT; i < names.count && i < end; i++) {
            err = batch_item_read(c, BATCH_KIND_JOB, str_of(names.names[i]), &j);
            if (err == DROVER_NO_NODE || (!err && strcmp(j.bid, b->id) != 0))
                /* a foreign client removed it, but not the entry; or it is of another batch */
                batch_txn_job_list(&t, OP_ANY, b->id, list, names.names[i], false);
            else
                TRY(err ? err : add_job_deletion(c, &t, &j, b->id, list));
        }
        err = batch_txn_commit(c, &t, OP_ANY);
    }
    if (err == DROVER_NOT_EMPTY || err == DROVER_EXISTS)
        return BATCH_FAIL(c, DROVER_LOCKED, "a job of batch %s is locked", b->id);
    return err;
}

/* Adds the deletion of /batch-uuids/UUID, if it names this batch. */
static int add_uuid_deletion(struct batch_call *c, struct batch_txn *t, const struct batch_item *b)
{
    const struct json *v = b->nodes[0].p ? json_parse(c->a, b->nodes[0], NULL) : NULL;
    struct str uuid = {0}, holder = {0};
    if (!v || read_uuid(c, v, &uuid) || !uuid.p)
        return 0;
    TRY(batch_optional(batch_node_get(c, &holder, NULL, "/batch-uuids/%.*s", STR_ARGS(uuid))));
    if (holder.p && str_eq(holder, str_of(b->id)))
        txn_delete(&t->txn, OP_ANY, KEEPER_ANY_VERSION, "/batch-uuids/%.*s", STR_ARGS(uuid));
    return 0;
}

static int add_batch_deletion(struct batch_call *c, struct batch_txn *t, struct str bid)
{
    struct batch_item b;
    TRY(batch_item_get(c, BATCH_KIND_BATCH, bid, &b));
    if (b.token)
        return BATCH_FAIL(c, DROVER_LOCKED, "batch %s is locked", b.id);
    for (int i = 0; i < BATCH_LIST_COUNT; i++)
        TRY(delete_jobs(c, &b, (enum batch_list)i));
    TRY(add_uuid_deletion(c, t, &b));
    return batch_item_add_deletion(c, t, b.path);
}

int batch_item_delete(struct batch_call *c, enum batch_kind_id kind, struct str id)
{
    struct batch_txn t = BATCH_TXN(c);
    const struct batch_machine *m = c->store->kinds[kind].machine;
    struct batch_item i;
    TRY(batch_item_read(c, kind, id, &i));
    if (!batch_machine_is_final(m, i.status.state))
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED,
                          "%s %s is %.*s; it can be deleted in a final state only", m->noun, i.id,
                          STR_ARGS(batch_status_name(m, &i.status)));
    if (kind != BATCH_KIND_JOB) /* a job checks its own */
        txn_check(&t.txn, OP_ANY, i.version, "%s/status", i.path);
    if (kind == BATCH_KIND_BATCH)
        TRY(add_batch_deletion(c, &t, id));
    else if (kind == BATCH_KIND_JOB)
        TRY(add_job_deletion(c, &t, &i, i.bid, m->states[i.status.state].list));
    else
        TRY(batch_item_add_deletion(c, &t, i.path));
    return batch_txn_commit(c, &t, OP_ANY);
}
