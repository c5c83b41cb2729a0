/*
 * Opens a keeper by its name. A data directory is opened with a store, which is closed with the
 * keeper.
 */
#include "client/keeper_library.h"

#include "base/mem.h"
#include "keeper/local/local.h"
#include "keeper/zookeeper/zookeeper.h"

static int open_local(const char *name, const struct keeper_options *o, struct drover_keeper *k,
                      struct err_info *e)
{
    bool memory = !strcmp(name, "memory:");
    struct local_options lo = {.mode = memory ? LOCAL_NONE : LOCAL_STRICT, .dir = name};
    TRY(local_open(&lo, &k->local, e));
    int err = local_connect(k->local, o, &k->keeper);
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
    o = o ? o : &none;
    struct zookeeper_options zo = {.auth = o->auth, .tls = {o->ca, o->cert, o->key}};
    struct keeper_options ko = {.timeout_ms = o->timeout_ms};
    struct drover_keeper *k = mem_zalloc(sizeof *k);
    int err;
    if (keeper_is_ensemble(name))
        err = zookeeper_connect(name, &zo, &ko, &k->keeper, ret_error);
    else if (name[0] == '/' || name[0] == '.' || !strcmp(name, "memory:"))
        err = open_local(name, &ko, k, ret_error);
    else
        err = err_set(
            ret_error, DROVER_BAD_ARGUMENT,
            "'%s' is not a keeper: zk://HOST:PORT/CHROOT, zks://..., /DIR, ./DIR or memory:", name);
    if (err)
        free(k);
    else
        *ret_keeper = k;
    return err;
}

void drover_keeper_close(struct drover_keeper *k)
{
    keeper_close(k->keeper);
    if (k->local)
        local_close(k->local);
    free(k);
}
