/*
 * One request for one command. A verb that acquires needs a session: without --session a new one is
 * opened, and it and the token are printed, since they are needed to go on.
 */
#include "cli/batch_verb.h"

#include <stdlib.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

struct values {
    const char *state, *message, *session, *batch, *profile, *who, *for_what, *after;
    int64_t token, priority, limit, start, wait_ms, timeout_ms;
    bool keep, repair, all, remove;
};

/* The rows of the options, by bit, with where they are sent and from where. */
struct row {
    struct option option;
    const char *member;
};

static void fill_rows(struct row rows[VERB_OPTIONS], struct values *v)
{
    const struct row all[VERB_OPTIONS] = {
        {{"state", "STATE", "A state: Pending, Estimating, ...", option_text, &v->state}, "state"},
        {{"message", "TEXT", "Kept with the status.", option_text, &v->message}, "message"},
        {{"token", "N", "The token that acquiring gave.", option_number, &v->token, 0, INT64_MAX},
         "token"},
        {{"session", "ID", "The session that holds the lock.", option_text, &v->session},
         "session"},
        {{"keep", NULL, "Keep the lock for the next change.", option_flag, &v->keep}, "keep"},
        {{"priority", "N", "The priority from now on: 0 (first) to 99.", option_number,
          &v->priority, 0, 99},
         "priority"},
        {{"batch", "BID", "Of this batch.", option_text, &v->batch}, "batch"},
        {{"profile", "NAME", "Of this profile.", option_text, &v->profile}, "profile"},
        {{"limit", "N", "At most so many. Default: 1000.", option_number, &v->limit, 0, 10000},
         "limit"},
        {{"start", "N", "Leave out so many first.", option_number, &v->start, 0, INT64_MAX},
         "start"},
        {{"who", "NAME", "Who asks for it, for others to see.", option_text, &v->who}, "who"},
        {{"repair", NULL, "Repair what can be repaired.", option_flag, &v->repair}, "repair"},
        {{"for", "pending|reporting|updatereporting", "What the batch waits for. Default: pending.",
          option_text, &v->for_what},
         "for"},
        {{"wait", "TIME", "Wait that long for one. Default: not at all.", option_span, &v->wait_ms,
          0, 60 * 1000},
         "wait"},
        {{"timeout", "TIME", "Of the session that is opened without --session. Default: 60s.",
          option_span, &v->timeout_ms, 1000, 3600 * 1000},
         NULL},
        {{"all", NULL, "Also those that are not pending.", option_flag, &v->all}, "all"},
        {{"delete", NULL, "Delete the records that were imported.", option_flag, &v->remove},
         "delete"},
        {{"after", "BID", "Those after this one.", option_text, &v->after}, "after"},
    };

    memcpy(rows, all, sizeof all);
}

/* Whether an option was given: a value that is not what it started as. */
static bool is_given(const struct row *r)
{
    if (r->option.parse == option_text)
        return *(const char **)r->option.target != NULL;
    if (r->option.parse == option_flag)
        return *(bool *)r->option.target;
    return *(int64_t *)r->option.target >= 0;
}

static void put_value(struct buf *b, const struct row *r)
{
    if (r->option.parse == option_text)
        json_put_text(b, str_of(*(const char **)r->option.target));
    else if (r->option.parse == option_flag)
        json_put_bool(b, true);
    else
        json_put_int(b, *(int64_t *)r->option.target);
}

static bool read_stdin(struct buf *b)
{
    size_t got;

    do {
        buf_reserve(b, 65536);
        got = fread(b->p + b->len, 1, 65536, stdin);
        b->len += got;
    } while (got);
    return !ferror(stdin);
}

/* A JSON operand, checked here so that the message names it. */
static int put_json(struct client *c, struct buf *b, const char *operand)
{
    struct buf text = {0};
    const struct json *v;
    struct err_info e;

    if (strcmp(operand, "-") == 0) {
        if (!read_stdin(&text))
            return client_error("cannot read standard input");
    } else {
        buf_put(&text, operand, strlen(operand));
    }
    v = json_parse(client_arena(c),
                   str_of(arena_text(client_arena(c), (struct str){text.p, text.len})), &e);
    buf_release(&text);
    if (!v) {
        client_error("%s", e.text);
        return CMD_USAGE;
    }
    json_put(b, v);
    return CMD_OK;
}

/* "/v1/jobs/{1}/{2}" with the operands quoted, and the query. */
static const char *make_path(struct client *c, const struct verb *v, const struct row *rows,
                             bool query, int argc, char **argv)
{
    struct buf b = {0};
    const char *path;
    char mark = '?';

    for (const char *p = v->path; *p; p++) {
        if (*p == '{' && p[1] - '0' < argc) {
            buf_printf(&b, "%s", client_quote(c, str_of(argv[p[1] - '0'])));
            p += 2;
        } else {
            buf_put(&b, p, 1);
        }
    }
    if (v->fixed) {
        buf_printf(&b, "?%s", v->fixed);
        mark = '&';
    }
    for (int i = 0; i < VERB_OPTIONS && query; i++) {
        if (!(v->takes >> i & 1) || !rows[i].member || !is_given(&rows[i]))
            continue;
        buf_printf(&b, "%c%s=", mark, rows[i].member);
        mark = '&';
        if (rows[i].option.parse == option_text)
            buf_printf(&b, "%s", client_quote(c, str_of(*(const char **)rows[i].option.target)));
        else
            buf_printf(&b, "%lld", (long long)*(int64_t *)rows[i].option.target);
    }
    path = arena_text(client_arena(c), (struct str){b.p, b.len});
    buf_release(&b);
    return path;
}

static int make_body(struct client *c, const struct verb *v, const struct row *rows, int argc,
                     char **argv, struct buf *b)
{
    int status = CMD_OK;

    if (v->json[0] && !v->json[0][0]) /* the operand is the body */
        return put_json(c, b, argv[v->json[1][0] - '0']);
    json_open(b, '{');
    for (int i = 0; i < VERB_OPTIONS; i++) {
        if (!(v->takes >> i & 1) || !rows[i].member || !is_given(&rows[i]))
            continue;
        json_key(b, rows[i].member);
        put_value(b, &rows[i]);
    }
    if (v->text[0] && v->text[1][0] - '0' < argc) {
        json_key(b, v->text[0]);
        json_put_text(b, str_of(argv[v->text[1][0] - '0']));
    }
    if (v->json[0]) {
        json_key(b, v->json[0]);
        status = put_json(c, b, argv[v->json[1][0] - '0']);
    }
    json_close(b, '}');
    return status;
}

static int open_session(struct client *c, struct values *v)
{
    struct client_reply reply;
    const char *body =
        arena_printf(client_arena(c), "{\"timeout\":%lld}", (long long)v->timeout_ms);
    int status = client_call(c, "POST", "/v1/sessions", body, &reply);

    if (!status)
        v->session = arena_text(client_arena(c), json_text_of(reply.json, "session"));
    return status;
}

static void end_session(struct client *c, const char *session)
{
    struct client_reply reply;

    client_try(c, "DELETE", arena_printf(client_arena(c), "/v1/sessions/%s", session), NULL,
               &reply);
}

/* The answer as JSON, with the session that was opened for it. */
static void print_with_session(const struct json *reply, const char *session)
{
    struct buf b = {0};

    json_open(&b, '{');
    json_key(&b, "session");
    json_put_text(&b, str_of(session));
    json_each(member, reply) {
        json_key_str(&b, member->key);
        json_put(&b, member);
    }
    json_close(&b, '}');
    puts(buf_text(&b));
    buf_release(&b);
}

/* What was acquired, with what is needed to go on; CMD_NOTHING when there was nothing. */
static int print_acquired(struct client *c, const struct json *reply, const char *session,
                          bool opened, bool json)
{
    const struct json *thing = reply->first;

    if (!thing || thing->kind != JSON_OBJECT) {
        if (opened)
            end_session(c, session);
        return CMD_NOTHING;
    }
    if (json)
        print_with_session(reply, session);
    else
        printf("%.*s\t%lld\t%s\n", (int)json_text_of(thing, "id").len, json_text_of(thing, "id").p,
               (long long)json_int_of(reply, "token"), session);
    return CMD_OK;
}

/* Such locks go with a session; those of an admin stay. */
static bool is_object_lock(const struct verb *v, int argc, char **argv)
{
    return (v->takes & VERB_TIMEOUT) && argc > 1 &&
           (!strcmp(argv[1], "storage") || !strcmp(argv[1], "inventory"));
}

static int send_request(struct client *c, const struct verb *v, const struct row *rows,
                        struct values *values, bool json, int argc, char **argv)
{
    bool query = !strcmp(v->method, "GET") || !strcmp(v->method, "DELETE"),
         acquires = (v->takes & VERB_TIMEOUT) && !v->print,
         opened = (acquires || is_object_lock(v, argc, argv)) && !values->session;
    struct client_reply reply;
    struct buf body = {0};
    int status = opened ? open_session(c, values) : CMD_OK;

    if (!status && !query)
        status = make_body(c, v, rows, argc, argv, &body);
    if (!status && values->wait_ms > 0)
        client_set_wait(c, values->wait_ms);
    if (!status)
        status = client_call(c, v->method, make_path(c, v, rows, query, argc, argv),
                             query ? NULL : buf_text(&body), &reply);
    buf_release(&body);
    if (status && opened && values->session)
        end_session(c, values->session);
    if (status)
        return status;
    if (acquires)
        return print_acquired(c, reply.json, values->session, opened, json);
    if (json && opened)
        print_with_session(reply.json, values->session);
    else if (json)
        client_print_json(&reply);
    else if (v->print && reply.json)
        status = v->print(c, reply.json);
    if (opened && !json)
        printf("session: %s\n", values->session);
    return status;
}

int verb_run(const struct verb *v, int argc, char **argv)
{
    struct values values = {.token = -1,
                            .priority = -1,
                            .limit = -1,
                            .start = -1,
                            .wait_ms = -1,
                            .timeout_ms = 60 * 1000};
    struct client_options o = {0};
    const struct option common[] = {CLIENT_OPTIONS(o)};
    struct option options[VERB_OPTIONS + COUNT(common)];
    struct row rows[VERB_OPTIONS];
    struct cmd cmd = {.name = v->name,
                      .operands = v->operands,
                      .operands_min = v->min,
                      .operands_max = v->max,
                      .about = v->about,
                      .options = options};
    struct client *c;
    int status;

    fill_rows(rows, &values);
    for (int i = 0; i < VERB_OPTIONS; i++)
        if (v->takes >> i & 1)
            options[cmd.option_count++] = rows[i].option;
    for (size_t i = 0; i < COUNT(common); i++)
        options[cmd.option_count++] = common[i];
    c = client_begin(&cmd, &o, &argc, argv, &status);
    if (!c)
        return status;
    if (v->needs_state && !values.state)
        status = cmd_usage_error(&cmd, "name a --state");
    else
        status = send_request(c, v, rows, &values, o.json, argc, argv);
    client_close(c);
    return status;
}
