/* The client id in its file, and tasks in a table. */
#include "cli/task_share.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/random.h"
#include "cli/verb.h"
#include "client/task_client.h"

int64_t task_clientid;

/* The client id. */

static void id_path(struct buf *b)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (state && state[0] == '/')
        buf_printf(b, "%s/drover-client-id", state);
    else
        buf_printf(b, "%s/.local/state/drover-client-id", home && home[0] == '/' ? home : "");
}

static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

/* 0, or errno; EINVAL when the file holds something else. */
static int read_id(const char *path, int64_t *ret_id)
{
    FILE *in = fopen(path, "re");
    char line[32];

    if (!in)
        return errno;
    bool got = fgets(line, sizeof line, in);
    fclose(in);
    if (!got)
        return EINVAL;
    line[strcspn(line, "\n")] = '\0';
    return option_digits(line, 1, INT64_MAX, ret_id) ? 0 : EINVAL;
}

/*
 * Draws an id and writes it to a temporary file, which is then linked to its name: of two processes
 * that do so at once, one wins and the other reads its id. 0, or errno.
 */
static int make_id(char *path)
{
    CLEANUP(buf_release) struct buf temporary = {0};
    int errnum = 0, fd;
    uint64_t number;

    make_parents(path);
    random_fill(&number, sizeof number);
    buf_printf(&temporary, "%s.%ld", path, (long)getpid());
    fd = open(buf_text(&temporary), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        errnum = errno;
    } else {
        if (dprintf(fd, "%" PRIu64 "\n", (number >> (64 - 53)) | 1) < 0 ||
            (link(temporary.p, path) && errno != EEXIST))
            errnum = errno;
        close(fd);
        unlink(temporary.p);
    }
    return errnum;
}

static int read_or_make_id(void)
{
    struct buf path = {0};

    id_path(&path);
    buf_text(&path);
    int errnum = read_id(path.p, &task_clientid);
    if (errnum == ENOENT) {
        errnum = make_id(path.p);
        errnum = errnum ? errnum : read_id(path.p, &task_clientid);
    }
    if (errnum)
        client_error("no client id in %s: %s; give one with --client-id", path.p,
                     errnum == EINVAL ? "not a number" : strerror(errnum));
    buf_release(&path);
    return errnum ? CMD_FAILURE : CMD_OK;
}

static int find_clientid(void)
{
    const char *given = getenv("DROVER_CLIENT_ID");

    if (task_clientid)
        return CMD_OK;
    if (!given || !*given)
        return read_or_make_id();
    if (option_digits(given, 1, INT64_MAX, &task_clientid))
        return CMD_OK;
    client_error("$DROVER_CLIENT_ID: '%s' is not a number from 1 to %" PRId64, given, INT64_MAX);
    return CMD_USAGE;
}

int task_open(const struct cmd_call *call, struct client **ret_client)
{
    TRY(find_clientid());
    *ret_client = client_open(&call->client);
    return *ret_client ? CMD_OK : CMD_FAILURE;
}

/* Requests. */

const char *task_path(struct client *c, const struct cmd_call *call)
{
    struct buf b = {0};
    int64_t id;

    for (int i = 0; i < call->count; i++) {
        if (!option_digits(call->operands[i], 1, INT64_MAX, &id)) {
            cmd_usage_error(call->cmd, "'%s' is not the id of a task", call->operands[i]);
            buf_release(&b);
            return NULL;
        }
        buf_printf(&b, "%s%" PRId64, i ? "," : "/tasks/", id);
    }
    const char *path = arena_text(client_arena(c), buf_str(&b));
    buf_release(&b);
    return path;
}

int task_read(struct client *c, const struct cmd_call *call, struct client_reply *ret_reply)
{
    const char *path = task_path(c, call);
    int status = path ? client_call(c, "GET", path, NULL, ret_reply) : CMD_USAGE;
    const struct json *v = status ? NULL : ret_reply->json;

    if (!status && (!v || v->kind != JSON_LIST || v->count != (size_t)call->count))
        status = client_error("%s did not reply with a list", client_server(c));
    return status;
}

void task_put_clientid(struct buf *b)
{
    json_member_int(b, "clientid", task_clientid);
}

void task_put_requestid(struct buf *b)
{
    char requestid[TASK_CLIENT_REQUESTID_LEN + 1];

    task_client_requestid(requestid);
    json_member_text(b, "requestid", str_of(requestid));
}

void task_open_body(struct buf *b)
{
    json_open(b, '{');
    task_put_clientid(b);
    task_put_requestid(b);
}

int task_update(struct client *c, struct buf *body, struct client_reply *ret_reply)
{
    client_set_repeatable(c);
    return client_call(c, "POST", "/update", buf_text(body), ret_reply);
}

/* The table. */

static void add_row(struct table *t, const struct json *task, int64_t now_ms)
{
    int64_t id = 0, timespec = 0, ownerid = 0;
    struct str group = {0}, data = {0};
    char when[HUMAN_SIZE];
    struct err_info e;

    json_get_int(task, "id", &id, &e);
    json_get_text(task, "group", &group, &e);
    json_get_text(task, "data", &data, &e);
    json_get_int(task, "timespec", &timespec, &e);
    json_get_int(task, "ownerid", &ownerid, &e);
    bool owned = timespec > now_ms;
    table_cell(t, TERM_PLAIN, "%" PRId64, id);
    table_text(t, TERM_PLAIN, group);
    table_cell(t, owned ? TERM_YELLOW : TERM_GREEN, "%s", owned ? "owned" : "available");
    table_cell(t, TERM_DIM, "%s", human_time(when, timespec));
    table_cell(t, TERM_DIM, "%" PRId64, ownerid);
    table_text(t, TERM_PLAIN, data);
}

void task_print(const struct json *tasks)
{
    static const struct table_column columns[] = {
        {"ID", true}, {"GROUP"}, {"STATE"}, {"SINCE/UNTIL"}, {"OWNER", true}, {"DATA"},
    };
    int64_t now_ms = clock_wall_ms();
    struct table t;

    if (!tasks || tasks->kind != JSON_LIST)
        return;
    table_init(&t, columns, sizeof columns / sizeof *columns);
    json_each(task, tasks)
        if (task->kind == JSON_OBJECT)
            add_row(&t, task, now_ms);
    table_print(&t, stdout);
    table_release(&t);
}

void task_print_reply(const struct cmd_call *call, const struct client_reply *reply)
{
    if (call->client.json)
        client_print_json(reply);
    else
        task_print(json_get(reply->json, "tasks"));
}

void task_print_ids(const struct json *tasks)
{
    if (tasks && tasks->kind == JSON_LIST)
        json_each(task, tasks)
            printf("%" PRId64 "\n", json_int_of(task, "id"));
}
