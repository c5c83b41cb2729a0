#include "task/body.h"

#include <limits.h>
#include <strings.h>
#include <xxhash.h>

#include "task/remember.h"

static int need_object(const struct json *v, struct err_info *e)
{
    if (v->kind != JSON_OBJECT)
        return err_set(e, DROVER_BAD_ARGUMENT, "the body must be an object, not %s",
                       json_kind_name(v));
    return 0;
}

/* What the request's id stands for: everything that decides what is done, and no time to wait. */
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

static int read_requestid(const struct json *v, struct task_request *r, struct err_info *e)
{
    int err = json_get_text(v, "requestid", &r->requestid, e);

    if (err <= 0)
        return err;
    if (!r->requestid.len || r->requestid.len > REMEMBER_ID_LEN_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "requestid must have 1 to %d bytes",
                       REMEMBER_ID_LEN_MAX);
    r->request_hash = hash_members(v);
    return 0;
}

static int read_clientid(const struct json *v, int64_t *ret, struct err_info *e)
{
    int err = json_get_int(v, "clientid", ret, e);

    if (err > 0 && *ret == TASK_MANAGER)
        return err_set(e, DROVER_BAD_ARGUMENT, "clientid is reserved");
    return err ? (err < 0 ? err : 0) : err_set(e, DROVER_BAD_ARGUMENT, "clientid is missing");
}

static int too_many(const char *name, struct err_info *e)
{
    return err_set(e, DROVER_TOO_BIG, "%s: at most %d at a time", name, TASK_IDS_MAX);
}

static int read_ids(const struct json *v, const char *name, struct arena *a,
                    const int64_t **ret_ids, size_t *ret_count, struct err_info *e)
{
    const struct json *list;
    int64_t *ids;
    size_t count = 0;
    int err = json_get_list(v, name, &list, e);

    if (err <= 0)
        return err;
    if (list->count > TASK_IDS_MAX)
        return too_many(name, e);
    ids = arena_alloc(a, (list->count + 1) * sizeof *ids);
    json_each(id, list) {
        if (id->kind != JSON_INT)
            return err_set(e, DROVER_BAD_ARGUMENT, "%s[%zu]: an id is a number, not %s", name,
                           count, json_kind_name(id));
        ids[count++] = id->number;
    }
    *ret_ids = ids;
    *ret_count = count;
    return 0;
}

/* One of adds or updates. */
static int read_task(const struct json *v, bool is_add, struct task *t, struct err_info *e)
{
    static const char *const members[] = {"id", "group", "data", "timespec", "ownerid", NULL};
    int err;

    if (v->kind != JSON_OBJECT)
        return err_set(e, DROVER_BAD_ARGUMENT, "a task is an object, not %s", json_kind_name(v));
    err = json_only(v, members, e);
    if (!err)
        err = json_get_text(v, "data", &t->data, e);
    if (err >= 0)
        err = json_get_int(v, "timespec", &t->timespec, e);
    if (err >= 0 && is_add)
        err = json_get_text(v, "group", &t->group, e);
    else if (err >= 0)
        err = json_get_int(v, "id", &t->id, e);
    if (err >= 0 && is_add && !t->group.len)
        err = err_set(e, DROVER_BAD_ARGUMENT, "group is missing");
    if (err >= 0 && is_add && t->group.len > TASK_GROUP_LEN_MAX)
        err = err_set(e, DROVER_BAD_ARGUMENT, "group has more than %d bytes", TASK_GROUP_LEN_MAX);
    if (err == 0 && !is_add)
        err = err_set(e, DROVER_BAD_ARGUMENT, "id is missing");
    return err < 0 ? err : 0;
}

static int read_tasks(const struct json *v, const char *name, bool is_add, struct arena *a,
                      const struct task **ret_tasks, size_t *ret_count, struct err_info *e)
{
    const struct json *list;
    struct err_info why;
    struct task *tasks;
    size_t count = 0;
    int err = json_get_list(v, name, &list, e);

    if (err <= 0)
        return err;
    if (list->count > TASK_IDS_MAX)
        return too_many(name, e);
    tasks = arena_zalloc(a, (list->count + 1) * sizeof *tasks);
    json_each(task, list) {
        err = read_task(task, is_add, &tasks[count], &why);
        if (err < 0)
            return err_set(e, err, "%s[%zu]: %.400s", name, count, why.text);
        count++;
    }
    *ret_tasks = tasks;
    *ret_count = count;
    return 0;
}

int body_update(const struct json *v, struct arena *a, struct task_request *r, struct err_info *e)
{
    static const char *const members[] = {"clientid", "adds",      "updates", "deletes",
                                          "depends",  "requestid", NULL};
    struct task_update *u = &r->update;
    int err = need_object(v, e);

    r->kind = TASK_UPDATE;
    if (!err)
        err = json_only(v, members, e);
    if (!err)
        err = read_clientid(v, &u->clientid, e);
    if (!err)
        err = read_tasks(v, "adds", true, a, &u->adds, &u->add_count, e);
    if (!err)
        err = read_tasks(v, "updates", false, a, &u->updates, &u->update_count, e);
    if (!err)
        err = read_ids(v, "deletes", a, &u->deletes, &u->delete_count, e);
    if (!err)
        err = read_ids(v, "depends", a, &u->depends, &u->depend_count, e);
    return err ? err : read_requestid(v, r, e);
}

static int read_group_list(const struct json *list, struct arena *a, struct task_claim *c,
                           struct err_info *e)
{
    struct str *groups;

    if (list->count > TASK_IDS_MAX)
        return too_many("groups", e);
    groups = arena_alloc(a, (list->count + 1) * sizeof *groups);
    json_each(name, list) {
        if (name->kind != JSON_TEXT || !name->text.len)
            return err_set(e, DROVER_BAD_ARGUMENT, "groups[%zu] is no name of a group",
                           c->group_count);
        groups[c->group_count++] = name->text;
    }
    c->groups = groups;
    return 0;
}

/* group or groups: one of them, and not empty. */
static int read_groups(const struct json *v, struct arena *a, struct task_claim *c,
                       struct err_info *e)
{
    struct str *one = arena_zalloc(a, sizeof *one);
    const struct json *list = NULL;
    int single = json_get_text(v, "group", one, e), several;

    if (single < 0)
        return single;
    several = json_get_list(v, "groups", &list, e);
    if (several < 0)
        return several;
    if (single && several)
        return err_set(e, DROVER_BAD_ARGUMENT, "either group or groups");
    if (several && list->count)
        return read_group_list(list, a, c, e);
    if (!one->len)
        return err_set(e, DROVER_BAD_ARGUMENT, "group is missing");
    c->groups = one;
    c->group_count = 1;
    return 0;
}

/* A number that must not be negative. 1: it is there. */
static int read_natural(const struct json *v, const char *name, int64_t min, int64_t *ret,
                        struct err_info *e)
{
    int found = json_get_int(v, name, ret, e);

    if (found > 0 && *ret < min)
        return err_set(e, DROVER_BAD_ARGUMENT, "%s must not be less than %d", name, (int)min);
    return found;
}

static int read_numbers(const struct json *v, struct task_request *r, struct err_info *e)
{
    int64_t limit = 1;
    int err = read_natural(v, "duration", 0, &r->claim.duration_ms, e);

    if (!err)
        return err_set(e, DROVER_BAD_ARGUMENT, "duration is missing");
    if (err > 0)
        err = read_natural(v, "wait", 0, &r->wait_ms, e);
    if (err >= 0)
        err = read_natural(v, "limit", 1, &limit, e);
    if (err < 0)
        return err;
    if (limit > TASK_IDS_MAX)
        return too_many("limit", e);
    r->claim.limit = (size_t)limit;
    return 0;
}

int body_claim(const struct json *v, struct arena *a, struct task_request *r, struct err_info *e)
{
    static const char *const members[] = {"clientid", "group",   "groups",  "duration",  "wait",
                                          "limit",    "deletes", "depends", "requestid", NULL};
    struct task_claim *c = &r->claim;
    int err = need_object(v, e);

    r->kind = TASK_CLAIM;
    if (!err)
        err = json_only(v, members, e);
    if (!err)
        err = read_clientid(v, &c->clientid, e);
    if (!err)
        err = read_groups(v, a, c, e);
    if (!err)
        err = read_numbers(v, r, e);
    if (!err)
        err = read_ids(v, "deletes", a, &c->deletes, &c->delete_count, e);
    if (!err)
        err = read_ids(v, "depends", a, &c->depends, &c->depend_count, e);
    return err ? err : read_requestid(v, r, e);
}

/* Writing. */

void body_put_task(struct buf *b, const struct task *t)
{
    json_open(b, '{');
    json_key(b, "id");
    json_put_int(b, t->id);
    json_key(b, "group");
    json_put_text(b, t->group);
    json_key(b, "data");
    json_put_text(b, t->data);
    json_key(b, "timespec");
    json_put_int(b, t->timespec);
    json_key(b, "ownerid");
    json_put_int(b, t->ownerid);
    json_close(b, '}');
}

void body_put_tasks(struct buf *b, const struct task *tasks, size_t count)
{
    json_open(b, '{');
    json_key(b, "tasks");
    json_open(b, '[');
    for (size_t i = 0; i < count; i++)
        body_put_task(b, &tasks[i]);
    json_close(b, ']');
    json_close(b, '}');
}

void body_put_errors(struct buf *b, const char *const *errors, size_t count)
{
    json_open(b, '{');
    json_key(b, "errors");
    json_open(b, '[');
    for (size_t i = 0; i < count; i++)
        json_put_text(b, str_of(errors[i]));
    json_close(b, ']');
    json_close(b, '}');
}

/* Paths and queries. */

int64_t body_id(struct str text)
{
    int64_t id = 0;

    if (!text.len)
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        int digit = text.p[i] - '0';

        if (digit < 0 || digit > 9)
            return 0;
        id = id > (INT64_MAX - digit) / 10 ? INT64_MAX : id * 10 + digit;
    }
    return id ? id : INT64_MAX;
}

int body_ids(struct str text, struct arena *a, int64_t **ret_ids, size_t *ret_count)
{
    size_t room = 1, count = 0, at = 0;
    int64_t *ids;

    for (size_t i = 0; i < text.len; i++)
        room += text.p[i] == ',';
    if (room > TASK_IDS_MAX)
        return DROVER_TOO_BIG;
    ids = arena_alloc(a, room * sizeof *ids);
    for (size_t i = 0; i <= text.len; i++) {
        if (i < text.len && text.p[i] != ',')
            continue;
        ids[count] = body_id((struct str){text.p + at, i - at});
        if (!ids[count++])
            return DROVER_BAD_ARGUMENT;
        at = i + 1;
    }
    *ret_ids = ids;
    *ret_count = count;
    return 0;
}

bool body_truth(struct str text, bool *ret_truth)
{
    static const struct {
        struct str word;
        bool truth;
    } words[] = {{STR("0"), false},  {STR("1"), true},      {STR("no"), false},
                 {STR("yes"), true}, {STR("false"), false}, {STR("true"), true}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (text.len == words[i].word.len && !strncasecmp(text.p, words[i].word.p, text.len)) {
            *ret_truth = words[i].truth;
            return true;
        }
    return false;
}
