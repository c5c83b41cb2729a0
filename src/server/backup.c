#include "server/backup.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/human.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "keeper/local/backup.h"
#include "server/audit.h"

enum { PIECE_LEN = 512 * 1024 };

struct backup_stream {
    struct context *context;
    struct http_request *request; /* NULL: the client has left */
    uv_work_t work;
    bool begun; /* the first piece was sent */

    /* Of the thread while it works. */
    struct local_backup *backup;
    struct buf piece;
    bool more;
    uint64_t len;
    int err;
    struct err_info why;
};

static void work_read(uv_work_t *work)
{
    struct backup_stream *s = work->data;
    if (!s->backup)
        s->err = backup_open(s->context->local, &s->backup, &s->why);
    if (!s->err)
        s->err = backup_read(s->backup, PIECE_LEN, &s->piece, &s->more, &s->why);
}

static void after_read(uv_work_t *work, int status);

static void read_next(struct backup_stream *s)
{
    s->piece.len = 0;
    s->work.data = s;
    UV_CHECK(uv_queue_work(s->context->loop, &s->work, work_read, after_read));
}

static void stream_free(struct backup_stream *s)
{
    s->context->backup = NULL;
    if (s->backup)
        backup_close(s->backup);
    buf_release(&s->piece);
    free(s);
}

/* While the thread works, the stream is freed when that returns. */
static void on_gone(struct http_request *r)
{
    struct backup_stream *s = r->handler_data;
    bool waits = r->drained != NULL;
    s->request = NULL;
    log_warning("backup: the client has left before the end");
    if (waits)
        stream_free(s);
}

static void on_drained(struct http_request *r)
{
    r->drained = NULL;
    read_next(r->handler_data);
}

static void fail(struct backup_stream *s)
{
    if (!s->begun) {
        s->request->gone = NULL;
        http_reply_err(s->request, s->err, s->why.text);
        return;
    }
    log_error("backup: %s", s->why.text);
    http_stream_abort(s->request);
}

/* False: the stream has ended. */
static bool send_piece(struct backup_stream *s)
{
    struct http_request *r = s->request;
    char size[HUMAN_SIZE];
    if (!s->begun && !http_stream_begin(r, "application/octet-stream"))
        return false;
    s->begun = true;
    s->len += s->piece.len;
    if (!http_stream_send(r, buf_str(&s->piece)))
        return false;
    if (s->more)
        return true;
    r->gone = NULL;
    http_stream_end(r);
    log_info("backup: sent %s", human_size(size, s->len));
    return false;
}

static void after_read(uv_work_t *work, int status)
{
    struct backup_stream *s = work->data;
    bool goes_on = false;
    (void)status; /* nobody cancels it */
    if (s->request && s->err)
        fail(s);
    else if (s->request)
        goes_on = send_piece(s);
    if (goes_on)
        s->request->drained = on_drained;
    else
        stream_free(s);
}

static void get_backup(struct http_request *r)
{
    struct context *h = r->arg;
    if (!h->local) {
        http_reply_error(r, 409, "the data is in an ensemble: see drover export --keeper");
    } else if (!h->data_dir) {
        http_reply_error(r, 409, "this server has no data directory (--journal none)");
    } else if (h->backup) {
        http_reply_error(r, 409, "another backup is under way");
    } else if (r->head.head_only) {
        http_reply_as(r, 200, "application/octet-stream", STR(""));
    } else if (audit_begin(h->audit, r, NULL)) {
        h->backup = mem_zalloc(sizeof *h->backup);
        h->backup->context = h;
        h->backup->request = r;
        r->handler_data = h->backup;
        r->gone = on_gone;
        read_next(h->backup);
    }
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/v1/backup", get_backup, ROLE_ADMIN,
     "Read everything as a backup, for drover restore", "getBackup",
     .reply = "application/octet-stream",
     .errors = "409 No data directory, or another backup is under way\n507"},
};

struct route_table backup_routes(struct context *h)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, h, .tag = "Server"};
}
