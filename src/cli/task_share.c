/* The client id: named, in its file, or of the terminal session. What requests and tables share. */
#include "cli/task_share.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/fs.h"
#include "base/random.h"
#include "client/task_client.h"

enum { STAT_STARTED = 22 }; /* the field of /proc/PID/stat */

int64_t task_clientid;

/* False: there is no home. */
static bool id_path(struct buf *b)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && state[0] == '/')
        buf_printf(b, "%s/drover-client-id", state);
    else if (home && home[0] == '/')
        buf_printf(b, "%s/.local/state/drover-client-id", home);
    return b->len > 0;
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

/*
 * The same id for all commands of a terminal session, and of a script with a session of its own,
 * without a file: a hash of what names the session until the next boot. Its number alone does not,
 * because numbers of processes are used again, and containers count for themselves.
 */
static int64_t session_id(void)
{
    CLEANUP(buf_release) struct buf name = {0};
    char line[1024] = "", path[64];
    pid_t session = getsid(0);
    buf_printf(&name, "%ld %ld", (long)session, (long)getuid());
    if (!client_first_line("/proc/sys/kernel/random/boot_id", line, sizeof line))
        buf_printf(&name, " %s", line);
    ssize_t len = readlink("/proc/self/ns/pid", line, sizeof line);
    buf_put(&name, line, len > 0 ? (size_t)len : 0);
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)session);
    const char *at = client_first_line(path, line, sizeof line) ? NULL : strrchr(line, ')');
    for (int field = 2; at && field < STAT_STARTED; field++)
        at = strchr(at + 1, ' ');
    if (at) /* when the leader of the session was started */
        buf_put(&name, at, 1 + strcspn(at + 1, " "));
    return (int64_t)(XXH3_64bits(name.p, name.len) >> (64 - 53)) | 1;
}

static int read_or_make_id(void)
{
    CLEANUP(buf_release) struct buf path = {0};
    int errnum = ENOENT;
    if (id_path(&path)) {
        buf_text(&path);
        errnum = read_id(path.p, &task_clientid);
        if (errnum == ENOENT && !make_id(path.p))
            errnum = read_id(path.p, &task_clientid);
    }
    if (errnum == EINVAL)
        return client_error("no client id in %s: not a number; give one with --client-id", path.p);
    if (errnum)
        task_clientid = session_id();
    return CMD_OK;
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

/* Requests. */

/* With a requestid a request can be repeated when its reply is lost. */
void task_put_requestid(struct client *c, struct buf *b)
{
    char requestid[TASK_CLIENT_REQUESTID_LEN + 1];
    c->repeatable = true;
    random_hex(requestid, TASK_CLIENT_REQUESTID_LEN);
    json_member_text(b, "requestid", str_of(requestid));
}

void task_open_body(struct client *c, struct buf *b)
{
    json_open(b, '{');
    json_member_int(b, "clientid", task_clientid);
    task_put_requestid(c, b);
}

/* Ids. */

int task_check_ids(const struct cmd_call *call)
{
    int64_t id;
    for (int i = 0; i < call->count; i++) {
        const char *text = call->operands[i];
        if (!option_digits(text + (strncmp(text, "first:", 6) ? 0 : 6), 1, INT64_MAX, &id))
            return cmd_usage_error(call->cmd, "'%s' is not the id of a task", text);
    }
    return CMD_OK;
}

void task_put_id(struct buf *b, const char *id)
{
    if (id[0] == 'f')
        json_put_text(b, str_of(id));
    else
        json_put_int(b, strtoll(id, NULL, 10));
}

void task_put_ids(const struct cmd_call *call, struct buf *b, const char *member)
{
    json_member_open(b, member, '[');
    for (int i = 0; i < call->count; i++)
        task_put_id(b, call->operands[i]);
    json_close(b, ']');
}

/* Replies. */

const struct verb_column TASK_COLUMNS[] = {
    {{"ID", true}, "id", VERB_NUMBER}, {{"GROUP"}, "group"},
    {{"STATE"}, "state", VERB_STATE},  {{"SINCE/UNTIL"}, "timespec", VERB_TIME, .colour = TERM_DIM},
    {{"DATA"}, NULL, VERB_DATA},       {{0}},
};

const struct verb_column TASK_WIDE[] = {
    {{"ID", true}, "id", VERB_NUMBER},
    {{"FIRST", true}, "first", VERB_NUMBER, .colour = TERM_DIM},
    {{"GROUP"}, "group"},
    {{"STATE"}, "state", VERB_STATE},
    {{"SINCE/UNTIL"}, "timespec", VERB_TIME, .colour = TERM_DIM},
    {{"PRIORITY", true}, "priority", VERB_NUMBER},
    {{"FAILED", true}, "attempts", VERB_FAILURES},
    {{"OWNER", true}, "ownerid", VERB_NUMBER, .colour = TERM_DIM},
    {{"KEY"}, "key", .otherwise = "-"},
    {{"ERROR"}, "error", .otherwise = "-"},
    {{"DATA"}, NULL, VERB_DATA},
    {{0}},
};

int task_print_ids(const struct json *reply)
{
    json_each(task, json_list(json_get(reply, "tasks")))
        printf("%" PRId64 "\n", json_int_of(task, "id"));
    return CMD_OK;
}
