/*
 * The keeper's callbacks come to the loop by a uv_async_t. A session that is over shows in the watch
 * on "/", which every keeper has; the next one is opened by a worker thread, again and again until an
 * ensemble answers.
 */
#include "ensemble.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "keeper/zookeeper.h"

enum { AUTH_LEN_MAX = 1024 };

struct ensemble {
    uv_loop_t *loop;
    uv_async_t wake;
    uv_work_t connecting;
    char *url, *auth;
    struct keeper *keeper;
    struct keeper_watch *watch;
    bool over, busy, closing;

    struct keeper *next; /* what the worker brings */
    int next_err;
    struct err_info next_why;
};

static void on_keeper_wake(void *arg)
{
    struct ensemble *e = arg;

    uv_async_send(&e->wake);
}

static int connect_once(struct ensemble *e, struct keeper **ret_keeper, struct err_info *ret_error)
{
    struct zookeeper_options zo = {.auth = e->auth};
    struct keeper_options o = {.wake = on_keeper_wake, .wake_arg = e};

    return zookeeper_connect(e->url, &zo, &o, ret_keeper, ret_error);
}

static void on_event(void *arg, enum keeper_event event, const char *path)
{
    struct ensemble *e = arg;

    (void)path;
    if (event == KEEPER_EVENT_EXPIRED)
        e->over = true;
}

/* Watches the new session for its end. One that is over already is noticed by the refusal. */
static void use(struct ensemble *e, struct keeper *k)
{
    bool open_to_all = false;

    e->keeper = k;
    e->over = keeper_watch(k, "/", KEEPER_WATCH_EXISTS, on_event, e, &e->watch) != 0;
    if (!zookeeper_world_writable(k, &open_to_all) && open_to_all)
        log_warning("anybody who reaches the ensemble may change %s: consider --zk-auth", e->url);
}

static void free_if_closed(uv_handle_t *handle)
{
    struct ensemble *e = handle->data;

    free(e->url);
    free(e->auth);
    free(e);
}

static void work_connect(uv_work_t *work)
{
    struct ensemble *e = work->data;

    e->next_err = connect_once(e, &e->next, &e->next_why);
}

static void start_connecting(struct ensemble *e);

static void after_connect(uv_work_t *work, int status)
{
    struct ensemble *e = work->data;

    (void)status;
    e->busy = false;
    if (e->closing) {
        if (!e->next_err)
            keeper_close(e->next);
        uv_close((uv_handle_t *)&e->wake, free_if_closed);
    } else if (e->next_err) {
        log_warning("%s; trying again", e->next_why.text);
        start_connecting(e);
    } else {
        log_info("a new session on %s", e->url);
        use(e, e->next);
        uv_async_send(&e->wake);
    }
}

static void start_connecting(struct ensemble *e)
{
    e->busy = true;
    e->connecting.data = e;
    uv_queue_work(e->loop, &e->connecting, work_connect, after_connect);
}

static void on_wake(uv_async_t *async)
{
    struct ensemble *e = async->data;

    if (e->closing || !e->keeper)
        return;
    keeper_dispatch(e->keeper);
    if (!e->over)
        return;
    log_warning("the session on %s is over", e->url);
    keeper_close(e->keeper);
    e->keeper = NULL;
    start_connecting(e);
}

/* The first line of the file, or the variable. Neither shows in a list of processes. */
static int read_auth(const char *file, char **ret_auth, struct err_info *ret_error)
{
    const char *variable = getenv("DROVER_ZK_AUTH");
    char line[AUTH_LEN_MAX];
    FILE *in;

    if (!file) {
        *ret_auth = variable ? mem_dup(variable, strlen(variable)) : NULL;
        return 0;
    }
    in = fopen(file, "re");
    if (!in || !fgets(line, sizeof line, in)) {
        int err = in && !ferror(in) ? err_set(ret_error, DROVER_BAD_ARGUMENT, "%s is empty", file)
                                    : err_set_errno(ret_error, errno, "cannot read %s", file);

        if (in)
            fclose(in);
        return err;
    }
    fclose(in);
    line[strcspn(line, "\r\n")] = '\0';
    *ret_auth = mem_dup(line, strlen(line));
    return 0;
}

int ensemble_open(uv_loop_t *loop, const struct ensemble_options *o, struct ensemble **ret_ensemble,
                  struct err_info *ret_error)
{
    struct ensemble *e = mem_zalloc(sizeof *e);
    struct keeper *k;
    int err = read_auth(o->auth_file, &e->auth, ret_error);

    e->loop = loop;
    e->url = mem_dup(o->url, strlen(o->url));
    uv_async_init(loop, &e->wake, on_wake);
    e->wake.data = e;
    if (!err)
        err = connect_once(e, &k, ret_error);
    if (err) {
        uv_close((uv_handle_t *)&e->wake, free_if_closed);
        return err;
    }
    use(e, k);
    *ret_ensemble = e;
    return 0;
}

struct keeper *ensemble_keeper(struct ensemble *e)
{
    return e->keeper;
}

void ensemble_close(struct ensemble *e)
{
    e->closing = true;
    if (e->keeper)
        keeper_close(e->keeper);
    if (!e->busy)
        uv_close((uv_handle_t *)&e->wake, free_if_closed);
}
