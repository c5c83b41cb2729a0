/*
 * world_scene - fixture of the unit tests of worlds: a tree in memory, or on the ZooKeeper that
 * DROVER_TEST_ZK names, one session, and the world w1.
 */
#ifndef TEST_WORLD_SCENE_H
#define TEST_WORLD_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "keeper_stand.h"
#include "world/world.h"

struct scene {
    struct stand stand;
    struct keeper *k;
    struct world *w;
    struct arena a;
    struct err_info e;
    struct buf notes; /* warnings of the world */
};

void scene_open(struct scene *s);
void scene_close(struct scene *s);

/* The tree as lines "path data", without the keeper's own nodes; of a claim only that it exists. */
char *dump(struct scene *s);

#define expect_tree(s, ...) assert_string_equal(dump(s), "" __VA_ARGS__)

/* Under how many parents it was queued, or an error. parent NULL: at the top. */
int queue(struct scene *s, const char *name, const char *type, const char *data, const char *parent,
          const char *parent_type);

/* The same at the top, with a limit of attempts. */
int queue_limited(struct scene *s, const char *name, const char *type, const char *data,
                  int64_t attempts);

/* The key of the claim, or "none". */
const char *claim_with(struct scene *s, struct keeper *k, const char *type);

#define claim(s, type) claim_with((s), (s)->k, (type))

/* 1: it was queued again meanwhile. */
int complete(struct scene *s, const char *key);

/* 1: the task has failed for good. */
int fail_task(struct scene *s, const char *key, const char *error, bool final);

#endif
