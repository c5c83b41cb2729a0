/*
 * Opens a keeper by its name. A data directory is opened with a store, which is closed with the
 * keeper.
 */
#include "client/keeper_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "keeper/local/local.h"
#include "keeper/zookeeper/zookeeper.h"

struct drover_keeper {
    struct local *local; /* NULL: an ensemble */
    struct keeper *keeper;
};

static int open_zookeeper(const char *name, const struct drover_keeper_options *o,
                          struct drover_keeper *k, struct err_info *e)
{
    struct zookeeper_options zo = {.auth = o->auth};
    struct keeper_options ko = {.timeout_ms = o->timeout_ms};

    return zookeeper_connect(name, &zo, &ko, &k->keeper, e);
}

static int open_local(const char *name, const struct drover_keeper_options *o,
                      struct drover_keeper *k, struct err_info *e)
{
    bool memory = !strcmp(name, "memory:");
    struct local_options lo = {.mode = memory ? LOCAL_NONE : LOCAL_STRICT, .dir = name};
    struct keeper_options ko = {.timeout_ms = o->timeout_ms};
    TRY(local_open(&lo, &k->local, e));
    int err = local_connect(k->local, &ko, &k->keeper);
    if (err) {
        local_close(k->local);
        return err_set(e, err, "cannot open a session: %s", drover_err_message(err));
    }
    return 0;
}

int drover_keeper_open(const char *name, const struct drover_keeper_options *o,
                       struct drover_keeper **ret_keeper, struct drover_error *ret_error)
{
    static const struct drover_keeper_options none;
    struct drover_keeper *k = mem_zalloc(sizeof *k);
    struct err_info e = {""};
    int err;

    o = o ? o : &none;
    if (!strncmp(name, "zk://", 5))
        err = open_zookeeper(name, o, k, &e);
    else if (name[0] == '/' || name[0] == '.' || !strcmp(name, "memory:"))
        err = open_local(name, o, k, &e);
    else
        err = err_set(&e, DROVER_BAD_ARGUMENT,
                      "'%s' is not a keeper: zk://HOST:PORT/CHROOT, /DIR, ./DIR or memory:", name);
    if (!err) {
        *ret_keeper = k;
        return 0;
    }
    if (ret_error)
        snprintf(ret_error->text, sizeof ret_error->text, "%s", e.text);
    free(k);
    return err;
}

void drover_keeper_close(struct drover_keeper *k)
{
    keeper_close(k->keeper);
    if (k->local)
        local_close(k->local);
    free(k);
}

struct keeper *drover_keeper_inside(struct drover_keeper *k)
{
    return k->keeper;
}
