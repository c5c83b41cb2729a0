/*
 * events - publishes changes as Server-Sent Events: GET /v1/events.
 *
 * Modules publish from any thread, after the change. The last events are kept in a ring, so that a
 * listener that was cut off can resume (Last-Event-ID). A slow listener is not waited for: when the
 * ring has overtaken it, it gets an event "lost" and has to read the state again.
 *
 * Ids rise, also over a restart: the first one is made from the time.
 */
#ifndef HTTP_EVENTS_H
#define HTTP_EVENTS_H

#include <uv.h>

#include "base/str.h"
#include "http/route.h"

enum {
    EVENTS_KEPT = 10000,
    EVENTS_LEN_MAX = 16 * 1024 * 1024, /* of all kept events */
    EVENTS_ALIVE_MS = 15 * 1000,       /* a comment is sent on a silent stream */
    EVENTS_WORDS_MAX = 8,              /* kinds with known words */
};

/* One change. Borrowed for the call; what does not apply is empty. */
struct event {
    const char *kind; /* "task", "node", "job": the name of the event */
    struct str id;    /* of the thing that changed */
    struct str type, group;
    struct str state;
    struct str json; /* the data sent to listeners */
};

/* Which ids, types and states events of one kind can have. NULL: any. */
struct event_words {
    const char *kind;
    bool (*is_id)(struct str word);
    bool (*is_type)(struct str word);
    bool (*is_state)(struct str word);
    bool has_group;
};

struct events;

/* On the loop. */
struct events *events_new(uv_loop_t *loop);

/* No listener may be left. Frees itself on the loop: run it until then. */
void events_free(struct events *e);

/*
 * On the loop, before it serves. A listener of kinds of which none has a word that it names is
 * refused: it would wait for ever. `words` is borrowed.
 */
void events_know(struct events *e, const struct event_words *words);

void events_publish(struct events *e, const struct event *event);

/*
 * For kinds that change often: whether a listener names this kind, or did in the last minute, so
 * that one that was cut off can resume. Any thread. At most EVENTS_WORDS_MAX kinds are known.
 */
bool events_are_wanted(struct events *e, const struct event_words *words);

/* GET /v1/events. */
struct route_table events_routes(struct events *e);

#endif
