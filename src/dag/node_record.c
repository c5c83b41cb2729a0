/* The record of a node: encoding and decoding (node.h has the format). */
#include "base/mem.h"
#include "dag/node.h"

static void put_slots(struct buf *b, const struct node_datum *v)
{
    json_open(b, '{');
    json_member_int(b, "pid", (int64_t)v->pid);
    json_member_open(b, "slots", '[');
    for (uint32_t i = 0; i < v->slot_count; i++) {
        json_open(b, '[');
        json_put_int(b, v->slots[i].number);
        json_put_int(b, v->slots[i].len);
        json_close(b, ']');
    }
    json_close(b, ']');
    if (v->bytes.len) {
        json_member_text(b, "tail", buf_str(&v->bytes));
    }
    json_close(b, '}');
}

static void put_values(struct buf *b, const struct dag_node *n)
{
    json_member_open(b, "values", '{');
    for (const struct node_datum *v = n->values; v; v = v->next) {
        if (v->slot_count)
            continue;
        json_key(b, v->key);
        if (v->is_text)
            json_put_text(b, buf_str(&v->bytes));
        else
            json_put_raw(b, buf_str(&v->bytes));
    }
    json_close(b, '}');
    json_member_open(b, "slotted", '{');
    for (const struct node_datum *v = n->values; v; v = v->next)
        if (v->slot_count) {
            json_key(b, v->key);
            put_slots(b, v);
        }
    json_close(b, '}');
}

static void put_time(struct buf *b, const char *key, int64_t ms)
{
    if (!ms)
        return;
    json_member_int(b, key, ms);
}

void node_put_record(struct buf *b, const struct dag_node *n, enum node_state state,
                     enum node_branch taken)
{
    json_open(b, '{');
    json_member_text(b, "state", str_of(node_state_name(state)));
    put_time(b, "started", n->started_ms);
    put_time(b, "ended", n->ended_ms);
    put_time(b, "attempts", n->attempts);
    if (n->reason)
        json_member_text(b, "reason", str_of(n->reason));
    if (taken)
        json_member_text(b, "taken", str_of(node_branch_name(taken)));
    if (n->values)
        put_values(b, n);
    json_close(b, '}');
}

static int read_slots(struct dag_node *n, struct node_datum *v, const struct json *slots)
{
    const struct json *list = json_get(slots, "slots");
    struct str tail = {0};
    int64_t pid = 0;

    if (json_get_int(slots, "pid", &pid, NULL) != 1 || !list || list->kind != JSON_LIST ||
        json_get_text(slots, "tail", &tail, NULL) < 0)
        return DROVER_DAMAGED;
    v->is_text = true;
    buf_put_str(&v->bytes, tail);
    v->len = tail.len;
    v->pid = (uint64_t)pid;
    if (v->pid > n->next_pid)
        n->next_pid = v->pid;
    v->slots = mem_zalloc((list->count + 1) * sizeof *v->slots);
    json_each(m, list) {
        const struct json *len = m->kind == JSON_LIST && m->first ? m->first->next : NULL;

        if (!len || m->first->kind != JSON_INT || len->kind != JSON_INT)
            return DROVER_DAMAGED;
        v->slots[v->slot_count++] =
            (struct datum_slot){(uint32_t)m->first->number, (uint32_t)len->number};
        v->len += (uint32_t)len->number;
        if (m->first->number >= n->next_slot)
            n->next_slot = (uint32_t)m->first->number + 1;
    }
    return 0;
}

static int read_values(struct dag_node *n, const struct json *record)
{
    const struct json *values = json_get(record, "values"), *slotted = json_get(record, "slotted");
    int err = 0;

    if (values && values->kind == JSON_OBJECT)
        json_each(m, values) {
            struct node_datum *v = node_set_value(n, m->key);

            v->is_text = m->kind == JSON_TEXT;
            buf_put_str(&v->bytes, v->is_text ? m->text : m->raw);
            v->len = v->is_text ? v->bytes.len : 0;
        }
    if (slotted && slotted->kind == JSON_OBJECT)
        for (const struct json *m = slotted->first; m && !err; m = m->next)
            err = read_slots(n, node_set_value(n, m->key), m);
    return err;
}

int node_read_record(struct dag_node *n, struct str text, struct arena *a, int *ret_state,
                     int *ret_taken)
{
    const struct json *v = json_parse(a, text, NULL);
    struct str state = {0}, taken = {0}, reason = {0};
    int64_t attempts = 0;

    if (!v || json_get_text(v, "state", &state, NULL) != 1 || node_state_of(state) < 0 ||
        json_get_int(v, "started", &n->started_ms, NULL) < 0 ||
        json_get_int(v, "ended", &n->ended_ms, NULL) < 0 ||
        json_get_int(v, "attempts", &attempts, NULL) < 0 ||
        json_get_text(v, "reason", &reason, NULL) < 0 ||
        json_get_text(v, "taken", &taken, NULL) < 0 || (taken.len && node_branch_of(taken) < 0))
        return DROVER_DAMAGED;
    n->attempts = (uint32_t)attempts;
    if (reason.len)
        node_set_reason(n, arena_text(a, reason));
    *ret_state = node_state_of(state);
    *ret_taken = taken.len ? node_branch_of(taken) : BRANCH_NONE;
    n->recorded = true;
    return read_values(n, v);
}
