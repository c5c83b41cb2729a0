/*
 * output_read - reads the output of a node wherever it is: in a run that goes on, in a file, in the
 * values of its record. For the routes.
 *
 * In order: output_read_init() -> output_read_look() on the loop, which finds out where it is now
 * -> output_read_more() on any thread -> look again, and so on -> output_read_release().
 */
#ifndef DAG_OUTPUT_READ_H
#define DAG_OUTPUT_READ_H

#include "dag/output.h"
#include "dag/service.h"

enum output_place { OUTPUT_NOWHERE, OUTPUT_LIVE, OUTPUT_IN_FILE, OUTPUT_IN_VALUES };

struct output_read {
    struct dag *dag;
    uint64_t node, run; /* run: what tells one run of the node from another; 0: none yet */
    struct output_want want;
    size_t max; /* bytes at a time */

    /* Set by `look`. */
    enum output_place place;
    struct output_at total; /* printed so far */
    uint64_t missing;       /* of that */
    bool ended;             /* there will be no more, of any run */
    bool again;             /* the place is known, but its reader must start anew */

    /* Set by `more`. */
    struct buf piece;
    int err;
    struct err_info why;

    /* Private. */
    struct output_view view;
    struct output_file file;
    struct buf path;
    struct datum_slot *slots; /* of the value */
    uint32_t slot_count;
    bool reads_keeper;
};

void output_read_init(struct output_read *o, struct dag *d, const struct dag_node *n,
                      enum run_stream s, enum output_form form);
void output_read_release(struct output_read *o);

/* False: there is no such node any more. When the node runs again, it goes on with the new run. */
bool output_read_look(struct output_read *o);

/* Appends to `piece`, up to about `max` bytes. Empty: there is no more now. */
void output_read_more(struct output_read *o);

/* Whether `more` only copies, or reads what was written a moment ago: then it need not be away. */
bool output_read_is_near(const struct output_read *o);

#endif
