/* The same shapes as batches: a number, a status, a list for each state that is no end. */
#include "batch/access.h"

#include "base/clock.h"
#include "batch/index.h"
#include "batch/lock.h"

static const char *const QUEUES[ACCESS_SIZES] = {"accessSmall", "accessLarge"};

int batch_access_find_size(struct batch_call *c, struct str name, enum batch_access_size *ret_size)
{
    for (int i = 0; i < ACCESS_SIZES; i++) {
        if (str_eq(name, str_of(ACCESS_DIRS[i]))) {
            *ret_size = (enum batch_access_size)i;
            return 0;
        }
    }
    return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "the access queues are small and large");
}

static int check_id(struct batch_call *c, struct str id, char ret_id[BATCH_ID_LEN + 1])
{
    int64_t number = batch_id_number(BATCH_ID_ACCESS, id);

    if (number < 0)
        return BATCH_FAIL(c, DROVER_NO_NODE, "there is no access item '%.*s'",
                          (int)(id.len < 100 ? id.len : 100), id.p);
    batch_id(BATCH_ID_ACCESS, number, ret_id);
    return 0;
}

static int try_create(struct batch_call *c, enum batch_access_size size, struct str data,
                      char *ret_id, bool *ret_again)
{
    const struct batch_machine *m = &c->store->machines.access;
    struct batch_status s = {.state = m->first, .modified = batch_now(c)};
    const char *dir = ACCESS_DIRS[size];
    struct batch_change t = {.a = c->a};
    int64_t number;
    int32_t version;
    int err = batch_next_number(c, arena_printf(c->a, "/access/%s", dir), &number, &version);

    *ret_again = false;
    if (err)
        return batch_fail(c, err);
    batch_id(BATCH_ID_ACCESS, number, ret_id);
    batch_change_set(&t, NO_BYTES, version, "/access/%s", dir);
    batch_change_create(&t, NO_BYTES, 0, "/access/%s/%s", dir, ret_id);
    batch_change_create(&t, data, 0, "/access/%s/%s/token", dir, ret_id);
    batch_change_create(&t, batch_status_write(m, &s, c->a), 0, "/access/%s/%s/status", dir,
                        ret_id);
    batch_change_list_add(&t, &c->store->access[size][m->first], number);
    err = batch_change_commit(&t, c->k, -1);
    *ret_again = batch_is_conflict(err);
    return err ? batch_fail(c, err) : 0;
}

int batch_access_create(struct batch_call *c, enum batch_access_size size, const struct json *data,
                        char ret_id[BATCH_ID_LEN + 1])
{
    const struct batch_machine *m = &c->store->machines.access;
    char id[BATCH_ID_LEN + 1];
    struct buf b = {0};
    struct str text;
    bool again = true;
    int err = 0;

    json_put(&b, data);
    text = (struct str){arena_text(c->a, (struct str){b.p, b.len}), b.len};
    buf_release(&b);
    for (int i = 0; i < BATCH_TRIES && again; i++) {
        pthread_mutex_lock(&c->store->making);
        err = try_create(c, size, text, id, &again);
        pthread_mutex_unlock(&c->store->making);
    }
    if (err)
        return err;
    memcpy(ret_id, id, sizeof id);
    batch_publish(c, &(struct batch_event){"access", id, NULL, NULL, m->states[m->first].name});
    return 0;
}

static int brief(struct batch_call *c, enum batch_access_size size, const char *id,
                 struct batch_access *ret)
{
    struct keeper_stat stat;
    struct err_info why;
    struct str text;
    int err = batch_node_get(c, &text, &stat, "/access/%s/%s/status", ACCESS_DIRS[size], id);

    if (err == DROVER_NO_NODE)
        return BATCH_FAIL(c, err, "there is no access item %s/%s", ACCESS_DIRS[size], id);
    if (err)
        return batch_fail(c, err);
    err = batch_status_read(&c->store->machines.access, false, c->a, text, &ret->status, &why);
    if (err)
        return BATCH_FAIL(c, err, "access item %s: %s", id, why.text);
    ret->size = size;
    memcpy(ret->id, id, BATCH_ID_LEN + 1);
    ret->version = stat.version;
    return 0;
}

int batch_access_get(struct batch_call *c, enum batch_access_size size, struct str id,
                     struct batch_access *ret_access)
{
    struct batch_access a = {.token = 0};
    struct keeper_stat stat;
    char checked[BATCH_ID_LEN + 1];
    int err = check_id(c, id, checked);

    if (!err)
        err = brief(c, size, checked, &a);
    if (err)
        return err;
    err = batch_node_get(c, &a.data, NULL, "/access/%s/%s/token", ACCESS_DIRS[size], a.id);
    if (!err || err == DROVER_NO_NODE) {
        err = batch_node_exists(c, &stat, "/access/%s/%s/lock", ACCESS_DIRS[size], a.id);
        a.token = err ? 0 : stat.czxid;
    }
    if (err && err != DROVER_NO_NODE)
        return batch_fail(c, err);
    *ret_access = a;
    return 0;
}

int batch_access_list(struct batch_call *c, enum batch_access_size size, int state,
                      struct batch_access **ret_list, size_t *ret_count)
{
    struct keeper_names names;
    struct batch_access *list;
    size_t count = 0;
    int err = batch_node_children(c, &names, NULL, "/access/%s", ACCESS_DIRS[size]);

    if (err)
        return batch_fail(c, err);
    list = arena_zalloc(c->a, (names.count + 1) * sizeof *list);
    for (size_t i = 0; i < names.count; i++) {
        err = batch_access_get(c, size, str_of(names.names[i]), &list[count]);
        if (err && err != DROVER_NO_NODE && err != DROVER_DAMAGED)
            return err;
        if (!err && (state == BATCH_NO_STATE || list[count].status.state == state))
            count++;
    }
    *ret_list = list;
    *ret_count = count;
    return 0;
}

/* 1: taken. 0: not this one. */
static int try_acquire(struct batch_call *c, enum batch_access_size size, int state, int64_t number,
                       struct batch_access *a)
{
    struct batch_view *v = &c->store->access[size][state];
    struct batch_change t = {.a = c->a};
    char id[BATCH_ID_LEN + 1];
    int err;

    batch_id(BATCH_ID_ACCESS, number, id);
    err = brief(c, size, id, a);
    if (err == DROVER_NO_NODE || err == DROVER_DAMAGED || (!err && a->status.state != state)) {
        batch_view_forget(v, number);
        return 0;
    }
    if (!err) {
        batch_change_set(&t, batch_status_write(&c->store->machines.access, &a->status, c->a),
                         a->version, "/access/%s/%s/status", ACCESS_DIRS[size], id);
        batch_change_create(&t, NO_BYTES, KEEPER_EPHEMERAL, "/access/%s/%s/lock", ACCESS_DIRS[size],
                            id);
        err = batch_lock_commit(c, &t, 0, 1, &a->token);
    }
    batch_view_park(v, number, clock_boot_ms());
    if (err)
        return batch_is_conflict(err) ? 0 : batch_fail(c, err);
    a->version++;
    return 1;
}

int batch_access_acquire(struct batch_call *c, enum batch_access_size size,
                         struct batch_access *ret_access)
{
    const struct batch_machine *m = &c->store->machines.access;
    struct batch_access a = {.token = 0};
    int64_t number, token;
    int got = batch_lock_queue(c, QUEUES[size]);

    if (got)
        return got < 0 ? got : 0;
    got = batch_index_refresh(c, size == ACCESS_SMALL ? BATCH_SOURCE_SMALL : BATCH_SOURCE_LARGE);
    if (got < 0)
        return got;
    for (int state = 0; state < m->count; state++) {
        struct batch_view *v = &c->store->access[size][state];
        struct batch_view_walk walk = {0};

        if (state != m->first && !m->states[state].keeps)
            continue;
        while ((got = batch_view_next(v, c->k, clock_boot_ms(), &walk, &number)) == 1 &&
               (got = try_acquire(c, size, state, number, &a)) == 0)
            ;
        if (got < 0)
            return batch_fail(c, got);
        if (got == 0)
            continue;
        token = a.token;
        got = batch_access_get(c, size, str_of(a.id), &a);
        if (got)
            return got;
        a.token = token;
        *ret_access = a;
        return 1;
    }
    return 0;
}

static int set_state(struct batch_call *c, struct batch_change *t, const struct batch_access *a,
                     int to, struct str message)
{
    const struct batch_machine *m = &c->store->machines.access;
    struct batch_status s = a->status;

    s.state = to;
    s.modified = batch_now(c);
    s.message = message;
    batch_change_set(t, batch_status_write(m, &s, c->a), a->version, "/access/%s/%s/status",
                     ACCESS_DIRS[a->size], a->id);
    return batch_index_move(c, t, m, c->store->access[a->size], a->status.state, to, a->id);
}

static int try_move(struct batch_call *c, struct batch_access *a, struct str state,
                    struct str message, int64_t token, int *ret_state, bool *ret_again)
{
    struct batch_change t = {.a = c->a};
    int to, err = brief(c, a->size, a->id, a), refused;

    *ret_again = false;
    if (err)
        return err;
    to = batch_machine_resolve(&c->store->machines.access, a->status.state, state, c->why);
    if (to < 0)
        return to;
    err = batch_lock_guard(c, &t, arena_printf(c->a, "/access/%s/%s", ACCESS_DIRS[a->size], a->id),
                           token, c->store->machines.access.states[to].keeps);
    if (err)
        return err;
    err = set_state(c, &t, a, to, message);
    if (!err)
        err = batch_change_commit(&t, c->k, token ? 1 : 2);
    refused = batch_lock_refused(c, &t, 0, err, token);
    if (refused == DROVER_FENCED || refused == DROVER_LOCKED)
        return refused;
    *ret_again = batch_is_conflict(err);
    *ret_state = to;
    return err ? batch_fail(c, err) : 0;
}

int batch_access_move(struct batch_call *c, enum batch_access_size size, struct str id,
                      struct str state, struct str message, int64_t token, int *ret_state)
{
    const struct batch_machine *m = &c->store->machines.access;
    struct batch_access a = {.size = size};
    bool again = true;
    int to = 0, err = check_id(c, id, a.id);

    for (int i = 0; i < BATCH_TRIES && again && (!err || i); i++)
        err = try_move(c, &a, state, message, token, &to, &again);
    if (err)
        return err;
    *ret_state = to;
    batch_publish(c, &(struct batch_event){"access", a.id, NULL, m->states[a.status.state].name,
                                           m->states[to].name});
    return 0;
}

int batch_access_delete(struct batch_call *c, enum batch_access_size size, struct str id)
{
    const struct batch_machine *m = &c->store->machines.access;
    const char *dir = ACCESS_DIRS[size];
    struct batch_change t = {.a = c->a};
    struct keeper_names names;
    struct batch_access a;
    int err = batch_access_get(c, size, id, &a);

    if (err)
        return err;
    if (!batch_machine_is_end(m, a.status.state))
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED,
                          "access item %s is %s; it can be deleted at an end", a.id,
                          m->states[a.status.state].name);
    err = batch_node_children(c, &names, NULL, "/access/%s/%s", dir, a.id);
    if (err)
        return batch_fail(c, err);
    batch_change_check(&t, a.version, "/access/%s/%s/status", dir, a.id);
    for (size_t i = 0; i < names.count; i++)
        batch_change_delete(&t, "/access/%s/%s/%s", dir, a.id, names.names[i]);
    batch_change_delete(&t, "/access/%s/%s", dir, a.id);
    err = batch_change_commit(&t, c->k, -1);
    return err ? batch_fail(c, err) : 0;
}
