#include "task/body.h"

#include <xxhash.h>

#include "base/base64.h"
#include "task/request_log.h"
#include "task/tail.h"

/* Reading. */

#define TIMESPEC "When it can be claimed: 0 now, negative that long from now, else the moment"
#define DATA64 "In place of data: bytes that need not be UTF-8, as base64"

static const struct route_field ADD_FIELDS[] = {
    FIELD_TEXT(IN_BODY | REQUIRED, struct task_add_in, group, "group", 1, TASK_GROUP_LEN_MAX,
               "Its group"),
    FIELD_TEXT(IN_BODY, struct task_add_in, data, "data", 0, INT64_MAX,
               "Its data; empty unless given"),
    FIELD_INT(IN_BODY, struct task_add_in, timespec, "timespec", INT64_MIN, INT64_MAX, TIMESPEC),
    FIELD_INT(IN_BODY, struct task_add_in, priority, "priority", -TASK_PRIORITY_MAX,
              TASK_PRIORITY_MAX, "Smaller goes first; 0 unless given"),
    FIELD_TEXT(IN_BODY, struct task_add_in, key, "key", 1, TASK_KEY_LEN_MAX,
               "Unique among the living tasks of the group"),
    FIELD_CHOICE(IN_BODY, struct task_add_in, on_key, "on_key", "refuse|keep|replace",
                 "If a task has the key: refuse, answer that task, or replace its data and time"),
    FIELD_TEXT(IN_BODY, struct task_add_in, share, "share", 1, TASK_SHARE_LEN_MAX,
               "The tenant, for fair claims and limits"),
    FIELD_INT(IN_BODY, struct task_add_in, expires, "expires", INT64_MIN, INT64_MAX,
              "Not given out after that: as timespec; 0 never"),
    FIELD_TEXT(IN_BODY, struct task_add_in, data64, "data64", 0, INT64_MAX, DATA64),
    FIELD_IGNORED(IN_BODY, "id", "Ignored"),
    FIELD_IGNORED(IN_BODY, "ownerid", "Ignored"),
    {.name = {NULL, 0}},
};

static const struct route_field CHANGE_FIELDS[] = {
    FIELD_ID(IN_BODY | REQUIRED, struct task_change_in, id, "id", "The task"),
    FIELD_TEXT(IN_BODY, struct task_change_in, data, "data", 0, INT64_MAX,
               "Its new data; empty unless given"),
    FIELD_INT(IN_BODY, struct task_change_in, timespec, "timespec", INT64_MIN, INT64_MAX,
              "Its new timespec, as in adds; now unless given"),
    FIELD_TEXT(IN_BODY, struct task_change_in, data64, "data64", 0, INT64_MAX, DATA64),
    FIELD_IGNORED(IN_BODY, "group", "Ignored: a task keeps its group"),
    FIELD_IGNORED(IN_BODY, "ownerid", "Ignored"),
    {.name = {NULL, 0}},
};

static const struct route_field FAIL_FIELDS[] = {
    FIELD_ID(IN_BODY | REQUIRED, struct task_fail_in, id, "id", "The task"),
    FIELD_TEXT(IN_BODY, struct task_fail_in, error, "error", 0, INT64_MAX,
               "What went wrong; the first 4 KiB are kept"),
    FIELD_INT(IN_BODY, struct task_fail_in, retry_ms, "retry_in", -1, INT64_MAX,
              "Try again after so many ms; unless given, the settings of the group say when",
              .preset = -1),
    FIELD_INT(IN_BODY, struct task_fail_in, attempts, "attempts", 1, INT64_MAX,
              "Dead after so many failures; unless given, the settings of the group say"),
    FIELD_BOOL(IN_BODY, struct task_fail_in, dead, "dead", "Do not try again"),
    {.name = {NULL, 0}},
};

static const struct route_field FINISH_FIELDS[] = {
    FIELD_ID(IN_BODY | REQUIRED, struct task_finish_in, id, "id", "The task"),
    FIELD_TEXT(IN_BODY, struct task_finish_in, result, "result", 0, TASK_RESULT_LEN_MAX,
               "Its result, kept as long as the settings of the group say"),
    {.name = {NULL, 0}},
};

#define INT(where, member, name, min, max, help, ...)                                              \
    FIELD_INT(IN_BODY | (where), struct task_in, request.member, name, min, max, help, __VA_ARGS__)
#define IDS(kind, member, count, name, help)                                                       \
    FIELD_IDS(IN_BODY, struct task_in, request.kind.member, request.kind.count, name, 0,           \
              TASK_IDS_MAX, help)
#define OBJECTS(member, count, T, fields, help)                                                    \
    FIELD_OBJECTS(IN_BODY, struct task_in, member, count, #member, 0, TASK_IDS_MAX, T, fields, help)
#define EDITS                                                                                      \
    OBJECTS(fails, fail_count, struct task_fail_in, FAIL_FIELDS,                                   \
            "Tasks that failed: they wait for the next attempt, or are dead"),                     \
        OBJECTS(finishes, finish_count, struct task_finish_in, FINISH_FIELDS,                      \
                "Tasks that are done: they end, as by deletes"),                                   \
        FIELD_IDS(IN_BODY, struct task_in, releases, release_count, "releases", 0, TASK_IDS_MAX,   \
                  "Ids of tasks to give back, available at once")
#define REQUESTID                                                                                  \
    FIELD_TEXT(IN_BODY, struct task_in, request.requestid, "requestid", 1, REQUEST_LOG_ID_LEN_MAX, \
               "Makes the request safe to repeat: a name for it that the client makes up")

const struct route_field TASK_UPDATE_FIELDS[] = {
    INT(REQUIRED, update.clientid, "clientid", TASK_CLIENT_MIN, INT64_MAX, "The client's own id"),
    OBJECTS(adds, add_count, struct task_add_in, ADD_FIELDS, "Tasks to add"),
    OBJECTS(updates, update_count, struct task_change_in, CHANGE_FIELDS,
            "Tasks to replace; each gets a new id"),
    IDS(update, deletes, delete_count, "deletes", "Ids of tasks to delete"),
    IDS(update, depends, depend_count, "depends", "Ids of tasks that must exist"),
    EDITS,
    REQUESTID,
    {.name = {NULL, 0}},
};

const struct route_field TASK_CLAIM_FIELDS[] = {
    INT(REQUIRED, claim.clientid, "clientid", TASK_CLIENT_MIN, INT64_MAX, "The client's own id"),
    FIELD_TEXT(IN_BODY, struct task_in, group, "group", 1, INT64_MAX, "The group to claim from"),
    FIELD_TEXTS(IN_BODY, struct task_in, request.claim.groups, request.claim.group_count, "groups",
                0, TASK_IDS_MAX, "In place of group: any of these"),
    INT(REQUIRED, claim.duration_ms, "duration", 0, INT64_MAX, "How long to own it, in ms"),
    INT(0, wait_ms, "wait", 0, INT64_MAX, "How long to wait for a task, in ms"),
    INT(0, claim.limit, "limit", 1, TASK_IDS_MAX, "How many tasks at most", .preset = 1),
    FIELD_BOOL(IN_BODY, struct task_in, request.claim.tasks_only, "tasks_only",
               "Refuse to claim messages of queues and tasks of nodes"),
    IDS(claim, deletes, delete_count, "deletes", "Ids of tasks to delete in the same transaction"),
    IDS(claim, depends, depend_count, "depends", "Ids of tasks that must exist"),
    EDITS,
    REQUESTID,
    {.name = {NULL, 0}},
};

/*
 * What a requestid stands for: all members that decide what is done. The time to wait does not. The
 * request log is on disk: new members go to the end.
 */
static uint64_t hash_members(const struct json *v)
{
    static const char *const names[] = {"group", "groups",   "duration", "limit",
                                        "adds",  "updates",  "deletes",  "depends",
                                        "fails", "finishes", "releases", "tasks_only"};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct json *member = json_get(v, names[i]);
        if (member)
            hash = XXH3_64bits_withSeed(member->raw.p, member->raw.len, hash + i + 1);
    }
    return hash;
}

/* What stands for the fields while they are turned into a request. */
struct body_finishing {
    struct arena *arena;
    const char *wrong, *field;
};

/* As the fields themselves: "adds[1]: data64 is not base64", of adds[1].data64. */
static void blame(struct body_finishing *f, const char *list, size_t i, const char *member,
                  const char *wrong)
{
    if (f->wrong)
        return;
    f->field = arena_printf(f->arena, "%s[%zu].%s", list, i, member);
    f->wrong = arena_printf(f->arena, "%s[%zu]: %s", list, i, wrong);
}

/* The data of a task, and whether it is bytes. */
static bool read_data(struct body_finishing *f, const char *list, size_t i, struct str text,
                      struct str text64, struct str *ret_data)
{
    struct buf bytes = {0};
    *ret_data = text;
    if (!text64.p)
        return false;
    if (text.p)
        blame(f, list, i, "data64", "give either data or data64");
    else if (!base64_read(text64, &bytes))
        blame(f, list, i, "data64", "data64 is not base64");
    *ret_data = arena_take(f->arena, &bytes);
    return true;
}

static void finish_adds(struct body_finishing *f, const struct task_in *in, struct task_update *u)
{
    struct task *adds = arena_zalloc(f->arena, in->add_count * sizeof *adds);
    for (size_t i = 0; i < in->add_count; i++) {
        const struct task_add_in *from = &in->adds[i];
        struct task_extra x = {.priority = (int32_t)from->priority,
                               .key = from->key,
                               .share = from->share,
                               .expires = from->expires};
        adds[i].group = from->group;
        adds[i].timespec = from->timespec;
        adds[i].on_key = (unsigned)from->on_key & 3;
        x.binary = read_data(f, "adds", i, from->data, from->data64, &adds[i].data);
        if (!task_extra_is_plain(&x))
            adds[i].extra = task_extra_copy(f->arena, &x);
        if (from->on_key && !from->key.len)
            blame(f, "adds", i, "on_key", "on_key needs a key");
    }
    u->adds = adds;
    u->add_count = in->add_count;
}

static void finish_updates(struct body_finishing *f, const struct task_in *in,
                           struct task_update *u)
{
    static const struct task_extra binary = {.binary = true};
    struct task *updates = arena_zalloc(f->arena, in->update_count * sizeof *updates);
    for (size_t i = 0; i < in->update_count; i++) {
        const struct task_change_in *from = &in->updates[i];
        updates[i].id = from->id;
        updates[i].timespec = from->timespec;
        if (read_data(f, "updates", i, from->data, from->data64, &updates[i].data))
            updates[i].extra = &binary;
    }
    u->updates = updates;
    u->update_count = in->update_count;
}

static const struct task_edit *finish_edits(struct arena *a, const struct task_in *in,
                                            size_t *ret_count)
{
    size_t count = in->fail_count + in->finish_count + in->release_count;
    struct task_edit *edits = arena_zalloc(a, count * sizeof *edits), *at = edits;
    for (size_t i = 0; i < in->fail_count; i++)
        *at++ = (struct task_edit){EDIT_FAIL,          in->fails[i].id,
                                   in->fails[i].error, in->fails[i].retry_ms,
                                   in->fails[i].dead,  in->fails[i].attempts};
    for (size_t i = 0; i < in->finish_count; i++)
        *at++ = (struct task_edit){EDIT_FINISH, in->finishes[i].id, in->finishes[i].result};
    for (size_t i = 0; i < in->release_count; i++)
        *at++ = (struct task_edit){EDIT_RELEASE, in->releases[i]};
    *ret_count = count;
    return edits;
}

const char *body_finish(struct task_in *in, enum task_kind kind, const struct json *v,
                        struct arena *a, const char **ret_field)
{
    struct task_claim *c = &in->request.claim;
    struct task_update *u = &in->request.update;
    struct body_finishing f = {a};
    in->request.kind = kind;
    if (in->request.requestid.len)
        in->request.request_hash = hash_members(v);
    u->edits = finish_edits(a, in, &u->edit_count);
    c->edits = u->edits;
    c->edit_count = u->edit_count;
    if (kind != TASK_CLAIM) {
        finish_adds(&f, in, u);
        finish_updates(&f, in, u);
        *ret_field = f.field;
        return f.wrong;
    }
    *ret_field = "group";
    if (in->group.p && c->groups)
        return "give either group or groups";
    if (!in->group.p && !c->group_count)
        return "group is missing";
    if (in->group.p) {
        c->groups = &in->group;
        c->group_count = 1;
    }
    return NULL;
}

/* Writing. */

static void put_number(struct buf *b, const char *name, int64_t number)
{
    if (number)
        json_member_int(b, name, number);
}

static void put_text(struct buf *b, const char *name, struct str text)
{
    if (text.len)
        json_member_text(b, name, text);
}

static void put_extra(struct buf *b, const struct task_extra *x)
{
    put_number(b, "priority", x->priority);
    put_text(b, "key", x->key);
    put_text(b, "share", x->share);
    put_number(b, "attempts", x->attempts);
    put_number(b, "claims", x->claims);
    put_number(b, "created", x->created);
    put_number(b, "expires", x->expires);
    put_text(b, "error", x->error);
    put_text(b, "origin", x->origin);
    put_number(b, "ended", x->ended);
    put_text(b, "result", x->result);
}

static void put_data(struct buf *b, const struct task *t)
{
    if (!t->extra || !t->extra->binary) {
        json_put_raw(b, STR("\"data\":"));
        json_put_text(b, t->data);
        return;
    }
    CLEANUP(buf_release) struct buf text = {0};
    base64_put(&text, (const unsigned char *)t->data.p, t->data.len);
    json_member_text(b, "data64", buf_str(&text));
}

/*
 * Without the closing bracket. A plain task has the five members of the document. Their names are
 * put as they are, because every answer has them.
 */
static void put_members(struct buf *b, const struct task *t)
{
    json_put_raw(b, STR("{\"id\":"));
    json_put_int(b, t->id);
    json_put_raw(b, STR("\"group\":"));
    json_put_text(b, t->group);
    put_data(b, t);
    json_put_raw(b, STR("\"timespec\":"));
    json_put_int(b, t->timespec);
    json_put_raw(b, STR("\"ownerid\":"));
    json_put_int(b, t->ownerid);
    if (t->extra)
        put_extra(b, t->extra);
}

void body_put_task(struct buf *b, const struct task *t)
{
    put_members(b, t);
    if (t->extra && t->first != t->id)
        json_member_int(b, "first", t->first);
    json_close(b, '}');
}

void body_put_state(struct buf *b, const struct task *t, int64_t now_ms)
{
    put_members(b, t);
    json_member_int(b, "first", t->first);
    json_member_text(b, "state", str_of(task_state_name(task_state(t, now_ms))));
    json_close(b, '}');
}

void body_put_tasks(struct buf *b, const struct task *tasks, size_t count)
{
    json_put_raw(b, STR("{\"tasks\":["));
    for (size_t i = 0; i < count; i++)
        body_put_task(b, &tasks[i]);
    json_close(b, ']');
    json_close(b, '}');
}
