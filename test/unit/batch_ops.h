/*
 * batch_ops - every operation of batches, jobs, locks and access items, each as a test can start it: what
 * comes before, what its victim has to hold, the operation itself.
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

#include "batch/batch.h"
#include "batch/job.h"
#include "batch_tree.h"
#include "keeper/local/local.h"

struct scene {
    struct local *local;
    struct keeper *k, *victim; /* who looks, and who is killed */
    struct batch_store *store;
    struct arena a;
    struct err_info why;
    struct batch_call c;
    char bid[BATCH_ID_LEN + 1], jids[3][BATCH_ID_LEN + 1], qid[BATCH_ID_LEN + 1];
    int64_t token;
};

/*
 * WHOLE is one transaction: the tree is as before or as after. STEPS are several: what always holds
 * does in between, and whoever does it again finishes it. REPAIR starts from a tree where it does not.
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
/* The batch is to be reported. */
void due(struct scene *s);
void end(struct scene *s);
/* How much is wrong with the tree. */
int64_t findings(struct scene *s);
int move_batch(struct batch_call *c, const char *bid, const char *state, int64_t token);
void ok(struct scene *s, int err);
void take_batch(struct scene *s, struct batch_call *c);

#endif
