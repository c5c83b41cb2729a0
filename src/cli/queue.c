/*
 * drover queue and drover workers: a table of their commands, and those that are several requests.
 */
#include "cli/verb.h"

enum { POST_AT_ONCE = 500, POST_LEN_MAX = 512 * 1024, MESSAGE_LEN_MAX = 1000 * 1000 };

/* What the server says of a queue, if anything. */
static void print_warning(struct str queue, const struct json *reply)
{
    struct str warning = json_text_of(reply, "warning");
    if (warning.len)
        client_error("queue %.*s: %.*s", STR_ARGS(queue), STR_ARGS(warning));
}

/* ls: the server returns a long list in pages, which are shown as one. */

static int run_ls(const struct cmd_call *call)
{
    static const struct verb_column columns[] = {
        {{"QUEUE"}, "queue"},
        {{"LAST", true}, "last", .otherwise = "-"},
        {{"WORKER"}, "worker", .otherwise = "-", .colour = TERM_DIM},
        {{0}},
    };
    CLEANUP(client_close) struct client c = {0};
    CLEANUP(buf_release) struct buf list = {0};
    const char *after = "", *mark = "";
    struct client_reply reply;
    struct err_info e;

    TRY(client_open(&c, &call->client));
    json_open(&list, '{');
    json_member_open(&list, "queues", '[');
    do {
        TRY(client_call(&c, &reply, NULL, "GET /v1/queues%s%s", mark, after));
        json_each(queue, json_list(json_get(reply.json, "queues")))
            json_put_raw(&list, queue->raw);
        mark = "?after=";
        after = client_quote(&c, json_text_of(reply.json, "next"));
    } while (json_get(reply.json, "next"));
    json_close(&list, ']');
    json_close(&list, '}');
    const struct json *queues = json_get(json_parse(&c.arena, buf_str(&list), &e), "queues");
    if (call->client.json)
        term_line(stdout, buf_str(&list), ESCAPE_JSON);
    else
        verb_print_columns(queues, columns);
    json_each(queue, json_list(queues))
        print_warning(json_text_of(queue, "queue"), queue);
    return CMD_OK;
}

/* post */

struct post {
    const struct cmd_call *call;
    struct client client;
    struct buf body;
    size_t count; /* of messages in body */
};

static int send_messages(struct post *p)
{
    struct client_reply reply;
    if (!p->count)
        return CMD_OK;
    json_close(&p->body, ']');
    json_close(&p->body, '}');
    TRY(client_call(&p->client, &reply, buf_text(&p->body), "POST /v1/queues/%s/messages",
                    client_quote(&p->client, str_of(p->call->operands[0]))));
    p->count = p->body.len = 0;
    verb_print(p->call, &reply, verb_print_word);
    print_warning(str_of(p->call->operands[0]), reply.json);
    arena_reset(&p->client.arena);
    return CMD_OK;
}

static int add_message(struct post *p, struct str message)
{
    if (!json_is_text(message))
        return client_error("a message is not UTF-8 text");
    if (!p->count) {
        json_open(&p->body, '{');
        json_member_open(&p->body, "messages", '[');
    }
    json_put_text(&p->body, message);
    p->count++;
    return p->count == POST_AT_ONCE || p->body.len > POST_LEN_MAX ? send_messages(p) : CMD_OK;
}

static int add_line(void *arg, struct str line)
{
    if (line.len > MESSAGE_LEN_MAX)
        return client_error("a line is longer than %d bytes", MESSAGE_LEN_MAX);
    return add_message(arg, line);
}

static int add_all(struct post *p)
{
    for (int i = 1; i < p->call->count; i++)
        TRY(add_message(p, str_of(p->call->operands[i])));
    if (p->call->count == 1)
        TRY(verb_read_lines(NULL, add_line, p));
    return send_messages(p);
}

static int run_post(const struct cmd_call *call)
{
    struct post p = {.call = call};
    TRY(client_open(&p.client, &call->client));
    int status = add_all(&p);
    buf_release(&p.body);
    client_close(&p.client);
    return status;
}

/* The tables. */

static const struct verb_column MESSAGES[] = {
    {{"ID", true}, "id", VERB_NUMBER},
    {{"POSTED"}, "time", VERB_TIME, .colour = TERM_DIM},
    {{"DATA"}, "data", .otherwise = "-"},
    {{0}},
};

static const struct cmd *const COMMANDS[] = {
    VERB_CMD("queue create", "create a queue", "[NAME]",
             "Creates a queue and prints its name, by default 32 random hex digits.", NULL, "POST",
             "/v1/queues", .body = "queue=1", .print = verb_print_word),
    CMD("queue ls", "list the queues", NULL,
        "Lists the queues, with the id of the last message that was handled and the\n"
        "worker that owns the queue. Warns of a queue whose last id is beyond its newest\n"
        "message, because workers skip what is posted to it.",
        NULL, CMD_JSON, run_ls),
    CMD("queue post", "post messages to a queue", "QUEUE [MESSAGE]...",
        "Posts messages at the end of a queue and prints their ids. Without MESSAGE, each\n"
        "line of standard input is one.",
        NULL, CMD_JSON, run_post),
    VERB_CMD("queue read", "show messages of a queue", "QUEUE",
             "Shows messages of a queue in order, handled or not. The queue qdo_error has those\n"
             "that failed.",
             CMD_OPTIONS({"after", "ID", "Start after this message. Default: at the first.",
                          option_number, NULL, 0, INT64_MAX},
                         {"limit", "N", "At most N; 0: all. Default: 100.", option_number, NULL, 0,
                          INT32_MAX}),
             "GET", "/v1/queues/{1}/messages", .list = "messages", .page = {"after", 1000, 100},
             .columns = MESSAGES),
    VERB_CMD("queue rm", "remove queues", "QUEUE...", "Removes queues and their messages.", NULL,
             "DELETE", "/v1/queues/{1}", .flags = VERB_EACH),
    &cmd_queue_work,
    NULL,
};

const struct cmd cmd_queue = CMD_GROUP(
    "queue", "queues, shared by workers",
    "Queues whose messages are handled in order, by workers that share the queues.", COMMANDS);

const struct cmd cmd_workers = VERB_INIT(
    "workers", "list the workers that share the queues", NULL,
    "Lists the workers that share the queues, and the queues that each one owns.", NULL, "GET",
    "/v1/workers", .list = "workers",
    .columns = VERB_COLUMNS({{"WORKER"}, "worker"}, {{"COUNT", true}, "queues", VERB_COUNT},
                            {{"QUEUES"}, "queues", VERB_LIST, .colour = TERM_DIM}));
