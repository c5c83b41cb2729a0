#include "task/body.h"

#include <xxhash.h>

#include "task/request_log.h"

/* Reading. */

static const struct route_field ADD_FIELDS[] = {
    FIELD_TEXT(IN_BODY | REQUIRED, struct task, group, "group", 1, TASK_GROUP_LEN_MAX, "Its group"),
    FIELD_TEXT(IN_BODY, struct task, data, "data", 0, INT64_MAX, "Its data; empty unless given"),
    FIELD_INT(IN_BODY, struct task, timespec, "timespec", INT64_MIN, INT64_MAX,
              "When it can be claimed: 0 now, negative that long from now, else the moment"),
    FIELD_IGNORED(IN_BODY, "id", "Ignored"),
    FIELD_IGNORED(IN_BODY, "ownerid", "Ignored"),
    {.name = {NULL, 0}},
};

static const struct route_field CHANGE_FIELDS[] = {
    FIELD_INT(IN_BODY | REQUIRED, struct task, id, "id", INT64_MIN, INT64_MAX, "The task"),
    FIELD_TEXT(IN_BODY, struct task, data, "data", 0, INT64_MAX,
               "Its new data; empty unless given"),
    FIELD_INT(IN_BODY, struct task, timespec, "timespec", INT64_MIN, INT64_MAX,
              "Its new timespec, as in adds; now unless given"),
    FIELD_IGNORED(IN_BODY, "group", "Ignored: a task keeps its group"),
    FIELD_IGNORED(IN_BODY, "ownerid", "Ignored"),
    {.name = {NULL, 0}},
};

#define INT(where, member, name, min, max, help, ...)                                              \
    FIELD_INT(IN_BODY | (where), struct task_in, request.member, name, min, max, help, __VA_ARGS__)
#define IDS(kind, member, count, name, help)                                                       \
    FIELD_INTS(IN_BODY, struct task_in, request.kind.member, request.kind.count, name, 0,          \
               TASK_IDS_MAX, help)
#define TASKS(member, count, fields, help)                                                         \
    FIELD_OBJECTS(IN_BODY, struct task_in, request.update.member, request.update.count, #member,   \
                  0, TASK_IDS_MAX, struct task, fields, help)
#define REQUESTID                                                                                  \
    FIELD_TEXT(IN_BODY, struct task_in, request.requestid, "requestid", 1, REQUEST_LOG_ID_LEN_MAX, \
               "Makes the request safe to repeat: a name for it that the client makes up")

const struct route_field TASK_UPDATE_FIELDS[] = {
    INT(REQUIRED, update.clientid, "clientid", TASK_MANAGER + 1, INT64_MAX, "The client's own id"),
    TASKS(adds, add_count, ADD_FIELDS, "Tasks to add"),
    TASKS(updates, update_count, CHANGE_FIELDS, "Tasks to replace; each gets a new id"),
    IDS(update, deletes, delete_count, "deletes", "Ids of tasks to delete"),
    IDS(update, depends, depend_count, "depends", "Ids of tasks that must exist"),
    REQUESTID,
    {.name = {NULL, 0}},
};

const struct route_field TASK_CLAIM_FIELDS[] = {
    INT(REQUIRED, claim.clientid, "clientid", TASK_MANAGER + 1, INT64_MAX, "The client's own id"),
    FIELD_TEXT(IN_BODY, struct task_in, group, "group", 1, INT64_MAX, "The group to claim from"),
    FIELD_TEXTS(IN_BODY, struct task_in, request.claim.groups, request.claim.group_count, "groups",
                0, TASK_IDS_MAX, "In place of group: any of these"),
    INT(REQUIRED, claim.duration_ms, "duration", 0, INT64_MAX, "How long to own it, in ms"),
    INT(0, wait_ms, "wait", 0, INT64_MAX, "How long to wait for a task, in ms"),
    INT(0, claim.limit, "limit", 1, TASK_IDS_MAX, "How many tasks at most", .preset = 1),
    IDS(claim, deletes, delete_count, "deletes", "Ids of tasks to delete in the same transaction"),
    IDS(claim, depends, depend_count, "depends", "Ids of tasks that must exist"),
    REQUESTID,
    {.name = {NULL, 0}},
};

/* What a requestid stands for: all members that decide what is done. The time to wait does not. */
static uint64_t hash_members(const struct json *v)
{
    static const char *const names[] = {"group", "groups",  "duration", "limit",
                                        "adds",  "updates", "deletes",  "depends"};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct json *member = json_get(v, names[i]);
        if (member)
            hash = XXH3_64bits_withSeed(member->raw.p, member->raw.len, hash + i + 1);
    }
    return hash;
}

const char *body_finish(struct task_in *in, enum task_kind kind, const struct json *v)
{
    struct task_claim *c = &in->request.claim;
    in->request.kind = kind;
    if (in->request.requestid.len)
        in->request.request_hash = hash_members(v);
    if (kind != TASK_CLAIM)
        return NULL;
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

void body_put_task(struct buf *b, const struct task *t)
{
    json_open(b, '{');
    json_member_int(b, "id", t->id);
    json_key(b, "group");
    json_put_text(b, t->group);
    json_key(b, "data");
    json_put_text(b, t->data);
    json_member_int(b, "timespec", t->timespec);
    json_member_int(b, "ownerid", t->ownerid);
    json_close(b, '}');
}

void body_put_tasks(struct buf *b, const struct task *tasks, size_t count)
{
    json_open(b, '{');
    json_member_open(b, "tasks", '[');
    for (size_t i = 0; i < count; i++)
        body_put_task(b, &tasks[i]);
    json_close(b, ']');
    json_close(b, '}');
}
