/*
 * drover import - makes a data directory, or fills an ensemble, from the lines of drover export.
 *
 * The file is read and checked as a whole before anything is written.
 */
#include "cli/import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/crc32c.h"
#include "base/human.h"
#include "cli/cmd.h"
#include "cli/http_client.h"
#include "cli/zk_options.h"
#include "server/context.h"

static const char *keeper, *zk_auth, *data_dir;
static struct zookeeper_tls zk_tls;

static int file_map(const char *name, struct import_file *f, struct err_info *e)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *text = MAP_FAILED;
    if (fd < 0 || fstat(fd, &st) < 0)
        err_set_errno(e, errno, "cannot read it");
    else if (!S_ISREG(st.st_mode) || !st.st_size)
        err_set(e, DROVER_BAD_ARGUMENT, "it is empty, or not a regular file");
    else if ((text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        err_set_errno(e, errno, "cannot read it");
    if (fd >= 0)
        close(fd);
    if (text == MAP_FAILED)
        return DROVER_IO;
    f->text = (struct str){text, (size_t)st.st_size};
    return 0;
}

static void file_release(struct import_file *f)
{
    if (f->text.p)
        munmap((void *)(uintptr_t)f->text.p, f->text.len);
    free(f->nodes);
}

static int read_end(const struct import_file *f, const struct export_end *end, struct err_info *e)
{
    if (end->nodes != (int64_t)f->count)
        return err_set(e, DROVER_DAMAGED, "it has %zu nodes, but its end says %" PRId64, f->count,
                       end->nodes);
    if (end->has_sum && end->sum != f->sum)
        return err_set(e, DROVER_DAMAGED, "it does not match its sum");
    return 0;
}

/* No node can be newer than the whole. */
static int check_node(const struct import_file *f, const struct transfer_node *n,
                      struct err_info *e)
{
    int64_t zxid = f->head.zxid;
    if (n->czxid > zxid || n->mzxid > zxid || n->pzxid > zxid)
        return err_set(e, DROVER_DAMAGED, "the node shows a later transaction than the export");
    if (transfer_is_left_out(n->path))
        return err_set(e, DROVER_BAD_ARGUMENT, "%.*s belongs to a running server",
                       STR_ARGS(n->path));
    return 0;
}

/* The next line. *ret_ended: it was the last one. */
static int read_line(struct import_file *f, struct arena *a, struct str line, bool *ret_ended,
                     struct err_info *e)
{
    struct export_line l;
    bool is_first = line.p == f->text.p;
    TRY(export_read(a, line, &l, e));
    if (is_first != (l.kind == EXPORT_HEAD))
        return err_set(e, DROVER_BAD_ARGUMENT, "the first line, and no other, begins an export");
    if (l.kind == EXPORT_HEAD)
        f->head = l.head;
    if (l.kind == EXPORT_END) {
        *ret_ended = true;
        return read_end(f, &l.end, e);
    }
    if (l.kind == EXPORT_NODE) {
        TRY(check_node(f, &l.node, e));
        mem_grow(f->nodes, f->count, f->cap);
        f->nodes[f->count++] =
            (struct import_line){(uint64_t)(line.p - f->text.p), (uint32_t)line.len};
    }
    return 0;
}

static int file_read(struct import_file *f, size_t *ret_line, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct str rest = f->text;
    bool ended = false;
    for (*ret_line = 1; rest.len && !ended; ++*ret_line) {
        const char *end = memchr(rest.p, '\n', rest.len);
        if (!end || end - rest.p > INT32_MAX)
            return err_set(e, DROVER_DAMAGED, "the line is not complete");
        struct str line = {rest.p, (size_t)(end - rest.p)};
        TRY(read_line(f, &a, line, &ended, e));
        f->sum = crc32c(f->sum, line.p, line.len + 1);
        rest = (struct str){end + 1, rest.len - line.len - 1};
        arena_reset(&a);
    }
    if (!ended)
        return err_set(e, DROVER_DAMAGED, "the file is not complete: it has no end");
    return rest.len ? err_set(e, DROVER_DAMAGED, "something stands behind the end") : 0;
}

void import_node(const struct import_file *f, size_t i, struct arena *a,
                 struct transfer_node *ret_node)
{
    struct export_line l;
    struct err_info unused;
    struct str line = {f->text.p + f->nodes[i].at, f->nodes[i].len};
    export_read(a, line, &l, &unused);
    *ret_node = l.node;
}

static int put_all(const struct import_file *f, struct transfer_maker *m, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    for (size_t i = 0; i < f->count; i++) {
        struct transfer_node n;
        if (child_signal())
            return err_set(e, DROVER_CLOSED, "stopped by a signal");
        import_node(f, i, &a, &n);
        TRY(transfer_put(m, &n, e));
        arena_reset(&a);
    }
    return transfer_finish(m, f->head.zxid, e);
}

static int to_dir(const struct import_file *f, struct err_info *e)
{
    struct transfer_maker *m;
    TRY(transfer_begin(data_dir, &m, e));
    int err = put_all(f, m, e);
    transfer_end(m);
    return err;
}

static int to_ensemble(const struct import_file *f, struct err_info *e)
{
    CLEANUP(mem_free) char *auth = NULL;
    TRY(zookeeper_auth_read(zk_auth, &auth, e));
    return import_ensemble(keeper, auth, &zk_tls, f, e);
}

static int run_import(const struct cmd_call *call)
{
    const char *name = call->operands[0];
    CLEANUP(file_release) struct import_file f = {0};
    char count[HUMAN_SIZE];
    struct err_info e;
    size_t line = 0;
    if (!keeper == !data_dir)
        return cmd_usage_error(call->cmd, "give either --data or --keeper");
    if (!keeper && zk_option_given(zk_auth, &zk_tls))
        return cmd_usage_error(call->cmd, "--%s goes with --keeper",
                               zk_option_given(zk_auth, &zk_tls));
    if (keeper && zookeeper_check_url(keeper, &zk_tls, &e))
        return cmd_usage_error(call->cmd, "--keeper: %s", e.text);
    if (file_map(name, &f, &e))
        return client_error("%s: %s", name, e.text);
    if (file_read(&f, &line, &e))
        return client_error("%s, line %zu: %s", name, line, e.text);
    child_catch_signals();
    if (keeper ? to_ensemble(&f, &e) : to_dir(&f, &e))
        return client_error("%s", e.text);
    printf("imported %s into %s\n", human_count(count, f.count, "node"),
           keeper ? keeper : data_dir);
    return CMD_OK;
}

const struct cmd cmd_import = CMD_INIT(
    "import", "make a data directory or fill an ensemble from an export", "FILE",
    "Makes a new data directory, or fills an ensemble, from FILE, which drover export has\n"
    "printed. FILE is checked first. An import into an ensemble that was interrupted goes on\n"
    "when it is repeated; until it is complete, no server starts on it.",
    CMD_OPTIONS(
        {"data", "DIR", "Make this directory. It must not exist, or be empty.", option_text,
         &data_dir},
        {"keeper", "URL",
         "Fill this ensemble: zk://HOST:PORT,HOST:PORT/CHROOT, or zks:// with TLS. It must\n"
         "have none of the nodes at the top of FILE.",
         option_text, &keeper},
        {"zk-auth", "FILE",
         "Log in to the ensemble with the user:password in this file, and create nodes\n"
         "for this user only. Default: $DROVER_ZK_AUTH.",
         option_text, &zk_auth},
        ZK_TLS_OPTIONS(zk_tls, .flags = 0)),
    CMD_LOCAL, run_import);
