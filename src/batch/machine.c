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

const char *const MACHINE_LISTS[MACHINE_LIST_COUNT] = {
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

static const struct machine_state JOB_STATES[JOB_COUNT] = {
    [JOB_PENDING] = {.name = "Pending",
                     .dir = "pending",
                     .to = TO(JOB_HELD) | TO(JOB_ESTIMATING) | TO(JOB_FAILED),
                     .success = JOB_ESTIMATING,
                     .fail = JOB_FAILED},
    [JOB_HELD] = {.name = "Held",
                  .dir = "held",
                  .to = TO(JOB_PENDING) | TO(JOB_DELETED),
                  .success = JOB_PENDING,
                  .fail = MACHINE_NONE},
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
                    .success = MACHINE_NONE,
                    .fail = MACHINE_NONE,
                    .list = MACHINE_FAILED},
    [JOB_COMPLETED] = {.name = "Completed",
                       .dir = "completed",
                       .success = MACHINE_NONE,
                       .fail = MACHINE_NONE,
                       .list = MACHINE_COMPLETED},
    [JOB_DELETED] = {.name = "Deleted",
                     .dir = "deleted",
                     .success = MACHINE_NONE,
                     .fail = MACHINE_NONE,
                     .list = MACHINE_DELETED},
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

static const struct machine_state BATCH_STATES[BATCH_COUNT] = {
    [BATCH_PENDING] = {.name = "Pending",
                       .dir = "pending",
                       .to = TO(BATCH_HELD) | TO(BATCH_PROCESSING),
                       .success = BATCH_PROCESSING,
                       .fail = MACHINE_NONE},
    [BATCH_HELD] = {.name = "Held",
                    .dir = "held",
                    .to = TO(BATCH_PENDING) | TO(BATCH_DELETED),
                    .success = BATCH_PENDING,
                    .fail = MACHINE_NONE},
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
                      .fail = MACHINE_NONE},
    [BATCH_UPDATE_REPORTING] = {.name = "UpdateReporting",
                                .dir = "updatereporting",
                                .to = TO(BATCH_COMPLETED) | TO(BATCH_FAILED),
                                .success = BATCH_COMPLETED,
                                .fail = BATCH_FAILED},
    [BATCH_COMPLETED] = {.name = "Completed",
                         .dir = "completed",
                         .success = MACHINE_NONE,
                         .fail = MACHINE_NONE},
    [BATCH_DELETED] = {.name = "Deleted",
                       .dir = "deleted",
                       .success = MACHINE_NONE,
                       .fail = MACHINE_NONE},
};

enum {
    ACCESS_PENDING,
    ACCESS_PROCESSING,
    ACCESS_FAILED,
    ACCESS_COMPLETED,
    ACCESS_DELETED,
    ACCESS_COUNT,
};

static const struct machine_state ACCESS_STATES[ACCESS_COUNT] = {
    [ACCESS_PENDING] = {.name = "Pending",
                        .dir = "pending",
                        .to = TO(ACCESS_PROCESSING),
                        .success = ACCESS_PROCESSING,
                        .fail = MACHINE_NONE},
    [ACCESS_PROCESSING] = {.name = "Processing",
                           .dir = "processing",
                           .to = TO(ACCESS_COMPLETED) | TO(ACCESS_FAILED),
                           .success = ACCESS_COMPLETED,
                           .fail = ACCESS_FAILED,
                           .keeps = true},
    [ACCESS_FAILED] = {.name = "Failed",
                       .dir = "failed",
                       .to = TO(ACCESS_PROCESSING) | TO(ACCESS_DELETED),
                       .success = MACHINE_NONE,
                       .fail = MACHINE_NONE},
    [ACCESS_COMPLETED] = {.name = "Completed",
                          .dir = "completed",
                          .success = MACHINE_NONE,
                          .fail = MACHINE_NONE},
    [ACCESS_DELETED] = {.name = "Deleted",
                        .dir = "deleted",
                        .success = MACHINE_NONE,
                        .fail = MACHINE_NONE},
};

const struct machines MACHINES_BUILT_IN = {
    .job = {"job", JOB_STATES, JOB_COUNT, JOB_PENDING, JOB_HELD},
    .batch = {"batch", BATCH_STATES, BATCH_COUNT, BATCH_PENDING, BATCH_HELD},
    .access = {"access item", ACCESS_STATES, ACCESS_COUNT, ACCESS_PENDING, MACHINE_NONE},
};

int machine_find(const struct machine *m, struct str name)
{
    for (int i = 0; i < m->count; i++)
        if (strlen(m->states[i].dir) == name.len &&
            strncasecmp(m->states[i].dir, name.p, name.len) == 0)
            return i;
    return MACHINE_NONE;
}

/* "Held, Estimating or Failed". */
static void list_states(const struct machine *m, uint64_t left, const char *before_last,
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

static int refuse(const struct machine *m, int from, const char *to, struct err_info *ret_error)
{
    char allowed[400];

    list_states(m, m->states[from].to, " or ", allowed, sizeof allowed);
    return err_set(ret_error, DROVER_NOT_ALLOWED,
                   "%s %s that is %s cannot become %s; allowed is %s",
                   m->what[0] == 'a' ? "an" : "a", m->what, m->states[from].name, to,
                   allowed[0] ? allowed : "nothing: it is an end");
}

int machine_named(const struct machine *m, struct str name, struct err_info *ret_error)
{
    int state = machine_find(m, name);
    char all[400];
    uint64_t set = 0;

    if (state != MACHINE_NONE)
        return state;
    for (int i = 0; i < m->count; i++)
        set |= TO(i);
    list_states(m, set, " and ", all, sizeof all);
    return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s %s has no state '%.*s'; there are %s",
                   m->what[0] == 'a' ? "an" : "a", m->what, (int)(name.len < 60 ? name.len : 60),
                   name.p, all);
}

int machine_resolve(const struct machine *m, int from, struct str wanted,
                    struct err_info *ret_error)
{
    bool next = str_eq(wanted, STR("next"));
    int to = machine_find(m, wanted);

    if (next || (to == MACHINE_NONE && str_eq(wanted, STR("fail"))))
        to = next ? m->states[from].success : m->states[from].fail;
    else if (to == MACHINE_NONE)
        return machine_named(m, wanted, ret_error);
    if (to == MACHINE_NONE)
        return refuse(m, from, next ? "anything by success" : "anything by failure", ret_error);
    if (!machine_allows(m, from, to))
        return refuse(m, from, m->states[to].name, ret_error);
    return to;
}
