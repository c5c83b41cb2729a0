/*
 * Reads machines from JSON, each in three steps: the names of the states, so that a state may name
 * a later one; what may follow each state; and the checks that need the whole machine.
 */
#include <ctype.h>

#include "base/json.h"
#include "batch/machine.h"
#include "batch/name.h"

struct batch_machine_loader {
    struct arena *a;
    struct batch_machine *m; /* under construction */
    struct batch_machine_state *states;
    struct err_info *error;
};

#define LOAD_FAIL(l, fmt, ...)                                                                     \
    err_set((l)->error, DROVER_BAD_ARGUMENT, "%s: " fmt, (l)->m->noun __VA_OPT__(, ) __VA_ARGS__)

static int name_check(const struct batch_machine_loader *l, struct str name)
{
    bool good =
        name.len > 0 && name.len <= BATCH_STATE_NAME_MAX && isalpha((unsigned char)name.p[0]);
    for (size_t i = 0; i < name.len; i++)
        good &= isalnum((unsigned char)name.p[i]) != 0;
    if (!good)
        return LOAD_FAIL(l, "the name of a state has 1 to %d letters and digits",
                         BATCH_STATE_NAME_MAX);
    if (str_eq(name, STR("next")) || str_eq(name, STR("fail")))
        return LOAD_FAIL(l, "'%.*s' is reserved and cannot name a state", STR_ARGS(name));
    return 0;
}

static int load_names(struct batch_machine_loader *l, const struct json *states)
{
    if (states->count == 0 || states->count > BATCH_STATES_MAX)
        return LOAD_FAIL(l, "a machine has 1 to %d states", BATCH_STATES_MAX);
    l->states = arena_zalloc(l->a, states->count * sizeof *l->states);
    l->m->states = l->states;
    json_each(v, states) {
        struct batch_machine_state *s = &l->states[l->m->count];

        TRY(name_check(l, v->key));
        if (batch_machine_find(l->m, v->key) != BATCH_NO_STATE)
            return LOAD_FAIL(l, "the state '%.*s' is defined twice", STR_ARGS(v->key));
        s->name = arena_text(l->a, v->key);
        s->dir = batch_name_lower(l->a, v->key);
        l->m->count++;
    }
    return 0;
}

/* Failures of json_get_...(), which return 1 for a member that is there. */
static int failed(int err)
{
    return err < 0 ? err : 0;
}

/* The state that a member names; where: for the message. */
static int find_state(struct batch_machine_loader *l, const char *member, const char *where,
                      struct str name, int *ret_state)
{
    *ret_state = batch_machine_find(l->m, name);
    return *ret_state != BATCH_NO_STATE
               ? 0
               : LOAD_FAIL(l, "'%s'%s%s names '%.*s', which is not a state", member,
                           where[0] ? " of " : "", where, (int)(name.len < 100 ? name.len : 100),
                           name.p);
}

/* A member that names a state. If it is missing, ret_state is untouched. */
static int load_state(struct batch_machine_loader *l, const struct json *v, const char *member,
                      int *ret_state)
{
    struct str name;
    int err = json_get_text(v, member, &name, l->error);
    return err <= 0 ? err : find_state(l, member, "", name, ret_state);
}

static int load_to(struct batch_machine_loader *l, const struct json *v,
                   struct batch_machine_state *s)
{
    const struct json *to = NULL;
    int err = json_get_list(v, "to", &to, l->error), found;
    if (err <= 0)
        return err;
    json_each(name, to) {
        if (name->kind != JSON_TEXT)
            return LOAD_FAIL(l, "'to' of %s has a member that is not a string", s->name);
        TRY(find_state(l, "to", s->name, name->text, &found));
        s->to |= UINT64_C(1) << found;
    }
    return 0;
}

static int load_list(struct batch_machine_loader *l, const struct json *v,
                     struct batch_machine_state *s)
{
    struct str name;
    int err = json_get_text(v, "batch", &name, l->error);
    if (err <= 0)
        return err;
    for (int i = 0; i < BATCH_LIST_COUNT; i++) {
        if (str_eq(name, str_of(BATCH_LISTS[i]))) {
            s->list = (enum batch_list)i;
            return 0;
        }
    }
    return LOAD_FAIL(l, "'batch' of '%s' is '%.*s', which is not a list of a batch", s->name,
                     (int)(name.len < 100 ? name.len : 100), name.p);
}

static int load_edges(struct batch_machine_loader *l, const struct json *v,
                      struct batch_machine_state *s)
{
    static const char *const MEMBERS[] = {"to", "success", "fail", "batch", "keep", NULL};

    s->success = s->fail = BATCH_NO_STATE;
    if (v->kind != JSON_OBJECT)
        return LOAD_FAIL(l, "'%s' is not an object", s->name);
    TRY(json_only(v, MEMBERS, l->error));
    TRY(load_to(l, v, s));
    TRY(load_state(l, v, "success", &s->success));
    TRY(load_state(l, v, "fail", &s->fail));
    TRY(load_list(l, v, s));
    TRY(failed(json_get_bool(v, "keep", &s->keeps_lock, l->error)));
    for (int i = 0; i < 2; i++) {
        int next = i ? s->fail : s->success;
        if (next != BATCH_NO_STATE && !(s->to >> next & 1))
            return LOAD_FAIL(l, "'%s' of '%s' is '%s', which is not among its 'to'",
                             i ? "fail" : "success", s->name, l->states[next].name);
    }
    return 0;
}

/* The states that can be reached from one, including itself. */
static uint64_t reach(const struct batch_machine *m, int from)
{
    uint64_t seen = UINT64_C(1) << from, before = 0;
    while (seen != before) {
        before = seen;
        for (int i = 0; i < m->count; i++)
            if (before >> i & 1)
                seen |= m->states[i].to;
    }
    return seen;
}

static int check_whole(struct batch_machine_loader *l)
{
    const struct batch_machine *m = l->m;
    uint64_t reached = reach(m, m->first), final = 0;

    for (int i = 0; i < m->count; i++)
        final |= (uint64_t)batch_machine_is_final(m, i) << i;
    if (!final)
        return LOAD_FAIL(l, "there is no final state");
    for (int i = 0; i < m->count; i++) {
        const struct batch_machine_state *s = &m->states[i];

        if (!(reached >> i & 1))
            return LOAD_FAIL(l, "'%s' cannot be reached from '%s'", s->name,
                             m->states[m->first].name);
        if (!(reach(m, i) & final))
            return LOAD_FAIL(l, "no final state can be reached from '%s'", s->name);
        if (m->is_job && batch_machine_is_final(m, i) && s->list == BATCH_LIST_PROCESSING)
            return LOAD_FAIL(
                l, "the final state '%s' needs 'batch', the list of the batch that it belongs to",
                s->name);
    }
    return 0;
}

static int load_machine(struct batch_machine_loader *l, const struct json *v)
{
    static const char *const MEMBERS[] = {"first", "held", "states", NULL};
    const struct json *states = NULL;
    int i = 0;

    if (v->kind != JSON_OBJECT)
        return LOAD_FAIL(l, "is not an object");
    TRY(json_only(v, MEMBERS, l->error));
    TRY(failed(json_get_object(v, "states", &states, l->error)));
    if (!states)
        return LOAD_FAIL(l, "'states' is missing");
    TRY(load_names(l, states));
    json_each(s, states)
        TRY(load_edges(l, s, &l->states[i++]));
    l->m->held = BATCH_NO_STATE;
    TRY(load_state(l, v, "first", &l->m->first));
    TRY(load_state(l, v, "held", &l->m->held));
    return check_whole(l);
}

/* The pipeline "storing". */

#define STEP(name, next)                                                                           \
    "\"" name "\": {\"to\": [\"" next "\", \"Failed\"], \"success\": \"" next                      \
    "\", \"fail\": \"Failed\"}, "

/* clang-format off */
static const char STORING[] =
    "{\"job\": {\"first\": \"Pending\", \"held\": \"Held\", \"states\": {"
    "\"Pending\": {\"to\": [\"Held\", \"Estimating\", \"Failed\"], "
                  "\"success\": \"Estimating\", \"fail\": \"Failed\"}, "
    "\"Held\": {\"to\": [\"Pending\", \"Deleted\"], \"success\": \"Pending\"}, "
    STEP("Estimating", "Provisioning")
    STEP("Provisioning", "Downloading")
    STEP("Downloading", "Processing")
    STEP("Processing", "Storing")
    STEP("Storing", "Recording")
    STEP("Recording", "Notify")
    STEP("Notify", "Completed")
    "\"Failed\": {\"to\": [\"Pending\", \"Estimating\", \"Provisioning\", \"Downloading\", "
                          "\"Processing\", \"Storing\", \"Recording\", \"Notify\", \"Deleted\"], "
                 "\"batch\": \"batch-failed\"}, "
    "\"Completed\": {\"batch\": \"batch-completed\"}, "
    "\"Deleted\": {\"batch\": \"batch-deleted\"}}}}";
/* clang-format on */

/* The jobs of a batch move it too, so the built-in states and transitions are required. */
static int check_batch(struct batch_machine_loader *l)
{
    const struct batch_machine *standard = &BATCH_MACHINES_BUILT_IN.batch;
    for (int i = 0; i < standard->count; i++) {
        const struct batch_machine_state *s = &standard->states[i];
        int own = batch_machine_find(l->m, str_of(s->name));

        if (own == BATCH_NO_STATE)
            return LOAD_FAIL(l, "the state '%s' is required", s->name);
        for (int to = 0; to < standard->count; to++)
            if (batch_machine_allows(standard, i, to) &&
                !batch_machine_allows(l->m, own,
                                      batch_machine_find(l->m, str_of(standard->states[to].name))))
                return LOAD_FAIL(l, "'to' of '%s' must name '%s'", s->name,
                                 standard->states[to].name);
    }
    return 0;
}

int batch_machines_load(struct arena *a, struct str text, struct batch_machines *ret_machines,
                        struct err_info *ret_error)
{
    static const char *const MEMBERS[] = {"job", "batch", "access", NULL};
    struct batch_machines loaded = BATCH_MACHINES_BUILT_IN;
    struct batch_machine *targets[] = {&loaded.job, &loaded.batch, &loaded.access};
    if (str_eq(text, STR(BATCH_PIPELINE_STORING)))
        text = str_of(STORING);
    const struct json *v = json_parse(a, text, ret_error);

    if (!v)
        return DROVER_BAD_ARGUMENT;
    if (v->kind != JSON_OBJECT || v->count == 0)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "a pipeline is an object with 'job', 'batch' or 'access'");
    TRY(json_only(v, MEMBERS, ret_error));
    for (int i = 0; MEMBERS[i]; i++) {
        const struct json *one = json_get(v, MEMBERS[i]);
        struct batch_machine_loader l = {.a = a, .m = targets[i], .error = ret_error};
        if (!one)
            continue;
        *l.m = (struct batch_machine){.noun = l.m->noun, .is_job = l.m->is_job};
        TRY(load_machine(&l, one));
        if (l.m == &loaded.batch)
            TRY(check_batch(&l));
    }
    *ret_machines = loaded;
    return 0;
}
