/*
 * machine - the state machines of batches, jobs and access items. Pure.
 *
 * A machine is a table: its states, and for each state the states that may follow, the ones that
 * success and failure lead to, and, for jobs, the list of the batch that holds a job in that state.
 * A state that nothing follows is final. The machines of the specification are built in;
 * batch_machines_load() reads others from JSON:
 *
 *     {"job": {"first": "Pending", "held": "Held", "states": {
 *         "Pending": {"to": ["Held", "Estimating", "Failed"],
 *                     "success": "Estimating", "fail": "Failed"},
 *         "Failed": {"to": ["Pending", "Deleted"], "batch": "batch-failed"},
 *         "Completed": {"batch": "batch-completed"}, ...}},
 *      "access": {...}, "batch": {...}}
 *
 * A machine that the file does not name stays the built-in one. With "keep": true, an item that
 * moves into the state keeps its lock, because the same worker continues.
 *
 * Invariants of a loaded machine: names are distinct even without regard to case, every state can
 * be reached from the first one, a final state can be reached from every state, every name used is
 * a state, and success and fail are among the states that may follow.
 */
#ifndef BATCH_MACHINE_H
#define BATCH_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

enum { BATCH_STATES_MAX = 64, BATCH_STATE_NAME_MAX = 40, BATCH_NO_STATE = -1 };

/* The lists of a batch, in the order of the specification. */
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
    uint64_t to;       /* one bit for each state that may follow; 0: a final state */
    int success, fail; /* or BATCH_NO_STATE */
    enum batch_list list;
    bool keeps_lock; /* an item that moves here stays locked */
};

struct batch_machine {
    const char *noun; /* "job": for messages */
    const struct batch_machine_state *states;
    int count, first, held; /* held may be BATCH_NO_STATE */
    bool is_job;            /* its states belong to lists of a batch */
};

struct batch_machines {
    struct batch_machine job, batch, access;
};

extern const struct batch_machines BATCH_MACHINES_BUILT_IN;

/*
 * A second table that is built in, as JSON for batch_machines_load(): jobs are Storing between
 * Processing and Recording, as in newer releases of the library of the specification's authors.
 */
#define BATCH_PIPELINE_STORING "storing"

/* The state of a name, regardless of case ("Pending", "pending"), or BATCH_NO_STATE. */
int batch_machine_find(const struct batch_machine *m, struct str name);

/* The same, or BAD_ARGUMENT with a message that lists the states. */
int batch_machine_named(const struct batch_machine *m, struct str name, struct err_info *ret_error);

/* A state that the machine does not know is not final. */
static inline bool batch_machine_is_final(const struct batch_machine *m, int state)
{
    return state != BATCH_NO_STATE && m->states[state].to == 0;
}

static inline bool batch_machine_allows(const struct batch_machine *m, int from, int to)
{
    return m->states[from].to >> to & 1;
}

/*
 * The state that a request asks for: a name, "next" (where success leads) or "fail". BAD_ARGUMENT
 * if no state has that name. NOT_ALLOWED if it cannot follow `from`; the message names the item
 * `id` and says what can follow.
 */
int batch_machine_resolve(const struct batch_machine *m, int from, const char *id,
                          struct str wanted, struct err_info *ret_error);

/*
 * Reads machines from JSON, or finds those of a name (BATCH_PIPELINE_STORING); they live in the
 * arena. Machines that the text does not name are the built-in ones. ret_machines is untouched on
 * failure.
 */
int batch_machines_load(struct arena *a, struct str text, struct batch_machines *ret_machines,
                        struct err_info *ret_error);

/*
 * status - the JSON of the status node of a batch, a job or an access item. Pure.
 *
 *     job:     {"status", "last_successful_status", "last_modification_date", "retry_count",
 *               "message"}
 *     others:  {"status", "last_modified", "message"}
 *
 * Writing a status that was read keeps every member and their order, and gives new values to those
 * above. A job's last_modified, which some foreign clients write, is also a date of the change.
 *
 * The text is input. A status that is not an object, or whose state could not be the name of a
 * node, is DAMAGED. A state that the machine does not know is not an error: another client may have
 * a larger table. Such an item is read, listed and counted, but only a client that knows its state
 * moves it.
 */

struct batch_status {
    int state;                    /* BATCH_NO_STATE: the machine does not know it */
    struct str name;              /* of the state if the machine does not know it */
    struct str last_successful;   /* job; p NULL: none */
    int64_t retry_count;          /* job */
    struct str modified, message; /* message.p NULL: none */
    unsigned members;             /* of those above, which were read: one bit each */
    const struct json *json;      /* the status as it was read; NULL: it is new, or from a cache */
};

/* The name of its state. */
static inline struct str batch_status_name(const struct batch_machine *m,
                                           const struct batch_status *s)
{
    return s->state == BATCH_NO_STATE ? s->name : str_of(m->states[s->state].name);
}

/* text and the arena must outlive ret_status. */
int batch_status_read(const struct batch_machine *m, struct arena *a, struct str text,
                      struct batch_status *ret_status, struct err_info *ret_error);

/* Whether it can be written without its JSON, and has no text of its own besides the date. */
bool batch_status_is_plain(const struct batch_machine *m, const struct batch_status *s);

/* As JSON, in the arena. */
struct str batch_status_write(const struct batch_machine *m, const struct batch_status *s,
                              struct arena *a);

#endif
