/*
 * machine - which states a batch, a job or an access item may take, and in which order. Pure.
 *
 * A machine is a table: its states, for each where it may go, where success and failure lead, and,
 * for jobs, in which list of its batch a job in that state stands. A state without a way out is an
 * end. The three of the document are built in; batch_machines_load() reads others from JSON:
 *
 *     {"job": {"first": "Pending", "held": "Held", "states": {
 *         "Pending": {"to": ["Held", "Estimating", "Failed"],
 *                     "success": "Estimating", "fail": "Failed"},
 *         "Failed": {"to": ["Pending", "Deleted"], "batch": "batch-failed"},
 *         "Completed": {"batch": "batch-completed"}, ...}},
 *      "access": {...}, "batch": {...}}
 *
 * A machine that the file does not name stays the built-in one. A state with "keep": true is worked
 * on by whoever brought the item there, so that its lock stays.
 *
 * What always holds for a machine that was loaded: names are distinct also in lower case, every state
 * can be reached from the first, from every state an end can be reached, every name that is used is a
 * state, and success and fail are among the ways out.
 */
#ifndef BATCH_MACHINE_H
#define BATCH_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { BATCH_STATES_MAX = 64, BATCH_STATE_NAME_MAX = 40, BATCH_NO_STATE = -1 };

/* The lists of a batch, by their order in the document. */
enum batch_list {
    BATCH_LIST_PROCESSING,
    BATCH_LIST_FAILED,
    BATCH_LIST_COMPLETED,
    BATCH_LIST_DELETED,
    BATCH_LIST_COUNT,
};

extern const char *const BATCH_LISTS[BATCH_LIST_COUNT]; /* "batch-processing", ... */

struct batch_machine_state {
    const char *name;  /* "Pending": in JSON */
    const char *dir;   /* "pending": in paths */
    uint64_t to;       /* a bit for each state that it may become; none: an end */
    int success, fail; /* or BATCH_NO_STATE */
    enum batch_list list;
    bool keeps; /* the lock stays with whoever brought it here */
};

struct batch_machine {
    const char *what; /* "job": for messages */
    const struct batch_machine_state *states;
    int count, first, held; /* held: or BATCH_NO_STATE */
};

struct batch_machines {
    struct batch_machine job, batch, access;
};

extern const struct batch_machines BATCH_MACHINES_BUILT_IN;

/* The state of a name, in either case ("Pending", "pending"), or BATCH_NO_STATE. */
int batch_machine_find(const struct batch_machine *m, struct str name);

/* The same; BAD_ARGUMENT where there is none, and ret_error names those that there are. */
int batch_machine_named(const struct batch_machine *m, struct str name, struct err_info *ret_error);

static inline bool batch_machine_is_end(const struct batch_machine *m, int state)
{
    return m->states[state].to == 0;
}

static inline bool batch_machine_allows(const struct batch_machine *m, int from, int to)
{
    return m->states[from].to >> to & 1;
}

/*
 * What a request calls the new state: a name, "next" (where success leads) or "fail". Returns the
 * state; BAD_ARGUMENT where there is none of that name; NOT_ALLOWED where it cannot be reached from
 * there, and ret_error says what can.
 */
int batch_machine_resolve(const struct batch_machine *m, int from, struct str wanted,
                          struct err_info *ret_error);

/*
 * Reads machines from JSON; what they hold lives in the arena. ret_machines starts as the built-in
 * ones and stays untouched on failure.
 */
int batch_machines_load(struct arena *a, struct str text, struct batch_machines *ret_machines,
                        struct err_info *ret_error);

#endif
