/*
 * The three machines of the document, and the questions that can be asked of any.
 *
 * The order of the states is the order in which a thing usually passes them; lists and progress bars
 * show them so.
 */
#include "batch/machine.h"

#include <stdio.h>
#include <strings.h>

#define TO(state) (UINT64_C(1) << (state))

const char *const BATCH_LISTS[BATCH_LIST_COUNT] = {
    "batch-processing",
    "batch-failed",
    "batch-completed",
    "batch-deleted",
};

enum {
    JOB_PENDING,
    JOB_HELD,
    JOB_ESTIMATING,
    JOB_PROVISIONING,
    JOB_DOWNLOADING,
    JOB_PROCESSING,
    JOB_RECORDING,
    JOB_NOTIFY,
    JOB_FAILED,
    JOB_COMPLETED,
    JOB_DELETED,
    JOB_COUNT,
};

#define JOB_STEP(label, path, next)                                                                \
    {                                                                                              \
        .name = label, .dir = path, .to = TO(next) | TO(JOB_FAILED), .success = next,              \
        .fail = JOB_FAILED                                                                         \
    }

static const struct batch_machine_state JOB_STATES[JOB_COUNT] = {
    [JOB_PENDING] = {.name = "Pending",
                     .dir = "pending",
                     .to = TO(JOB_HELD) | TO(JOB_ESTIMATING) | TO(JOB_FAILED),
                     .success = JOB_ESTIMATING,
                     .fail = JOB_FAILED},
    [JOB_HELD] = {.name = "Held",
                  .dir = "held",
                  .to = TO(JOB_PENDING) | TO(JOB_DELETED),
                  .success = JOB_PENDING,
                  .fail = BATCH_NO_STATE},
    [JOB_ESTIMATING] = JOB_STEP("Estimating", "estimating", JOB_PROVISIONING),
    [JOB_PROVISIONING] = JOB_STEP("Provisioning", "provisioning", JOB_DOWNLOADING),
    [JOB_DOWNLOADING] = JOB_STEP("Downloading", "downloading", JOB_PROCESSING),
    [JOB_PROCESSING] = JOB_STEP("Processing", "processing", JOB_RECORDING),
    [JOB_RECORDING] = JOB_STEP("Recording", "recording", JOB_NOTIFY),
    [JOB_NOTIFY] = JOB_STEP("Notify", "notify", JOB_COMPLETED),
    [JOB_FAILED] = {.name = "Failed",
                    .dir = "failed",
                    .to = TO(JOB_PENDING) | TO(JOB_ESTIMATING) | TO(JOB_PROVISIONING) |
                          TO(JOB_DOWNLOADING) | TO(JOB_PROCESSING) | TO(JOB_RECORDING) |
                          TO(JOB_NOTIFY) | TO(JOB_DELETED),
                    .success = BATCH_NO_STATE,
                    .fail = BATCH_NO_STATE,
                    .list = BATCH_LIST_FAILED},
    [JOB_COMPLETED] = {.name = "Completed",
                       .dir = "completed",
                       .success = BATCH_NO_STATE,
                       .fail = BATCH_NO_STATE,
                       .list = BATCH_LIST_COMPLETED},
    [JOB_DELETED] = {.name = "Deleted",
                     .dir = "deleted",
                     .success = BATCH_NO_STATE,
                     .fail = BATCH_NO_STATE,
                     .list = BATCH_LIST_DELETED},
};

enum {
    BATCH_PENDING,
    BATCH_HELD,
    BATCH_PROCESSING,
    BATCH_REPORTING,
    BATCH_FAILED,
    BATCH_UPDATE_REPORTING,
    BATCH_COMPLETED,
    BATCH_DELETED,
    BATCH_COUNT,
};

static const struct batch_machine_state BATCH_STATES[BATCH_COUNT] = {
    [BATCH_PENDING] = {.name = "Pending",
                       .dir = "pending",
                       .to = TO(BATCH_HELD) | TO(BATCH_PROCESSING),
                       .success = BATCH_PROCESSING,
                       .fail = BATCH_NO_STATE},
    [BATCH_HELD] = {.name = "Held",
                    .dir = "held",
                    .to = TO(BATCH_PENDING) | TO(BATCH_DELETED),
                    .success = BATCH_PENDING,
                    .fail = BATCH_NO_STATE},
    [BATCH_PROCESSING] = {.name = "Processing",
                          .dir = "processing",
                          .to = TO(BATCH_REPORTING) | TO(BATCH_FAILED),
                          .success = BATCH_REPORTING,
                          .fail = BATCH_FAILED},
    [BATCH_REPORTING] = {.name = "Reporting",
                         .dir = "reporting",
                         .to = TO(BATCH_COMPLETED) | TO(BATCH_FAILED),
                         .success = BATCH_COMPLETED,
                         .fail = BATCH_FAILED},
    [BATCH_FAILED] = {.name = "Failed",
                      .dir = "failed",
                      .to = TO(BATCH_UPDATE_REPORTING) | TO(BATCH_DELETED),
                      .success = BATCH_UPDATE_REPORTING,
                      .fail = BATCH_NO_STATE},
    [BATCH_UPDATE_REPORTING] = {.name = "UpdateReporting",
                                .dir = "updatereporting",
                                .to = TO(BATCH_COMPLETED) | TO(BATCH_FAILED),
                                .success = BATCH_COMPLETED,
                                .fail = BATCH_FAILED},
    [BATCH_COMPLETED] = {.name = "Completed",
                         .dir = "completed",
                         .success = BATCH_NO_STATE,
                         .fail = BATCH_NO_STATE},
    [BATCH_DELETED] = {.name = "Deleted",
                       .dir = "deleted",
                       .success = BATCH_NO_STATE,
                       .fail = BATCH_NO_STATE},
};

enum {
    ACCESS_PENDING,
    ACCESS_PROCESSING,
    ACCESS_FAILED,
    ACCESS_COMPLETED,
    ACCESS_DELETED,
    ACCESS_COUNT,
};

static const struct batch_machine_state ACCESS_STATES[ACCESS_COUNT] = {
    [ACCESS_PENDING] = {.name = "Pending",
                        .dir = "pending",
                        .to = TO(ACCESS_PROCESSING),
                        .success = ACCESS_PROCESSING,
                        .fail = BATCH_NO_STATE},
    [ACCESS_PROCESSING] = {.name = "Processing",
                           .dir = "processing",
                           .to = TO(ACCESS_COMPLETED) | TO(ACCESS_FAILED),
                           .success = ACCESS_COMPLETED,
                           .fail = ACCESS_FAILED,
                           .keeps = true},
    [ACCESS_FAILED] = {.name = "Failed",
                       .dir = "failed",
                       .to = TO(ACCESS_PROCESSING) | TO(ACCESS_DELETED),
                       .success = BATCH_NO_STATE,
                       .fail = BATCH_NO_STATE},
    [ACCESS_COMPLETED] = {.name = "Completed",
                          .dir = "completed",
                          .success = BATCH_NO_STATE,
                          .fail = BATCH_NO_STATE},
    [ACCESS_DELETED] = {.name = "Deleted",
                        .dir = "deleted",
                        .success = BATCH_NO_STATE,
                        .fail = BATCH_NO_STATE},
};

const struct batch_machines BATCH_MACHINES_BUILT_IN = {
    .job = {"job", JOB_STATES, JOB_COUNT, JOB_PENDING, JOB_HELD},
    .batch = {"batch", BATCH_STATES, BATCH_COUNT, BATCH_PENDING, BATCH_HELD},
    .access = {"access item", ACCESS_STATES, ACCESS_COUNT, ACCESS_PENDING, BATCH_NO_STATE},
};

int batch_machine_find(const struct batch_machine *m, struct str name)
{
    for (int i = 0; i < m->count; i++)
        if (strlen(m->states[i].dir) == name.len &&
            strncasecmp(m->states[i].dir, name.p, name.len) == 0)
            return i;
    return BATCH_NO_STATE;
}

/* "Held, Estimating or Failed". */
static void list_states(const struct batch_machine *m, uint64_t left, const char *before_last,
                        char *ret_text, size_t size)
{
    size_t len = 0;

    ret_text[0] = '\0';
    for (int i = 0; i < m->count && len < size; i++) {
        if (!(left >> i & 1))
            continue;
        left &= ~TO(i);
        len += (size_t)snprintf(ret_text + len, size - len, "%s%s",
                                len == 0 ? ""
                                : left   ? ", "
                                         : before_last,
                                m->states[i].name);
    }
}

static int refuse(const struct batch_machine *m, int from, const char *to,
                  struct err_info *ret_error)
{
    char allowed[400];

    list_states(m, m->states[from].to, " or ", allowed, sizeof allowed);
    return err_set(ret_error, DROVER_NOT_ALLOWED,
                   "%s %s that is %s cannot become %s; allowed is %s",
                   m->what[0] == 'a' ? "an" : "a", m->what, m->states[from].name, to,
                   allowed[0] ? allowed : "nothing: it is an end");
}

int batch_machine_named(const struct batch_machine *m, struct str name, struct err_info *ret_error)
{
    int state = batch_machine_find(m, name);
    char all[400];
    uint64_t set = 0;

    if (state != BATCH_NO_STATE)
        return state;
    for (int i = 0; i < m->count; i++)
        set |= TO(i);
    list_states(m, set, " and ", all, sizeof all);
    return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s %s has no state '%.*s'; there are %s",
                   m->what[0] == 'a' ? "an" : "a", m->what, (int)(name.len < 60 ? name.len : 60),
                   name.p, all);
}

int batch_machine_resolve(const struct batch_machine *m, int from, struct str wanted,
                          struct err_info *ret_error)
{
    bool next = str_eq(wanted, STR("next"));
    int to = batch_machine_find(m, wanted);

    if (next || (to == BATCH_NO_STATE && str_eq(wanted, STR("fail"))))
        to = next ? m->states[from].success : m->states[from].fail;
    else if (to == BATCH_NO_STATE)
        return batch_machine_named(m, wanted, ret_error);
    if (to == BATCH_NO_STATE)
        return refuse(m, from, next ? "anything by success" : "anything by failure", ret_error);
    if (!batch_machine_allows(m, from, to))
        return refuse(m, from, m->states[to].name, ret_error);
    return to;
}
