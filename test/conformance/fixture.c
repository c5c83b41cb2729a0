/*
 * Sets up a case (a fresh root, sessions) and cleans up after it. A session of its own deletes the
 * tree below the root, because a case may leave its sessions in any state.
 */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"

enum { SESSIONS_MAX = sizeof((struct fixture *)0)->sessions / sizeof(struct keeper *) };

static int connect_new(const struct conformance_backend *b, struct keeper **ret_keeper)
{
    struct keeper_options o = {.timeout_ms = LONG_TIMEOUT_MS};

    return b->connect(b->ctx, &o, ret_keeper);
}

int fixture_open(const struct conformance_backend *backend, const struct conformance_case *c,
                 struct fixture **ret_fixture)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    uint64_t random = 0;
    int err;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        abort();
    f->backend = backend;
    f->arg = c->arg;
    pthread_mutex_init(&f->lock, NULL);
    snprintf(f->root, sizeof f->root, "/conf-%016llx-%s", (unsigned long long)random, c->name);
    err = connect_new(backend, &f->sessions[0]);
    if (!err) {
        f->k = f->sessions[0];
        err = keeper_create(f->k, f->root, STR("root"), 0, NULL);
        f->rooted = !err;
    }
    if (err)
        fixture_close(f);
    else
        *ret_fixture = f;
    return err;
}

/* Paths of a tree, leaves first. */
struct doomed {
    char **paths;
    size_t count;
};

static void doom(struct keeper *k, char *path, struct doomed *d)
{
    struct keeper_names names = {0};
    char *child;

    if (keeper_children(k, path, &names, NULL) == 0) {
        for (size_t i = 0; i < names.count; i++) {
            if (asprintf(&child, "%s/%s", path, names.names[i]) < 0)
                abort();
            doom(k, child, d);
        }
        keeper_names_release(&names);
    }
    d->paths = mem_realloc(d->paths, (d->count + 1) * sizeof *d->paths);
    d->paths[d->count++] = path;
}

/* Best effort: a keeper that cannot delete fails the cases about deleting. */
static void delete_tree(struct keeper *k, const char *root)
{
    struct keeper_op ops[200];
    struct doomed d = {0};
    size_t n = 0;

    doom(k, strdup(root), &d);
    for (size_t i = 0; i < d.count; i++) {
        ops[n++] = keeper_op_delete(d.paths[i], KEEPER_ANY_VERSION);
        if (n == sizeof ops / sizeof *ops || i + 1 == d.count) {
            keeper_multi(k, ops, n, NULL);
            n = 0;
        }
    }
    for (size_t i = 0; i < d.count; i++)
        free(d.paths[i]);
    free(d.paths);
}

void fixture_close(struct fixture *f)
{
    struct keeper *janitor;

    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (f->sessions[i])
            keeper_close(f->sessions[i]);
    }
    if (f->rooted && !connect_new(f->backend, &janitor)) {
        delete_tree(janitor, f->root);
        keeper_close(janitor);
    }
    for (size_t i = 0; i < f->kept_count; i++)
        free(f->kept[i]);
    free(f->kept);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

void *keep(struct fixture *f, void *p)
{
    pthread_mutex_lock(&f->lock);
    f->kept = mem_realloc(f->kept, (f->kept_count + 1) * sizeof *f->kept);
    f->kept[f->kept_count++] = p;
    pthread_mutex_unlock(&f->lock);
    return p;
}

/*
 * UNKNOWN is always allowed where connections can break, and proves nothing: the case runs again.
 * A keeper whose connections break all the time fails.
 */
static int breaks_left;
jmp_buf fixture_broken;

void fixture_allow_breaks(int count)
{
    breaks_left = count;
}

static void run_again_if_broken(const char *name)
{
    if (!strcmp(name, drover_err_name(DROVER_UNKNOWN)) && breaks_left-- > 0)
        longjmp(fixture_broken, 1);
}

void expect_err_at(int want, int got, const char *what, const char *file, int line)
{
    if (want == got)
        return;
    print_error("%s: %s instead of %s\n", what, drover_err_name(got), drover_err_name(want));
    run_again_if_broken(drover_err_name(got));
    _fail(file, line);
}

static struct keeper **session_slot(struct fixture *f, struct keeper *k)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (f->sessions[i] == k)
            return &f->sessions[i];
    }
    fail_msg("%s", k ? "no session of this case" : "too many sessions");
    return NULL;
}

struct keeper *session_open_with(struct fixture *f, const struct keeper_options *o)
{
    struct keeper **slot = session_slot(f, NULL);

    must(f->backend->connect(f->backend->ctx, o, slot));
    catch_up(*slot);
    return *slot;
}

struct keeper *session_open(struct fixture *f, int32_t timeout_ms)
{
    return session_open_with(f, &(struct keeper_options){.timeout_ms = timeout_ms});
}

struct keeper *session_resume(struct fixture *f, const struct keeper_session *s)
{
    return session_open_with(f,
                             &(struct keeper_options){.timeout_ms = s->timeout_ms, .resume = *s});
}

int session_resume_err(struct fixture *f, const struct keeper_session *s)
{
    struct keeper_options o = {.timeout_ms = s->timeout_ms, .resume = *s};
    struct keeper *k = NULL;
    int err = f->backend->connect(f->backend->ctx, &o, &k);

    if (!err)
        keeper_close(k);
    return err;
}

struct keeper_session session_of(struct keeper *k)
{
    struct keeper_session s = {0};

    keeper_session(k, &s);
    return s;
}

static void session_forget(struct fixture *f, struct keeper *k)
{
    *session_slot(f, k) = NULL;
    if (f->k == k)
        f->k = NULL;
}

void session_close(struct fixture *f, struct keeper *k)
{
    session_forget(f, k);
    keeper_close(k);
}

void session_abandon(struct fixture *f, struct keeper *k)
{
    session_forget(f, k);
    keeper_abandon(k);
}

/*
 * Whoever resumes a session takes it over, and may close it. Over a network the first holder takes
 * it back as soon as it notices, so this is tried until the session is known to be over.
 */
struct expiry {
    struct fixture *f;
    struct keeper_session session;
};

static bool session_has_ended(void *arg)
{
    struct expiry *e = arg;

    return session_resume_err(e->f, &e->session) == DROVER_SESSION_EXPIRED;
}

void session_expire(struct fixture *f, struct keeper *k)
{
    struct expiry e = {f, session_of(k)};

    wait_until(session_has_ended, &e, PATIENCE_MS);
}

void catch_up(struct keeper *k)
{
    must(keeper_sync(k, "/"));
}

void wait_until_at(condition_fn *condition, void *arg, int64_t ms, const char *file, int line)
{
    int64_t deadline_ms = clock_boot_ms() + ms;

    while (!condition(arg)) {
        if (clock_boot_ms() > deadline_ms) {
            print_error("waited %lld ms in vain\n", (long long)ms);
            _fail(file, line);
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

bool path_is_gone(void *place)
{
    struct place *p = place;

    return !keeper_sync(p->k, "/") && keeper_exists(p->k, p->path, NULL) == DROVER_NO_NODE;
}

bool keeper_has_expired(void *keeper)
{
    return keeper_exists(keeper, "/", NULL) == DROVER_SESSION_EXPIRED;
}

void run_threads(struct fixture *f, size_t count, void *(*fn)(void *), void *args, size_t size)
{
    pthread_t *threads = keep(f, mem_zalloc(count * sizeof *threads));
    void *wrong = NULL, *result;

    for (size_t i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, fn, (char *)args + i * size))
            abort();
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], &result);
        wrong = wrong ? wrong : result;
    }
    if (wrong) {
        run_again_if_broken(wrong);
        fail_msg("in a thread: %s", (char *)wrong);
    }
}
