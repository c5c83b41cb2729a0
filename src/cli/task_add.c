/*
 * drover add - tasks from the command line, all in one transaction, or from standard input, a task a
 * line, in transactions of moderate size, so that a million lines need no million requests.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cli/http_client.h"
#include "cli/task_share.h"

enum { BATCH_MAX = 500, BATCH_LEN_MAX = 512 * 1024, DATA_LEN_MAX = 1024 * 1024, PROGRESS_MS = 500 };

struct add {
    struct task_options task;
    int64_t delay_ms;
    bool whole;

    struct client *client;
    const char *group;
    struct buf body;
    size_t gathered; /* in body */
    size_t sent;
    int64_t said_ms;
};

static void gather(struct add *a, struct str data)
{
    struct buf *b = &a->body;

    if (!a->gathered) {
        b->len = 0;
        task_open_body(b, &a->task);
        json_key(b, "adds");
        json_open(b, '[');
    }
    json_open(b, '{');
    json_key(b, "group");
    json_put_text(b, str_of(a->group));
    json_key(b, "data");
    json_put_text(b, data);
    if (a->delay_ms) {
        json_key(b, "timespec");
        json_put_int(b, -a->delay_ms);
    }
    json_close(b, '}');
    a->gathered++;
}

static void print_added(const struct add *a, const struct client_reply *reply)
{
    const struct json *tasks = json_get(reply->json, "tasks");
    struct err_info e;
    int64_t id;

    if (a->task.client.json) {
        client_print_json(reply);
        return;
    }
    if (tasks && tasks->kind == JSON_LIST)
        json_each(task, tasks)
            if (json_get_int(task, "id", &id, &e) > 0)
                printf("%lld\n", (long long)id);
}

/* While it takes long and somebody looks on. */
static void say_progress(struct add *a)
{
    if (!isatty(STDERR_FILENO) || isatty(STDOUT_FILENO) ||
        clock_boot_ms() - a->said_ms < PROGRESS_MS)
        return;
    a->said_ms = clock_boot_ms();
    fprintf(stderr, "\r%zu added", a->sent);
    fflush(stderr);
}

static void end_progress(const struct add *a)
{
    if (a->said_ms)
        fprintf(stderr, "\r%zu added\n", a->sent);
}

static int send_gathered(struct add *a)
{
    struct client_reply reply;
    int status;

    if (!a->gathered)
        return CMD_OK;
    json_close(&a->body, ']');
    json_close(&a->body, '}');
    status = task_update(a->client, &a->body, &reply);
    if (!status) {
        print_added(a, &reply);
        a->sent += a->gathered;
        a->gathered = 0;
        say_progress(a);
    }
    client_forget(a->client);
    return status;
}

static int add_one(struct add *a, struct str data)
{
    if (!json_is_text(data))
        return client_error("the data of task %zu is not UTF-8 text", a->sent + a->gathered + 1);
    gather(a, data);
    return a->gathered >= BATCH_MAX || a->body.len >= BATCH_LEN_MAX ? send_gathered(a) : CMD_OK;
}

static int add_lines(struct add *a)
{
    size_t cap = 0;
    char *line = NULL;
    int status = CMD_OK;
    ssize_t len;

    while (!status && (len = getline(&line, &cap, stdin)) >= 0) {
        if (len && line[len - 1] == '\n')
            len--;
        status = add_one(a, (struct str){line, (size_t)len});
    }
    if (!status && ferror(stdin))
        status = client_error("standard input: %s", strerror(errno));
    free(line);
    return status;
}

static int add_whole(struct add *a)
{
    struct buf data = {0};
    char piece[16384];
    size_t n;
    int status;

    while ((n = fread(piece, 1, sizeof piece, stdin)) > 0 && data.len <= DATA_LEN_MAX)
        buf_put(&data, piece, n);
    if (data.len > DATA_LEN_MAX)
        status = client_error("standard input is longer than %d bytes", DATA_LEN_MAX);
    else
        status = add_one(a, (struct str){data.p, data.len});
    buf_release(&data);
    return status;
}

static int add_all(struct add *a, int argc, char **argv)
{
    int status = CMD_OK;

    a->client = client_open(&a->task.client);
    if (!a->client)
        return CMD_FAILURE;
    if (argc == 2)
        status = add_one(a, STR(""));
    else if (!strcmp(argv[2], "-"))
        status = a->whole ? add_whole(a) : add_lines(a);
    for (int i = 2; i < argc && strcmp(argv[2], "-") && !status; i++)
        status = add_one(a, str_of(argv[i]));
    if (!status)
        status = send_gathered(a);
    end_progress(a);
    if (status && a->sent)
        client_error("%zu tasks were added before that", a->sent);
    client_close(a->client);
    buf_release(&a->body);
    return status;
}

int cmd_add(int argc, char **argv)
{
    struct add a = {0};
    const struct option options[] = {
        {"delay", "TIME", "Nobody can claim them before that. Default: at once.", option_span,
         &a.delay_ms, 0, INT64_C(86400) * 1000 * 36500},
        {"whole", NULL, "With '-': all of standard input is the data of one task.", option_flag,
         &a.whole},
        TASK_CLIENT_ID_OPTION(a.task),
        CLIENT_OPTIONS(a.task.client),
    };
    const struct cmd cmd = {
        .name = "add",
        .operands = "GROUP [DATA...|-]",
        .operands_min = 1,
        .operands_max = 1 + BATCH_MAX,
        .about =
            "Adds a task to the group for each DATA, all or none; without DATA one task with no\n"
            "data. With '-' the data is read from standard input, a task a line. Prints the\n"
            "ids, one on a line.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    a.group = argv[1];
    if (a.whole && (argc != 3 || strcmp(argv[2], "-") != 0))
        return cmd_usage_error(&cmd, "--whole goes with '-'");
    if (argc > 3 && !strcmp(argv[2], "-"))
        return cmd_usage_error(&cmd, "unexpected argument '%s' after '-'", argv[3]);
    if (!*a.group || !json_is_text(str_of(a.group)))
        return cmd_usage_error(&cmd, "GROUP must be UTF-8 text and not empty");
    status = task_find_clientid(&a.task);
    return status ? status : add_all(&a, argc, argv);
}
