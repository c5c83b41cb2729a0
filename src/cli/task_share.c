/* The client id in its file; reading tasks. */
#include "cli/task_share.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"

int64_t task_clientid;

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

    make_parents(path);
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

int task_open(const struct cmd_call *call, struct client *ret_client)
{
    const char *given = getenv("DROVER_CLIENT_ID");

    if (!task_clientid && !(given && *given))
        TRY(read_or_make_id());
    if (!task_clientid && !option_digits(given, 1, INT64_MAX, &task_clientid)) {
        client_error("$DROVER_CLIENT_ID: '%s' is not a number from 1 to %" PRId64, given,
                     INT64_MAX);
        return CMD_USAGE;
    }
    return client_open(ret_client, &call->client);
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
