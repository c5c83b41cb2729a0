/*
 * machine - which states a batch, a job or an access item may take, and in which order. Pure.
 *
 * A machine is a table: its states, for each where it may go, where success and failure lead, and,
 * for jobs, in which list of its batch a job in that state stands. A state without a way out is an
 * end. The three of the document are built in; machines_load() reads others from JSON:
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

enum { MACHINE_STATES_MAX = 64, MACHINE_NAME_MAX = 40, MACHINE_NONE = -1 };

/* The lists of a batch, by their order in the document. */
enum machine_list {
    MACHINE_PROCESSING,
    MACHINE_FAILED,
    MACHINE_COMPLETED,
    MACHINE_DELETED,
    MACHINE_LIST_COUNT,
};

extern const char *const MACHINE_LISTS[MACHINE_LIST_COUNT]; /* "batch-processing", ... */

struct machine_state {
    const char *name;  /* "Pending": in JSON */
    const char *dir;   /* "pending": in paths */
    uint64_t to;       /* a bit for each state that it may become; none: an end */
    int success, fail; /* or MACHINE_NONE */
    enum machine_list list;
    bool keeps; /* the lock stays with whoever brought it here */
};

struct machine {
    const char *what; /* "job": for messages */
    const struct machine_state *states;
    int count, first, held; /* held: or MACHINE_NONE */
};

struct machines {
    struct machine job, batch, access;
};

extern const struct machines MACHINES_BUILT_IN;

/* The state of a name, in either case ("Pending", "pending"), or MACHINE_NONE. */
int machine_find(const struct machine *m, struct str name);

/* The same; BAD_ARGUMENT where there is none, and ret_error names those that there are. */
int machine_named(const struct machine *m, struct str name, struct err_info *ret_error);

static inline bool machine_is_end(const struct machine *m, int state)
{
    return m->states[state].to == 0;
}

static inline bool machine_allows(const struct machine *m, int from, int to)
{
    return m->states[from].to >> to & 1;
}

/*
 * What a request calls the new state: a name, "next" (where success leads) or "fail". Returns the
 * state; BAD_ARGUMENT where there is none of that name; NOT_ALLOWED where it cannot be reached from
 * there, and ret_error says what can.
 */
int machine_resolve(const struct machine *m, int from, struct str wanted,
                    struct err_info *ret_error);

/*
 * Reads machines from JSON; what they hold lives in the arena. ret_machines starts as the built-in
 * ones and stays untouched on failure.
 */
int machines_load(struct arena *a, struct str text, struct machines *ret_machines,
                  struct err_info *ret_error);

#endif
