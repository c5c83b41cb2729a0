/*
 * The ring is shared, under a lock; a listener is a position in it and a filter. Events are
 * formatted for a listener when its connection can take them, so a slow one costs no memory.
 */
#include "http/events.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/uv_check.h"
#include "http/server.h"

enum {
    SEND_LEN = 64 * 1024, /* sent to a listener at a time, or a little more */
    WANTED_MS = 60 * 1000,
};

/* What an event consists of: the fields to filter by, and the JSON. */
enum event_part { KIND, ID, TYPE, GROUP, STATE, FIELD_COUNT, JSON = FIELD_COUNT, PART_COUNT };

static const char *const FIELD_NAMES[FIELD_COUNT] = {"kind", "id", "type", "group", "state"};

/* What modules publish: a filter that names another kind would wait for ever. */
#define KINDS "node, task, world, queue, message, batch, job, access, batch-done"

/* What GET /v1/events takes. */
struct events_in {
    struct str filter[FIELD_COUNT]; /* empty: all */
    int64_t last;
};

/* A kept event, in one allocation. */
struct kept_event {
    uint64_t number;
    struct str parts[PART_COUNT];
    size_t size;
    char text[];
};

struct event_listener {
    struct event_listener *next, *prev;
    struct events *events;
    struct http_request *request;
    const struct events_in *in; /* of the request: what to filter by */
    uint64_t sent;              /* the last one that was sent or skipped */
};

struct events {
    uv_async_t wake;
    uv_timer_t alive;
    int open_handles;
    struct event_listener *listeners; /* the loop's */
    const struct event_words *words[EVENTS_WORDS_MAX];
    _Atomic int64_t named_ms[EVENTS_WORDS_MAX]; /* a listener named the kind: then, or still does */
    int words_count;

    pthread_mutex_t lock;
    struct kept_event *ring[EVENTS_KEPT]; /* number n at n % EVENTS_KEPT */
    uint64_t first, next;                 /* numbers that are kept: first up to next - 1 */
    size_t size;
    bool listened; /* there are listeners */
};

/* The ring, with the lock held. */

static void drop_oldest(struct events *e)
{
    struct kept_event **slot = &e->ring[e->first++ % EVENTS_KEPT];
    e->size -= (*slot)->size;
    free(*slot);
    *slot = NULL;
}

static struct kept_event *kept_new(const struct event *event)
{
    const struct str parts[PART_COUNT] = {
        [KIND] = str_of(event->kind), [ID] = event->id,       [TYPE] = event->type,
        [GROUP] = event->group,       [STATE] = event->state, [JSON] = event->json};
    size_t size = sizeof(struct kept_event);
    for (int i = 0; i < PART_COUNT; i++)
        size += parts[i].len;
    struct kept_event *k = mem_alloc(size);
    k->size = size;
    char *at = k->text;
    for (int i = 0; i < PART_COUNT; i++) {
        k->parts[i] = (struct str){at, parts[i].len};
        if (parts[i].len)
            at = mempcpy(at, parts[i].p, parts[i].len);
    }
    return k;
}

void events_publish(struct events *e, const struct event *event)
{
    struct kept_event *k = kept_new(event);
    LOCKED(&e->lock);
    while (e->first < e->next &&
           (e->next - e->first == EVENTS_KEPT || e->size + k->size > EVENTS_LEN_MAX))
        drop_oldest(e);
    k->number = e->next++;
    e->ring[k->number % EVENTS_KEPT] = k;
    e->size += k->size;
    if (e->listened)
        uv_async_send(&e->wake);
}

/* Formatting. */

/* Whether the value is in the comma-separated list. */
static bool is_among(struct str list, struct str value)
{
    do {
        if (str_eq(str_cut(&list, ','), value))
            return true;
    } while (list.p);
    return false;
}

static bool is_wanted(const struct event_listener *l, const struct kept_event *k)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if (l->in->filter[i].len && !is_among(l->in->filter[i], k->parts[i]))
            return false;
    return true;
}

/* A newline in the JSON begins another line of data. */
static void put_event(struct buf *b, const struct kept_event *k)
{
    struct str json = k->parts[JSON];
    buf_printf(b, "id: %" PRIu64 "\nevent: %.*s\n", k->number, STR_ARGS(k->parts[KIND]));
    do {
        buf_put_str(b, STR("data: "));
        buf_put_str(b, str_cut(&json, '\n'));
        buf_put_str(b, STR("\n"));
    } while (json.p);
    buf_put_str(b, STR("\n"));
}

/* Up to SEND_LEN bytes of events for the listener. */
static void collect(struct events *e, struct event_listener *l, struct buf *b)
{
    LOCKED(&e->lock);
    if (l->sent + 1 < e->first || l->sent >= e->next) {
        l->sent = e->first - 1;
        buf_printf(b, "id: %" PRIu64 "\nevent: lost\ndata: {\"first\":\"%" PRIu64 "\"}\n\n",
                   l->sent, e->first);
    }
    while (l->sent + 1 < e->next && b->len < SEND_LEN) {
        const struct kept_event *k = e->ring[++l->sent % EVENTS_KEPT];
        if (is_wanted(l, k))
            put_event(b, k);
    }
}

/* Listeners, on the loop. */

static void listener_free(struct event_listener *l)
{
    struct events *e = l->events;
    *(l->prev ? &l->prev->next : &e->listeners) = l->next;
    if (l->next)
        l->next->prev = l->prev;
    if (!e->listeners) {
        LOCKED(&e->lock);
        e->listened = false;
    }
    free(l);
}

static void on_gone(struct http_request *r)
{
    listener_free(r->handler_data);
}

/* Sends a piece; the next one when the client has read it. */
static void serve(struct http_request *r)
{
    struct event_listener *l = r->handler_data;
    CLEANUP(buf_release) struct buf b = {0};
    if (http_stream_unsent(r))
        return;
    collect(l->events, l, &b);
    if (b.len && !http_stream_send(r, buf_str(&b)))
        listener_free(l);
}

/* One by one, so that many listeners do not hold up the loop. */
static void serve_soon(struct http_request *r)
{
    http_later(r, serve);
}

static void on_wake(uv_async_t *wake)
{
    const struct events *e = wake->data;
    for (struct event_listener *l = e->listeners; l; l = l->next)
        serve_soon(l->request);
}

static void note_kinds(struct events *e, const struct event_listener *l);

static void on_alive(uv_timer_t *timer)
{
    struct events *e = timer->data;
    struct event_listener *next;
    for (struct event_listener *l = e->listeners; l; l = next) {
        next = l->next;
        note_kinds(e, l);
        if (!http_stream_unsent(l->request) && !http_stream_send(l->request, STR(":\n\n")))
            listener_free(l);
    }
}

#define EVENT_ID_MAX INT64_C(999999999999999999)

#define LAST_ROW                                                                                   \
    FIELD_INT(IN_QUERY, struct events_in, last, "last-event-id", 0, EVENT_ID_MAX,                  \
              "Go on after this event, for those who cannot set the header Last-Event-ID",         \
              .preset = -1)

static const struct route_field LAST = LAST_ROW;

/* The event to resume after. False after an answer. */
static bool find_start(struct events *e, struct http_request *r, uint64_t *ret_sent)
{
    const struct str *header = head_field(&r->head, "Last-Event-ID");
    struct events_in *in = r->in;
    struct route_field_error wrong;
    if (header && field_read_text(&LAST, *header, &r->arena, in, &wrong)) {
        http_reply_field(r, "Last-Event-ID", "Last-Event-ID is not the id of an event");
        return false;
    }
    LOCKED(&e->lock);
    *ret_sent = in->last < 0 ? e->next - 1 : (uint64_t)in->last;
    return true;
}

static bool is_kind(struct str word)
{
    struct str kinds = STR(KINDS);
    while (kinds.len) {
        struct str kind = str_cut(&kinds, ',');
        if (str_eq(word, kind))
            return true;
        if (kinds.len) /* a space */
            kinds = (struct str){kinds.p + 1, kinds.len - 1};
    }
    return false;
}

/* Whether events of a kind can have the word. A kind that does not say so can have any. */
static bool can_have(const struct events *e, struct str kind, int field, struct str word)
{
    const struct event_words *w = NULL;
    for (int i = 0; i < e->words_count && !w; i++)
        w = str_eq(kind, str_of(e->words[i]->kind)) ? e->words[i] : NULL;
    if (field == GROUP)
        return w && w->has_group;
    bool (*const is_word[])(struct str) = {[ID] = w ? w->is_id : NULL,
                                           [TYPE] = w ? w->is_type : NULL,
                                           [STATE] = w ? w->is_state : NULL};
    return !is_word[field] || is_word[field](word);
}

/* Whether one of the kinds that are asked for can have it. */
static bool any_can_have(const struct events *e, struct str kinds, int field, struct str word)
{
    do {
        if (can_have(e, str_cut(&kinds, ','), field, word))
            return true;
    } while (kinds.p);
    return false;
}

/* Refuses kinds that there are not, and ids, types, groups and states that those cannot have. */
static bool are_filters_known(struct events *e, struct http_request *r)
{
    const struct str *filter = ((struct events_in *)r->in)->filter;
    for (int i = KIND; i < FIELD_COUNT; i++) {
        struct str list = filter[i];
        while (list.len) {
            struct str word = str_cut(&list, ',');
            int shown = (int)(word.len < 80 ? word.len : 80);
            if (!word.len)
                continue;
            if (i == KIND && !is_kind(word)) {
                http_reply_field(r, "kind", "kind: '%.*s' is none of " KINDS, shown, word.p);
                return false;
            }
            if (i != KIND && filter[KIND].len && !any_can_have(e, filter[KIND], i, word)) {
                http_reply_field(r, FIELD_NAMES[i], "%s: a %.*s cannot have '%.*s'", FIELD_NAMES[i],
                                 STR_ARGS(filter[KIND]), shown, word.p);
                return false;
            }
        }
    }
    return true;
}

/* Notes which kinds the listener names, when it comes, and again while it is there. */
static void note_kinds(struct events *e, const struct event_listener *l)
{
    struct str named = l->in->filter[KIND];
    for (int i = 0; named.len && i < e->words_count; i++)
        if (is_among(named, str_of(e->words[i]->kind)))
            atomic_store(&e->named_ms[i], clock_boot_ms());
}

bool events_are_wanted(struct events *e, const struct event_words *words)
{
    for (int i = 0; i < e->words_count; i++)
        if (e->words[i] == words) {
            int64_t named_ms = atomic_load_explicit(&e->named_ms[i], memory_order_relaxed);
            return named_ms && clock_boot_ms() - named_ms < WANTED_MS;
        }
    return false;
}

static void listener_new(struct events *e, struct http_request *r, uint64_t sent)
{
    struct event_listener *l = mem_alloc(sizeof *l);
    *l = (struct event_listener){
        .next = e->listeners, .events = e, .request = r, .in = r->in, .sent = sent};
    if (l->next)
        l->next->prev = l;
    e->listeners = l;
    note_kinds(e, l);
    r->handler_data = l;
    r->gone = on_gone;
    r->drained = serve_soon;
    pthread_mutex_lock(&e->lock);
    e->listened = true;
    pthread_mutex_unlock(&e->lock);
    serve(r);
}

static void get_events(struct http_request *r)
{
    struct events *e = r->arg;
    uint64_t sent;
    if (!find_start(e, r, &sent) || !are_filters_known(e, r) || !http_may_wait(r))
        return;
    http_add_header(r, "Cache-Control", STR("no-store"));
    if (http_stream_begin(r, "text/event-stream"))
        listener_new(e, r, sent);
}

#define FILTER(field, name, help)                                                                  \
    FIELD_TEXT(IN_QUERY, struct events_in, filter[field], name, 0, INT64_MAX, help)

static const struct route ROUTES[] = {
    {METHOD_GET, "/v1/events", get_events, ROLE_READ, "Follow changes as Server-Sent Events",
     "followEvents", .reply = "text/event-stream",
     ROUTE_IN(struct events_in, FILTER(KIND, "kind", "Kinds of things, comma-separated: " KINDS),
              FILTER(ID, "id", "Ids, comma-separated"),
              FILTER(TYPE, "type", "Types, comma-separated"),
              FILTER(GROUP, "group", "Groups of tasks, comma-separated"),
              FILTER(STATE, "state", "States, comma-separated"), LAST_ROW)},
};

struct route_table events_routes(struct events *e)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, e, .tag = "Events"};
}

/* Opening and closing. */

void events_know(struct events *e, const struct event_words *words)
{
    assert(e->words_count < EVENTS_WORDS_MAX);
    e->words[e->words_count++] = words;
}

struct events *events_new(uv_loop_t *loop)
{
    struct events *e = mem_zalloc(sizeof *e);
    e->first = e->next = (uint64_t)clock_wall_ms() << 10;
    pthread_mutex_init(&e->lock, NULL);
    UV_CHECK(uv_async_init(loop, &e->wake, on_wake));
    UV_CHECK(uv_timer_init(loop, &e->alive));
    e->wake.data = e->alive.data = e;
    e->open_handles = 2;
    UV_CHECK(uv_timer_start(&e->alive, on_alive, EVENTS_ALIVE_MS, EVENTS_ALIVE_MS));
    return e;
}

static void on_closed(uv_handle_t *handle)
{
    struct events *e = handle->data;
    if (--e->open_handles)
        return;
    while (e->first < e->next)
        drop_oldest(e);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

void events_free(struct events *e)
{
    uv_close((uv_handle_t *)&e->wake, on_closed);
    uv_close((uv_handle_t *)&e->alive, on_closed);
}
