/*
 * Builds the request from the operands and options, sends it, and prints the reply: as JSON, or as
 * people read it: tables by columns (verb_table.c), single words, objects.
 */
#include "cli/verb.h"

#include <errno.h>
#include <inttypes.h>

enum { SESSION_TIMEOUT_MS = 60 * 1000 };

#define WAIT_FOREVER_MS (INT64_C(1) << 40)

const char *verb_session;

struct request {
    const struct cmd_call *call;
    const struct verb *verb;
    struct client *client;
    const char *opened; /* a session that was opened for it; NULL: none */

    /* A page of a list. */
    int64_t limit;    /* items of this page */
    const char *next; /* where it begins, quoted; NULL: it is the first */
};

/* Options. */

const struct cmd_value *verb_value(const struct cmd_call *call, const char *name)
{
    for (size_t i = 0; call->cmd->options && call->cmd->options[i].name; i++)
        if (!strcmp(call->cmd->options[i].name, name))
            return &call->values[i];
    return NULL;
}

static int64_t number_of(const struct cmd_call *call, const char *name, int64_t otherwise)
{
    const struct cmd_value *v = verb_value(call, name);
    return v && v->given ? v->number : otherwise;
}

static bool is_wide(const struct cmd_call *call)
{
    const struct cmd_value *v = verb_value(call, "wide");
    return v && v->given;
}

/* The timeout of a session goes into the request that opens it; pages have values of their own. */
static bool is_sent(const struct request *r, size_t i)
{
    const char *name = r->call->cmd->options[i].name, *page = r->verb->page.by;
    bool of_session = r->verb->flags & VERB_SESSION && !strcmp(name, "timeout"),
         of_page = page && (!strcmp(name, "limit") || (r->next && !strcmp(name, page)));
    bool is_local = r->call->cmd->options[i].flags & VERB_LOCAL;
    return r->call->values[i].given && !is_local && !of_session && !of_page;
}

static bool is_number(const struct option *o)
{
    return o->parse == option_number || o->parse == option_span;
}

static const char *value_text(struct client *c, const struct option *o, const struct cmd_value *v)
{
    if (o->parse == option_flag)
        return "1";
    if (is_number(o))
        return arena_printf(&c->arena, "%" PRId64, v->number);
    return o->parse == option_choice ? v->given : v->text;
}

/* JSON cannot carry other bytes. */
static int check_text(const char *text, const char *what)
{
    return json_is_text(str_of(text)) ? CMD_OK : client_misuse("%s is not UTF-8 text", what);
}

static int put_member(const struct request *r, struct buf *b, const struct option *o,
                      const struct cmd_value *v)
{
    const char *what = arena_printf(&r->client->arena, "--%s", o->name);
    if (o->parse == option_list_add) {
        for (size_t i = 0; i < v->list.count; i++)
            TRY(check_text(v->list.items[i], what));
        json_member_texts(b, arena_printf(&r->client->arena, "%ss", o->name), v->list.items,
                          v->list.count);
    } else if (o->parse == option_flag) {
        json_member_bool(b, o->name, true);
    } else if (is_number(o)) {
        json_member_int(b, o->name, v->number);
    } else {
        const char *text = value_text(r->client, o, v);
        TRY(check_text(text, what));
        json_member_text(b, o->name, str_of(text));
    }
    return CMD_OK;
}

/* The path. */

static bool has_query(const struct verb *v)
{
    return !strcmp(v->method, "GET") || !strcmp(v->method, "DELETE");
}

static void put_operands(const struct request *r, struct buf *b, const char *which)
{
    int first = *which == '*' ? 0 : *which - '1', end = *which == '*' ? r->call->count : first + 1;
    for (int i = first; i < end; i++)
        buf_printf(b, "%s%s", i > first ? "," : "",
                   client_quote(r->client, str_of(r->call->operands[i])));
}

/* "/v1/jobs/{1}/{2}" with the operands quoted, and the query. */
static void put_path(const struct request *r, struct buf *b)
{
    const struct option *options = r->call->cmd->options;
    char mark = strchr(r->verb->path, '?') ? '&' : '?';
    for (const char *p = r->verb->path; *p; p++) {
        if (*p == '{') {
            put_operands(r, b, p + 1);
            p += 2;
        } else {
            buf_put(b, p, 1);
        }
    }
    for (size_t i = 0; options && options[i].name && has_query(r->verb); i++)
        if (is_sent(r, i)) {
            const char *text = value_text(r->client, &options[i], &r->call->values[i]);
            buf_printf(b, "%c%s=%s", mark, options[i].name, client_quote(r->client, str_of(text)));
            mark = '&';
        }
    if (has_query(r->verb) && r->verb->body && r->call->count) {
        size_t len = strcspn(r->verb->body, "=");
        buf_printf(b, "%c%.*s=", mark, (int)len, r->verb->body);
        put_operands(r, b, r->verb->body + len + 1);
        mark = '&';
    }
    if (r->verb->page.by)
        buf_printf(b, "%climit=%" PRId64, mark, r->limit);
    if (r->next)
        buf_printf(b, "&%s=%s", r->verb->page.by, r->next);
}

/* The body. */

int verb_read_lines(const char *file, int (*fn)(void *arg, struct str line), void *arg)
{
    CLEANUP(mem_free) char *line = NULL;
    FILE *in = file ? fopen(file, "re") : stdin;
    size_t cap = 0;
    int status = CMD_OK;
    for (ssize_t len; in && !status && (len = getline(&line, &cap, in)) >= 0;)
        status = fn(arg, (struct str){line, (size_t)len - (len && line[len - 1] == '\n')});
    if (!in || (!status && ferror(in)))
        status = client_error("%s: %s", file ? file : "standard input", strerror(errno));
    if (in && file)
        fclose(in);
    return status;
}

/* It is checked here so that the message is about the operand, not about the body. */
int verb_read_json(struct client *c, const char *operand, const struct json **ret_json,
                   const char *what)
{
    CLEANUP(buf_release) struct buf text = {0};
    struct err_info e;
    if (strcmp(operand, "-") == 0)
        TRY(client_read_file("-", SIZE_MAX, &text));
    else
        buf_put(&text, operand, strlen(operand));
    *ret_json = json_parse(&c->arena, arena_take(&c->arena, &text), &e);
    return *ret_json ? CMD_OK : client_misuse("%s%s", what, e.text);
}

/* "state=2", "value:3" or ":2". Nothing, if the operand is optional and not given. */
static int put_operand(const struct request *r, struct buf *b, const char *spec)
{
    size_t len = strcspn(spec, "=:");
    int at = spec[len + 1] - '1';
    if (at >= r->call->count)
        return CMD_OK;
    const char *operand = r->call->operands[at];
    const struct json text = {.kind = JSON_TEXT, .text = str_of(operand)}, *v = &text;
    if (len)
        json_key_str(b, (struct str){spec, len});
    if (spec[len] == ':')
        TRY(verb_read_json(r->client, operand, &v, ""));
    else
        TRY(check_text(operand, "an argument"));
    json_put(b, v);
    return CMD_OK;
}

static int put_body(const struct request *r, struct buf *b)
{
    const struct option *options = r->call->cmd->options;
    if (r->verb->put)
        return r->verb->put(r->call, r->client, b);
    if (r->verb->body && r->verb->body[0] == ':')
        return put_operand(r, b, r->verb->body);
    json_open(b, '{');
    for (size_t i = 0; options && options[i].name; i++)
        if (is_sent(r, i))
            TRY(put_member(r, b, &options[i], &r->call->values[i]));
    if (r->opened)
        json_member_text(b, "session", str_of(r->opened));
    if (r->verb->body)
        TRY(put_operand(r, b, r->verb->body));
    json_close(b, '}');
    return CMD_OK;
}

/* Printing. */

static int print_item(const struct json *v)
{
    CLEANUP(buf_release) struct buf b = {0};
    if (v->kind == JSON_TEXT) {
        term_put_safe(&b, v->text, SIZE_MAX);
        puts(buf_text(&b));
    } else if (v->kind == JSON_INT) {
        printf("%" PRId64 "\n", v->number);
    }
    json_each(item, json_list(v))
        print_item(item);
    return CMD_OK;
}

int verb_print_word(const struct json *reply)
{
    return reply && reply->first ? print_item(reply->first) : CMD_OK;
}

int verb_print_words(const struct json *reply)
{
    return reply ? print_item(reply) : CMD_OK;
}

int verb_print_state(const struct json *reply)
{
    return print_item(&(struct json){.kind = JSON_TEXT, .text = json_text_of(reply, "state")});
}

int verb_print_members(const struct json *reply)
{
    const struct json *v = reply ? reply->first : NULL;
    if (!v || v->kind != JSON_OBJECT)
        return CMD_OK;
    json_each(member, v) {
        CLEANUP(buf_release) struct buf b = {0};
        term_put_safe(&b, member->key, SIZE_MAX);
        buf_printf(&b, ": ");
        if (member->kind == JSON_TEXT)
            term_put_safe(&b, member->text, SIZE_MAX);
        else
            escape_put(&b, member->raw, ESCAPE_JSON);
        puts(buf_text(&b));
    }
    return CMD_OK;
}

/* Sending and printing. */

/* An object with a session before the members of the reply, as JSON. */
static void print_with_session(const struct json *reply, const char *session)
{
    CLEANUP(buf_release) struct buf b = {0};
    json_open(&b, '{');
    json_member_text(&b, "session", session ? str_of(session) : (struct str){0});
    json_each(member, reply) {
        json_key_str(&b, member->key);
        json_put(&b, member);
    }
    json_close(&b, '}');
    term_line(stdout, buf_str(&b), ESCAPE_JSON);
}

/* An item that was acquired, with the token and the session that its owner needs from now on. */
static void print_acquired(const struct json *reply, const char *session)
{
    CLEANUP(buf_release) struct buf b = {0};
    term_put_safe(&b, json_text_of(reply->first, "id"), SIZE_MAX);
    buf_printf(&b, "\t%" PRId64 "\t", json_int_of(reply, "token"));
    term_put_safe(&b, str_of(session), SIZE_MAX);
    puts(buf_text(&b));
}

int verb_print(const struct cmd_call *call, const struct client_reply *reply, verb_print_fn *print)
{
    if (call->client.json)
        client_print_json(reply);
    else if (print)
        return print(reply->json);
    return CMD_OK;
}

static int print_reply(const struct request *r, const struct client_reply *reply)
{
    const struct verb *v = r->verb;
    const struct cmd_value *named = verb_value(r->call, "session");
    bool acquires = v->flags & VERB_ACQUIRE, json = r->call->client.json;
    const struct json *first = reply->json ? reply->json->first : NULL;
    verb_session = r->opened ? r->opened : named ? named->text : NULL;
    if (acquires && (!first || first->kind == JSON_NULL)) {
        if (json)
            print_with_session(reply->json, NULL);
        return CMD_NOTHING;
    }
    if (json && (r->opened || acquires))
        print_with_session(reply->json, verb_session);
    else if (json || v->print)
        TRY(verb_print(r->call, reply, v->print));
    else if (v->columns)
        verb_print_columns(*v->list ? json_get(reply->json, v->list) : reply->json,
                           is_wide(r->call) ? v->wide : v->columns);
    else if (acquires)
        print_acquired(reply->json, verb_session);
    return v->status ? v->status(reply->json) : CMD_OK;
}

static int send_request(const struct request *r)
{
    bool bodiless = has_query(r->verb) || strchr(r->verb->path, '?');
    CLEANUP(buf_release) struct buf path = {0}, body = {0};
    struct client_reply reply;
    if (!bodiless)
        TRY(put_body(r, &body));
    put_path(r, &path);
    TRY(client_call(r->client, &reply, bodiless ? NULL : buf_text(&body), "%s %s", r->verb->method,
                    buf_text(&path)));
    return print_reply(r, &reply);
}

/*
 * A list in pages, as one reply: {"LIST": [...], "next": ...}, where `next` is that of the last
 * page that was read.
 */

/* Adds a page to the list. *ret_next: what the reply says, or NULL. */
static int read_page(struct request *r, struct buf *list, const struct json **ret_next)
{
    CLEANUP(buf_release) struct buf path = {0};
    struct client_reply reply;
    put_path(r, &path);
    TRY(client_call(r->client, &reply, NULL, "%s %s", r->verb->method, buf_text(&path)));
    const struct json *items = json_get(reply.json, r->verb->list);
    json_each(item, json_list(items))
        json_put_raw(list, item->raw);
    *ret_next = json_get(reply.json, "next");
    r->limit = items && items->kind == JSON_LIST ? items->count : 0;
    return CMD_OK;
}

static bool is_more(const struct json *next)
{
    return next && next->kind != JSON_NULL;
}

static const char *next_text(struct client *c, const struct json *next)
{
    return arena_text(&c->arena, next->kind == JSON_TEXT ? next->text : next->raw);
}

static int send_pages(const struct request *first)
{
    struct request r = *first;
    const struct verb_page *page = &r.verb->page;
    int64_t left = number_of(r.call, "limit", page->limit);
    CLEANUP(buf_release) struct buf list = {0};
    const struct json *next;
    struct err_info e;
    left = left ? left : INT64_MAX;
    json_open(&list, '{');
    json_member_open(&list, r.verb->list, '[');
    do {
        r.limit = left < page->len ? left : page->len;
        TRY(read_page(&r, &list, &next));
        left -= r.limit;
        if (is_more(next))
            r.next = client_quote(r.client, str_of(next_text(r.client, next)));
    } while (is_more(next) && left > 0 && r.limit > 0);
    json_close(&list, ']');
    if (next)
        json_member_raw(&list, "next", next->raw);
    json_close(&list, '}');
    struct client_reply reply = {.status = 200, .body = arena_take(&r.client->arena, &list)};
    reply.json = json_parse(&r.client->arena, reply.body, &e);
    int status = print_reply(&r, &reply);
    if (is_more(next) && !r.call->client.json)
        client_error("there are more: use --limit, or --%s '%s'", page->by,
                     next_text(r.client, next));
    return status;
}

/*
 * With VERB_EACH, the operand of the body, or the last of the path, takes the place of every
 * operand from there on.
 */
static int send_all(const struct request *all)
{
    const struct cmd_call *call = all->call;
    const char *body = all->verb->body, *last = strrchr(all->verb->path, '{');
    if (body)
        last = strpbrk(body, "=:");
    int fixed = last ? last[1] - '1' : 0, worst = CMD_OK;
    if (all->verb->page.by)
        return send_pages(all);
    if (!(all->verb->flags & VERB_EACH))
        return send_request(all);
    for (int i = fixed; i < call->count; i++) {
        char *operands[8];
        struct cmd_call one = *call;
        struct request r = *all;
        memcpy(operands, call->operands, (size_t)fixed * sizeof *operands);
        operands[fixed] = call->operands[i];
        one.operands = operands;
        one.count = fixed + 1;
        r.call = &one;
        int status = send_request(&r);
        worst = status > worst ? status : worst;
    }
    return worst;
}

/* Some kinds of locks belong to a session, others do not. */
static bool needs_session(const struct request *r)
{
    const struct cmd_value *named = verb_value(r->call, "session");
    if (!(r->verb->flags & VERB_SESSION) || named->text)
        return false;
    return !r->verb->session_for || strstr(r->verb->session_for, r->call->operands[0]);
}

static int open_session(struct request *r)
{
    struct client_reply reply;
    const char *body = arena_printf(&r->client->arena, "{\"timeout\":%" PRId64 "}",
                                    number_of(r->call, "timeout", SESSION_TIMEOUT_MS));
    TRY(client_call(r->client, &reply, body, "POST /v1/sessions"));
    r->opened = arena_text(&r->client->arena, json_text_of(reply.json, "session"));
    return CMD_OK;
}

int verb_run(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    struct request r = {.call = call, .verb = call->cmd->verb, .client = &c};
    struct client_reply reply;
    if (r.verb->requires && !verb_value(call, r.verb->requires)->given)
        return cmd_usage_error(call->cmd, "missing option: --%s", r.verb->requires);
    TRY(client_open(&c, &call->client));
    c.wait_ms = r.verb->flags & VERB_WAITS ? number_of(call, "timeout", WAIT_FOREVER_MS)
                                           : number_of(call, "wait", 0);
    if (needs_session(&r))
        TRY(open_session(&r));
    int status = send_all(&r);
    if (status && r.opened)
        client_try(&c, &reply, NULL, "DELETE /v1/sessions/%s", r.opened);
    return status;
}
