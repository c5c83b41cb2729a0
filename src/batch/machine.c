/*
 * The machines of the specification, and the questions that can be asked of any machine.
 *
 * States are in the order in which an item usually passes through them; lists and progress bars
 * show them in this order.
 */
#include "batch/machine.h"

#include <strings.h>

#define TO(state) (UINT64_C(1) << (state))
#define NONE BATCH_NO_STATE

const char *const BATCH_LISTS[BATCH_LIST_COUNT] = {
    "batch-processing",
    "batch-failed",
    "batch-completed",
    "batch-deleted",
};

/* The rows: name, directory, states that may follow, after success, after failure, list. */

enum {
    J_PENDING,
    J_HELD,
    J_ESTIMATING,
    J_PROVISIONING,
    J_DOWNLOADING,
    J_PROCESSING,
    J_RECORDING,
    J_NOTIFY,
    J_FAILED,
    J_COMPLETED,
    J_DELETED,
    J_COUNT,
};

/* A step that success leads to `next` from. */
#define STEP(next) TO(next) | TO(J_FAILED), next, J_FAILED, BATCH_LIST_PROCESSING

static const struct batch_machine_state JOB_STATES[J_COUNT] = {
    [J_PENDING] = {"Pending", "pending", TO(J_HELD) | STEP(J_ESTIMATING)},
    [J_HELD] = {"Held", "held", TO(J_PENDING) | TO(J_DELETED), J_PENDING, NONE},
    [J_ESTIMATING] = {"Estimating", "estimating", STEP(J_PROVISIONING)},
    [J_PROVISIONING] = {"Provisioning", "provisioning", STEP(J_DOWNLOADING)},
    [J_DOWNLOADING] = {"Downloading", "downloading", STEP(J_PROCESSING)},
    [J_PROCESSING] = {"Processing", "processing", STEP(J_RECORDING)},
    [J_RECORDING] = {"Recording", "recording", STEP(J_NOTIFY)},
    [J_NOTIFY] = {"Notify", "notify", STEP(J_COMPLETED)},
    [J_FAILED] = {"Failed", "failed",
                  TO(J_PENDING) | TO(J_ESTIMATING) | TO(J_PROVISIONING) | TO(J_DOWNLOADING) |
                      TO(J_PROCESSING) | TO(J_RECORDING) | TO(J_NOTIFY) | TO(J_DELETED),
                  NONE, NONE, BATCH_LIST_FAILED},
    [J_COMPLETED] = {"Completed", "completed", 0, NONE, NONE, BATCH_LIST_COMPLETED},
    [J_DELETED] = {"Deleted", "deleted", 0, NONE, NONE, BATCH_LIST_DELETED},
};

enum {
    B_PENDING,
    B_HELD,
    B_PROCESSING,
    B_REPORTING,
    B_FAILED,
    B_UPDATE_REPORTING,
    B_COMPLETED,
    B_DELETED,
    B_COUNT,
};

#define REPORT TO(B_COMPLETED) | TO(B_FAILED), B_COMPLETED, B_FAILED

static const struct batch_machine_state BATCH_STATES[B_COUNT] = {
    [B_PENDING] = {"Pending", "pending", TO(B_HELD) | TO(B_PROCESSING), B_PROCESSING, NONE},
    [B_HELD] = {"Held", "held", TO(B_PENDING) | TO(B_DELETED), B_PENDING, NONE},
    [B_PROCESSING] = {"Processing", "processing", TO(B_REPORTING) | TO(B_FAILED), B_REPORTING,
                      B_FAILED},
    [B_REPORTING] = {"Reporting", "reporting", REPORT},
    [B_FAILED] = {"Failed", "failed", TO(B_UPDATE_REPORTING) | TO(B_DELETED), B_UPDATE_REPORTING,
                  NONE},
    [B_UPDATE_REPORTING] = {"UpdateReporting", "updatereporting", REPORT},
    [B_COMPLETED] = {"Completed", "completed", 0, NONE, NONE},
    [B_DELETED] = {"Deleted", "deleted", 0, NONE, NONE},
};

enum { A_PENDING, A_PROCESSING, A_FAILED, A_COMPLETED, A_DELETED, A_COUNT };

static const struct batch_machine_state ACCESS_STATES[A_COUNT] = {
    [A_PENDING] = {"Pending", "pending", TO(A_PROCESSING), A_PROCESSING, NONE},
    [A_PROCESSING] = {"Processing", "processing", TO(A_COMPLETED) | TO(A_FAILED), A_COMPLETED,
                      A_FAILED, .keeps_lock = true},
    [A_FAILED] = {"Failed", "failed", TO(A_PROCESSING) | TO(A_DELETED), NONE, NONE},
    [A_COMPLETED] = {"Completed", "completed", 0, NONE, NONE},
    [A_DELETED] = {"Deleted", "deleted", 0, NONE, NONE},
};

const struct batch_machines BATCH_MACHINES_BUILT_IN = {
    .job = {"job", JOB_STATES, J_COUNT, J_PENDING, J_HELD, .is_job = true},
    .batch = {"batch", BATCH_STATES, B_COUNT, B_PENDING, B_HELD},
    .access = {"access item", ACCESS_STATES, A_COUNT, A_PENDING, NONE},
};

int batch_machine_find(const struct batch_machine *m, struct str name)
{
    for (int i = 0; i < m->count; i++)
        if (strlen(m->states[i].dir) == name.len &&
            strncasecmp(m->states[i].dir, name.p, name.len) == 0)
            return i;
    return NONE;
}

/* "Held, Estimating or Failed"; a message shows 399 bytes of it, so that the rest has room. */
static void list_states(const struct batch_machine *m, uint64_t left, const char *before_last,
                        struct buf *ret_text)
{
    for (int i = 0; i < m->count; i++)
        if (left >> i & 1)
            buf_printf(ret_text, "%s%s",
                       ret_text->len == 0 ? ""
                       : left >> i == 1   ? before_last
                                          : ", ",
                       m->states[i].name);
}

int batch_machine_named(const struct batch_machine *m, struct str name, struct err_info *ret_error)
{
    int state = batch_machine_find(m, name);
    CLEANUP(buf_release) struct buf all = {0};
    if (state != NONE)
        return state;
    list_states(m, UINT64_MAX >> (64 - m->count), " and ", &all);
    return err_set(ret_error, DROVER_BAD_ARGUMENT,
                   "%s %s has no state '%.*s'; the states are %.399s",
                   m->noun[0] == 'a' ? "an" : "a", m->noun, (int)(name.len < 60 ? name.len : 60),
                   name.p, buf_text(&all));
}

/* not: what was asked for, ", not Notify". */
static int refuse(const struct batch_machine *m, int from, const char *id, const char * not,
                  struct err_info *ret_error)
{
    const char *name = m->states[from].name;
    CLEANUP(buf_release) struct buf allowed = {0};
    if (batch_machine_is_final(m, from))
        return err_set(ret_error, DROVER_NOT_ALLOWED, "%s %s is %s, a final state", m->noun, id,
                       name);
    list_states(m, m->states[from].to, " or ", &allowed);
    return err_set(ret_error, DROVER_NOT_ALLOWED, "%s %s is %s, which can become %.399s, not %s",
                   m->noun, id, name, buf_text(&allowed), not );
}

int batch_machine_resolve(const struct batch_machine *m, int from, const char *id,
                          struct str wanted, struct err_info *ret_error)
{
    bool next = str_eq(wanted, STR("next"));
    int to = batch_machine_find(m, wanted);
    if (next || (to == NONE && str_eq(wanted, STR("fail"))))
        to = next ? m->states[from].success : m->states[from].fail;
    else if (to == NONE)
        return batch_machine_named(m, wanted, ret_error);
    if (to == NONE)
        return refuse(m, from, id, next ? "'next'" : "'fail'", ret_error);
    if (!batch_machine_allows(m, from, to))
        return refuse(m, from, id, m->states[to].name, ret_error);
    return to;
}

/* Members are written in the order of the specification, then those that a foreign client added. */

static const char *const MEMBERS[] = {
    "status",
    "last_successful_status",
    "last_modification_date",
    "last_modified",
    "retry_count",
    "message",
    NULL,
};

/* The first 100 bytes for a message; bytes that are not printable ASCII become "?". */
static const char *excerpt(struct arena *a, struct str text)
{
    char *out = arena_text(a, (struct str){text.p, text.len < 100 ? text.len : 100});
    for (size_t i = 0; i < text.len && i < 100; i++)
        if (out[i] < ' ' || out[i] > '~')
            out[i] = '?';
    return out;
}

int batch_status_read(const struct batch_machine *m, struct arena *a, struct str text,
                      struct batch_status *ret_status, struct err_info *ret_error)
{
    struct batch_status s = {.last_successful = BATCH_NO_STATE};
    struct str name = {0}, last = {0};
    struct err_info why;

    s.json = json_parse(a, text, &why);
    if (!s.json || s.json->kind != JSON_OBJECT ||
        json_get_text(s.json, "status", &name, &why) <= 0 ||
        json_get_text(s.json, "last_successful_status", &last, &why) < 0 ||
        json_get_text(s.json, m->is_job ? "last_modification_date" : "last_modified", &s.modified,
                      &why) < 0 ||
        json_get_text(s.json, "message", &s.message, &why) < 0 ||
        json_get_int(s.json, "retry_count", &s.retry_count, &why) < 0)
        return err_set(ret_error, DROVER_DAMAGED, "its status is not valid: %s", excerpt(a, text));
    s.state = batch_machine_find(m, name);
    if (s.state == BATCH_NO_STATE)
        return err_set(ret_error, DROVER_DAMAGED,
                       "its status is '%s', which is not a state of a %s", excerpt(a, name),
                       m->noun);
    if (last.p)
        s.last_successful = batch_machine_find(m, last);
    *ret_status = s;
    return 0;
}

static bool is_known(struct str name)
{
    for (int i = 0; MEMBERS[i]; i++)
        if (str_eq(name, str_of(MEMBERS[i])))
            return true;
    return false;
}

bool batch_status_is_plain(const struct batch_status *s)
{
    return !s->json || json_only(s->json, MEMBERS, NULL) == 0;
}

struct str batch_status_write(const struct batch_machine *m, const struct batch_status *s,
                              struct arena *a)
{
    struct buf b = {0};
    json_open(&b, '{');
    json_member_text(&b, "status", str_of(m->states[s->state].name));
    if (m->is_job) {
        json_key(&b, "last_successful_status");
        if (s->last_successful == BATCH_NO_STATE)
            json_put_null(&b);
        else
            json_put_text(&b, str_of(m->states[s->last_successful].name));
    }
    json_member_text(&b, m->is_job ? "last_modification_date" : "last_modified", s->modified);
    if (m->is_job)
        json_member_int(&b, "retry_count", s->retry_count);
    if (s->message.p)
        json_member_text(&b, "message", s->message);
    if (s->json)
        json_each(v, s->json)
            if (!is_known(v->key)) {
                json_key_str(&b, v->key);
                json_put(&b, v);
            }
    json_close(&b, '}');
    return arena_take(a, &b);
}
