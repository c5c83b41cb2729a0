/* What there is of an output that goes on: for readers, and as text. */
#include <fcntl.h>
#include <unistd.h>

#include "base/json.h"
#include "dag/output.h"

/* Small outputs. */

static void put_text(const struct output *o, enum run_stream s, bool with_end, struct buf *text)
{
    struct output_want w = {.stream = s, .form = OUTPUT_TEXT, .end = INT64_MAX};
    struct output_at at = {{0, 0}};
    size_t used;
    output_take(&w, buf_str(o->file_len ? &o->small : &o->memory), &at, SIZE_MAX, &used, text);
    if (!o->ringing || !with_end)
        return;
    output_skip(&w, &at, &o->ring_at, 0, text);
    at = o->ring_at;
    output_take(&w, buf_str(&o->ring), &at, SIZE_MAX, &used, text);
}

void output_put_texts(const struct output *o, bool with_end, struct buf texts[RUN_STREAMS])
{
    for (int s = 0; s < RUN_STREAMS; s++)
        put_text(o, (enum run_stream)s, with_end, &texts[s]);
}

bool output_is_small(const struct output *o)
{
    bool is_small = !o->is_large;
    for (int s = 0; s < RUN_MIXED && is_small; s++) {
        CLEANUP(buf_release) struct buf text = {0};
        put_text(o, (enum run_stream)s, false, &text);
        is_small = json_is_text(buf_str(&text));
    }
    return is_small;
}

void output_put_pieces(const struct output *o, int64_t from_ms, struct buf *json)
{
    struct str records = buf_str(o->file_len ? &o->small : &o->memory);
    struct output_record r;
    ssize_t len;
    json_open(json, '[');
    for (; (len = output_read_record(records.p, records.len, true, &r)) > 0;
         records.p += len, records.len -= (size_t)len) {
        json_open(json, '[');
        json_put_int(json, r.kind);
        json_put_int(json, (int64_t)r.data.len);
        json_put_int(json, r.time_ms - from_ms);
        json_close(json, ']');
    }
    json_close(json, ']');
}

/* Views. */

void output_look(const struct output *o, enum run_stream s, uint64_t offset, bool reopen,
                 struct output_view *ret_view)
{
    *ret_view =
        (struct output_view){.fd = -1,
                             .file_len = o->file_len,
                             .memory_at = o->file_len ? o->memory_at : (struct output_at){{0, 0}},
                             .ring_from = o->ring_from,
                             .ring_at = o->ring_at,
                             .rings = o->ringing};
    if (o->file_len) {
        ret_view->from = o->marks.all[output_marks_find(&o->marks, s, offset)];
        ret_view->fd = reopen ? fcntl(o->fd, F_DUPFD_CLOEXEC, 3) : -1;
    }
    if (output_offset(&o->total, s) <= offset)
        return;
    buf_put(&ret_view->memory, o->memory.p, o->memory.len);
    if (o->ringing)
        buf_put(&ret_view->ring, o->ring.p, o->ring.len);
}

void output_view_release(struct output_view *v)
{
    if (v->fd >= 0)
        close(v->fd);
    v->fd = -1;
    buf_release(&v->memory);
    buf_release(&v->ring);
}

int output_view_read(struct output_view *v, struct output_file *f, struct output_want *w,
                     size_t max, struct buf *out)
{
    const struct buf *parts[] = {&v->memory, &v->ring};
    size_t until = out->len + max, used;
    if (v->fd >= 0) {
        output_file_close(f);
        output_file_live(f, v->fd);
        output_file_go(f, &v->from, 0);
        v->fd = -1;
    }
    if (f->fd >= 0) {
        f->len = v->file_len;
        TRY(output_file_read(f, w, max, out));
    }
    for (int i = 0; i < 2 && out->len < until; i++) {
        struct output_at at = i ? v->ring_at : v->memory_at;
        if (i && v->rings)
            output_skip(w, &v->ring_from, &at, 0, out);
        TRY(output_take(w, buf_str(parts[i]), &at, until, &used, out));
    }
    return 0;
}
