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

#define NAME_OF(table, value)                                                                      \
    ((size_t)(value) < sizeof(table) / sizeof *(table) ? (table)[value] : "")

static int find(const char *const *names, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(str_of(names[i]), name))
            return (int)i;
    return -1;
}

#define FIND(table, name) find(table, sizeof(table) / sizeof *(table), name)

const char *node_type_name(enum node_type t)
{
    return NAME_OF(TYPES, t);
}

const char *node_state_name(enum node_state s)
{
    return NAME_OF(STATES, s);
}

const char *node_when_name(enum node_when w)
{
    return NAME_OF(WHENS, w);
}

const char *node_branch_name(enum node_branch b)
{
    return NAME_OF(BRANCHES, b);
}

int node_type_of(struct str name)
{
    return FIND(TYPES, name);
}

int node_state_of(struct str name)
{
    return FIND(STATES, name);
}

int node_when_of(struct str name)
{
    return FIND(WHENS, name);
}

int node_branch_of(struct str name)
{
    return name.len ? FIND(BRANCHES, name) : -1;
}

/* What is given. */

enum given { GIVEN_TEXT, GIVEN_TEXTS, GIVEN_ENV, GIVEN_MS, GIVEN_RETRY };

static const struct {
    const char *key;
    enum given kind;
} GIVEN[] = {
    {"command", GIVEN_TEXT}, {"args", GIVEN_TEXTS},  {"env", GIVEN_ENV},     {"cwd", GIVEN_TEXT},
    {"timeout", GIVEN_MS},   {"interval", GIVEN_MS}, {"retry", GIVEN_RETRY},
};

enum { GIVEN_COUNT = sizeof GIVEN / sizeof *GIVEN };

static const char *const LEFT[] = {"stdout", "stderr", "mixedout", "result"};

static int given_of(struct str key)
{
    for (int i = 0; i < GIVEN_COUNT; i++)
        if (str_eq(str_of(GIVEN[i].key), key))
            return i;
    return -1;
}

bool node_key_is_given(struct str key)
{
    return given_of(key) >= 0;
}

bool node_key_is_left(struct str key)
{
    return FIND(LEFT, key) >= 0;
}

bool node_key_is_printed(struct str key)
{
    return node_key_is_left(key) && !str_eq(key, STR("result"));
}

/* What a process can be given: text without NUL. */
static bool is_plain(const struct json *v)
{
    return v->kind == JSON_TEXT && !memchr(v->text.p ? v->text.p : "", '\0', v->text.len);
}

static bool is_env(const struct json *v)
{
    if (v->kind != JSON_OBJECT)
        return false;
    json_each(m, v)
        if (!is_plain(m) || !m->key.len || memchr(m->key.p, '=', m->key.len) ||
            memchr(m->key.p, '\0', m->key.len))
            return false;
    return true;
}

static bool is_texts(const struct json *v)
{
    if (v->kind != JSON_LIST)
        return false;
    json_each(m, v)
        if (!is_plain(m))
            return false;
    return true;
}

static bool is_ms(const struct json *v)
{
    return v && v->kind == JSON_INT && v->number >= 0 && v->number <= INT64_C(1) << 40;
}

static bool is_retry(const struct json *v)
{
    static const char *const names[] = {"count", "delay", "max_delay", NULL};
    struct err_info e;

    if (v->kind == JSON_INT)
        return v->number >= 0 && v->number <= 1000000;
    if (v->kind != JSON_OBJECT || json_only(v, names, &e) || !is_ms(json_get(v, "count")))
        return false;
    json_each(m, v)
        if (!is_ms(m))
            return false;
    return true;
}

int node_check_value(enum node_type type, struct str key, const struct json *v,
                     struct err_info *ret_error)
{
    static const char *const words[] = {
        [GIVEN_TEXT] = "a string without NUL",
        [GIVEN_TEXTS] = "a list of strings without NUL",
        [GIVEN_ENV] = "an object of names to strings without NUL",
        [GIVEN_MS] = "a number of milliseconds",
        [GIVEN_RETRY] = "a number of times, or {\"count\", \"delay\", \"max_delay\"}",
    };
    int i = given_of(key);
    bool good;

    if (i < 0)
        return 0;
    switch (GIVEN[i].kind) {
    case GIVEN_TEXT:
        good = is_plain(v);
        break;
    case GIVEN_TEXTS:
        good = is_texts(v);
        break;
    case GIVEN_ENV:
        good = is_env(v);
        break;
    case GIVEN_MS:
        good = is_ms(v);
        break;
    default:
        good = is_retry(v);
        break;
    }
    if (!good)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s has to be %s", GIVEN[i].key,
                       words[GIVEN[i].kind]);
    if (type == NODE_SHELL && str_eq(key, STR("args")))
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "a shell command is all in 'command' and has no args");
    return 0;
}

int node_check_data(enum node_type type, const struct json *data, struct err_info *ret_error)
{
    const struct json *command = json_get(data, "command");
    int err = 0;

    if (type != NODE_GROUP && (!command || (command->kind == JSON_TEXT && !command->text.len)))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "data.command is %s",
                       command ? "empty" : "missing");
    for (const struct json *m = data ? data->first : NULL; m && !err; m = m->next) {
        if (node_key_is_left(m->key) || !m->key.len || m->key.len > NODE_KEY_LEN_MAX)
            err = err_set(ret_error, DROVER_BAD_ARGUMENT,
                          "'%.*s' is not a data key that can be given",
                          (int)(m->key.len < 80 ? m->key.len : 80), m->key.p);
        else
            err = node_check_value(type, m->key, m, ret_error);
    }
    return err;
}

/* What it is started with. */

static const struct json *current(const struct node *n, const struct json *data, struct arena *a,
                                  const char *key)
{
    struct value *v = node_value(n, str_of(key));
    struct json *j;

    if (!v)
        return json_get(data, key);
    if (!v->is_text)
        return json_parse(a, (struct str){v->bytes.p, v->bytes.len}, NULL);
    j = arena_zalloc(a, sizeof *j);
    j->kind = JSON_TEXT;
    j->text = (struct str){v->bytes.p, v->bytes.len};
    return j;
}

static int64_t number_of(const struct json *v, int64_t otherwise)
{
    return v && v->kind == JSON_INT ? v->number : otherwise;
}

static const char **make_argv(enum node_type type, const struct json *command,
                              const struct json *args, struct arena *a)
{
    size_t count = args && args->kind == JSON_LIST ? args->count : 0, at = 0;
    bool shell = type != NODE_COMMAND && !args;
    const char **argv = arena_alloc(a, (count + 4) * sizeof *argv);

    if (shell) {
        argv[at++] = "bash";
        argv[at++] = "-c";
    }
    argv[at++] = command && command->kind == JSON_TEXT ? arena_text(a, command->text) : "";
    if (count)
        json_each(m, args)
            argv[at++] = m->kind == JSON_TEXT ? arena_text(a, m->text) : "";
    argv[at] = NULL;
    return argv;
}

static const char **make_env(const struct json *env, struct arena *a)
{
    size_t count = env && env->kind == JSON_OBJECT ? env->count : 0, at = 0;
    const char **list = arena_alloc(a, (count + 1) * sizeof *list);

    if (count)
        json_each(m, env)
            if (m->kind == JSON_TEXT)
                list[at++] = arena_printf(a, "%.*s=%.*s", (int)m->key.len, m->key.p,
                                          (int)m->text.len, m->text.p);
    list[at] = NULL;
    return list;
}

void node_command(const struct node *n, enum node_type type, struct arena *a,
                  struct node_command *ret_command)
{
    const struct json *data = n->data.len ? json_parse(a, n->data, NULL) : NULL;
    const struct json *cwd = current(n, data, a, "cwd"), *retry = current(n, data, a, "retry");

    *ret_command = (struct node_command){
        .argv = make_argv(type, current(n, data, a, "command"), current(n, data, a, "args"), a),
        .env = make_env(current(n, data, a, "env"), a),
        .cwd = cwd && cwd->kind == JSON_TEXT && cwd->text.len ? arena_text(a, cwd->text) : NULL,
        .timeout_ms = number_of(current(n, data, a, "timeout"), 0),
        .interval_ms = number_of(current(n, data, a, "interval"), 1000),
        .retries = number_of(retry, number_of(json_get(retry, "count"), 0)),
        .delay_ms = number_of(json_get(retry, "delay"), 1000),
        .delay_max_ms = number_of(json_get(retry, "max_delay"), 60000),
    };
}

int64_t node_delay_ms(const struct node_command *c, uint32_t attempts)
{
    int64_t ms = c->delay_ms;

    for (uint32_t i = 1; i < attempts && ms < c->delay_max_ms; i++)
        ms *= 2;
    return ms < c->delay_max_ms ? ms : c->delay_max_ms;
}

/* Values. */

struct value *node_value(const struct node *n, struct str key)
{
    for (struct value *v = n->values; v; v = v->next)
        if (str_eq(str_of(v->key), key))
            return v;
    return NULL;
}

static void empty_value(struct value *v)
{
    buf_release(&v->bytes);
    free(v->slots);
    v->slots = NULL;
    v->slot_count = 0;
    v->len = 0;
    v->is_text = false;
}

struct value *node_set_value(struct node *n, struct str key)
{
    struct value *v = node_value(n, key);

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

void node_drop_value(struct node *n, struct str key)
{
    for (struct value **at = &n->values; *at; at = &(*at)->next) {
        struct value *v = *at;

        if (!str_eq(str_of(v->key), key))
            continue;
        *at = v->next;
        empty_value(v);
        free(v->key);
        free(v);
        return;
    }
}

void node_set_text(struct node *n, const char *key, struct str text)
{
    struct value *v = node_set_value(n, str_of(key));

    v->is_text = true;
    v->len = text.len;
    buf_put_str(&v->bytes, text);
}

void node_set_int(struct node *n, const char *key, int64_t number)
{
    buf_printf(&node_set_value(n, str_of(key))->bytes, "%" PRId64, number);
}

void node_set_reason(struct node *n, const char *reason)
{
    free(n->reason);
    n->reason = reason ? mem_dup(reason, strlen(reason)) : NULL;
}

/* Far from those of values. */
uint64_t node_live_pid(const struct node *n)
{
    return UINT64_C(1000000000) + n->attempts + (n->agent == 0);
}

void node_free(struct node *n)
{
    while (n->values)
        node_drop_value(n, str_of(n->values->key));
    free(n->reason);
    free(n);
}

/* The record. */

static void put_slots(struct buf *b, const struct value *v)
{
    json_open(b, '{');
    json_key(b, "pid");
    json_put_int(b, (int64_t)v->pid);
    json_key(b, "slots");
    json_open(b, '[');
    for (uint32_t i = 0; i < v->slot_count; i++) {
        json_open(b, '[');
        json_put_int(b, v->slots[i].number);
        json_put_int(b, v->slots[i].len);
        json_close(b, ']');
    }
    json_close(b, ']');
    if (v->bytes.len) {
        json_key(b, "tail");
        json_put_text(b, (struct str){v->bytes.p, v->bytes.len});
    }
    json_close(b, '}');
}

static void put_values(struct buf *b, const struct node *n)
{
    json_key(b, "values");
    json_open(b, '{');
    for (const struct value *v = n->values; v; v = v->next) {
        if (v->slot_count)
            continue;
        json_key(b, v->key);
        if (v->is_text)
            json_put_text(b, (struct str){v->bytes.p, v->bytes.len});
        else
            json_put_raw(b, (struct str){v->bytes.p, v->bytes.len});
    }
    json_close(b, '}');
    json_key(b, "slotted");
    json_open(b, '{');
    for (const struct value *v = n->values; v; v = v->next)
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
    json_key(b, key);
    json_put_int(b, ms);
}

void node_put_record(struct buf *b, const struct node *n, enum node_state state,
                     enum node_branch taken)
{
    json_open(b, '{');
    json_key(b, "state");
    json_put_text(b, str_of(node_state_name(state)));
    put_time(b, "started", n->started_ms);
    put_time(b, "ended", n->ended_ms);
    put_time(b, "attempts", n->attempts);
    if (n->reason) {
        json_key(b, "reason");
        json_put_text(b, str_of(n->reason));
    }
    if (taken) {
        json_key(b, "taken");
        json_put_text(b, str_of(node_branch_name(taken)));
    }
    if (n->values)
        put_values(b, n);
    json_close(b, '}');
}

static int read_slots(struct node *n, struct value *v, const struct json *slots)
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
            (struct slot){(uint32_t)m->first->number, (uint32_t)len->number};
        v->len += (uint32_t)len->number;
        if (m->first->number >= n->next_slot)
            n->next_slot = (uint32_t)m->first->number + 1;
    }
    return 0;
}

static int read_values(struct node *n, const struct json *record)
{
    const struct json *values = json_get(record, "values"), *slotted = json_get(record, "slotted");
    int err = 0;

    if (values && values->kind == JSON_OBJECT)
        json_each(m, values) {
            struct value *v = node_set_value(n, m->key);

            v->is_text = m->kind == JSON_TEXT;
            buf_put_str(&v->bytes, v->is_text ? m->text : m->raw);
            v->len = v->is_text ? v->bytes.len : 0;
        }
    if (slotted && slotted->kind == JSON_OBJECT)
        for (const struct json *m = slotted->first; m && !err; m = m->next)
            err = read_slots(n, node_set_value(n, m->key), m);
    return err;
}

int node_read_record(struct node *n, struct str text, struct arena *a, int *ret_state,
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
