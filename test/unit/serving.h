/*
 * serving - a real HTTP server on a loop of its own thread, and a client that waits, for unit
 * tests.
 *
 * Start it with route tables (and events, where wanted), talk to it, stop it.
 */
#ifndef UNIT_SERVING_H
#define UNIT_SERVING_H

#include <pthread.h>
#include <semaphore.h>

#include "http/events.h"
#include "http/server.h"

struct serving {
    uv_loop_t loop;
    uv_async_t stop;
    pthread_t thread;
    struct http_server *http;
    struct events *events;
    int port;
};

void serving_start(struct serving *s, const struct http_options *o, const struct route *routes,
                   size_t count, void *arg);

/* Returns when the server is closed, every handler has returned and the loop has run out. */
void serving_stop(struct serving *s);

/* A connection. Everything that goes wrong fails the test. */
int serving_connect(const struct serving *s);

/* Sends "METHOD target" with a body, where there is one, that is JSON. */
void serving_send(int fd, const struct serving *s, const char *method, const char *target,
                  const char *body);

/* Reads until the text has arrived, and returns all that was read; valid until the next call. */
const char *serving_read_to(int fd, const char *text);

/*
 * Reads one answer with a length. Returns its status; *ret_body, until the next call, without the
 * newline that JSON must end with.
 */
int serving_answer(int fd, const char **ret_body);

/* All in one, on a connection of its own. */
int serving_ask(const struct serving *s, const char *method, const char *target, const char *body,
                const char **ret_body);

#endif
