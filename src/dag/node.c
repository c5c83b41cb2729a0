#include "dag/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const char *const TYPES[] = {"command", "shell command", "condition", "if", "group"};
static const char *const STATES[] = {"incipient", "running", "finished",
                                     "failed",    "killed",  "skipped"};
static const char *const WHENS[] = {"success", "failure", "always"};
static const char *const BRANCHES[] = {"", "then", "else"};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static int find(const char *const *names, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(str_of(names[i]), name))
            return (int)i;
    return -1;
}

/* Defines node_type_name() and node_type_of(), and so on. */
#define NAMES(what, table)                                                                         \
    const char *node_##what##_name(enum node_##what value)                                         \
    {                                                                                              \
        return (size_t)value < COUNT(table) ? table[value] : "";                                   \
    }                                                                                              \
    int node_##what##_of(struct str name)                                                          \
    {                                                                                              \
        return name.len ? find(table, COUNT(table), name) : -1;                                    \
    }

NAMES(type, TYPES)
NAMES(state, STATES)
NAMES(when, WHENS)
NAMES(branch, BRANCHES)

/* Values. */

struct node_datum *node_value(const struct dag_node *n, struct str key)
{
    for (struct node_datum *v = n->values; v; v = v->next)
        if (str_eq(str_of(v->key), key))
            return v;
    return NULL;
}

static void empty_value(struct node_datum *v)
{
    buf_release(&v->bytes);
    free(v->slots);
    *v = (struct node_datum){.next = v->next, .key = v->key, .live_pid = v->live_pid};
}

/* Creates a value or empties it. */
static struct node_datum *set_value(struct dag_node *n, struct str key)
{
    struct node_datum *v = node_value(n, key);
    if (v) {
        empty_value(v);
    } else {
        v = mem_zalloc(sizeof *v);
        v->key = mem_dup(key.p, key.len);
        v->next = n->values;
        n->values = v;
    }
    v->pid = ++n->next_pid;
    return v;
}

struct node_datum *node_set_text(struct dag_node *n, const char *key, struct str text)
{
    return node_set_json(n, str_of(key), &(struct json){.kind = JSON_TEXT, .text = text});
}

struct node_datum *node_set_json(struct dag_node *n, struct str key, const struct json *json)
{
    struct node_datum *v = set_value(n, key);
    v->is_text = json->kind == JSON_TEXT;
    v->len = v->is_text ? json->text.len : 0;
    buf_put_str(&v->bytes, v->is_text ? json->text : json->raw);
    return v;
}

void node_set_int(struct dag_node *n, const char *key, int64_t number)
{
    buf_printf(&set_value(n, str_of(key))->bytes, "%" PRId64, number);
}

void node_set_reason(struct dag_node *n, const char *reason)
{
    free(n->reason);
    n->reason = reason ? mem_dup(reason, strlen(reason)) : NULL;
}

/* Outside the range of the pids of stored values. */
uint64_t node_live_pid(const struct dag_node *n)
{
    return UINT64_C(1000000000) + n->attempts + (n->agent == 0);
}

void node_free(struct dag_node *n)
{
    for (struct node_datum *v = n->values, *next; v; v = next) {
        next = v->next;
        empty_value(v);
        free(v->key);
        free(v);
    }
    free(n->reason);
    free(n->changed);
    free(n);
}

void node_set_changed(struct dag_node *n, struct str json)
{
    free(n->changed);
    n->changed = mem_dup(json.p, json.len);
}

/* The record (node.h has the format). */

void node_put_value(struct buf *b, const struct node_datum *v)
{
    if (v->is_text)
        json_member_text(b, v->key, buf_str(&v->bytes));
    else
        json_member_raw(b, v->key, buf_str(&v->bytes));
}

static void put_slots(struct buf *b, const struct node_datum *v)
{
    json_member_open(b, v->key, '{');
    json_member_int(b, "pid", (int64_t)v->pid);
    json_member_open(b, "slots", '[');
    for (uint32_t i = 0; i < v->slot_count; i++) {
        json_open(b, '[');
        json_put_int(b, v->slots[i].number);
        json_put_int(b, v->slots[i].len);
        json_close(b, ']');
    }
    json_close(b, ']');
    if (v->bytes.len)
        json_member_text(b, "tail", buf_str(&v->bytes));
    json_close(b, '}');
}

static void put_values(struct buf *b, const struct dag_node *n)
{
    json_member_open(b, "values", '{');
    for (const struct node_datum *v = n->values; v; v = v->next)
        if (!v->slot_count)
            node_put_value(b, v);
    json_close(b, '}');
    json_member_open(b, "slotted", '{');
    for (const struct node_datum *v = n->values; v; v = v->next)
        if (v->slot_count)
            put_slots(b, v);
    json_close(b, '}');
}

static void put_number(struct buf *b, const char *key, int64_t number)
{
    if (number)
        json_member_int(b, key, number);
}

void node_put_record(struct buf *b, const struct dag_node *n, enum node_state state,
                     enum node_branch taken)
{
    json_open(b, '{');
    json_member_text(b, "state", str_of(node_state_name(state)));
    put_number(b, "started", n->started_ms);
    put_number(b, "ended", n->ended_ms);
    put_number(b, "attempts", n->attempts);
    if (n->reason)
        json_member_text(b, "reason", str_of(n->reason));
    if (taken)
        json_member_text(b, "taken", str_of(node_branch_name(taken)));
    if (n->changed)
        json_member_raw(b, "changed", str_of(n->changed));
    if (n->stops)
        json_member_bool(b, "stops", true);
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
    if (values && values->kind == JSON_OBJECT)
        json_each(m, values)
            node_set_json(n, m->key, m);
    if (slotted && slotted->kind == JSON_OBJECT)
        json_each(m, slotted)
            TRY(read_slots(n, set_value(n, m->key), m));
    return 0;
}

int node_read_record(struct dag_node *n, struct plan_node *p, struct str text, struct arena *a)
{
    const struct json *v = json_parse(a, text, NULL);
    struct str state = {0}, taken = {0}, reason = {0};
    const struct json *changed = NULL;
    int64_t attempts = 0;
    if (!v || json_get_object(v, "changed", &changed, NULL) < 0 ||
        json_get_text(v, "state", &state, NULL) != 1 || node_state_of(state) < 0 ||
        json_get_int(v, "started", &n->started_ms, NULL) < 0 ||
        json_get_int(v, "ended", &n->ended_ms, NULL) < 0 ||
        json_get_int(v, "attempts", &attempts, NULL) < 0 ||
        json_get_text(v, "reason", &reason, NULL) < 0 ||
        json_get_bool(v, "stops", &n->stops, NULL) < 0 ||
        json_get_text(v, "taken", &taken, NULL) < 0 || (taken.len && node_branch_of(taken) < 0))
        return DROVER_DAMAGED;
    n->attempts = (uint32_t)attempts;
    if (changed)
        node_set_changed(n, changed->raw);
    if (reason.len)
        node_set_reason(n, arena_text(a, reason));
    p->state = (uint8_t)node_state_of(state);
    p->taken = taken.len ? (uint8_t)node_branch_of(taken) : BRANCH_NONE;
    n->recorded = true;
    return read_values(n, v);
}
