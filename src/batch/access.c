/* The same shapes as batches: a number, a status, a list for each state that is no end. */
#include "batch/access.h"

#include "base/clock.h"
#include "batch/adopt.h"
#include "batch/lock.h"

static const char *const QUEUES[ACCESS_SIZES] = {"accessSmall", "accessLarge"};

int access_find_size(struct call *c, struct str name, enum access_size *ret_size)
{
    for (int i = 0; i < ACCESS_SIZES; i++) {
        if (str_eq(name, str_of(ACCESS_DIRS[i]))) {
            *ret_size = (enum access_size)i;
            return 0;
        }
    }
    return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "the access queues are small and large");
}

static int check_id(struct call *c, struct str id, char ret_id[NAME_ID_LEN + 1])
{
    int64_t number = name_number(NAME_ACCESS, id);

    if (number < 0)
        return DEPOT_FAIL(c, DROVER_NO_NODE, "there is no access item '%.*s'",
                          (int)(id.len < 100 ? id.len : 100), id.p);
    name_id(NAME_ACCESS, number, ret_id);
    return 0;
}

static int try_create(struct call *c, enum access_size size, struct str data, char *ret_id,
                      bool *ret_again)
{
    const struct machine *m = &c->depot->machines.access;
    struct status s = {.state = m->first, .modified = depot_now(c)};
    const char *dir = ACCESS_DIRS[size];
    struct change t = {.a = c->a};
    int64_t number;
    int32_t version;
    int err = depot_next_number(c, arena_printf(c->a, "/access/%s", dir), &number, &version);

    *ret_again = false;
    if (err)
        return depot_fail(c, err);
    name_id(NAME_ACCESS, number, ret_id);
    change_set(&t, NO_BYTES, version, "/access/%s", dir);
    change_create(&t, NO_BYTES, 0, "/access/%s/%s", dir, ret_id);
    change_create(&t, data, 0, "/access/%s/%s/token", dir, ret_id);
    change_create(&t, status_write(m, &s, c->a), 0, "/access/%s/%s/status", dir, ret_id);
    change_list_add(&t, &c->depot->access[size][m->first], number);
    err = change_commit(&t, c->k, -1);
    *ret_again = depot_again(err);
    return err ? depot_fail(c, err) : 0;
}

int access_create(struct call *c, enum access_size size, const struct json *data,
                  char ret_id[NAME_ID_LEN + 1])
{
    const struct machine *m = &c->depot->machines.access;
    char id[NAME_ID_LEN + 1];
    struct buf b = {0};
    struct str text;
    bool again = true;
    int err = 0;

    json_put(&b, data);
    text = (struct str){arena_text(c->a, (struct str){b.p, b.len}), b.len};
    buf_release(&b);
    for (int i = 0; i < DEPOT_TRIES && again; i++) {
        pthread_mutex_lock(&c->depot->making);
        err = try_create(c, size, text, id, &again);
        pthread_mutex_unlock(&c->depot->making);
    }
    if (err)
        return err;
    memcpy(ret_id, id, sizeof id);
    depot_tell(c, &(struct depot_event){"access", id, NULL, NULL, m->states[m->first].name});
    return 0;
}

static int brief(struct call *c, enum access_size size, const char *id, struct access *ret)
{
    struct keeper_stat stat;
    struct err_info why;
    struct str text;
    int err = depot_get(c, &text, &stat, "/access/%s/%s/status", ACCESS_DIRS[size], id);

    if (err == DROVER_NO_NODE)
        return DEPOT_FAIL(c, err, "there is no access item %s/%s", ACCESS_DIRS[size], id);
    if (err)
        return depot_fail(c, err);
    err = status_read(&c->depot->machines.access, false, c->a, text, &ret->status, &why);
    if (err)
        return DEPOT_FAIL(c, err, "access item %s: %s", id, why.text);
    ret->size = size;
    memcpy(ret->id, id, NAME_ID_LEN + 1);
    ret->version = stat.version;
    return 0;
}

int access_get(struct call *c, enum access_size size, struct str id, struct access *ret_access)
{
    struct access a = {.token = 0};
    struct keeper_stat stat;
    char checked[NAME_ID_LEN + 1];
    int err = check_id(c, id, checked);

    if (!err)
        err = brief(c, size, checked, &a);
    if (err)
        return err;
    err = depot_get(c, &a.data, NULL, "/access/%s/%s/token", ACCESS_DIRS[size], a.id);
    if (!err || err == DROVER_NO_NODE) {
        err = depot_exists(c, &stat, "/access/%s/%s/lock", ACCESS_DIRS[size], a.id);
        a.token = err ? 0 : stat.czxid;
    }
    if (err && err != DROVER_NO_NODE)
        return depot_fail(c, err);
    *ret_access = a;
    return 0;
}

int access_list(struct call *c, enum access_size size, int state, struct access **ret_list,
                size_t *ret_count)
{
    struct keeper_names names;
    struct access *list;
    size_t count = 0;
    int err = depot_children(c, &names, NULL, "/access/%s", ACCESS_DIRS[size]);

    if (err)
        return depot_fail(c, err);
    list = arena_zalloc(c->a, (names.count + 1) * sizeof *list);
    for (size_t i = 0; i < names.count; i++) {
        err = access_get(c, size, str_of(names.names[i]), &list[count]);
        if (err && err != DROVER_NO_NODE && err != DROVER_DAMAGED)
            return err;
        if (!err && (state == MACHINE_NONE || list[count].status.state == state))
            count++;
    }
    *ret_list = list;
    *ret_count = count;
    return 0;
}

/* 1: taken. 0: not this one. */
static int try_acquire(struct call *c, enum access_size size, int state, int64_t number,
                       struct access *a)
{
    struct view *v = &c->depot->access[size][state];
    struct change t = {.a = c->a};
    char id[NAME_ID_LEN + 1];
    int err;

    name_id(NAME_ACCESS, number, id);
    err = brief(c, size, id, a);
    if (err == DROVER_NO_NODE || err == DROVER_DAMAGED || (!err && a->status.state != state)) {
        view_forget(v, number);
        return 0;
    }
    if (!err) {
        change_set(&t, status_write(&c->depot->machines.access, &a->status, c->a), a->version,
                   "/access/%s/%s/status", ACCESS_DIRS[size], id);
        change_create(&t, NO_BYTES, KEEPER_EPHEMERAL, "/access/%s/%s/lock", ACCESS_DIRS[size], id);
        err = lock_commit(c, &t, 0, 1, &a->token);
    }
    view_park(v, number, clock_boot_ms());
    if (err)
        return depot_again(err) ? 0 : depot_fail(c, err);
    a->version++;
    return 1;
}

int access_acquire(struct call *c, enum access_size size, struct access *ret_access)
{
    const struct machine *m = &c->depot->machines.access;
    struct access a = {.token = 0};
    int64_t number, token;
    int got = lock_queue(c, QUEUES[size]);

    if (got)
        return got < 0 ? got : 0;
    got = adopt_new(c, size == ACCESS_SMALL ? ADOPT_SMALL : ADOPT_LARGE);
    if (got < 0)
        return got;
    for (int state = 0; state < m->count; state++) {
        struct view *v = &c->depot->access[size][state];
        struct view_walk walk = {0};

        if (state != m->first && !m->states[state].keeps)
            continue;
        while ((got = view_next(v, c->k, clock_boot_ms(), &walk, &number)) == 1 &&
               (got = try_acquire(c, size, state, number, &a)) == 0)
            ;
        if (got < 0)
            return depot_fail(c, got);
        if (got == 0)
            continue;
        token = a.token;
        got = access_get(c, size, str_of(a.id), &a);
        if (got)
            return got;
        a.token = token;
        *ret_access = a;
        return 1;
    }
    return 0;
}

static int set_state(struct call *c, struct change *t, const struct access *a, int to,
                     struct str message)
{
    const struct machine *m = &c->depot->machines.access;
    struct status s = a->status;

    s.state = to;
    s.modified = depot_now(c);
    s.message = message;
    change_set(t, status_write(m, &s, c->a), a->version, "/access/%s/%s/status",
               ACCESS_DIRS[a->size], a->id);
    return depot_relist(c, t, m, c->depot->access[a->size], a->status.state, to, a->id);
}

static int try_move(struct call *c, struct access *a, struct str state, struct str message,
                    int64_t token, int *ret_state, bool *ret_again)
{
    struct change t = {.a = c->a};
    int to, err = brief(c, a->size, a->id, a), refused;

    *ret_again = false;
    if (err)
        return err;
    to = machine_resolve(&c->depot->machines.access, a->status.state, state, c->why);
    if (to < 0)
        return to;
    err = lock_guard(c, &t, arena_printf(c->a, "/access/%s/%s", ACCESS_DIRS[a->size], a->id), token,
                     c->depot->machines.access.states[to].keeps);
    if (err)
        return err;
    err = set_state(c, &t, a, to, message);
    if (!err)
        err = change_commit(&t, c->k, token ? 1 : 2);
    refused = lock_refused(c, &t, 0, err, token);
    if (refused == DROVER_FENCED || refused == DROVER_LOCKED)
        return refused;
    *ret_again = depot_again(err);
    *ret_state = to;
    return err ? depot_fail(c, err) : 0;
}

int access_move(struct call *c, enum access_size size, struct str id, struct str state,
                struct str message, int64_t token, int *ret_state)
{
    const struct machine *m = &c->depot->machines.access;
    struct access a = {.size = size};
    bool again = true;
    int to = 0, err = check_id(c, id, a.id);

    for (int i = 0; i < DEPOT_TRIES && again && (!err || i); i++)
        err = try_move(c, &a, state, message, token, &to, &again);
    if (err)
        return err;
    *ret_state = to;
    depot_tell(c, &(struct depot_event){"access", a.id, NULL, m->states[a.status.state].name,
                                        m->states[to].name});
    return 0;
}

int access_delete(struct call *c, enum access_size size, struct str id)
{
    const struct machine *m = &c->depot->machines.access;
    const char *dir = ACCESS_DIRS[size];
    struct change t = {.a = c->a};
    struct keeper_names names;
    struct access a;
    int err = access_get(c, size, id, &a);

    if (err)
        return err;
    if (!machine_is_end(m, a.status.state))
        return DEPOT_FAIL(c, DROVER_NOT_ALLOWED,
                          "access item %s is %s; it can be deleted at an end", a.id,
                          m->states[a.status.state].name);
    err = depot_children(c, &names, NULL, "/access/%s/%s", dir, a.id);
    if (err)
        return depot_fail(c, err);
    change_check(&t, a.version, "/access/%s/%s/status", dir, a.id);
    for (size_t i = 0; i < names.count; i++)
        change_delete(&t, "/access/%s/%s/%s", dir, a.id, names.names[i]);
    change_delete(&t, "/access/%s/%s", dir, a.id);
    err = change_commit(&t, c->k, -1);
    return err ? depot_fail(c, err) : 0;
}
