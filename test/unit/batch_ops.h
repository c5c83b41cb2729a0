/*
 * batch_ops - every operation on batches, jobs, locks and access items, for the crash tests: its
 * preparation, the lock that the victim needs, and the operation itself.
 */
#ifndef TEST_BATCH_OPS_H
#define TEST_BATCH_OPS_H

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
    struct keeper *k, *victim; /* the observer, and the session that is killed */
    struct batch_store *store;
    struct arena a;
    struct err_info why;
    struct batch_call c;
    char bid[BATCH_ID_LEN + 1], jids[3][BATCH_ID_LEN + 1], qid[BATCH_ID_LEN + 1];
    int64_t token;
};

/*
 * WHOLE is one transaction: the tree is as before or as after. STEPS are several: the invariants
 * hold in between, and repeating the operation finishes it. REPAIR starts from a tree that violates
 * them.
 */
struct batch_op {
    const char *name;
    void (*before)(struct scene *s);
    void (*take)(struct scene *s, struct batch_call *c); /* by the victim */
    int (*op)(struct scene *s, struct batch_call *c);
    enum { WHOLE, STEPS, REPAIR } how;
};

extern const struct batch_op OPS[];
extern const int OP_COUNT;

/* A batch with three jobs, and an access item. */
void begin(struct scene *s);
/* The report of the batch is due. */
void due(struct scene *s);
void end(struct scene *s);
/* The number of findings of fsck. */
int64_t findings(struct scene *s);
int move_batch(struct batch_call *c, const char *bid, const char *state, int64_t token);
void ok(struct scene *s, int err);
void take_batch(struct scene *s, struct batch_call *c);

#endif
