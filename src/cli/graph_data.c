/*
 * The data of a node in a file, for the API: its command, and how it runs, from the node itself or
 * from what stands once for all nodes. Times and sizes with units become numbers, relative
 * directories absolute ones; variables of the environment are merged, the node's own last.
 */
#include <string.h>

#include "base/option.h"
#include "cli/graph_file.h"
#include "dag/node.h"

/* A key of the data, or a member of an object in it. */
struct key_rule {
    const char *key;
    int (*parse)(const struct option *o, const char *text, struct err_info *e); /* NULL: as it is */
};

static const struct key_rule RETRY[] = {
    {"count", option_number}, {"delay", option_span}, {"max_delay", option_span}, {NULL, NULL}};
static const struct key_rule LIMITS[] = {{"cpu", option_span},
                                         {"memory", option_size},
                                         {"files", option_number},
                                         {"processes", option_number},
                                         {NULL, NULL}};

struct data_draft {
    struct graph_file *f;
    struct graph_node *n;
    struct buf out;
};

/* A number as a text: plain digits, or with units. */
static void put_number(struct data_draft *d, const struct key_rule *rule, const struct json *v)
{
    int64_t number = 0;
    struct option o = {.name = rule->key, .target = &number, .max = INT64_C(1) << 50};
    struct err_info why;
    const char *text = v->kind == JSON_TEXT ? arena_text(&d->f->arena, v->text) : "";
    if (v->kind == JSON_INT)
        json_member_int(&d->out, rule->key, v->number);
    else if (v->kind != JSON_TEXT)
        graph_file_wrong(d->f, v, d->n, "%s must be %s", rule->key,
                         rule->parse == option_span ? "a time: 500ms, 30s, 5m" : "a number");
    else if (option_digits(text, 0, INT64_C(1) << 50, &number) || !rule->parse(&o, text, &why))
        json_member_int(&d->out, rule->key, number);
    else
        graph_file_wrong(d->f, v, d->n, "%s: %s", rule->key, why.text);
}

static void put_members(struct data_draft *d, const char *key, const struct key_rule *rules,
                        const struct json *v)
{
    if (v->kind != JSON_OBJECT) {
        graph_file_wrong(d->f, v, d->n, "%s must be an object", key);
        return;
    }
    json_member_open(&d->out, key, '{');
    json_each(m, v) {
        const struct key_rule *r = rules;
        while (r->key && !str_eq(str_of(r->key), m->key))
            r++;
        if (r->key)
            put_number(d, r, m);
        else
            graph_file_wrong(d->f, m, d->n, "%s has no '%.*s'", key, NODE_CUT(m->key));
    }
    json_close(&d->out, '}');
}

/* Of the file and of the node, in this order; NULL where it is not there. */
struct both {
    const struct json *all, *own;
};

static struct both find_both(const struct data_draft *d, const char *key)
{
    struct both b = {json_get(d->f->spec, key), json_get(d->n->spec, key)};
    if (b.all && b.all->kind == JSON_NULL)
        b.all = NULL;
    if (b.own && b.own->kind == JSON_NULL)
        b.own = NULL;
    return b;
}

static bool has_member(const struct json *v, struct str name)
{
    if (v && v->kind == JSON_OBJECT)
        json_each(m, v)
            if (str_eq(m->key, name))
                return true;
    return false;
}

static bool is_sent(const struct graph_file *f, struct str name)
{
    for (const char *const *e = f->env; e && *e; e++)
        if (strlen(*e) > name.len && (*e)[name.len] == '=' && str_starts(str_of(*e), name))
            return true;
    return false;
}

/* The file's, then those that were asked for by --env, then the node's. */
static void put_env(struct data_draft *d)
{
    struct both v = find_both(d, "env");
    if ((v.all && v.all->kind != JSON_OBJECT) || (v.own && v.own->kind != JSON_OBJECT)) {
        graph_file_wrong(d->f, v.own && v.own->kind != JSON_OBJECT ? v.own : v.all, d->n,
                         "env must be an object of names to texts");
        return;
    }
    if (!v.all && !v.own && !(d->f->env && *d->f->env))
        return;
    json_member_open(&d->out, "env", '{');
    for (const struct json *m = v.all ? v.all->first : NULL; m; m = m->next)
        if (!is_sent(d->f, m->key) && !has_member(v.own, m->key)) {
            json_key_str(&d->out, m->key);
            json_put(&d->out, m);
        }
    for (const char *const *e = d->f->env; e && *e; e++) {
        size_t len = strcspn(*e, "=");
        if (!has_member(v.own, (struct str){*e, len})) {
            json_key_str(&d->out, (struct str){*e, len});
            json_put_text(&d->out, str_of(*e + len + 1));
        }
    }
    for (const struct json *m = v.own ? v.own->first : NULL; m; m = m->next) {
        json_key_str(&d->out, m->key);
        json_put(&d->out, m);
    }
    json_close(&d->out, '}');
}

static void put_cwd(struct data_draft *d)
{
    struct both v = find_both(d, "cwd");
    const struct json *own = v.own ? v.own : v.all;
    if (own && (own->kind != JSON_TEXT || !own->text.len))
        graph_file_wrong(d->f, own, d->n, "cwd must be a directory");
    else if (own && (own->text.p[0] == '/' || !d->f->cwd))
        json_member_text(&d->out, "cwd", own->text);
    else if (own)
        json_member_text(
            &d->out, "cwd",
            str_of(arena_printf(&d->f->arena, "%s/%.*s", d->f->cwd, STR_ARGS(own->text))));
    else if (d->f->cwd)
        json_member_text(&d->out, "cwd", str_of(d->f->cwd));
}

static void put_command(struct data_draft *d)
{
    const struct json *command = json_get(d->n->spec, "command"),
                      *args = json_get(d->n->spec, "args");
    if (command && command->kind == JSON_LIST && command->first) {
        json_key(&d->out, "command");
        json_put(&d->out, command->first);
        json_member_open(&d->out, "args", '[');
        for (const struct json *v = command->first->next; v; v = v->next)
            json_put(&d->out, v);
        json_close(&d->out, ']');
        return;
    }
    if (command && command->kind != JSON_NULL) {
        json_key(&d->out, "command");
        json_put(&d->out, command);
    }
    if (args && args->kind != JSON_NULL) {
        json_key(&d->out, "args");
        json_put(&d->out, args);
    }
}

/* How the command runs; a group has none. */
static void put_rules(struct data_draft *d)
{
    static const struct key_rule timeout = {"timeout", option_span},
                                 interval = {"interval", option_span},
                                 count = {"retry", option_number};
    struct both v = find_both(d, "timeout"), retry = find_both(d, "retry"),
                limits = find_both(d, "limits"), user = find_both(d, "user");
    const struct json *own = retry.own ? retry.own : retry.all,
                      *every = json_get(d->n->spec, "interval");
    put_env(d);
    put_cwd(d);
    if (v.own || v.all)
        put_number(d, &timeout, v.own ? v.own : v.all);
    if (every && every->kind != JSON_NULL)
        put_number(d, &interval, every);
    if (own && own->kind == JSON_OBJECT)
        put_members(d, "retry", RETRY, own);
    else if (own)
        put_number(d, &count, own);
    if (limits.own || limits.all)
        put_members(d, "limits", LIMITS, limits.own ? limits.own : limits.all);
    if (user.own || user.all) {
        json_key(&d->out, "user");
        json_put(&d->out, user.own ? user.own : user.all);
    }
}

/* What a group names itself is refused by the server where it makes no sense. */
static bool is_group(const struct graph_node *n)
{
    return !strcmp(n->type, "group");
}

void graph_file_make_data(struct graph_file *f, struct graph_node *n)
{
    struct data_draft d = {.f = f, .n = n};
    const struct json *more = json_get(n->spec, "data");
    enum node_type type = (enum node_type)node_type_of(str_of(n->type));
    CLEANUP(arena_release) struct arena scratch = {0};
    uint32_t before = f->error_count;
    struct err_info why;
    json_open(&d.out, '{');
    put_command(&d);
    if (!is_group(n))
        put_rules(&d);
    if (more && more->kind != JSON_OBJECT && more->kind != JSON_NULL)
        graph_file_wrong(f, more, n, "data must be an object");
    else if (more && more->kind == JSON_OBJECT)
        json_each(m, more) {
            json_key_str(&d.out, m->key);
            json_put(&d.out, m);
        }
    json_close(&d.out, '}');
    n->data = arena_take(&f->arena, &d.out);
    if (f->error_count != before)
        return;
    const struct json *data = json_parse(&scratch, n->data, &why);
    if (!data || node_check_data(type, data, &why))
        graph_file_wrong(f, n->spec, n, "%s", why.text);
}
