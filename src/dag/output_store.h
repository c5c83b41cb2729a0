/*
 * output_store - the directory with the outputs of runs: a file for each run whose output is not
 * small, in directories of 1,000 nodes:
 *
 *     DIR/12/12034-1763459045123.out    node 12034, a run that goes on (output_format.h)
 *     DIR/12/12034-1763459045123.zst    one that has ended
 *
 * The number of a run is the time of its start in ms, and is never used twice for a node.
 *
 * A thread of low priority seals the files of runs that have ended, removes those of nodes that are
 * gone, and the oldest (by node) when all together are larger than the total. A crash leaves a
 * file as it was: the next start cuts its torn end and seals it.
 */
#ifndef DAG_OUTPUT_STORE_H
#define DAG_OUTPUT_STORE_H

#include "dag/output.h"

struct output_store;

struct output_store_options {
    const char *dir;
    int64_t total;  /* bytes; 0: no limit */
    bool is_shared; /* others write there too: files that nobody knows are left alone */
};

int output_store_open(const struct output_store_options *o, struct output_store **ret_store,
                      struct err_info *ret_error);
void output_store_close(struct output_store *s); /* NULL: does nothing. Waits for the thread */
void output_store_set_total(struct output_store *s, int64_t total);

/* A number for a run that begins now. */
uint64_t output_store_run(struct output_store *s, int64_t now_ms);

/* The path of a file, without its suffix. */
void output_store_path(const struct output_store *s, uint64_t node, uint64_t run, struct buf *b);

/* For output.c: creates a file, -1: failed; writing failed; the files have grown or shrunk. */
int output_store_create(struct output_store *s, uint64_t node, uint64_t run);
void output_store_failed(struct output_store *s, int error);
void output_store_grew(struct output_store *s, uint64_t len);
void output_store_shrank(struct output_store *s, uint64_t len);

/*
 * The run has ended (output_end()): keeps all of its output. Without a file so far it is written
 * sealed, else the thread seals it. False: it could not be written.
 */
bool output_store_keep(struct output_store *s, const struct output *o);

void output_store_drop(struct output_store *s, uint64_t node, uint64_t run); /* by the thread */

/* After a start: the files that nodes have, by node and run. Others are removed. Takes the list. */
struct output_name {
    uint64_t node, run;
};

void output_store_know(struct output_store *s, struct output_name *names, size_t count);

/* The newest run of a node that has a file; 0: none has. After a crash the record may not know. */
uint64_t output_store_find(struct output_store *s, uint64_t node);

/* Waits until the thread has nothing left to do. For tests. */
void output_store_settle(struct output_store *s);

struct output_store_numbers {
    uint64_t bytes;   /* in the files */
    uint64_t missing; /* bytes that commands printed and that were not kept */
    uint64_t removed; /* files, because of the total */
};

void output_store_count_missing(struct output_store *s, uint64_t bytes);
struct output_store_numbers output_store_numbers(const struct output_store *s);

#endif
