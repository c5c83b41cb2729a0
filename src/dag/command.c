/*
 * The part of a node's data that says how its command runs: its keys, their checks, and the command
 * that follows from their current values.
 */
#include <string.h>

#include "base/mem.h"
#include "dag/node.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* Input data. */

/* Text that a process can be passed: without NUL. */
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

static bool is_name(const struct json *v)
{
    return is_plain(v) && v->text.len && v->text.len <= NODE_NAME_LEN_MAX;
}

static int limit_of(struct str name)
{
    for (int i = 0; i < LIMIT_KINDS; i++)
        if (str_eq(str_of(LIMIT_NAMES[i]), name))
            return i;
    return -1;
}

static bool is_limits(const struct json *v)
{
    if (v->kind != JSON_OBJECT)
        return false;
    json_each(m, v)
        if (limit_of(m->key) < 0 || m->kind != JSON_INT || m->number < 1)
            return false;
    return true;
}

static const struct {
    const char *key;
    bool (*check)(const struct json *v);
    const char *what;
} INPUTS[] = {
    {"command", is_plain, "a string without NUL"},
    {"args", is_texts, "a list of strings without NUL"},
    {"env", is_env, "an object of names to strings without NUL"},
    {"cwd", is_plain, "a string without NUL"},
    {"timeout", is_ms, "a number of milliseconds"},
    {"interval", is_ms, "a number of milliseconds"},
    {"retry", is_retry, "a number of times, or {\"count\", \"delay\", \"max_delay\"}"},
    {"user", is_name, "the name of a user"},
    {"limits", is_limits,
     "an object of cpu (ms), memory (bytes), files and processes to positive numbers"},
};

static const char *const RESULTS[] = {"stdout", "stderr", "mixedout", "result"};

static int input_of(struct str key)
{
    for (size_t i = 0; i < COUNT(INPUTS); i++)
        if (str_eq(str_of(INPUTS[i].key), key))
            return (int)i;
    return -1;
}

bool node_key_is_input(struct str key)
{
    return input_of(key) >= 0;
}

bool node_key_is_result(struct str key)
{
    for (size_t i = 0; i < COUNT(RESULTS); i++)
        if (str_eq(str_of(RESULTS[i]), key))
            return true;
    return false;
}

bool node_key_is_output(struct str key)
{
    return node_key_is_result(key) && !str_eq(key, STR("result"));
}

int node_check_value(enum node_type type, struct str key, const struct json *v,
                     struct err_info *ret_error)
{
    int i = input_of(key);
    if (i < 0)
        return 0;
    if (!INPUTS[i].check(v))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s must be %s", INPUTS[i].key,
                       INPUTS[i].what);
    if (type == NODE_SHELL && str_eq(key, STR("args")))
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "a shell command has no args: put them into 'command'");
    return 0;
}

int node_check_data(enum node_type type, const struct json *data, struct err_info *ret_error)
{
    const struct json *command = json_get(data, "command");
    if (type != NODE_GROUP && (!command || (command->kind == JSON_TEXT && !command->text.len)))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "data.command is %s",
                       command ? "empty" : "missing");
    for (const struct json *m = data ? data->first : NULL; m; m = m->next) {
        if (node_key_is_result(m->key) || !m->key.len || m->key.len > NODE_KEY_LEN_MAX)
            return err_set(ret_error, DROVER_BAD_ARGUMENT,
                           "data key '%.*s' cannot be set by a request", NODE_CUT(m->key));
        TRY(node_check_value(type, m->key, m, ret_error));
    }
    return 0;
}

/* The command. */

const struct json *node_spec_data(const struct dag_node *n, struct arena *a)
{
    return n->data.len ? json_parse(a, n->data, NULL) : NULL;
}

/* Where the current values of a node are: one that is about to be set, the set ones, the spec's. */
struct command_source {
    const struct node_change *change; /* NULL: none */
    const struct dag_node *n;         /* NULL: a new one */
    const struct json *data;
    struct arena *a;
};

static const struct json *current(const struct command_source *s, const char *key)
{
    const struct node_datum *v = s->n ? node_value(s->n, str_of(key)) : NULL;
    if (s->change && str_eq(s->change->key, str_of(key)))
        return s->change->value;
    if (!v)
        return json_get(s->data, key);
    if (!v->is_text)
        return json_parse(s->a, buf_str(&v->bytes), NULL);
    struct json *j = arena_alloc(s->a, sizeof *j);
    *j = (struct json){.kind = JSON_TEXT, .text = buf_str(&v->bytes)};
    return j;
}

static int64_t number_of(const struct json *v, int64_t fallback)
{
    return v && v->kind == JSON_INT ? v->number : fallback;
}

static bool is_true(const struct json *v)
{
    return v && v->kind == JSON_BOOL && v->truth;
}

static const char **make_argv(enum node_type type, const struct json *command,
                              const struct json *args, struct arena *a)
{
    size_t at = 0;
    const char **argv = arena_alloc(a, (json_list(args)->count + 4) * sizeof *argv);
    if (type != NODE_COMMAND && !args) {
        argv[at++] = "bash";
        argv[at++] = "-c";
    }
    argv[at++] = command && command->kind == JSON_TEXT ? arena_text(a, command->text) : "";
    json_each(m, json_list(args))
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
                list[at++] = arena_printf(a, "%.*s=%.*s", STR_ARGS(m->key), STR_ARGS(m->text));
    list[at] = NULL;
    return list;
}

static const char *text_of(const struct json *v, struct arena *a)
{
    return v && v->kind == JSON_TEXT && v->text.len ? arena_text(a, v->text) : NULL;
}

static struct policy_request read_request(const struct command_source *s, enum node_type type)
{
    return (struct policy_request){
        .argv = make_argv(type, current(s, "command"), current(s, "args"), s->a),
        .env = make_env(current(s, "env"), s->a),
        .user = text_of(current(s, "user"), s->a),
        .limits = limits_read(current(s, "limits")),
    };
}

void node_command(const struct dag_node *n, enum node_type type, struct arena *a,
                  struct node_command *ret_command)
{
    struct command_source s = {.n = n, .data = node_spec_data(n, a), .a = a};
    const struct json *retry = current(&s, "retry");
    *ret_command = (struct node_command){
        .ask = read_request(&s, type),
        .cwd = text_of(current(&s, "cwd"), a),
        .attach = is_true(current(&s, "attach")),
        .timeout_ms = number_of(current(&s, "timeout"), 0),
        .interval_ms = number_of(current(&s, "interval"), 1000),
        .retries = number_of(retry, number_of(json_get(retry, "count"), 0)),
        .delay_ms = number_of(json_get(retry, "delay"), 1000),
        .delay_max_ms = number_of(json_get(retry, "max_delay"), 60000),
    };
}

struct policy_request node_new_request(enum node_type type, const struct json *data,
                                       struct arena *a)
{
    return read_request(&(struct command_source){.data = data, .a = a}, type);
}

struct policy_request node_changed_request(const struct dag_node *n, enum node_type type,
                                           const struct node_change *change, struct arena *a)
{
    struct command_source s = {.change = change, .n = n, .data = node_spec_data(n, a), .a = a};
    return read_request(&s, type);
}

int64_t node_delay_ms(const struct node_command *c, uint32_t attempts)
{
    int64_t ms = c->delay_ms;
    for (uint32_t i = 1; i < attempts && ms < c->delay_max_ms; i++)
        ms *= 2;
    return ms < c->delay_max_ms ? ms : c->delay_max_ms;
}

/* Limits. */

void limits_put(struct buf *b, const struct limits *l)
{
    json_open(b, '{');
    for (int i = 0; i < LIMIT_KINDS; i++)
        if (l->of[i])
            json_member_int(b, LIMIT_NAMES[i], l->of[i]);
    json_close(b, '}');
}

struct limits limits_read(const struct json *v)
{
    struct limits l = {{0}};
    if (!v || v->kind != JSON_OBJECT)
        return l;
    json_each(m, v) {
        int kind = limit_of(m->key);
        if (kind >= 0 && m->kind == JSON_INT && m->number > 0)
            l.of[kind] = m->number;
    }
    return l;
}
