/*
 * drover export - prints every node as a line of JSON, from a data directory, a running server or
 * an ensemble.
 *
 * A running server is asked for a backup, which is restored into a temporary directory and read
 * there: so the lines are the state after one transaction.
 */
#include "cli/export.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "cli/backup.h"
#include "cli/cmd.h"
#include "cli/http_client.h"
#include "cli/term.h"
#include "cli/zk_options.h"
#include "keeper/local/backup.h"
#include "server/context.h"

static const char *keeper, *zk_auth, *data_dir;
static struct zookeeper_tls zk_tls;

static int put(struct export_output *o, struct err_info *ret_error)
{
    o->sum = crc32c(o->sum, o->line.p, o->line.len);
    term_write(o->to, buf_str(&o->line), ESCAPE_JSON);
    bool ok = !ferror(o->to);
    o->line.len = 0;
    if (child_signal())
        return err_set(ret_error, DROVER_CLOSED, "stopped by a signal");
    return ok ? 0 : err_set_errno(ret_error, errno, "cannot write to standard output");
}

int export_begin(struct export_output *o, const struct export_head *h, struct err_info *ret_error)
{
    export_put_head(&o->line, h);
    return put(o, ret_error);
}

int export_node(struct export_output *o, const struct transfer_node *n, struct err_info *ret_error)
{
    TRY(export_put_node(&o->line, n, ret_error));
    o->nodes++;
    return put(o, ret_error);
}

static int export_finish(struct export_output *o, struct err_info *ret_error)
{
    export_put_end(&o->line, &(struct export_end){.nodes = o->nodes, .sum = o->sum});
    TRY(put(o, ret_error));
    if (fflush(o->to))
        return err_set_errno(ret_error, errno, "cannot write to standard output");
    return 0;
}

static int pass_node(void *arg, const struct transfer_node *n, struct err_info *ret_error)
{
    return export_node(arg, n, ret_error);
}

static int from_dir(const char *dir, int64_t time_ms, struct export_output *o,
                    struct err_info *ret_error)
{
    struct transfer_dir *d;
    TRY(transfer_open(dir, &d, ret_error));
    struct export_head h = {.zxid = transfer_zxid(d), .time_ms = time_ms};
    int err = export_begin(o, &h, ret_error);
    if (!err)
        err = transfer_each(d, pass_node, o, ret_error);
    transfer_close(d);
    return err;
}

/* The backup of a server, as a file and as a directory, below a temporary directory. */
struct export_space {
    struct buf top, file, data;
};

static int space_make(struct export_space *s, struct err_info *ret_error)
{
    const char *above = getenv("TMPDIR");
    buf_printf(&s->top, "%s/drover-export-XXXXXX", above && *above ? above : "/tmp");
    buf_text(&s->top);
    if (!mkdtemp(s->top.p)) {
        s->top.len = 0;
        return err_set_errno(ret_error, errno, "cannot make a temporary directory");
    }
    buf_printf(&s->file, "%s/file", buf_text(&s->top));
    buf_printf(&s->data, "%s/data", buf_text(&s->top));
    return 0;
}

static void remove_files(const char *dir)
{
    struct dirent *entry;
    DIR *stream = opendir(dir);
    while (stream && (entry = readdir(stream)))
        unlinkat(dirfd(stream), entry->d_name, 0); /* not those that are directories */
    if (stream)
        closedir(stream);
    rmdir(dir);
}

static void space_remove(struct export_space *s)
{
    if (s->top.len) {
        remove_files(buf_text(&s->data));
        remove_files(buf_text(&s->top));
    }
    buf_release(&s->top);
    buf_release(&s->file);
    buf_release(&s->data);
}

static int restore_file(struct export_space *s, struct err_info *ret_error)
{
    struct backup_input in = {buf_text(&s->file), open(buf_text(&s->file), O_RDONLY | O_CLOEXEC)};
    struct backup_restore_options o = {
        .dir = buf_text(&s->data), .source = backup_input_read, .source_arg = &in};
    struct backup_restored unused;
    if (in.fd < 0)
        return err_set_errno(ret_error, errno, "cannot read %s", in.name);
    int err = backup_restore(&o, &unused, ret_error);
    close(in.fd);
    return err;
}

/* Exit status. */
static int from_server(const struct client_options *client, struct export_output *o)
{
    CLEANUP(space_remove) struct export_space s = {0};
    struct archive_reader r;
    struct err_info e;
    if (space_make(&s, &e))
        return client_error("%s", e.text);
    TRY(backup_save(client, buf_text(&s.file), &r));
    int err = restore_file(&s, &e);
    if (!err)
        unlink(buf_text(&s.file));
    if (!err)
        err = from_dir(buf_text(&s.data), r.info.time_ms, o, &e);
    return err ? client_error("%s", e.text) : CMD_OK;
}

static int from_ensemble(struct export_output *o)
{
    CLEANUP(mem_free) char *auth = NULL;
    struct err_info e;
    int err = zookeeper_auth_read(zk_auth, &auth, &e);
    if (!err)
        err = export_ensemble(keeper, auth, &zk_tls, o, &e);
    return err ? client_error("%s", e.text) : CMD_OK;
}

static void output_release(struct export_output *o)
{
    buf_release(&o->line);
}

static int run_export(const struct cmd_call *call)
{
    CLEANUP(output_release) struct export_output o = {.to = stdout};
    struct err_info e;
    int status = CMD_OK;
    if (keeper && data_dir)
        return cmd_usage_error(call->cmd, "--keeper and --data exclude each other");
    if ((keeper || data_dir) && call->client.server)
        return cmd_usage_error(call->cmd, "--server does not go with --keeper or --data");
    if (!keeper && zk_option_given(zk_auth, &zk_tls))
        return cmd_usage_error(call->cmd, "--%s goes with --keeper",
                               zk_option_given(zk_auth, &zk_tls));
    if (keeper && zookeeper_check_url(keeper, &zk_tls, &e))
        return cmd_usage_error(call->cmd, "--keeper: %s", e.text);
    child_catch_signals();
    if (keeper)
        status = from_ensemble(&o);
    else if (!data_dir)
        status = from_server(&call->client, &o);
    else if (from_dir(data_dir, clock_wall_ms(), &o, &e))
        status = client_error("%s", e.text);
    if (status == CMD_OK && export_finish(&o, &e))
        status = client_error("%s", e.text);
    return status;
}

const struct cmd cmd_export = CMD_INIT(
    "export", "print every node as JSON, to move it elsewhere", NULL,
    "Prints every node as a line of JSON, for drover import: those of a running server, of a\n"
    "data directory that no server has open, or of an ensemble. Ephemeral nodes and sessions\n"
    "are left out. Only output that ends with a line {\"end\":...} is complete.",
    CMD_OPTIONS({"data", "DIR", "Read this data directory.", option_text, &data_dir},
                {"keeper", "URL",
                 "Read this ensemble: zk://HOST:PORT,HOST:PORT/CHROOT, or zks:// with TLS.\n"
                 "Nothing may change in it meanwhile.",
                 option_text, &keeper},
                {"zk-auth", "FILE",
                 "Log in to the ensemble with the user:password in this file. Default:\n"
                 "$DROVER_ZK_AUTH.",
                 option_text, &zk_auth},
                ZK_TLS_OPTIONS(zk_tls, .flags = 0)),
    CMD_REMOTE, run_export);
