/*
 * drover backup - saves the state of a running server in a file.
 * drover restore - makes a data directory from such a file.
 *
 * A backup is written to a new file beside the one that was named, and gets its name when it is
 * complete, checked and on disk. A signal removes that file; after SIGKILL it is left, under a name
 * that says what it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fs.h"
#include "base/human.h"
#include "cli/backup.h"
#include "cli/cmd.h"
#include "cli/http_client.h"
#include "keeper/local/backup.h"
#include "task/task_tree.h"

enum { IDLE_MS = 600 * 1000 }; /* the server takes a snapshot before it sends anything */

static bool force, check_only;
static const char *data_dir;

static bool is_dash(const char *name)
{
    return !strcmp(name, "-");
}

/* Where a backup goes. */
struct backup_output {
    const char *name; /* as given */
    char *part;       /* the file being written; NULL: standard output */
    int fd;
    struct archive_reader reader;
};

static int file_write(struct backup_output *f, struct str bytes, struct err_info *ret_error)
{
    while (bytes.len) {
        ssize_t n = write(f->fd, bytes.p, bytes.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set_errno(ret_error, errno, "cannot write %s",
                                 f->part ? f->part : "standard output");
        bytes = (struct str){bytes.p + n, bytes.len - (size_t)n};
    }
    return 0;
}

/* Checked as it comes: a wrong byte ends the transfer. */
static int take(void *arg, struct str bytes, struct err_info *ret_error)
{
    struct backup_output *f = arg;
    TRY(archive_feed(&f->reader, bytes, ret_error));
    return file_write(f, bytes, ret_error);
}

static int refuse_existing(const struct cmd *c, const char *name)
{
    struct stat st;
    if (lstat(name, &st) < 0)
        return CMD_OK;
    if (!S_ISREG(st.st_mode))
        return cmd_usage_error(c, "%s is not a regular file", name);
    return force ? CMD_OK : cmd_usage_error(c, "%s exists: --force replaces it", name);
}

static int file_open(struct backup_output *f, const char *name)
{
    CLEANUP(buf_release) struct buf path = {0};
    f->name = name;
    f->fd = STDOUT_FILENO;
    if (is_dash(name))
        return CMD_OK;
    buf_printf(&path, "%s.part-XXXXXX", name);
    char *part = mem_dup(path.p, path.len);
    f->fd = mkostemp(part, O_CLOEXEC); /* for its owner only */
    if (f->fd < 0) {
        free(part);
        return client_error("cannot make a file beside %s: %s", name, strerror(errno));
    }
    f->part = part;
    return CMD_OK;
}

static void file_close(struct backup_output *f)
{
    if (!f->part)
        return;
    if (f->fd >= 0)
        close(f->fd);
    unlink(f->part); /* it is gone if it got its name */
    free(f->part);
}

/* Without --force a file of that name that somebody made meanwhile stays, if the system can. */
static int rename_to(const char *from, const char *to)
{
    if (force || renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return force ? rename(from, to) : 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (access(to, F_OK) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

static int sync_parent(const char *name)
{
    CLEANUP(mem_free) char *parent = mem_dup(name, strlen(name));
    char *slash = strrchr(parent, '/');
    if (slash)
        *(slash == parent ? slash + 1 : slash) = '\0';
    return fs_sync_dir(&fs_system, slash ? parent : ".");
}

static int file_finish(struct backup_output *f)
{
    if (!f->part)
        return CMD_OK;
    if (fsync(f->fd) < 0 || close(f->fd) < 0) {
        f->fd = -1;
        return client_error("cannot write %s: %s", f->part, strerror(errno));
    }
    f->fd = -1;
    if (rename_to(f->part, f->name) < 0 || sync_parent(f->name) < 0)
        return client_error("cannot write %s: %s", f->name, strerror(errno));
    return CMD_OK;
}

static void describe(FILE *to, const char *name, const struct archive_reader *r)
{
    char when[HUMAN_SIZE], size[HUMAN_SIZE];
    fprintf(to, "%s: %s, everything up to transaction %" PRId64 ", %s\n", name,
            human_size(size, r->len), r->info.last_zxid, human_time(when, r->info.time_ms));
}

static int fetch(struct client *c, struct backup_output *f)
{
    struct transport_sink sink = {take, f};
    struct transport_answer answer;
    struct client_reply reply = {0};
    struct err_info e;
    int err = transport_fetch(c->transport, "/v1/backup", IDLE_MS, &sink, &answer, &e);
    if (child_signal())
        return CMD_FAILURE;
    if (err)
        return client_error("%s", e.text);
    reply.status = answer.status;
    reply.body = arena_take(&c->arena, &answer.body);
    if (reply.status != 200) {
        reply.json = json_parse(&c->arena, reply.body, &e);
        return client_refused(c, &reply);
    }
    return archive_finish(&f->reader, &e) ? client_error("%s", e.text) : CMD_OK;
}

int backup_save(const struct client_options *o, const char *name, struct archive_reader *ret_reader)
{
    CLEANUP(client_close) struct client c = {0};
    CLEANUP(file_close) struct backup_output f = {0};
    TRY(client_open(&c, o));
    transport_set_stop(c.transport, child_stop_fd());
    TRY(file_open(&f, name));
    TRY(fetch(&c, &f));
    TRY(file_finish(&f));
    *ret_reader = f.reader;
    return CMD_OK;
}

static int run_backup(const struct cmd_call *call)
{
    const char *name = call->operands[0];
    struct archive_reader r;
    if (is_dash(name) && isatty(STDOUT_FILENO))
        return cmd_usage_error(call->cmd, "a backup is not for a terminal: redirect the output");
    if (!is_dash(name))
        TRY(refuse_existing(call->cmd, name));
    child_catch_signals();
    TRY(backup_save(&call->client, name, &r));
    if (is_dash(name))
        describe(stderr, "standard output", &r);
    else
        describe(stdout, name, &r);
    return CMD_OK;
}

const struct cmd cmd_backup = CMD_INIT(
    "backup", "save everything that a running server stores", "FILE",
    "Saves the state of the server in FILE, or writes it to standard output if that is\n"
    "\"-\". The server goes on meanwhile; the backup has everything that was answered before\n"
    "it began. FILE appears when it is complete, checked and on disk.",
    CMD_OPTIONS({"force", NULL, "Replace FILE if it exists.", option_flag, &force}), CMD_REMOTE,
    run_backup);

/* restore */

ssize_t backup_input_read(void *arg, char *to, size_t size, struct err_info *ret_error)
{
    struct backup_input *s = arg;
    ssize_t n = 0;
    do {
        if (child_signal())
            return err_set(ret_error, DROVER_CLOSED, "stopped by a signal");
        n = read(s->fd, to, size);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? err_set_errno(ret_error, errno, "cannot read %s", s->name) : n;
}

static int run_check(struct backup_input *s)
{
    struct archive_reader r;
    struct err_info e;
    if (backup_check(backup_input_read, s, &r, &e))
        return client_error("%s: %s", s->name, e.text);
    describe(stdout, s->name, &r);
    return CMD_OK;
}

/* "/drover/tasks/<bucket>/<slot>" */
static void count_task(void *arg, struct str path)
{
    static const struct str below = STR(TASK_NODE_HEAD "/");
    uint64_t *tasks = arg;
    if (str_starts(path, below) && memchr(path.p + below.len, '/', path.len - below.len) != NULL)
        ++*tasks;
}

static int restore(struct backup_input *s)
{
    uint64_t tasks = 0;
    struct backup_restore_options o = {.dir = data_dir,
                                       .source = backup_input_read,
                                       .source_arg = s,
                                       .node = count_task,
                                       .node_arg = &tasks};
    struct backup_restored r;
    struct err_info e;
    char nodes[HUMAN_SIZE], count[HUMAN_SIZE], when[HUMAN_SIZE];
    int err = backup_restore(&o, &r, &e);
    if (err)
        return client_error("%s: %s", s->name, e.text);
    printf("restored %s, of them %s, into %s: the state of %s\n",
           human_count(nodes, r.nodes, "node"), human_count(count, tasks, "task"), data_dir,
           human_time(when, r.info.time_ms));
    return CMD_OK;
}

static int run_restore(const struct cmd_call *call)
{
    struct backup_input s = {.name = call->operands[0], .fd = STDIN_FILENO};
    if (!data_dir && !check_only)
        return cmd_usage_error(call->cmd, "--data is missing: the directory to make");
    if (data_dir && check_only)
        return cmd_usage_error(call->cmd, "--check writes nothing: it does not go with --data");
    child_catch_signals();
    if (is_dash(s.name))
        s.name = "standard input";
    else if ((s.fd = open(s.name, O_RDONLY | O_CLOEXEC)) < 0)
        return client_error("cannot read %s: %s", s.name, strerror(errno));
    int status = check_only ? run_check(&s) : restore(&s);
    if (s.fd != STDIN_FILENO)
        close(s.fd);
    return status;
}

const struct cmd cmd_restore = CMD_INIT(
    "restore", "make a data directory from a backup", "FILE",
    "Makes a data directory from the backup FILE (\"-\": standard input), for drover serve\n"
    "--data. A damaged or incomplete backup is refused, and nothing is left of it.",
    CMD_OPTIONS({"data", "DIR",
                 "The directory. It must not exist, or be empty; the one above it must exist.",
                 option_text, &data_dir},
                {"check", NULL, "Only check FILE, and say what it is.", option_flag, &check_only}),
    CMD_LOCAL, run_restore);
