#include "cli/node_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/crc32c.h"

enum { IDLE_MS = 60 * 1000, PAUSE_MS = 300, STOPPED = 1 };

/* Records. */

static bool has_numbers(const struct output_record *r)
{
    return r->kind == OUTPUT_GAP || r->kind == OUTPUT_AT;
}

/* Takes what is missing of so many bytes of the head. */
static bool fill(struct chunk_parser *p, struct str *bytes, size_t wanted)
{
    size_t more = wanted - p->have, len = more < bytes->len ? more : bytes->len;
    memcpy(p->head + p->have, bytes->p, len);
    p->have += len;
    *bytes = (struct str){bytes->p + len, bytes->len - len};
    return p->have == wanted;
}

static int tell_numbers(struct chunk_parser *p, const struct chunk_sink *sink)
{
    const uint64_t *n = p->now.numbers;
    if (output_read_record(p->head, sizeof p->head, false, &p->now) <= 0)
        return DROVER_DAMAGED;
    p->have = 0;
    if (p->now.kind == OUTPUT_GAP)
        return sink->gap(sink->arg, n[0] + n[1]);
    return sink->at ? sink->at(sink->arg, n[0] + n[1], n[2]) : 0;
}

static int tell_data(struct chunk_parser *p, struct str *bytes, const struct chunk_sink *sink)
{
    struct str part = {bytes->p, p->left < bytes->len ? p->left : bytes->len};
    *bytes = (struct str){bytes->p + part.len, bytes->len - part.len};
    p->crc = crc32c(p->crc, part.p, part.len);
    p->left -= part.len;
    if (!p->left && p->crc != le_load32(p->head + 4))
        return DROVER_DAMAGED;
    if (!p->left)
        p->have = 0;
    return sink->data(sink->arg, (enum run_stream)p->now.kind, p->now.time_ms, part);
}

int chunk_parse(struct chunk_parser *p, struct str bytes, const struct chunk_sink *sink)
{
    while (bytes.len) {
        if (p->left) {
            TRY(tell_data(p, &bytes, sink));
            continue;
        }
        if (p->have < OUTPUT_HEAD_LEN) {
            if (!fill(p, &bytes, OUTPUT_HEAD_LEN))
                return 0;
            ssize_t len = output_read_record(p->head, OUTPUT_HEAD_LEN, true, &p->now);
            if (len < 0)
                return DROVER_DAMAGED;
            if (len) {
                p->left = p->now.data.len;
                p->crc = 0;
                p->have = p->left ? p->have : 0;
                continue;
            }
            p->now.kind = OUTPUT_GAP; /* numbers follow */
        }
        if (has_numbers(&p->now) && fill(p, &bytes, sizeof p->head))
            TRY(tell_numbers(p, sink));
    }
    return 0;
}

/* The stream. */

static int on_data(void *arg, enum run_stream s, int64_t time_ms, struct str bytes)
{
    struct node_stream *o = arg;
    o->next += bytes.len;
    o->sink_err = o->sink->data(o->sink->arg, s, time_ms, bytes);
    return o->sink_err ? STOPPED : 0;
}

static int on_gap(void *arg, uint64_t bytes)
{
    struct node_stream *o = arg;
    o->next += bytes;
    o->sink_err = o->sink->gap(o->sink->arg, bytes);
    return o->sink_err ? STOPPED : 0;
}

static int on_at(void *arg, uint64_t offset, uint64_t run)
{
    struct node_stream *o = arg;
    o->next = offset;
    o->run = run;
    o->begun = true;
    if (o->sink->at)
        o->sink_err = o->sink->at(o->sink->arg, offset, run);
    return o->sink_err ? STOPPED : 0;
}

static int take(void *arg, struct str bytes, struct err_info *ret_error)
{
    struct node_stream *o = arg;
    struct chunk_sink sink = {on_data, on_gap, on_at, o};
    int err = chunk_parse(&o->parser, bytes, &sink);
    return err ? err_set(ret_error, err < 0 ? err : DROVER_CLOSED, "the server sent damaged output")
               : 0;
}

static int fetch(struct node_stream *o, struct transport_answer *ret_answer)
{
    static const char *const names[] = {"stdout", "stderr", "mixed"};
    struct transport_sink sink = {take, o};
    char path[256];
    o->parser = (struct chunk_parser){0};
    snprintf(path, sizeof path, "/v1/nodes/%s/output?format=chunks&stream=%s&from=%" PRId64 "%s%s",
             o->id, names[o->stream], o->begun ? (int64_t)o->next : o->from,
             o->follow ? "&follow=1" : "", o->attach ? "&attach=1" : "");
    return transport_fetch(o->c->transport, path, IDLE_MS, &sink, ret_answer, &o->c->error);
}

/* Whether the server may come back. */
static bool may_return(int err, int status)
{
    return err == DROVER_UNREACHABLE || err == DROVER_UNKNOWN || (!err && status == 503);
}

int node_stream_read(struct node_stream *o, int *ret_err)
{
    struct transport_answer answer = {0};
    int64_t since_ms = 0;
    *ret_err = 0;
    for (;;) {
        uint64_t before = o->next;
        int err = fetch(o, &answer);
        if (o->sink_err) {
            buf_release(&answer.body);
            *ret_err = o->sink_err;
            return CMD_OK;
        }
        if (!err && answer.status == 200) {
            buf_release(&answer.body);
            return CMD_OK;
        }
        if (o->next != before || !since_ms)
            since_ms = clock_boot_ms();
        if (!may_return(err, answer.status) || (!o->begun && err == DROVER_UNREACHABLE) ||
            clock_boot_ms() - since_ms > NODE_STREAM_PATIENCE_MS) {
            if (err)
                return client_error("%s", o->c->error.text);
            struct client_reply reply = {.status = answer.status,
                                         .body = arena_take(&o->c->arena, &answer.body)};
            reply.json = json_parse(&o->c->arena, reply.body, NULL);
            return client_refused(o->c, &reply);
        }
        if (!err)
            buf_release(&answer.body);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    }
}

/* Names. */

/* The server knows ids and RUN/NAME; any other name is that of the newest node that has it. */
int node_stream_find(struct client *c, const char *name, const char **ret_id)
{
    struct client_reply reply;
    *ret_id = NULL;
    TRY(client_try(c, &reply, NULL, "GET /v1/nodes/%s", client_quote(c, str_of(name))));
    if (reply.status == 200)
        *ret_id = arena_text(&c->arena, json_text_of(json_get(reply.json, "metadata"), "id"));
    if (*ret_id || reply.status != 404 || strspn(name, "0123456789") == strlen(name))
        return *ret_id ? CMD_OK : client_refused(c, &reply);
    TRY(client_call(c, &reply, NULL, "GET /v1/nodes?metadata=name"));
    json_each(n, json_list(reply.json))
        if (str_eq(json_text_of(n, "name"), str_of(name)))
            *ret_id = arena_text(&c->arena, json_text_of(n, "id"));
    return *ret_id ? CMD_OK : client_misuse("there is no node '%s'", name);
}
