/* Builds the request from the operands and options, sends it, and prints the reply. */
#include "cli/verb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum { SESSION_TIMEOUT_MS = 60 * 1000 };

#define WAIT_FOREVER_MS (INT64_C(1) << 40)

/* Sessions. */

int verb_open_session(struct client *c, int64_t timeout_ms, const char **ret_session)
{
    struct client_reply reply;
    const char *body = arena_printf(client_arena(c), "{\"timeout\":%" PRId64 "}", timeout_ms);
    int status = client_call(c, "POST", "/v1/sessions", body, &reply);

    if (!status)
        *ret_session = arena_text(client_arena(c), json_text_of(reply.json, "session"));
    return status;
}

void verb_end_session(struct client *c, const char *session)
{
    struct client_reply reply;

    client_try(c, "DELETE", arena_printf(client_arena(c), "/v1/sessions/%s", session), NULL,
               &reply);
}

/* Options. */

struct request {
    const struct cmd_call *call;
    const struct verb *verb;
    struct client *client;
    const char *opened; /* a session that was opened for it; NULL: none */
};

static const union cmd_value *find_value(const struct cmd_call *call, const char *name)
{
    for (size_t i = 0; call->cmd->options && call->cmd->options[i].name; i++)
        if (!strcmp(call->cmd->options[i].name, name))
            return &call->values[i];
    return NULL;
}

static int64_t number_of(const struct cmd_call *call, const char *name, int64_t otherwise)
{
    const union cmd_value *v = find_value(call, name);

    return v && v->number >= 0 ? v->number : otherwise;
}

static bool is_given(const struct option *o, const union cmd_value *v)
{
    if (o->parse == option_flag)
        return v->flag;
    if (o->parse == option_list_add)
        return v->list.count > 0;
    if (o->parse == option_choice)
        return v->choice >= 0;
    if (o->parse == option_number || o->parse == option_span)
        return v->number >= 0;
    return v->text != NULL;
}

/* The timeout of a session goes into the request that opens it. */
static bool is_sent(const struct request *r, size_t i)
{
    const struct option *o = &r->call->cmd->options[i];

    if (r->verb->flags & VERB_SESSION && !strcmp(o->name, "timeout"))
        return false;
    return is_given(o, &r->call->values[i]);
}

static const char *value_text(struct client *c, const struct option *o, const union cmd_value *v)
{
    const char *word = o->argument;

    if (o->parse == option_flag)
        return "1";
    if (o->parse == option_number || o->parse == option_span)
        return arena_printf(client_arena(c), "%" PRId64, v->number);
    if (o->parse != option_choice)
        return v->text;
    for (int i = 0; i < v->choice; i++)
        word += strcspn(word, "|") + 1;
    return arena_text(client_arena(c), (struct str){word, strcspn(word, "|")});
}

static void put_value(const struct request *r, struct buf *b, const struct option *o,
                      const union cmd_value *v)
{
    if (o->parse == option_list_add) {
        json_open(b, '[');
        for (size_t i = 0; i < v->list.count; i++)
            json_put_text(b, str_of(v->list.items[i]));
        json_close(b, ']');
    } else if (o->parse == option_flag) {
        json_put_bool(b, true);
    } else if (o->parse == option_number || o->parse == option_span) {
        json_put_int(b, v->number);
    } else {
        json_put_text(b, str_of(value_text(r->client, o, v)));
    }
}

static const char *member_name(const struct request *r, const struct option *o)
{
    return o->parse == option_list_add ? arena_printf(client_arena(r->client), "%ss", o->name)
                                       : o->name;
}

/* The path. */

static bool has_query(const struct verb *v)
{
    return !strcmp(v->method, "GET") || !strcmp(v->method, "DELETE");
}

static void put_operands(const struct request *r, struct buf *b, const char *which)
{
    const struct cmd_call *call = r->call;

    int first = *which == '*' ? 0 : *which - '1', end = *which == '*' ? call->count : first + 1;

    for (int i = first; i < end; i++)
        buf_printf(b, "%s%s", i > first ? "," : "",
                   client_quote(r->client, str_of(call->operands[i])));
}

/* "/v1/jobs/{1}/{2}" with the operands quoted, and the query. */
static const char *make_path(const struct request *r)
{
    const struct option *options = r->call->cmd->options;
    CLEANUP(buf_release) struct buf b = {0};
    char mark = strchr(r->verb->path, '?') ? '&' : '?';

    for (const char *p = r->verb->path; *p; p++) {
        if (*p == '{') {
            put_operands(r, &b, p + 1);
            p += 2;
        } else {
            buf_put(&b, p, 1);
        }
    }
    for (size_t i = 0; options && options[i].name && has_query(r->verb); i++)
        if (is_sent(r, i)) {
            const char *text = value_text(r->client, &options[i], &r->call->values[i]);

            buf_printf(&b, "%c%s=%s", mark, options[i].name, client_quote(r->client, str_of(text)));
            mark = '&';
        }
    return arena_text(client_arena(r->client), buf_str(&b));
}

/* The body. */

int verb_read_stdin(struct buf *b)
{
    size_t got;

    do {
        buf_reserve(b, 65536);
        got = fread(b->p + b->len, 1, 65536, stdin);
        b->len += got;
    } while (got);
    return ferror(stdin) ? client_error("standard input: %s", strerror(errno)) : CMD_OK;
}

int verb_read_lines(int (*fn)(void *arg, struct str line), void *arg)
{
    size_t cap = 0;
    char *line = NULL;
    int status = CMD_OK;
    ssize_t len;

    while (!status && (len = getline(&line, &cap, stdin)) >= 0)
        status = fn(arg, (struct str){line, (size_t)len - (len && line[len - 1] == '\n')});
    if (!status && ferror(stdin))
        status = client_error("standard input: %s", strerror(errno));
    free(line);
    return status;
}

/*
 * A JSON operand. It is checked here so that the message is about the operand, not about the body.
 */
static int put_json(const struct request *r, struct buf *b, const char *operand)
{
    struct arena *a = client_arena(r->client);
    struct buf text = {0};
    struct err_info e;
    int status = CMD_OK;

    if (strcmp(operand, "-") == 0)
        status = verb_read_stdin(&text);
    else
        buf_put(&text, operand, strlen(operand));
    if (status)
        return status;
    const struct json *v = json_parse(a, str_of(arena_text(a, buf_str(&text))), &e);
    buf_release(&text);
    if (!v) {
        client_error("%s", e.text);
        return CMD_USAGE;
    }
    json_put(b, v);
    return CMD_OK;
}

/* "state=2", "value:3" or ":2". */
static int put_operand(const struct request *r, struct buf *b, const char *spec)
{
    size_t len = strcspn(spec, "=:");
    const char *operand = r->call->operands[spec[len + 1] - '1'];

    if (len)
        json_key_str(b, (struct str){spec, len});
    if (spec[len] == ':')
        return put_json(r, b, operand);
    json_put_text(b, str_of(operand));
    return CMD_OK;
}

static int make_body(const struct request *r, struct buf *b)
{
    const struct option *options = r->call->cmd->options;
    int status = CMD_OK;

    if (r->verb->body && r->verb->body[0] == ':')
        return put_operand(r, b, r->verb->body);
    json_open(b, '{');
    for (size_t i = 0; options && options[i].name; i++)
        if (is_sent(r, i)) {
            json_key_str(b, str_of(member_name(r, &options[i])));
            put_value(r, b, &options[i], &r->call->values[i]);
        }
    if (r->opened) {
        json_member_text(b, "session", str_of(r->opened));
    }
    if (r->verb->body)
        status = put_operand(r, b, r->verb->body);
    json_close(b, '}');
    return status;
}

/* Sending and printing. */

void verb_print_with_session(const struct json *reply, const char *session)
{
    CLEANUP(buf_release) struct buf b = {0};

    json_open(&b, '{');
    json_key(&b, "session");
    if (session)
        json_put_text(&b, str_of(session));
    else
        json_put_null(&b);
    json_each(member, reply) {
        json_key_str(&b, member->key);
        json_put(&b, member);
    }
    json_close(&b, '}');
    puts(buf_text(&b));
}

/* An item that was acquired, with the token and the session that its owner needs from now on. */
static void print_acquired(const struct json *reply, const char *session)
{
    struct str id = json_text_of(reply->first, "id");

    printf("%.*s\t%" PRId64 "\t%s\n", STR_ARGS(id), json_int_of(reply, "token"), session);
}

static int print_reply(const struct request *r, const struct client_reply *reply)
{
    const struct verb *v = r->verb;
    struct cmd_call call = *r->call;
    const union cmd_value *named = find_value(&call, "session");
    bool acquires = v->flags & VERB_ACQUIRE;
    const struct json *first = reply->json ? reply->json->first : NULL;

    call.session = r->opened ? r->opened : named ? named->text : NULL;
    if (acquires && (!first || first->kind == JSON_NULL)) {
        if (call.client.json)
            verb_print_with_session(reply->json, NULL);
        return CMD_NOTHING;
    }
    if (call.client.json && (r->opened || acquires))
        verb_print_with_session(reply->json, call.session);
    else if (call.client.json)
        client_print_json(reply);
    else if (v->print)
        return v->print(&call, reply->json);
    else if (v->columns)
        verb_print_columns(*v->list ? json_get(reply->json, v->list) : reply->json, v->columns);
    else if (acquires)
        print_acquired(reply->json, call.session);
    return CMD_OK;
}

static int send_request(const struct request *r)
{
    bool bodiless = has_query(r->verb) || strchr(r->verb->path, '?');
    struct client_reply reply;
    struct buf body = {0};
    int status = bodiless ? CMD_OK : make_body(r, &body);

    if (!status)
        status = client_call(r->client, r->verb->method, make_path(r),
                             bodiless ? NULL : buf_text(&body), &reply);
    buf_release(&body);
    return status ? status : print_reply(r, &reply);
}

/* With VERB_EACH, the last operand of the path takes the place of every operand from there on. */
static int send_all(const struct request *all)
{
    const struct cmd_call *call = all->call;
    const char *last = strrchr(all->verb->path, '{');
    int fixed = last ? last[1] - '1' : 0, worst = CMD_OK;

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
    const union cmd_value *named = find_value(r->call, "session");

    if (!(r->verb->flags & VERB_SESSION) || named->text)
        return false;
    return !r->verb->session_for || strstr(r->verb->session_for, r->call->operands[0]);
}

int verb_run(const struct cmd_call *call)
{
    struct request r = {.call = call, .verb = call->cmd->verb};
    int status = CMD_OK;

    for (int i = 0; i < call->count && r.verb->flags & VERB_NODE_IDS; i++)
        if (!option_digits(call->operands[i], 0, INT64_MAX, &(int64_t){0}))
            return cmd_usage_error(call->cmd, "'%s' is not the id of a node", call->operands[i]);
    if (r.verb->requires && !find_value(call, r.verb->requires)->text)
        return cmd_usage_error(call->cmd, "missing option: --%s", r.verb->requires);
    r.client = client_open(&call->client);
    if (!r.client)
        return CMD_FAILURE;
    client_set_wait(r.client, r.verb->flags & VERB_WAITS
                                  ? number_of(call, "timeout", WAIT_FOREVER_MS)
                                  : number_of(call, "wait", 0));
    if (needs_session(&r))
        status =
            verb_open_session(r.client, number_of(call, "timeout", SESSION_TIMEOUT_MS), &r.opened);
    if (!status)
        status = send_all(&r);
    if (status && r.opened)
        verb_end_session(r.client, r.opened);
    client_close(r.client);
    return status;
}
