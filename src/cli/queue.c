/* drover queue create, ls, post, read, rm, and drover workers: queues of a server. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cli/http_client.h"
#include "cli/queue.h"
#include "cli/table.h"

enum { POST_AT_ONCE = 500, POST_LEN_MAX = 512 * 1024, MESSAGE_LEN_MAX = 1000 * 1000 };

/* What most of these do: one request, and what it answers. */
struct ask {
    struct client_options options;
    struct client *client;
    struct client_reply reply;
};

static int ask(struct ask *a, const char *method, const char *path, const char *body)
{
    if (!a->client)
        a->client = client_open(&a->options);
    return a->client ? client_call(a->client, method, path, body, &a->reply) : CMD_FAILURE;
}

static int end(struct ask *a, int status)
{
    if (a->client)
        client_close(a->client);
    return status;
}

static struct str text_in(const struct json *v, const char *name)
{
    struct str text = STR("-");
    struct err_info e;

    json_get_text(v, name, &text, &e);
    return text;
}

/* The members of a list in the answer; an answer without one has none. */
static const struct json *list_in(const struct ask *a, const char *name)
{
    static const struct json none = {.kind = JSON_LIST};
    const struct json *list = json_get(a->reply.json, name);

    return list && list->kind == JSON_LIST ? list : &none;
}

static const char *queue_path(struct ask *a, const char *queue, const char *rest)
{
    if (!a->client)
        a->client = client_open(&a->options);
    return a->client ? arena_printf(client_arena(a->client), "/v1/queues/%s%s",
                                    client_quote(a->client, str_of(queue)), rest)
                     : NULL;
}

/* create */

static int cmd_create(int argc, char **argv)
{
    struct ask a = {0};
    const struct option options[] = {CLIENT_OPTIONS(a.options)};
    const struct cmd cmd = {
        .name = "queue create",
        .about = "Makes a queue and prints its name, 32 hex digits.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    struct str name;
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    status = ask(&a, "POST", "/v1/queues", "{}");
    if (!status && a.options.json) {
        client_print_json(&a.reply);
    } else if (!status) {
        name = text_in(a.reply.json, "queue");
        printf("%.*s\n", (int)name.len, name.p);
    }
    return end(&a, status);
}

/* ls */

static void add_queues(const struct ask *a, struct table *t)
{
    json_each(v, list_in(a, "queues")) {
        struct str last = text_in(v, "last");

        table_text(t, TERM_PLAIN, text_in(v, "queue"));
        table_text(t, TERM_PLAIN, last.len ? last : STR("-"));
        table_text(t, TERM_DIM, text_in(v, "worker"));
    }
}

/* The server gives a long list in pieces. */
static int list_queues(struct ask *a, struct table *t)
{
    const char *path = "/v1/queues";
    struct str next;
    int status;

    do {
        status = ask(a, "GET", path, NULL);
        if (status)
            return status;
        if (a->options.json)
            client_print_json(&a->reply);
        add_queues(a, t);
        next = text_in(a->reply.json, "next");
        path =
            arena_printf(client_arena(a->client), "/v1/queues?after=%.*s", (int)next.len, next.p);
    } while (json_get(a->reply.json, "next"));
    return CMD_OK;
}

static int cmd_list(int argc, char **argv)
{
    static const struct table_column columns[] = {{"QUEUE"}, {"LAST", .right = true}, {"WORKER"}};
    struct ask a = {0};
    const struct option options[] = {CLIENT_OPTIONS(a.options)};
    const struct cmd cmd = {
        .name = "queue ls",
        .about = "Lists the queues, the id up to which each has been handled, and the worker that\n"
                 "owns it.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    struct table t;
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    table_init(&t, columns, 3);
    status = list_queues(&a, &t);
    if (!status && !a.options.json)
        table_print(&t, stdout);
    table_release(&t);
    return end(&a, status);
}

/* post */

struct post {
    struct ask ask;
    const char *queue;
    struct buf body;
    size_t gathered;
};

static int post_gathered(struct post *p)
{
    const char *path = queue_path(&p->ask, p->queue, "/messages");
    int status;

    if (!p->gathered)
        return CMD_OK;
    json_close(&p->body, ']');
    json_close(&p->body, '}');
    status = path ? ask(&p->ask, "POST", path, buf_text(&p->body)) : CMD_FAILURE;
    p->gathered = p->body.len = 0;
    if (status)
        return status;
    if (p->ask.options.json)
        client_print_json(&p->ask.reply);
    else
        json_each(id, list_in(&p->ask, "ids"))
            printf("%" PRId64 "\n", id->number);
    client_forget(p->ask.client);
    return CMD_OK;
}

static int post_one(struct post *p, struct str message)
{
    if (!p->gathered) {
        json_open(&p->body, '{');
        json_key(&p->body, "messages");
        json_open(&p->body, '[');
    }
    json_put_text(&p->body, message);
    p->gathered++;
    return p->gathered == POST_AT_ONCE || p->body.len > POST_LEN_MAX ? post_gathered(p) : CMD_OK;
}

static int post_lines(struct post *p)
{
    size_t cap = 0;
    char *line = NULL;
    ssize_t len;
    int status = CMD_OK;

    while (!status && (len = getline(&line, &cap, stdin)) >= 0) {
        if (len && line[len - 1] == '\n')
            len--;
        if (len > MESSAGE_LEN_MAX)
            status = client_error("a line is longer than %d bytes", MESSAGE_LEN_MAX);
        else
            status = post_one(p, (struct str){line, (size_t)len});
    }
    free(line);
    if (ferror(stdin))
        status = client_error("cannot read standard input");
    return status;
}

static int cmd_post(int argc, char **argv)
{
    struct post p = {0};
    const struct option options[] = {CLIENT_OPTIONS(p.ask.options)};
    const struct cmd cmd = {
        .name = "queue post",
        .operands = "QUEUE [MESSAGE]...",
        .operands_min = 1,
        .operands_max = 1000000,
        .about =
            "Posts messages at the end of a queue and prints their ids. Without any, each line\n"
            "of standard input is one.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    p.queue = argv[1];
    status = CMD_OK;
    for (int i = 2; i < argc && !status; i++)
        status = post_one(&p, str_of(argv[i]));
    if (argc == 2)
        status = post_lines(&p);
    if (!status)
        status = post_gathered(&p);
    buf_release(&p.body);
    return end(&p.ask, status);
}

/* read */

static void print_messages(const struct ask *a)
{
    static const struct table_column columns[] = {{"ID", .right = true}, {"POSTED"}, {"DATA"}};
    struct buf when = {0};
    struct table t;

    table_init(&t, columns, 3);
    json_each(v, list_in(a, "messages")) {
        when.len = 0;
        term_put_moment(&when, clock_wall_ms(), json_int_of(v, "time"));
        table_cell(&t, TERM_PLAIN, "%" PRId64, json_int_of(v, "id"));
        table_text(&t, TERM_DIM, (struct str){when.p, when.len});
        table_text(&t, TERM_PLAIN, text_in(v, "data"));
    }
    table_print(&t, stdout);
    table_release(&t);
    buf_release(&when);
}

static int cmd_read(int argc, char **argv)
{
    struct ask a = {0};
    int64_t after = 0, limit = 100;
    const struct option options[] = {
        {"after", "ID", "Those after this one. Default: from the first.", option_number, &after, 0,
         INT64_MAX},
        {"limit", "N", "At most that many. Default: 100.", option_number, &limit, 1, 1000},
        CLIENT_OPTIONS(a.options),
    };
    const struct cmd cmd = {
        .name = "queue read",
        .operands = "QUEUE",
        .operands_min = 1,
        .operands_max = 1,
        .about = "Shows messages of a queue, handled or not, in their order. The queue qdo_error\n"
                 "has those that were set aside.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    char rest[64];
    const char *path;
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    snprintf(rest, sizeof rest, "/messages?after=%" PRId64 "&limit=%" PRId64, after, limit);
    path = queue_path(&a, argv[1], rest);
    status = path ? ask(&a, "GET", path, NULL) : CMD_FAILURE;
    if (!status && a.options.json)
        client_print_json(&a.reply);
    else if (!status)
        print_messages(&a);
    return end(&a, status);
}

/* rm */

static int cmd_remove(int argc, char **argv)
{
    struct ask a = {0};
    const struct option options[] = {CLIENT_OPTIONS(a.options)};
    const struct cmd cmd = {
        .name = "queue rm",
        .operands = "QUEUE...",
        .operands_min = 1,
        .operands_max = 100000,
        .about = "Removes queues and their messages.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    int status, worst = CMD_OK;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    for (int i = 1; i < argc; i++) {
        const char *path = queue_path(&a, argv[i], "");

        status = path ? ask(&a, "DELETE", path, NULL) : CMD_FAILURE;
        worst = status > worst ? status : worst;
    }
    return end(&a, worst);
}

/* workers */

static void print_workers(const struct ask *a)
{
    static const struct table_column columns[] = {{"WORKER"}, {"COUNT", .right = true}, {"QUEUES"}};
    struct buf names = {0};
    struct table t;

    table_init(&t, columns, 3);
    json_each(v, list_in(a, "workers")) {
        const struct json *queues = json_get(v, "queues");

        names.len = 0;
        for (const struct json *q = queues ? queues->first : NULL; q; q = q->next)
            buf_printf(&names, "%s%.*s", names.len ? " " : "", (int)q->text.len, q->text.p);
        table_text(&t, TERM_PLAIN, text_in(v, "worker"));
        table_cell(&t, TERM_PLAIN, "%u", queues ? queues->count : 0);
        table_text(&t, TERM_DIM, (struct str){names.p, names.len});
    }
    table_print(&t, stdout);
    table_release(&t);
    buf_release(&names);
}

int cmd_workers(int argc, char **argv)
{
    struct ask a = {0};
    const struct option options[] = {CLIENT_OPTIONS(a.options)};
    const struct cmd cmd = {
        .name = "workers",
        .about = "Lists the workers that share the queues, and which each handles now.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    status = ask(&a, "GET", "/v1/workers", NULL);
    if (!status && a.options.json)
        client_print_json(&a.reply);
    else if (!status)
        print_workers(&a);
    return end(&a, status);
}

int cmd_queue(int argc, char **argv)
{
    static const struct cmd_sub subs[] = {
        {"create", "make a queue", cmd_create},
        {"ls", "list the queues", cmd_list},
        {"post", "post messages to a queue", cmd_post},
        {"read", "show messages of a queue", cmd_read},
        {"rm", "remove queues", cmd_remove},
        {"work", "run a command for each message, beside other workers", cmd_queue_work},
    };
    static const struct cmd_group group = {
        .name = "queue",
        .about = "Queues whose messages are handled in order, by workers that share the queues.",
        .subs = subs,
        .sub_count = sizeof subs / sizeof *subs,
    };

    return cmd_group_run(&group, argc, argv);
}
