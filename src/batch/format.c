/* Items and locks as JSON. Data of a node that is not JSON is written as a string. */
#include "batch/server.h"

static void put_node(struct buf *b, struct batch_call *c, const char *name, struct str data)
{
    const struct json *v = data.p ? json_parse(c->a, data, NULL) : NULL;

    json_key(b, name);
    if (v)
        json_put(b, v);
    else if (data.p)
        json_put_text(b, data);
    else
        json_put_null(b);
}

void batch_format_item(struct buf *b, struct batch_call *c, const struct batch_item *i)
{
    enum batch_kind_id kind = i->kind->id;

    json_open(b, '{');
    json_member_text(b, "id", str_of(i->id));
    json_member_text(b, "state", str_of(i->kind->machine->states[i->status.state].name));
    json_key(b, "status");
    json_put(b, i->status.json);
    if (kind == BATCH_KIND_JOB) {
        json_member_text(b, "batch", str_of(i->bid));
        json_member_int(b, "priority", i->priority);
    } else if (kind != BATCH_KIND_BATCH) {
        json_member_text(b, "queue", kind == BATCH_KIND_SMALL ? STR("small") : STR("large"));
    }
    json_member_bool(b, "locked", i->token != 0);
    for (int n = 0; i->kind->nodes[n]; n++)
        put_node(b, c, i->kind->nodes[n], i->nodes[n]);
    if (kind == BATCH_KIND_BATCH) {
        json_member_open(b, "states", '{');
        for (int l = 0; l < BATCH_LIST_COUNT; l++) {
            json_member_int(b, BATCH_LISTS[l], i->counts[l]);
        }
        json_close(b, '}');
    }
    json_close(b, '}');
}

void batch_format_lock(struct buf *b, const struct batch_lock *lock)
{
    json_open(b, '{');
    json_member_text(b, "kind", str_of(BATCH_LOCK_DIRS[lock->kind]));
    json_member_text(b, "name", lock->name);
    json_member_text(b, "node", lock->node);
    json_member_text(b, "who", lock->who);
    json_member_text(b, "when", lock->when);
    json_member_int(b, "age", lock->age_ms);
    json_member_bool(b, "ephemeral", lock->ephemeral);
    json_member_int(b, "token", lock->token);
    json_close(b, '}');
}
