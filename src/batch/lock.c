/*
 * The locks of items, and the locks by name.
 *
 * A lock by name is taken by creating it. Two arks may have the same node name once their slashes are
 * gone; the data keeps the original, so that the one who is refused is told what is really locked.
 *
 * A transaction cannot insist on the czxid of a lock, its token. So taking one also sets the node that
 * it stands under (to nothing, as it is), and giving one back insists on the version of that node: if
 * the lock went and was taken by another since it was looked at, it is looked at again.
 */
#include "batch/lock.h"

#include "base/clock.h"
#include "batch/job.h"

const char *const LOCK_DIRS[LOCK_KINDS] = {"queue", "storage", "inventory", "collections"};

static const char *const QUEUES[] = {"ingest", "accessSmall", "accessLarge", NULL};

static int fenced(struct call *c, int64_t token)
{
    return DEPOT_FAIL(c, DROVER_FENCED, "the token %lld is no longer valid: the lock was lost",
                      (long long)token);
}

void lock_hold(struct change *t, const char *dir, int32_t version, bool keep)
{
    int op = keep ? change_check(t, version, "%s/lock", dir) : change_delete(t, "%s/lock", dir);

    t->ops[op].version = version;
}

int lock_guard(struct call *c, struct change *t, const char *dir, int64_t token, bool keep)
{
    struct keeper_stat stat;
    int err;

    if (!token) {
        change_create(t, NO_BYTES, KEEPER_EPHEMERAL, "%s/lock", dir);
        change_delete(t, "%s/lock", dir);
        return 0;
    }
    err = depot_exists(c, &stat, "%s/lock", dir);
    if (err == DROVER_NO_NODE || (!err && stat.czxid != token))
        return fenced(c, token);
    if (err)
        return depot_fail(c, err);
    lock_hold(t, dir, KEEPER_ANY_VERSION, keep);
    return 0;
}

int lock_refused(struct call *c, const struct change *t, int first_op, int err, int64_t token)
{
    if (!err || t->failed < first_op || t->failed > first_op + (token ? 0 : 1))
        return err;
    if (token && err == DROVER_NO_NODE)
        return fenced(c, token);
    if (!token && err == DROVER_EXISTS)
        return DEPOT_FAIL(c, DROVER_LOCKED,
                          "it is locked: whoever works on it names the token of the lock");
    return err;
}

int lock_commit(struct call *c, struct change *t, int status_op, int lock_op, int64_t *ret_token)
{
    struct keeper_session session;
    struct keeper_stat stat;
    int err = change_commit(t, c->k, status_op);

    if (err)
        return err;
    *ret_token = change_stat(t, lock_op)->czxid;
    if (*ret_token)
        return 0;
    keeper_session(c->k, &session);
    err = depot_exists(c, &stat, "%.*s", (int)t->ops[lock_op].path.len, t->ops[lock_op].path.p);
    if (err)
        return err == DROVER_NO_NODE ? DROVER_BAD_VERSION : err;
    if (stat.ephemeral_owner != session.id)
        return DROVER_EXISTS;
    *ret_token = stat.czxid;
    return 0;
}

/* What was unlocked without being moved can be acquired at once. */
static void free_in_view(struct call *c, const char *what, const char *id, struct str status)
{
    struct depot *d = c->depot;
    bool jobs = !strcmp(what, "jobs"), batches = !strcmp(what, "batches");
    int size = !strcmp(what, "access/large") ? ACCESS_LARGE : ACCESS_SMALL;
    struct status s;
    struct job j;

    if (jobs) {
        if (job_brief(c, str_of(id), &j) == 0)
            view_free(&d->jobs[j.status.state],
                      name_key_of(j.priority, name_number(NAME_JOB, str_of(id))));
    } else if (batches) {
        if (status_read(&d->machines.batch, false, c->a, status, &s, NULL) == 0)
            view_free(&d->batches[s.state], name_number(NAME_BATCH, str_of(id)));
    } else if (status_read(&d->machines.access, false, c->a, status, &s, NULL) == 0) {
        view_free(&d->access[size][s.state], name_number(NAME_ACCESS, str_of(id)));
    }
}

int lock_drop(struct call *c, const char *what, const char *id, int64_t token)
{
    for (int i = 0; i < DEPOT_TRIES; i++) {
        struct change t = {.a = c->a};
        struct keeper_stat stat, lock;
        struct str data;
        int err = depot_get(c, &data, &stat, "/%s/%s/status", what, id);

        if (!err)
            err = depot_exists(c, &lock, "/%s/%s/lock", what, id);
        if (err == DROVER_NO_NODE)
            return DEPOT_FAIL(c, err, "there is no lock on %s", id);
        if (err)
            return depot_fail(c, err);
        if (token && lock.czxid != token)
            return fenced(c, token);
        change_set(&t, data, stat.version, "/%s/%s/status", what, id);
        change_delete(&t, "/%s/%s/lock", what, id);
        err = change_commit(&t, c->k, 0);
        if (!err)
            free_in_view(c, what, id, data);
        if (!depot_again(err))
            return err ? depot_fail(c, err) : 0;
    }
    return depot_fail(c, DROVER_BAD_VERSION);
}

/* The node of a lock, or what is wrong with its name. */
static int node_name(struct call *c, enum lock_kind kind, struct str name, char *ret_node)
{
    char flat[NAME_LEN_MAX + 1];
    int err;

    if (name.len >= NAME_LEN_MAX)
        return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "the name of the lock is longer than %d bytes",
                          NAME_LEN_MAX - 1);
    name_flatten(name, flat);
    err = name_check("the name of the lock",
                     kind == LOCK_STORAGE || kind == LOCK_INVENTORY ? str_of(flat) : name, c->why);
    if (err)
        return err;
    if (kind == LOCK_QUEUE) {
        int i = 0;

        while (QUEUES[i] && !str_eq(name, str_of(QUEUES[i])))
            i++;
        if (!QUEUES[i])
            return DEPOT_FAIL(
                c, DROVER_BAD_ARGUMENT,
                "there is no queue '%s'; there are ingest, accessSmall and accessLarge", flat);
    }
    memcpy(ret_node, flat, name.len + 1);
    return 0;
}

static struct str write_data(struct call *c, struct str name, struct str who)
{
    struct buf b = {0};
    struct str text;

    json_open(&b, '{');
    json_key(&b, "name");
    json_put_text(&b, name);
    json_key(&b, "who");
    if (who.p)
        json_put_text(&b, who);
    else
        json_put_null(&b);
    json_key(&b, "when");
    json_put_text(&b, depot_now(c));
    json_close(&b, '}');
    text = (struct str){arena_text(c->a, (struct str){b.p, b.len}), b.len};
    buf_release(&b);
    return text;
}

/* Foreign clients leave the data empty, or write what they like: then the node's name is the name. */
static void read_lock(struct call *c, const char *node, struct str data,
                      const struct keeper_stat *stat, struct lock *ret)
{
    const struct json *v = data.len ? json_parse(c->a, data, NULL) : NULL;

    ret->node = str_of(arena_text(c->a, str_of(node)));
    ret->name = ret->node;
    ret->who = ret->when = (struct str){0};
    if (v && v->kind == JSON_OBJECT) {
        json_get_text(v, "name", &ret->name, NULL);
        json_get_text(v, "who", &ret->who, NULL);
        json_get_text(v, "when", &ret->when, NULL);
    }
    ret->token = stat->czxid;
    ret->age_ms = clock_wall_ms() - stat->ctime_ms;
    ret->ephemeral = stat->ephemeral_owner != 0;
}

static int find(struct call *c, enum lock_kind kind, const char *node, struct lock *ret_lock)
{
    struct keeper_stat stat;
    struct str data;
    int err = depot_get(c, &data, &stat, "/locks/%s/%s", LOCK_DIRS[kind], node);

    if (err)
        return err;
    ret_lock->kind = kind;
    read_lock(c, node, data, &stat, ret_lock);
    return 0;
}

static int refuse(struct call *c, enum lock_kind kind, struct str name, const char *node)
{
    struct lock other;

    if (find(c, kind, node, &other))
        return DEPOT_FAIL(c, DROVER_LOCKED, "%s/%s is locked", LOCK_DIRS[kind], node);
    if (!str_eq(other.name, name) && !str_eq(other.name, other.node))
        return DEPOT_FAIL(c, DROVER_LOCKED,
                          "'%.*s' cannot be locked: its name in the tree, '%s', is taken by '%.*s'",
                          (int)name.len, name.p, node, (int)other.name.len, other.name.p);
    return DEPOT_FAIL(c, DROVER_LOCKED, "%s/%s is locked%s%.*s since %.*s", LOCK_DIRS[kind], node,
                      other.who.p ? " by " : "", (int)other.who.len, other.who.p ? other.who.p : "",
                      (int)other.when.len, other.when.p ? other.when.p : "");
}

int lock_take(struct call *c, enum lock_kind kind, struct str name, struct str who,
              struct lock *ret_lock)
{
    bool object = kind == LOCK_STORAGE || kind == LOCK_INVENTORY;
    char node[NAME_LEN_MAX + 1];
    struct change t = {.a = c->a};
    int err = node_name(c, kind, name, node);

    if (err)
        return err;
    change_create(&t, write_data(c, name, who), object ? KEEPER_EPHEMERAL : 0, "/locks/%s/%s",
                  LOCK_DIRS[kind], node);
    change_set(&t, NO_BYTES, KEEPER_ANY_VERSION, "/locks/%s", LOCK_DIRS[kind]);
    err = change_commit(&t, c->k, -1);
    if (err == DROVER_EXISTS)
        return refuse(c, kind, name, node);
    if (!err)
        err = find(c, kind, node, ret_lock);
    return err ? depot_fail(c, err) : 0;
}

int lock_get(struct call *c, enum lock_kind kind, struct str name, struct lock *ret_lock)
{
    char node[NAME_LEN_MAX + 1];
    int err = node_name(c, kind, name, node);

    if (err)
        return err;
    err = find(c, kind, node, ret_lock);
    if (err == DROVER_NO_NODE)
        return DEPOT_FAIL(c, err, "%s/%s is not locked", LOCK_DIRS[kind], node);
    return err ? depot_fail(c, err) : 0;
}

/* One try at giving it back. BAD_VERSION: one of that kind was taken meanwhile, perhaps this one. */
static int try_release(struct call *c, enum lock_kind kind, struct str name, int64_t token)
{
    struct change t = {.a = c->a};
    struct keeper_stat taken;
    struct lock lock;
    int err = depot_exists(c, &taken, "/locks/%s", LOCK_DIRS[kind]);

    if (err)
        return depot_fail(c, err);
    err = lock_get(c, kind, name, &lock);
    if (err)
        return err;
    if (token && lock.token != token)
        return fenced(c, token);
    if (!str_eq(lock.name, name) && !str_eq(lock.name, lock.node))
        return DEPOT_FAIL(c, DROVER_LOCKED, "the lock of that name in the tree is of '%.*s'",
                          (int)lock.name.len, lock.name.p);
    change_check(&t, taken.version, "/locks/%s", LOCK_DIRS[kind]);
    change_delete(&t, "/locks/%s/%s", LOCK_DIRS[kind], lock.node.p);
    err = change_commit(&t, c->k, -1);
    return err ? depot_fail(c, err) : 0;
}

int lock_release(struct call *c, enum lock_kind kind, struct str name, int64_t token)
{
    int err = DROVER_BAD_VERSION;

    for (int i = 0; i < DEPOT_TRIES && err == DROVER_BAD_VERSION; i++)
        err = try_release(c, kind, name, token);
    return err;
}

int lock_list(struct call *c, enum lock_kind kind, struct lock **ret_locks, size_t *ret_count)
{
    struct keeper_names names;
    struct lock *locks;
    size_t count = 0;
    int err = depot_children(c, &names, NULL, "/locks/%s", LOCK_DIRS[kind]);

    if (err)
        return depot_fail(c, err);
    locks = arena_zalloc(c->a, (names.count + 1) * sizeof *locks);
    for (size_t i = 0; i < names.count; i++) {
        err = find(c, kind, names.names[i], &locks[count]);
        if (!err)
            count++;
        else if (err != DROVER_NO_NODE) /* it went meanwhile */
            return depot_fail(c, err);
    }
    *ret_locks = locks;
    *ret_count = count;
    return 0;
}

/* By the list, which has to be read anyway to be sure of what is not there, and is short. */
int lock_queue(struct call *c, const char *name)
{
    struct keeper_names names;
    int err = depot_children(c, &names, NULL, "/locks/queue");

    if (err)
        return depot_fail(c, err);
    for (size_t i = 0; i < names.count; i++)
        if (strcmp(names.names[i], name) == 0)
            return 1;
    return 0;
}
