/*
 * bench/world - claim and complete through ten handlers, with a long pending list behind them.
 *
 *     world [--ensemble] [--tasks N] [--backlog N] [--rounds N] [zk://...]
 *
 * On the embedded keeper, strict, in a directory of its own below the current one; with a URL, or
 * with --ensemble and $DROVER_TEST_ZK, on that ensemble, where each handler is a subsession, as
 * with drover serve. Beside it the bare transactions of a claim and a completion, by ten threads
 * that know what is next. Then finding a parent with the tree index, and without it. The figures
 * are medians of the rounds. Exits with 0 whatever they are.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "keeper/local/local.h"
#include "keeper/subsession.h"
#include "keeper/zookeeper/zookeeper.h"
#include "world/record.h"
#include "world/world.h"

enum { HANDLERS = 10, BATCH = 200, ROUNDS_MAX = 99, LOADERS = 8 };

static struct keeper *k; /* the session of the handlers, or beside them */
static struct local *store;
static char dir[] = "./drover-bench-world-XXXXXX";

struct run {
    char world[32];
    long tasks;
    atomic_long next;
    struct world *w;
};

static struct str record_of(struct arena *a, const struct run *r, long i, const char *key)
{
    struct world_record record = {
        .name = str_of(arena_printf(a, "n%ld", i)),
        .type = STR("t"),
        .path = str_of(arena_printf(a, "/zoott_%s/%s", r->world, key)),
    };

    return world_record_write(a, &record);
}

static char *key_of(struct arena *a, const struct run *r, long i)
{
    (void)r;
    return arena_printf(a, "n%ld_t", i);
}

/* Tasks as queueing would leave them, many in a transaction. */
static void *load_main(void *arg)
{
    struct run *r = arg;
    long from;

    while ((from = atomic_fetch_add(&r->next, BATCH)) < r->tasks) {
        struct keeper_op ops[2 * BATCH];
        struct arena a = {0};
        size_t n = 0;

        for (long i = from; i < from + BATCH && i < r->tasks; i++) {
            char *key = key_of(&a, r, i);

            ops[n++] = keeper_op_create(
                world_list_path(&a, arena_printf(&a, "/zoott_%s", r->world), str_of(key)),
                STR("{\"some\":\"data\"}"), KEEPER_NO_STAT);
            ops[n++] = keeper_op_create(world_list_path(&a, WORLD_PENDING, str_of(key)),
                                        record_of(&a, r, i, key), KEEPER_NO_STAT);
        }
        check(keeper_multi(k, ops, n, NULL), "load");
        arena_release(&a);
    }
    return NULL;
}

static double run_threads(struct run *r, size_t count, void *(*fn)(void *))
{
    pthread_t threads[HANDLERS];
    double began = now_s();

    atomic_store(&r->next, 0);
    for (size_t i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, fn, r);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return now_s() - began;
}

static struct keeper *session_open(void)
{
    struct keeper *session;

    if (store)
        check(local_connect(store, NULL, &session), "session");
    else
        check(subsession_open(k, 10000, &session), "session");
    return session;
}

static long wanted; /* claims of a round */

static void *handler_main(void *arg)
{
    struct run *r = arg;
    struct keeper *session = session_open();
    struct str types[] = {STR("t")};
    struct world_claim claim;
    struct err_info e = {""};
    bool again;

    while (atomic_fetch_add(&r->next, 1) < wanted) {
        struct arena a = {0};

        check(world_claim(r->w, session, &a, types, 1, true, &claim, &e) - 1, "claim");
        check(world_complete(r->w, session, claim.key, &again, &e), "complete");
        arena_release(&a);
    }
    keeper_close(session);
    return NULL;
}

static void *bare_main(void *arg)
{
    struct run *r = arg;
    struct keeper *session = session_open();
    long i;

    while ((i = atomic_fetch_add(&r->next, 1)) < wanted) {
        struct arena a = {0};
        char *key = key_of(&a, r, i);
        char *p = world_list_path(&a, WORLD_PENDING, str_of(key));
        char *w = world_list_path(&a, WORLD_WORKING, str_of(key));
        struct world_holder h = {.session = 1, .claim = "0123456789abcdef", .czxid = i};
        struct keeper_op claim[] = {
            keeper_op_set(p, record_of(&a, r, i, key), 0),
            keeper_op_create(w, world_holder_write(&a, &h), KEEPER_EPHEMERAL | KEEPER_NO_STAT)};
        struct keeper_op complete[] = {
            keeper_op_create(world_list_path(&a, WORLD_COMPLETED, str_of(key)),
                             record_of(&a, r, i, key), KEEPER_NO_STAT),
            keeper_op_delete(p, 1), keeper_op_delete(w, 0)};

        check(keeper_multi(session, claim, 2, NULL), "claim, bare");
        check(keeper_multi(session, complete, 3, NULL), "complete, bare");
        arena_release(&a);
    }
    keeper_close(session);
    return NULL;
}

/* Deletes everything below a node, so that the next round starts like the first. */
static void sweep(const char *path)
{
    struct keeper_names names = {0};
    struct keeper_op ops[BATCH];
    struct arena a = {0};
    size_t n = 0;

    check(keeper_children(k, path, &names, NULL), "children");
    for (size_t i = 0; i < names.count; i++) {
        ops[n++] = keeper_op_delete(world_list_path(&a, path, str_of(names.names[i])), -1);
        if (n == BATCH || i + 1 == names.count) {
            check(keeper_multi(k, ops, n, NULL), "sweep");
            n = 0;
        }
    }
    arena_release(&a);
    keeper_names_release(&names);
}

/* Claims and completions per second. */
static double round_of(long backlog, void *(*fn)(void *), int number)
{
    struct run r = {.tasks = wanted + backlog};
    struct str types[] = {STR("none")};
    struct world_claim claim;
    struct arena a = {0};
    struct err_info e = {""};
    double took;

    snprintf(r.world, sizeof r.world, "bench%d", number);
    check(world_init(k, str_of(r.world), NULL), "init");
    run_threads(&r, LOADERS, load_main);
    check(world_open(k, str_of(r.world), NULL, &r.w, &e), "open");
    took = now_s();
    check(world_claim(r.w, k, &a, types, 1, true, &claim, &e), "look");
    fprintf(stderr, "  the first look at %ld pending tasks: %.3f s\n", r.tasks, now_s() - took);
    took = run_threads(&r, HANDLERS, fn);
    world_close(r.w);
    arena_release(&a);
    sweep(WORLD_PENDING);
    sweep(WORLD_COMPLETED);
    sweep(arena_printf(&a, "/zoott_%s", r.world));
    arena_release(&a);
    return (double)wanted / took;
}

/*
 * Finds of a parent per second, with the tree index (one open world), or without (a new one each).
 */
static double finds(const struct run *r, long count, bool indexed)
{
    double began = now_s();
    struct world *w = NULL;

    for (long i = 0; i < count; i++) {
        struct arena a = {0};
        struct world_parent parent = {str_of(arena_printf(&a, "n%ld", i)), STR("t")};
        struct world_paths paths;

        if (!w)
            check(world_open(k, str_of(r->world), NULL, &w, NULL), "open");
        check(world_find(w, k, &a, &parent, &paths, NULL), "find");
        if (!indexed) {
            world_close(w);
            w = NULL;
        }
        arena_release(&a);
    }
    if (w)
        world_close(w);
    return (double)count / (now_s() - began);
}

static void bench_finds(long tasks)
{
    struct run r = {.world = "finds", .tasks = tasks};

    check(world_init(k, str_of(r.world), NULL), "init");
    run_threads(&r, LOADERS, load_main);
    printf("finding a parent among %ld tasks: %.0f/s with the tree index, %.1f/s by walking\n",
           tasks, finds(&r, 2000, true), finds(&r, 20, false));
}

static int by_size(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

static double middle(double *list, int count)
{
    qsort(list, (size_t)count, sizeof *list, by_size);
    return list[count / 2];
}

static void open_keeper(const char *url)
{
    struct local_options o = {.mode = LOCAL_STRICT, .dir = dir};
    struct err_info e = {""};
    int err;

    if (url) {
        err = zookeeper_connect(url, NULL, &(struct keeper_options){0}, &k, &e);
    } else {
        if (!mkdtemp(dir))
            exit(1);
        err = local_open(&o, &store, &e);
        if (!err)
            err = local_connect(store, NULL, &k);
    }
    if (err)
        fprintf(stderr, "bench: %s\n", e.text);
    check(err, "open");
}

int main(int argc, char **argv)
{
    double world[ROUNDS_MAX], bare[ROUNDS_MAX], ratio[ROUNDS_MAX];
    long backlog = 100000, rounds = 3;
    const char *url = NULL;

    wanted = 20000;
    if (argc > 1 && !strcmp(argv[1], "--ensemble")) {
        url = getenv("DROVER_TEST_ZK");
        wanted = 5000;
        backlog = 10000;
    }
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--tasks") && i + 1 < argc)
            wanted = atol(argv[++i]);
        else if (!strcmp(argv[i], "--backlog") && i + 1 < argc)
            backlog = atol(argv[++i]);
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = atol(argv[++i]);
        else if (strcmp(argv[i], "--ensemble"))
            url = argv[i];
    }
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    open_keeper(url);
    for (int i = 0; i < rounds; i++) {
        world[i] = round_of(backlog, handler_main, 2 * i);
        bare[i] = round_of(backlog, bare_main, 2 * i + 1);
        ratio[i] = world[i] / bare[i];
    }
    printf("claim-and-complete, %d handlers, %ld more pending, %s:\n"
           "  world %.0f/s, the same transactions bare %.0f/s, ratio %.2f (wanted: %s)\n",
           HANDLERS, backlog, url ? "ensemble" : "embedded, strict", middle(world, (int)rounds),
           middle(bare, (int)rounds), middle(ratio, (int)rounds),
           url ? "ratio >= 0.5" : ">= 2000/s");
    bench_finds(backlog);
    keeper_close(k);
    if (store) {
        char command[64];

        local_close(store);
        snprintf(command, sizeof command, "rm -rf '%s'", dir);
        return system(command) != 0;
    }
    return 0;
}
