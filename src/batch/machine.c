/*
 * The machines of the specification, and the questions that can be asked of any machine.
 *
 * States are in the order in which an item usually passes through them; lists and progress bars
 * show them in this order.
 */
#include "batch/machine.h"

#include <strings.h>

#include "batch/name.h"

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

/* Members are written in the order in which they were read, then in that of the specification. */

enum { M_STATUS, M_LAST_SUCCESSFUL, M_DATE, M_MODIFIED, M_RETRY_COUNT, M_MESSAGE, M_COUNT };

static const char *const MEMBERS[] = {
    [M_STATUS] = "status",
    [M_LAST_SUCCESSFUL] = "last_successful_status",
    [M_DATE] = "last_modification_date",
    [M_MODIFIED] = "last_modified",
    [M_RETRY_COUNT] = "retry_count",
    [M_MESSAGE] = "message",
    [M_COUNT] = NULL,
};

/* The members that are ours to write: of a batch or an access item the others are not. */
enum { OF_ANY = 1 << M_STATUS | 1 << M_MODIFIED | 1 << M_MESSAGE, OF_JOB = (1 << M_COUNT) - 1 };

/* Those that a status always has. */
static unsigned required(const struct batch_machine *m)
{
    return m->is_job ? 1 << M_STATUS | 1 << M_LAST_SUCCESSFUL | 1 << M_DATE | 1 << M_RETRY_COUNT
                     : 1 << M_STATUS | 1 << M_MODIFIED;
}

/* The first 100 bytes for a message; bytes that are not printable ASCII become "?". */
static const char *excerpt(struct arena *a, struct str text)
{
    char *out = arena_text(a, (struct str){text.p, text.len < 100 ? text.len : 100});
    for (size_t i = 0; i < text.len && i < 100; i++)
        if (out[i] < ' ' || out[i] > '~')
            out[i] = '?';
    return out;
}

/* The number of a member, or M_COUNT. */
static int find_member(struct str key)
{
    int i = 0;
    while (i < M_COUNT && !str_eq(key, str_of(MEMBERS[i])))
        i++;
    return i;
}

int batch_status_read(const struct batch_machine *m, struct arena *a, struct str text,
                      struct batch_status *ret_status, struct err_info *ret_error)
{
    struct batch_status s = {.members = 0};
    struct err_info why;

    s.json = json_parse(a, text, &why);
    if (!s.json || s.json->kind != JSON_OBJECT ||
        json_get_text(s.json, "status", &s.name, &why) <= 0 ||
        json_get_text(s.json, "last_successful_status", &s.last_successful, &why) < 0 ||
        json_get_text(s.json, MEMBERS[m->is_job ? M_DATE : M_MODIFIED], &s.modified, &why) < 0 ||
        json_get_text(s.json, "message", &s.message, &why) < 0 ||
        json_get_int(s.json, "retry_count", &s.retry_count, &why) < 0)
        return err_set(ret_error, DROVER_DAMAGED, "its status is not valid: %s", excerpt(a, text));
    s.state = batch_machine_find(m, s.name);
    if (s.state == BATCH_NO_STATE && batch_name_check("a state", s.name, NULL))
        return err_set(ret_error, DROVER_DAMAGED, "its status is '%s', which cannot be a state",
                       excerpt(a, s.name));
    int last = batch_machine_find(m, s.last_successful);
    if (last != BATCH_NO_STATE)
        s.last_successful = str_of(m->states[last].name);
    json_each(v, s.json)
        s.members |= (1u << find_member(v->key)) & OF_JOB;
    *ret_status = s;
    return 0;
}

bool batch_status_is_plain(const struct batch_machine *m, const struct batch_status *s)
{
    bool known = !s->last_successful.p || batch_machine_find(m, s->last_successful) != NONE;
    return s->state != NONE && known && s->message.len == 0 &&
           (!s->json || json_only(s->json, MEMBERS, NULL) == 0);
}

static void put_member(struct buf *b, const struct batch_machine *m, const struct batch_status *s,
                       int member)
{
    const struct str texts[M_COUNT] = {
        [M_STATUS] = batch_status_name(m, s),
        [M_LAST_SUCCESSFUL] = s->last_successful,
        [M_DATE] = s->modified,
        [M_MODIFIED] = s->modified,
        [M_MESSAGE] = s->message,
    };
    if (member == M_RETRY_COUNT)
        json_member_int(b, MEMBERS[member], s->retry_count);
    else
        json_member_text(b, MEMBERS[member], texts[member]);
}

struct str batch_status_write(const struct batch_machine *m, const struct batch_status *s,
                              struct arena *a)
{
    unsigned ours = m->is_job ? OF_JOB : OF_ANY,
             left = required(m) | (s->members & ours) | (s->message.p ? 1u << M_MESSAGE : 0);
    struct buf b = {0};
    json_open(&b, '{');
    if (s->json)
        json_each(v, s->json) {
            int member = find_member(v->key);
            if (left >> member & 1) {
                put_member(&b, m, s, member);
                left &= ~(1u << member);
            } else {
                json_key_str(&b, v->key);
                json_put(&b, v);
            }
        }
    for (int i = 0; i < M_COUNT; i++)
        if (left >> i & 1)
            put_member(&b, m, s, i);
    json_close(&b, '}');
    return arena_take(a, &b);
}
