/* drover world claim, complete, release and fail. */
#include <stdio.h>

#include "cli/table.h"
#include "cli/world_share.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

void world_put_claim(struct buf *b, const struct option_list *types, struct str session,
                     int64_t wait_ms)
{
    json_open(b, '{');
    json_key(b, "types");
    json_open(b, '[');
    for (size_t i = 0; i < types->count; i++)
        json_put_text(b, str_of(types->items[i]));
    json_close(b, ']');
    json_key(b, "session");
    json_put_text(b, session);
    if (wait_ms) {
        json_key(b, "wait");
        json_put_int(b, wait_ms);
    }
    json_close(b, '}');
}

struct claim_options {
    struct client_options client;
    struct option_list types;
    const char *session;
    int64_t wait_ms, timeout_ms;
};

static void print_claim(const struct claim_options *o, const struct client_reply *reply,
                        struct str session)
{
    static const struct table_column columns[] = {{"NODE"}, {"TYPE"}, {"SESSION"}, {"DATA"}};
    const struct json *task = json_get(reply->json, "task"), *data = json_get(task, "data");
    struct buf out = {0};
    struct table t;

    if (o->client.json) { /* with the session, which may be new */
        json_open(&out, '{');
        json_key(&out, "session");
        json_put_text(&out, session);
        json_each(member, reply->json) {
            json_key_str(&out, member->key);
            json_put_raw(&out, member->raw);
        }
        json_close(&out, '}');
        puts(buf_text(&out));
        buf_release(&out);
        return;
    }
    table_init(&t, columns, COUNT(columns));
    table_text(&t, TERM_PLAIN, json_text_of(reply->json, "node"));
    table_text(&t, TERM_PLAIN, json_text_of(task, "type"));
    table_text(&t, TERM_PLAIN, session);
    table_text(&t, TERM_PLAIN, data ? data->raw : STR("null"));
    table_print(&t, stdout);
    table_release(&t);
}

int world_open_session(struct client *c, int64_t timeout_ms, struct str *ret_session)
{
    struct client_reply reply;
    const char *body = arena_printf(client_arena(c), "{\"timeout\":%lld}", (long long)timeout_ms);
    int status = client_call(c, "POST", "/v1/sessions", body, &reply);

    if (!status)
        *ret_session = json_text_of(reply.json, "session");
    return status;
}

static int claim_send(struct client *c, const struct claim_options *o, const char *world)
{
    struct client_reply reply;
    struct str session = o->session ? str_of(o->session) : STR("");
    struct buf body = {0};
    bool opened = !o->session;
    int status = opened ? world_open_session(c, o->timeout_ms, &session) : CMD_OK;
    bool claimed = false;

    if (status)
        return status;
    world_put_claim(&body, &o->types, session, o->wait_ms);
    client_set_wait(c, o->wait_ms);
    status = client_call(c, "POST", world_url(c, world, "/claim"), buf_text(&body), &reply);
    buf_release(&body);
    claimed = !status && json_text_of(reply.json, "node").len;
    if (claimed)
        print_claim(o, &reply, session);
    else if (opened)
        client_call(c, "DELETE",
                    arena_printf(client_arena(c), "/v1/sessions/%.*s", (int)session.len, session.p),
                    NULL, &reply);
    return status ? status : claimed ? CMD_OK : CMD_NOTHING;
}

int cmd_world_claim(int argc, char **argv)
{
    struct claim_options o = {.timeout_ms = 60 * 1000};
    const struct option options[] = {
        {"type", "TYPE", "Tasks of this type; may be given more than once.", option_list_add,
         &o.types},
        {"session", "ID",
         "Claim for this session. Default: a new one, which is printed, and which ends\n"
         "when it is not heard of for --timeout.",
         option_text, &o.session},
        {"timeout", "TIME", "Of the new session. Default: 60s.", option_span, &o.timeout_ms, 1000,
         3600 * 1000},
        {"wait", "TIME", "Wait that long for a task to appear. Default: not at all.", option_span,
         &o.wait_ms, 0, 3600 * 1000},
        CLIENT_OPTIONS(o.client),
    };
    const struct cmd cmd = {
        .name = "world claim",
        .operands = "WORLD",
        .operands_min = 1,
        .operands_max = 1,
        .about =
            "Takes the oldest pending task of a type that has no pending ancestor. It is worked\n"
            "on until it is completed, released or failed, or until the session ends. Exit\n"
            "status 3: there is none.",
        .options = options,
        .option_count = COUNT(options),
    };
    int status;
    struct client *c = client_begin(&cmd, &o.client, &argc, argv, &status);

    if (!c)
        return status;
    status = o.types.count ? claim_send(c, &o, argv[1]) : cmd_usage_error(&cmd, "name a --type");
    client_close(c);
    return status;
}

/* complete, release, fail */

static void put_end(struct buf *b, const char *node, struct str session, const char *error)
{
    json_open(b, '{');
    json_key(b, "node");
    json_put_text(b, str_of(node));
    json_key(b, "session");
    json_put_text(b, session);
    if (error) {
        json_key(b, "error");
        json_put_text(b, str_of(error));
    }
    json_close(b, '}');
}

int world_end_claim(struct client *c, const char *world, const char *how, const char *node,
                    struct str session, const char *error, struct client_reply *ret_reply)
{
    struct buf body = {0};
    int status;

    put_end(&body, node, session, error);
    status = client_call(c, "POST", world_url(c, world, how), buf_text(&body), ret_reply);
    buf_release(&body);
    return status;
}

/* how: "/complete"; error: where the text goes that a failure takes, NULL: takes none. */
static int end(const struct cmd *like, const char *how, bool fails, int argc, char **argv)
{
    struct client_options o = {0};
    const char *session = NULL, *error = NULL;
    const struct option options[] = {
        {"session", "ID", "The session that claimed it. Must be given.", option_text, &session},
        CLIENT_OPTIONS(o),
        {"error", "TEXT", "What went wrong.", option_text, &error},
    };
    struct cmd cmd = *like;
    struct client_reply reply;
    struct client *c;
    int status;

    cmd.operands = "WORLD NODE";
    cmd.operands_min = cmd.operands_max = 2;
    cmd.options = options;
    cmd.option_count = COUNT(options) - !fails;
    c = client_begin(&cmd, &o, &argc, argv, &status);
    if (!c)
        return status;
    if (!session)
        status = cmd_usage_error(&cmd, "name the --session");
    else
        status = world_end_claim(c, argv[1], how, argv[2], str_of(session), error, &reply);
    if (!status && o.json)
        client_print_json(&reply);
    client_close(c);
    return status;
}

int cmd_world_complete(int argc, char **argv)
{
    const struct cmd cmd = {
        .name = "world complete",
        .about =
            "Says that a task that was claimed is done. If it was queued again meanwhile, it is\n"
            "pending again."};

    return end(&cmd, "/complete", false, argc, argv);
}

int cmd_world_release(int argc, char **argv)
{
    const struct cmd cmd = {.name = "world release",
                            .about = "Gives a task back that was claimed."};

    return end(&cmd, "/release", false, argc, argv);
}

int cmd_world_fail(int argc, char **argv)
{
    const struct cmd cmd = {.name = "world fail",
                            .about =
                                "Says that a task that was claimed has failed. It stays pending,\n"
                                "behind the others, with a count of its failures."};

    return end(&cmd, "/fail", true, argc, argv);
}
