/*
 * GET /v1/nodes/{id}/output: what a node printed, as bytes or as records (output_format.h), a piece
 * at a time: the next one is read when the client has taken the one before. Pieces that may have to
 * come from a disk are read by a worker thread.
 *
 * A request that follows waits, when it has everything, for the node to print more, and ends when
 * the node has ended. It is woken at once if there is much, else with all others a few times a
 * second.
 *
 * A client that has everything gets the next piece as it is printed, without a detour through the
 * file. One that takes much (FAST_LEN in WINDOW_MS) but not as much as the command prints is waited
 * for, so that it does not fall behind: the command waits as if it wrote to a pipe. A slow one does
 * not slow down a command: it falls behind, and may miss what the limit cuts.
 *
 * Offsets count what was printed, also what was not kept. A range (206) is answered only if all of
 * the output was kept, so that it has as many bytes as it says.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "dag/http_input.h"
#include "dag/output_read.h"

enum {
    PIECE_LEN = 256 * 1024,
    MUCH_LEN = 64 * 1024,
    TRIES_MAX = 3,
    UNSENT_MAX = 512 * 1024, /* while more waits for the client, nothing is passed on directly */
    BEHIND_LEN = 8 * 1024 * 1024,
    FAST_LEN = 8 * 1024 * 1024,
    WINDOW_MS = 100,
};

struct output_stream {
    struct output_stream *next, **link; /* of all */
    struct dag *dag;
    struct http_request *request; /* NULL: the client has left */
    uv_work_t work;
    struct output_read read;
    int status;        /* of the answer */
    uint64_t told_run; /* the run of the last AT */
    bool begun, follows, waits, working;
    struct attach_guest guest; /* if it attaches */
    int tries;
    int64_t sent_ms;
    int64_t window_ms;   /* since then: */
    uint64_t window_len; /* so much was sent */
    bool is_fast;        /* in the window before */
};

static void stream_free(struct output_stream *s)
{
    struct dag_node *n = graph_find(&s->dag->graph, s->read.node);
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    if (s->waits && n && n->followers)
        n->followers--;
    attach_leave(s->dag, n, &s->guest);
    output_read_release(&s->read);
    free(s);
}

static void on_gone(struct http_request *r)
{
    struct output_stream *s = r->handler_data;
    s->request = NULL;
    if (!s->working)
        stream_free(s);
}

/* The answer so far is not all: the client must not take it for that. */
static void give_up(struct output_stream *s, int err, const char *why)
{
    struct http_request *r = s->request;
    r->gone = NULL;
    if (s->begun)
        http_stream_abort(r);
    else if (err == DROVER_NO_NODE)
        http_reply_error(r, 410, why);
    else
        http_reply_err(r, err, why);
    stream_free(s);
}

static void end(struct output_stream *s)
{
    s->request->gone = NULL;
    http_stream_end(s->request);
    stream_free(s);
}

static void go_on(struct output_stream *s);
static void hold_back(struct dag *d, struct dag_node *n);

static void on_drained(struct http_request *r)
{
    r->drained = NULL;
    go_on(r->handler_data);
}

/* Where the next record stands, first and when another run begins. */
static void put_at(struct output_stream *s)
{
    struct output_read *o = &s->read;
    if (o->want.form != OUTPUT_CHUNKS || (s->told_run == o->run && s->told_run))
        return;
    uint64_t numbers[3] = {o->want.stream == RUN_STDERR ? 0 : o->want.next,
                           o->want.stream == RUN_STDERR ? o->want.next : 0, o->run};
    output_put_numbers(&o->piece, OUTPUT_AT, clock_wall_ms(), numbers);
    s->told_run = o->run;
}

static void note_sent(struct output_stream *s, size_t len)
{
    s->sent_ms = clock_boot_ms();
    s->window_len += len;
    if (s->sent_ms - s->window_ms < WINDOW_MS)
        return;
    s->is_fast = s->sent_ms - s->window_ms < 2 * WINDOW_MS && s->window_len >= FAST_LEN;
    s->window_ms = s->sent_ms;
    s->window_len = 0;
}

/* False: the stream has ended. */
static bool send_piece(struct output_stream *s)
{
    struct http_request *r = s->request;
    if (!http_stream_send(r, buf_str(&s->read.piece))) {
        stream_free(s);
        return false;
    }
    note_sent(s, s->read.piece.len);
    s->read.piece.len = 0;
    r->drained = on_drained;
    return true;
}

/* The head of the answer, when the first piece could be read. False: the stream has ended. */
static bool begin(struct output_stream *s)
{
    struct http_request *r = s->request;
    if (s->begun)
        return true;
    r->gone = NULL;
    if (!http_stream_begin_with(r, s->status, "application/octet-stream")) {
        stream_free(s); /* HEAD */
        return false;
    }
    r->gone = on_gone;
    s->begun = true;
    return true;
}

static void wait(struct output_stream *s, struct dag_node *n)
{
    if (!s->waits)
        n->followers++;
    s->waits = true;
}

/* What was read is sent; when there was nothing, it waits or ends. */
static void after_look(struct output_stream *s)
{
    struct output_read *o = &s->read;
    struct dag_node *n = s->dag->ready ? graph_find(&s->dag->graph, o->node) : NULL;
    if (o->err == DROVER_DAMAGED && o->place == OUTPUT_LIVE && s->tries++ < TRIES_MAX) {
        go_on(s);
        return;
    }
    if (o->err == DROVER_NO_NODE && o->reads_keeper && s->tries++ < TRIES_MAX) {
        go_on(s); /* the value was replaced meanwhile */
        return;
    }
    if (o->err) {
        give_up(s, o->err, o->why.text);
        return;
    }
    if (!begin(s))
        return;
    if (n && n->out && n->out->run == o->run) {
        attach_read(s->dag, n, &s->guest, o->want.next);
        if (n->run)
            hold_back(s->dag, n);
    }
    s->tries = 0;
    if (o->piece.len)
        send_piece(s);
    else if (n && s->follows && !o->ended && o->want.next < o->want.end)
        wait(s, n);
    else
        end(s);
}

static void work_read(uv_work_t *work)
{
    output_read_more(&((struct output_stream *)work->data)->read);
}

static void after_read(uv_work_t *work, int status)
{
    struct output_stream *s = work->data;
    (void)status; /* nobody cancels it */
    struct dag *d = s->dag;
    s->working = false;
    if (s->request)
        after_look(s);
    else
        stream_free(s);
    dag_unref(d);
}

static void go_on(struct output_stream *s)
{
    if (!output_read_look(&s->read)) {
        give_up(s, s->dag->ready ? DROVER_NO_NODE : DROVER_CLOSED, "the node was removed");
        return;
    }
    if (s->read.place != OUTPUT_NOWHERE)
        put_at(s);
    if (output_read_is_near(&s->read)) {
        output_read_more(&s->read);
        after_look(s);
        return;
    }
    s->working = true;
    dag_ref(s->dag);
    s->work.data = s;
    UV_CHECK(uv_queue_work(s->dag->context->loop, &s->work, work_read, after_read));
}

/* Passing on what was printed just now. */

static bool is_next(const struct output_stream *s, const struct dag_node *n, enum run_stream from)
{
    const struct output_want *w = &s->read.want;
    return s->waits && s->read.node == n->id && s->told_run == n->out->run &&
           s->read.place == OUTPUT_LIVE && (w->stream == RUN_MIXED || w->stream == from) &&
           w->next + n->out->last.len == output_offset(&n->out->total, w->stream) &&
           output_offset(&n->out->total, w->stream) <= w->end &&
           http_stream_unsent(s->request) < UNSENT_MAX;
}

/* In order behind what was sent before: it waits, so that is all. */
static void pass_on(struct output_stream *s, struct dag_node *n)
{
    const struct output *o = n->out;
    struct http_request *r = s->request;
    struct str head = {o->last_head, OUTPUT_HEAD_LEN};
    if ((s->read.want.form == OUTPUT_CHUNKS && !http_stream_send(r, head)) ||
        !http_stream_send(r, o->last)) {
        stream_free(s);
        return;
    }
    s->read.want.next += o->last.len;
    note_sent(s, o->last.len);
    attach_read(s->dag, n, &s->guest, s->read.want.next);
}

/* Whether the command is to wait for somebody who reads fast. */
static void hold_back(struct dag *d, struct dag_node *n)
{
    bool waits = false;
    int64_t now = clock_boot_ms();
    for (const struct output_stream *s = d->streams; s; s = s->next) {
        const struct output_want *w = &s->read.want;
        waits |= s->read.node == n->id && s->is_fast && s->follows &&
                 now - s->window_ms < 2 * WINDOW_MS &&
                 output_offset(&n->out->total, w->stream) - w->next > BEHIND_LEN;
    }
    run_pause(n->run, waits);
    if (waits)
        dag_soon_printed(d); /* it may stop to read */
}

void dag_pass_on(struct dag *d, struct dag_node *n)
{
    struct output *o = n->out;
    bool any = false;
    for (struct output_stream *s = d->streams, *next; s; s = next) {
        next = s->next;
        any |= s->read.node == n->id;
        if (o->last.len && n->followers && is_next(s, n, (enum run_stream)o->last_head[12]))
            pass_on(s, n);
    }
    if (any && n->run)
        hold_back(d, n);
}

/* Waking. */

static void wake(struct output_stream *s, struct dag_node *n)
{
    s->waits = false;
    if (n && n->followers)
        n->followers--;
    go_on(s);
}

void dag_wake_followers(struct dag *d, struct dag_node *n, bool all)
{
    for (struct output_stream *s = d->streams, *next; s && n->followers; s = next) {
        next = s->next;
        const struct output_want *w = &s->read.want;
        if (s->waits && s->read.node == n->id &&
            (all || (n->out && output_offset(&n->out->total, w->stream) - w->next >= MUCH_LEN)))
            wake(s, n);
    }
}

void dag_end_followers(struct dag *d)
{
    for (struct output_stream *s = d->streams, *next; s; s = next) {
        next = s->next;
        s->guest.attached = false; /* the nodes are gone */
        if (s->waits) {
            s->waits = false;
            give_up(s, DROVER_CLOSED, NULL);
        }
    }
}

/* Clients that read records know by them that the server is there. */
void dag_beat_followers(struct dag *d)
{
    int64_t now = clock_boot_ms();
    for (struct output_stream *s = d->streams, *next; s; s = next) {
        next = s->next;
        if (!s->waits || s->read.want.form != OUTPUT_CHUNKS || now - s->sent_ms < DAG_BEAT_MS)
            continue;
        uint64_t run = s->told_run;
        s->told_run = 0;
        put_at(s);
        s->told_run = run;
        struct http_request *r = s->request;
        if (s->read.piece.len && send_piece(s))
            r->drained = NULL; /* it still waits */
    }
}

/* Asking. */

struct byte_range {
    bool given, none;     /* none: it begins behind the end */
    uint64_t first, last; /* last: exclusive */
};

static bool read_number(struct str text, uint64_t *ret_number)
{
    *ret_number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9' || *ret_number > UINT64_MAX / 100)
            return false;
        *ret_number = *ret_number * 10 + (uint64_t)(text.p[i] - '0');
    }
    return text.len > 0;
}

/* "bytes=5-9", "bytes=5-", "bytes=-5". Anything else, several ranges too, is ignored. */
static struct byte_range read_range(const struct http_request *r, uint64_t total)
{
    const struct str *field = head_field(&r->head, "Range");
    struct byte_range range = {0};
    if (!field || !str_starts(*field, STR("bytes=")))
        return range;
    struct str last = {field->p + 6, field->len - 6}, first = str_cut(&last, '-');
    uint64_t from = 0, to = 0;
    bool has_first = read_number(first, &from), has_last = last.p && read_number(last, &to);
    if (!last.p || (first.len && !has_first) || (last.len && !has_last) ||
        (!has_first && !has_last) || (has_first && has_last && to < from))
        return range;
    range.given = true;
    if (!has_first) {
        range.first = to < total ? total - to : 0;
        range.last = total;
        range.none = !to || !total;
        return range;
    }
    range.first = from;
    range.last = has_last && to < total ? to + 1 : total;
    range.none = from >= total;
    return range;
}

static void add_number(struct http_request *r, const char *name, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    http_add_header(r, name, str_of(text));
}

/* Headers, and the part that is wanted. False after an answer. */
static bool prepare(struct http_request *r, struct output_stream *s)
{
    const struct dag_in *in = r->in;
    struct output_read *o = &s->read;
    uint64_t total = output_offset(&o->total, o->want.stream);
    struct byte_range range = {0};
    char text[80];

    if (o->want.form == OUTPUT_BYTES && !in->from && !in->to && !s->follows && !o->missing)
        range = read_range(r, total);
    add_number(r, "Drover-Output-Length", total);
    if (o->missing)
        add_number(r, "Drover-Output-Missing", o->missing);
    if (range.given && range.none) {
        snprintf(text, sizeof text, "bytes */%" PRIu64, total);
        http_add_header(r, "Content-Range", str_of(text));
        http_reply_errorf(r, 416, "the output has %" PRIu64 " bytes", total);
        return false;
    }
    if (range.given) {
        snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range.first,
                 range.last - 1, total);
        http_add_header(r, "Content-Range", str_of(text));
        o->want.next = range.first;
        o->want.end = range.last;
    } else {
        uint64_t back = (uint64_t)-in->from;
        o->want.next = in->from >= 0 ? (uint64_t)in->from : back < total ? total - back : 0;
        o->want.end = in->to ? (uint64_t)in->to : s->follows ? INT64_MAX : total;
    }
    http_add_header(r, "Accept-Ranges", STR("bytes"));
    s->status = range.given ? 206 : 200;
    return true;
}

static struct output_stream *stream_new(struct dag *d, struct http_request *r,
                                        const struct dag_node *n)
{
    const struct dag_in *in = r->in;
    static const enum run_stream streams[] = {RUN_MIXED, RUN_STDOUT, RUN_STDERR};
    struct output_stream *s = mem_zalloc(sizeof *s);
    *s = (struct output_stream){.dag = d, .request = r, .follows = in->follow || in->attach};
    output_read_init(&s->read, d, n, streams[in->stream],
                     in->format ? OUTPUT_CHUNKS : OUTPUT_BYTES);
    s->read.max = PIECE_LEN;
    s->next = d->streams;
    s->link = &d->streams;
    if (s->next)
        s->next->link = &s->next;
    d->streams = s;
    return s;
}

void http_get_output(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct dag_node *n = http_node(r);
    if (!n)
        return;
    if (in->attach && (in->stream || !dag_may_change(r, n))) {
        if (in->stream)
            http_reply_field(r, "attach", "attach needs the stream mixed");
        return;
    }
    if ((in->follow || in->attach) && !http_may_wait(r))
        return;
    struct output_stream *s = stream_new(d, r, n);
    output_read_look(&s->read);
    if (!prepare(r, s)) {
        stream_free(s);
        return;
    }
    r->handler_data = s;
    r->gone = on_gone;
    if (in->attach)
        attach_enter(d, n, &s->guest);
    dag_arm(d, dag_now_ms(d) + DAG_BEAT_MS);
    go_on(s);
}
