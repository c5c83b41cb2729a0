/*
 * events - what has changed, told to whoever listens: GET /v1/events, as Server-Sent Events.
 *
 * Rooms publish from any thread, after the change has happened. The last events are kept in a ring, so
 * that a listener that was cut off can go on where it was (Last-Event-ID). A listener that is slow is
 * left behind, not waited for; where the ring has gone on without it, it gets an event "lost", after
 * which it has to look for itself.
 *
 * Ids rise, also over a restart: the first one is made from the time.
 */
#ifndef HTTP_EVENTS_H
#define HTTP_EVENTS_H

#include <uv.h>

#include "base/str.h"
#include "http/router.h"

enum {
    EVENTS_KEPT = 10000,
    EVENTS_LEN_MAX = 16 * 1024 * 1024, /* of all that are kept */
    EVENTS_ALIVE_MS = 15 * 1000,       /* a comment tells that a silent stream is alive */
    EVENTS_WORDS_MAX = 8,              /* kinds whose words are known */
};

/* What listeners can choose by. Borrowed for the call; what does not apply is empty. */
struct event {
    const char *kind; /* "task", "node", "job": the name of the event */
    struct str id;    /* of the thing that changed */
    struct str type;
    struct str state;
    struct str json; /* what listeners are sent */
};

/* Which words there are to choose events of one kind by. NULL: any. */
struct event_words {
    const char *kind;
    bool (*is_id)(struct str word);
    bool (*is_type)(struct str word);
    bool (*is_state)(struct str word);
};

struct events;

/* On the loop. */
struct events *events_new(uv_loop_t *loop);

/* When no listener is left. Frees itself: run the loop until then. */
void events_free(struct events *e);

/*
 * On the loop, before it serves. Who listens to this kind alone and names another word is refused: it
 * would wait for ever. `words` is borrowed.
 */
void events_know(struct events *e, const struct event_words *words);

void events_publish(struct events *e, const struct event *event);

/* GET /v1/events?kind=&id=&type=&state=: each a list with commas, of which one must fit. */
struct route_table events_routes(struct events *e);

#endif
