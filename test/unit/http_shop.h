/*
 * http_shop - a server for the tests of the HTTP server: it has items, handlers that give them out,
 * wait for them, block, hold the loop, and answer from elsewhere.
 */
#ifndef TEST_HTTP_SHOP_H
#define TEST_HTTP_SHOP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/conn.h"
#include "serving.h"

/* What the handlers share with the tests. */
struct shop {
    struct serving serving;
    struct http_topic topic;
    pthread_mutex_t lock;
    int items;
    sem_t entered, go;   /* a handler is inside; it may go on */
    atomic_int entries;  /* how often handlers were run */
    atomic_int unparked; /* how often requests left the topic */
};

/* For cmocka. A test that has closed its shop sets *state to NULL. */
int open_shop(void **state);
int open_with(void **state, const struct http_options *o);
int close_shop(void **state);
int close_if_open(void **state);

/* Adds that many items and wakes that many requests. */
void stock(struct shop *shop, int items, int wake);

/* body NULL: any. */
void expect(struct shop *shop, const char *target, int status, const char *body);

#endif
