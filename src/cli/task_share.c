/* The client id in its file, and reading the task store: drover ls, groups, group, task. */
#include "cli/task_share.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/random.h"

enum { LIMIT_DEFAULT = 1000 };

int64_t task_clientid;

static void id_path(struct buf *b)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && state[0] == '/')
        buf_printf(b, "%s/drover-client-id", state);
    else
        buf_printf(b, "%s/.local/state/drover-client-id", home && home[0] == '/' ? home : "");
}

/* 0, or errno; EINVAL when the file holds something else. */
static int read_id(const char *path, int64_t *ret_id)
{
    char line[32];
    TRY(client_first_line(path, line, sizeof line));
    return option_digits(line, 1, INT64_MAX, ret_id) ? 0 : EINVAL;
}

/*
 * Draws an id and writes it to a temporary file, which is then linked to its name: of two processes
 * that do so at once, one wins and the other reads its id. 0, or errno.
 */
static int make_id(char *path)
{
    CLEANUP(buf_release) struct buf temporary = {0};
    uint64_t number;
    int errnum = 0;
    fs_make_parents(path);
    random_fill(&number, sizeof number);
    buf_printf(&temporary, "%s.%ld", path, (long)getpid());
    int fd = open(buf_text(&temporary), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    if (dprintf(fd, "%" PRIu64 "\n", (number >> (64 - 53)) | 1) < 0 ||
        (link(temporary.p, path) && errno != EEXIST))
        errnum = errno;
    close(fd);
    unlink(temporary.p);
    return errnum;
}

static int read_or_make_id(void)
{
    CLEANUP(buf_release) struct buf path = {0};
    id_path(&path);
    buf_text(&path);
    int errnum = read_id(path.p, &task_clientid);
    if (errnum == ENOENT) {
        errnum = make_id(path.p);
        errnum = errnum ? errnum : read_id(path.p, &task_clientid);
    }
    if (!errnum)
        return CMD_OK;
    return client_error("no client id in %s: %s; give one with --client-id", path.p,
                        errnum == EINVAL ? "not a number" : strerror(errnum));
}

int task_find_clientid(void)
{
    const char *given = getenv("DROVER_CLIENT_ID");
    if (!task_clientid && !(given && *given))
        TRY(read_or_make_id());
    if (!task_clientid && !option_digits(given, 1, INT64_MAX, &task_clientid))
        return client_misuse("$DROVER_CLIENT_ID: '%s' is not a number from 1 to %" PRId64, given,
                             INT64_MAX);
    return CMD_OK;
}

/* Tasks. */

const struct verb_column TASK_COLUMNS[] = {
    {{"ID", true}, "id", VERB_NUMBER},
    {{"GROUP"}, "group"},
    {{"STATE"}, "timespec", VERB_OWNED},
    {{"SINCE/UNTIL"}, "timespec", VERB_TIME, .colour = TERM_DIM},
    {{"OWNER", true}, "ownerid", VERB_NUMBER, .colour = TERM_DIM},
    {{"DATA"}, "data"},
    {{0}},
};

int task_put_ids(const struct cmd_call *call, struct buf *b)
{
    int64_t id;
    for (int i = 0; i < call->count; i++) {
        if (!option_digits(call->operands[i], 1, INT64_MAX, &id))
            return cmd_usage_error(call->cmd, "'%s' is not the id of a task", call->operands[i]);
        buf_printf(b, "%s%" PRId64, i ? "," : "", id);
    }
    return CMD_OK;
}

int task_read(struct client *c, const struct cmd_call *call, struct client_reply *ret_reply)
{
    CLEANUP(buf_release) struct buf ids = {0};
    TRY(task_put_ids(call, &ids));
    TRY(client_call(c, ret_reply, NULL, "GET /tasks/%s", buf_text(&ids)));
    const struct json *v = ret_reply->json;
    if (!v || v->kind != JSON_LIST || v->count != (size_t)call->count)
        return client_error("%s did not reply with a list", transport_server(c->transport));
    return CMD_OK;
}

const struct cmd cmd_groups = VERB_INIT("groups", "list the groups that have tasks", NULL,
                                        "Lists the groups that have tasks, one per line.", NULL,
                                        "GET", "/groups", .print = verb_print_words);

const struct cmd cmd_group = VERB_INIT(
    "group", "list the tasks of one group", "GROUP",
    "Lists the tasks of a group that can be claimed.",
    CMD_OPTIONS({"limit", "N", "At most N. Default: 0, all.", option_number, NULL, 0, INT32_MAX},
                {"owned", NULL, "Also tasks that are owned.", option_flag}),
    "GET", "/group/{1}", .list = "", .columns = TASK_COLUMNS);

/* ls */

static int64_t limit = LIMIT_DEFAULT;
static bool available;

/* Appends up to *left tasks of a group, and counts them down; below 0: there are more. */
static int list_group(struct client *c, struct str group, struct buf *tasks, int64_t *left)
{
    struct client_reply reply;
    TRY(client_call(c, &reply, NULL, "GET /group/%s?owned=%d&limit=%" PRId64,
                    client_quote(c, group), !available, *left + 1));
    json_each(task, json_list(reply.json))
        if (--*left >= 0)
            json_put_raw(tasks, task->raw);
    return CMD_OK;
}

/* Whether name is a GROUP, or one of those in which its tasks wait for another attempt. */
static bool is_listed(struct str name, const struct cmd_call *call)
{
    for (int i = 0; i < call->count; i++) {
        struct str group = str_of(call->operands[i]),
                   tail = {name.p + group.len, name.len - group.len};
        if (str_starts(name, group) && (!tail.len || str_starts(tail, STR("/retry/"))))
            return true;
    }
    return !call->count;
}

static int run_ls(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    CLEANUP(buf_release) struct buf tasks = {0};
    struct client_reply groups;
    struct err_info e;
    int64_t left = limit ? limit : INT64_MAX - 1;
    TRY(client_open(&c, &call->client));
    TRY(client_call(&c, &groups, NULL, "GET /groups"));
    json_open(&tasks, '[');
    json_each(name, json_list(groups.json))
        if (left >= 0 && name->kind == JSON_TEXT && is_listed(name->text, call))
            TRY(list_group(&c, name->text, &tasks, &left));
    json_close(&tasks, ']');
    if (call->client.json)
        term_line(stdout, buf_str(&tasks), ESCAPE_JSON);
    else
        verb_print_columns(json_parse(&c.arena, buf_str(&tasks), &e), TASK_COLUMNS);
    if (left < 0)
        client_error("there are more than %" PRId64 ": use --limit", limit);
    return CMD_OK;
}

const struct cmd cmd_ls = CMD_INIT(
    "ls", "list tasks", "[GROUP...]",
    "Lists the tasks of the groups, owned or not, including those that wait for another\n"
    "attempt in GROUP/retry/N; without GROUP, all tasks.",
    CMD_OPTIONS(
        {"limit", "N", "At most N; 0: all. Default: 1000.", option_number, &limit, 0, INT32_MAX},
        {"available", NULL, "Only tasks that nobody owns.", option_flag, &available}),
    CMD_JSON, run_ls);

/* task */

static bool data_only;

static int run_task(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    struct client_reply reply;
    int status = CMD_OK, i = 0;
    TRY(client_open(&c, &call->client));
    TRY(task_read(&c, call, &reply));
    if (call->client.json)
        client_print_json(&reply);
    else if (!data_only)
        verb_print_columns(reply.json, TASK_COLUMNS);
    json_each(task, reply.json) {
        struct str data = json_text_of(task, "data");
        if (data_only && !call->client.json)
            term_write(stdout, data, ESCAPE_LINES);
        if (task->kind == JSON_NULL)
            status = client_error("no task %s", call->operands[i]);
        i++;
    }
    return status;
}

const struct cmd cmd_task =
    CMD_INIT("task", "show tasks by their ids", "ID...",
             "Shows tasks by their ids. Exit status 1: one of them does not exist.",
             CMD_OPTIONS({"data", NULL, "Print only the data; unchanged, unless on a terminal.",
                          option_flag, &data_only}),
             CMD_JSON, run_task);
