/*
 * batch_scene - the fixture of the unit tests of batch: a tree with two sessions, and a store.
 *
 * The tree is the embedded keeper in memory; or, if DROVER_TEST_ZK names one, a real ZooKeeper,
 * below a node of its own. There both sessions connect to the first server of the URL, because only
 * on the same server does one session see at once what the other has changed.
 */
#ifndef TEST_BATCH_SCENE_H
#define TEST_BATCH_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "batch/item.h"
#include "batch_tree.h"
#include "keeper/local/local.h"

struct scene {
    struct local *local;
    char url[512];            /* of the ZooKeeper; empty: none */
    struct keeper *k, *other; /* two sessions */
    struct batch_store *store;
    struct arena arena;
    struct err_info why;
    struct batch_call c, c2;
    char events[4096]; /* the events: "job jid... Pending;" */
};

/* For cmocka. The teardown also checks the tree. */
int scene_setup(void **state);
int scene_teardown(void **state);

bool scene_on_zookeeper(void);
struct keeper *scene_connect(struct scene *s);

#define OK(s, call)                                                                                \
    do {                                                                                           \
        int ok_err = (call);                                                                       \
        if (ok_err < 0)                                                                            \
            fail_msg("%s: %s (%s)", #call, drover_err_name(ok_err), (s)->why.text);                \
    } while (0)

const struct json *parse(struct scene *s, const char *text);
const char *new_batch(struct scene *s, const char *submission);
const char *new_job(struct scene *s, const char *bid, const char *spec);
void expect_tree(struct scene *s, const char *path, const char *wanted);
int state_no(struct scene *s, const char *name);
int move(struct batch_call *c, const char *jid, const char *to, int64_t token);
void all_the_way(struct scene *s, const char *jid); /* "next" until it is Completed */
int batch_to(struct batch_call *c, const char *bid, const char *to, int64_t token);
const char *batch_state(struct scene *s, const char *bid);

/* What another client does, which must succeed. */
void node_set(struct scene *s, const char *path, const char *data);
void node_create(struct scene *s, const char *path);
void node_ensure(struct scene *s, const char *path);

#endif
