/*
 * rate - keeper_commit() over ZooKeeper beside bare zoo_amulti() with the same operations.
 *
 *   rate [SECONDS] [ROUNDS]      with DROVER_TEST_ZK=zk://host:port,... in the environment
 *
 * Both keep a window of requests on their way, on the same server (a leader answers sooner than the
 * others), and change nodes of their own below one root. Ours runs its callbacks with
 * keeper_dispatch(), as drover serve does. Each round runs both, the order changing from round to
 * round, so that whatever else the machine does meets both; the middle of the rounds' ratios
 * counts. Prints a line a mix and window: requests a second of each, ours as a share of the other,
 * and the processor time of a request in this process.
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

#include "keeper/zookeeper/zookeeper.h"

enum { NODES = 64, ROUNDS_MAX = 32 };

/* The operations of one request, a letter each: set, create, delete of that, check of a version. */
static const char *const mixes[] = {"s", "ss", "vs", "vscd", "cd", "vcd"};
static const int windows[] = {1, 100, 1000};

enum { MIXES = sizeof mixes / sizeof *mixes, WINDOWS = sizeof windows / sizeof *windows };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static int on_their_way;
static long done_count;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct keeper *keeper;
static bool callbacks_due;

static void wake(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    callbacks_due = true;
    pthread_cond_signal(&answered);
    pthread_mutex_unlock(&lock);
}

static void one_done(int err)
{
    assert(!err);
    pthread_mutex_lock(&lock);
    on_their_way--;
    done_count++;
    pthread_cond_signal(&answered);
    pthread_mutex_unlock(&lock);
}

static void wait_below(int limit)
{
    pthread_mutex_lock(&lock);
    while (on_their_way >= limit) {
        if (!callbacks_due) {
            pthread_cond_wait(&answered, &lock);
            continue;
        }
        callbacks_due = false;
        pthread_mutex_unlock(&lock);
        keeper_dispatch(keeper);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
}

/* Paths, made beforehand: the same for both. */
static char set_paths[NODES][32], new_paths[NODES][32];
static char data[100];

/* Bare: what a request needs until it is answered. */
struct bare {
    zoo_op_result_t results[4];
    char created[64];
    struct Stat stats[4];
};

static void bare_done(int rc, const void *arg)
{
    free((void *)arg);
    one_done(rc);
}

static void bare_send(void *ctx, const char *mix, long n)
{
    zhandle_t *zh = ctx;
    struct bare *b = malloc(sizeof *b);
    zoo_op_t ops[4];
    int count = 0, rc;

    for (const char *m = mix; *m; m++, count++) {
        if (*m == 's')
            zoo_set_op_init(&ops[count], set_paths[(n + count) % NODES], data, sizeof data, -1,
                            &b->stats[count]);
        else if (*m == 'c')
            zoo_create_op_init(&ops[count], new_paths[n % NODES], data, sizeof data,
                               &ZOO_OPEN_ACL_UNSAFE, 0, b->created, sizeof b->created);
        else if (*m == 'd')
            zoo_delete_op_init(&ops[count], new_paths[n % NODES], -1);
        else
            zoo_check_op_init(&ops[count], set_paths[0], -1);
    }
    rc = zoo_amulti(zh, count, ops, b->results, bare_done, b);
    assert(rc == ZOK);
}

static void ours_done(void *arg, int err, const struct keeper_result *results, size_t count)
{
    (void)arg, (void)results, (void)count;
    one_done(err);
}

static void ours_send(void *ctx, const char *mix, long n)
{
    struct keeper_op ops[4];
    size_t count = 0;
    int err;

    (void)ctx;

    for (const char *m = mix; *m; m++, count++) {
        if (*m == 's')
            ops[count] = keeper_op_set(set_paths[(n + (long)count) % NODES],
                                       (struct str){data, sizeof data}, -1);
        else if (*m == 'c')
            ops[count] = keeper_op_create(new_paths[n % NODES], (struct str){data, sizeof data},
                                          KEEPER_NO_STAT);
        else if (*m == 'd')
            ops[count] = keeper_op_delete(new_paths[n % NODES], -1);
        else
            ops[count] = keeper_op_check(set_paths[0], -1);
    }
    err = keeper_commit(keeper, ops, count, ours_done, NULL);
    assert(!err);
}

static double cpu_s(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Requests a second; adds their CPU time to cost_us. */
static double measure(void (*send)(void *, const char *, long), void *ctx, const char *mix,
                      int window, double seconds, double *cost_us)
{
    double start = now_s(), cpu = cpu_s();
    long n = 0;

    done_count = 0;
    while (now_s() - start < seconds) {
        wait_below(window);
        pthread_mutex_lock(&lock);
        on_their_way++;
        pthread_mutex_unlock(&lock);
        send(ctx, mix, n++);
    }
    wait_below(1);
    *cost_us += (cpu_s() - cpu) * 1e6 / (double)done_count;
    return (double)done_count / (now_s() - start);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The middle of the ratios. */
static double compare(zhandle_t *zh, const char *mix, int window, double seconds, int rounds)
{
    double ratios[ROUNDS_MAX], bare = 0, ours = 0, bare_us = 0, ours_us = 0;

    for (int i = 0; i < rounds; i++) {
        double b = 0, o = 0;

        for (int turn = 0; turn < 2; turn++) {
            if (turn == i % 2)
                b = measure(bare_send, zh, mix, window, seconds, &bare_us);
            else
                o = measure(ours_send, NULL, mix, window, seconds, &ours_us);
        }
        ratios[i] = o / b;
        bare += b / rounds;
        ours += o / rounds;
    }
    qsort(ratios, (size_t)rounds, sizeof *ratios, by_value);
    printf("%-5s window %4d: bare %6.0f/s, ours %6.0f/s, ratio %.2f (%.2f to %.2f), "
           "cpu %3.0f and %3.0f us\n",
           mix, window, bare, ours, ratios[rounds / 2], ratios[0], ratios[rounds - 1],
           bare_us / rounds, ours_us / rounds);
    fflush(stdout);
    return ratios[rounds / 2];
}

int main(int argc, char **argv)
{
    const char *url = getenv("DROVER_TEST_ZK");
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    struct keeper_options o = {.wake = wake};
    struct err_info e = {0};
    double all[MIXES * WINDOWS];
    char one[128];
    zhandle_t *zh;

    snprintf(one, sizeof one, "%.*s", url ? (int)strcspn(url, ",") : 0, url ? url : "");
    if (!url || rounds < 1 || rounds > ROUNDS_MAX ||
        zookeeper_connect(one, NULL, &o, &keeper, &e)) {
        fprintf(stderr, "rate: %s\n", url ? e.text : "DROVER_TEST_ZK is not set");
        return 1;
    }
    zh =
        zookeeper_init2(one + strlen("zk://"), NULL, 10000, NULL, NULL, ZOO_NO_LOG_CLIENTENV, NULL);
    /* The better of its two settings: the other looks up host names before each request. */
    zoo_set_servers_resolution_delay(zh, -1);
    keeper_create(keeper, "/rate", STR(""), 0, NULL);
    for (int i = 0; i < NODES; i++) {
        snprintf(set_paths[i], sizeof set_paths[i], "/rate/set-%d", i);
        snprintf(new_paths[i], sizeof new_paths[i], "/rate/new-%d", i);
        keeper_create(keeper, set_paths[i], STR(""), 0, NULL);
    }
    while (zoo_state(zh) != ZOO_CONNECTED_STATE)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (size_t m = 0; m < MIXES; m++)
        for (size_t w = 0; w < WINDOWS; w++)
            all[m * WINDOWS + w] = compare(zh, mixes[m], windows[w], seconds, rounds);
    qsort(all, MIXES * WINDOWS, sizeof *all, by_value);
    printf("the middle of these ratios: %.2f\n", all[MIXES * WINDOWS / 2]);
    zookeeper_close(zh);
    keeper_close(keeper);
    return 0;
}
