/*
 * bench/keeper - the embedded keeper compared with what this machine can do.
 *
 * Prints a table: what was measured, the figure, the limit or the peer that it is compared with,
 * the ratio, and the wanted ratio. The peer is measured in the same run, because the machine is
 * noisy. Works in a directory of its own below the current one and removes it. Exits with 0
 * whatever the figures are: this is a measurement, not a test.
 *
 *     keeper [NAME...]     only these measurements
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench.h"
#include "keeper/local/local.h"

enum { DATA_LEN = 64, MILLION = 1000 * 1000, FANOUT = 1000, STRICT_THREADS = 64, STRICT_PAIRS = 7 };

static char dir[64];

static void row(const char *what, const char *figure, const char *against, double ratio,
                const char *wanted)
{
    printf("| %-50s | %16s | %-34s | %6.2f | %-7s |\n", what, figure, against, ratio, wanted);
    fflush(stdout);
}

__attribute__((format(printf, 2, 3))) static const char *fmt(char *out, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(out, 32, format, ap);
    va_end(ap);
    return out;
}

static void clear_dir(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command))
        exit(1);
}

static struct local *open_store(enum local_mode mode, int64_t snapshot_every)
{
    struct local_options o = {.mode = mode, .dir = dir, .snapshot_every = snapshot_every};
    struct err_info e;
    struct local *l;

    if (local_open(&o, &l, &e)) {
        fprintf(stderr, "bench: %s\n", e.text);
        exit(1);
    }
    return l;
}

static struct keeper *connect_to(struct local *l)
{
    struct keeper *k;

    check(local_connect(l, NULL, &k), "connect");
    return k;
}

static struct str data_of(unsigned i)
{
    static _Thread_local char data[DATA_LEN];

    memset(data, 'a' + (int)(i % 26), sizeof data);
    return (struct str){data, sizeof data};
}

static const char *path_of(unsigned i)
{
    static _Thread_local char path[48];

    snprintf(path, sizeof path, "/bench/%03u/%010u", i / FANOUT, i);
    return path;
}

/* Nodes in directories of a thousand, as a task store has them. */
static void fill(struct keeper *k, unsigned count)
{
    struct keeper_op ops[FANOUT];
    char paths[FANOUT][48];

    check(keeper_create(k, "/bench", STR(""), 0, NULL), "fill");
    for (unsigned i = 0; i < count; i += FANOUT) {
        unsigned n = count - i < FANOUT ? count - i : FANOUT;

        snprintf(paths[0], sizeof paths[0], "/bench/%03u", i / FANOUT);
        check(keeper_create(k, paths[0], STR(""), 0, NULL), "fill");
        for (unsigned j = 0; j < n; j++) {
            strcpy(paths[j], path_of(i + j));
            ops[j] = keeper_op_create(paths[j], data_of(i), 0);
        }
        check(keeper_multi(k, ops, n, NULL), "fill");
    }
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 4;
}

enum order { AT_RANDOM, IN_ORDER };

/* Seconds for one set; paths are made beforehand. */
static double cost_of_set(struct keeper *k, unsigned nodes, unsigned sets, enum order order)
{
    char(*paths)[24] = mem_alloc(sets * sizeof *paths);
    unsigned random = 7;
    double start;

    for (unsigned i = 0; i < sets; i++) {
        unsigned node = (order == IN_ORDER ? i : next_random(&random)) % nodes;

        snprintf(paths[i], sizeof paths[i], "/bench/%03u/%010u", node / FANOUT % 1000,
                 node % MILLION);
    }
    start = now_s();
    for (unsigned i = 0; i < sets; i++)
        check(keeper_set(k, paths[i], data_of(i), KEEPER_ANY_VERSION, NULL), "set");
    start = now_s() - start;
    free(paths);
    return start / sets;
}

static void bench_sets(enum local_mode mode, const char *name, double wanted)
{
    struct local *l = open_store(mode, 0);
    struct keeper *k = connect_to(l);
    char figure[32], what[64], against[64];
    double best = 0;

    fill(k, 1000);
    for (int i = 0; i < 3; i++) {
        double rate = 1 / cost_of_set(k, 1000, MILLION, AT_RANDOM);

        best = rate > best ? rate : best;
    }
    snprintf(what, sizeof what, "sets/s, one thread, %s", name);
    snprintf(against, sizeof against, "%.0f/s wanted", wanted);
    row(what, fmt(figure, "%.0f/s", best), against, best / wanted, ">= 1");
    keeper_close(k);
    local_close(l);
    clear_dir();
}

static void bench_memory(void)
{
    bench_sets(LOCAL_NONE, "journal none", 1e6);
    bench_sets(LOCAL_OPPORTUNISTIC, "opportunistic", 5e5);
}

/* One write and one fdatasync for each change, in an existing file: the peer of strict. */
static double sync_rate(double seconds)
{
    static char block[4096];
    char record[192] = {1};
    double start;
    int fd = open("bench-sync.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600), n = 0;

    if (fd < 0)
        exit(1);
    for (int i = 0; i < 4096; i++)
        if (write(fd, block, sizeof block) < 0)
            exit(1);
    fsync(fd);
    start = now_s();
    while (now_s() < start + seconds) {
        if (pwrite(fd, record, sizeof record, (off_t)n++ % 80000 * (off_t)sizeof record) < 0 ||
            fdatasync(fd) < 0)
            exit(1);
    }
    close(fd);
    unlink("bench-sync.tmp");
    return n / (now_s() - start);
}

struct setter {
    pthread_t thread;
    struct keeper *k;
    unsigned number, sets;
    unsigned nodes; /* to choose from */
    double until_s;
};

static void *set_for_a_while(void *arg)
{
    struct setter *s = arg;
    unsigned random = s->number;

    while (now_s() < s->until_s) {
        check(keeper_set(s->k, path_of(next_random(&random) % s->nodes), data_of(s->sets),
                         KEEPER_ANY_VERSION, NULL),
              "set");
        s->sets++;
    }
    return NULL;
}

static double strict_rate(struct keeper *k, unsigned nodes, unsigned threads, double seconds)
{
    struct setter setters[STRICT_THREADS];
    double start = now_s();
    unsigned sets = 0;

    for (unsigned i = 0; i < threads; i++) {
        setters[i] =
            (struct setter){.k = k, .number = i, .nodes = nodes, .until_s = start + seconds};
        pthread_create(&setters[i].thread, NULL, set_for_a_while, &setters[i]);
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(setters[i].thread, NULL);
        sets += setters[i].sets;
    }
    return sets / (now_s() - start);
}

struct strict_pair {
    double rate, peer, ratio;
};

static int by_ratio(const void *a, const void *b)
{
    const struct strict_pair *x = a, *y = b;

    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

/*
 * The speed of the disk varies from second to second: short turns, and the median of their ratios.
 */
static void bench_strict_threads(struct keeper *k, unsigned threads)
{
    struct strict_pair pairs[STRICT_PAIRS], *median = &pairs[STRICT_PAIRS / 2];
    char what[64], figure[32], against[64];

    for (int i = 0; i < STRICT_PAIRS; i++) {
        double before = sync_rate(0.3), rate = strict_rate(k, 1000, threads, 0.6);
        double peer = (before + sync_rate(0.3)) / 2;

        pairs[i] = (struct strict_pair){rate, peer, rate / peer};
    }
    qsort(pairs, STRICT_PAIRS, sizeof *pairs, by_ratio);
    snprintf(what, sizeof what, "sets/s, strict, %u threads", threads);
    snprintf(against, sizeof against, "%.0f fdatasync/s (%.1f to %.1f)", median->peer,
             pairs[0].ratio, pairs[STRICT_PAIRS - 1].ratio);
    row(what, fmt(figure, "%.0f/s", median->rate), against, median->ratio,
        threads == STRICT_THREADS ? ">= 20" : "");
}

static void bench_strict(void)
{
    struct local *l = open_store(LOCAL_STRICT, 0);
    struct keeper *k = connect_to(l);
    fill(k, 1000);
    for (unsigned threads = 1; threads <= STRICT_THREADS; threads *= 8)
        bench_strict_threads(k, threads);
    keeper_close(k);
    local_close(l);
    clear_dir();
}

static double cost(struct keeper *k, enum local_mode mode, unsigned nodes, enum order order)
{
    if (mode == LOCAL_STRICT)
        return 1 / strict_rate(k, nodes, STRICT_THREADS, 1);
    return cost_of_set(k, nodes, 500000, order);
}

static void bench_cost_in(enum local_mode mode, enum order order, const char *name)
{
    struct local *l = open_store(mode, 1000 * MILLION);
    struct keeper *k = connect_to(l);
    char figure[32], against[64], what[64];
    double few = 1, many = 1;

    fill(k, MILLION);
    for (int i = 0; i < 5; i++) { /* in turn, and the best of each: noise only ever adds */
        double a = cost(k, mode, 1000, order), b = cost(k, mode, MILLION, order);

        few = a < few ? a : few;
        many = b < many ? b : many;
    }
    snprintf(what, sizeof what, "a set at 1,000,000 nodes, %s", name);
    snprintf(against, sizeof against, "%.0f ns at 1,000 nodes", few * 1e9);
    row(what, fmt(figure, "%.0f ns", many * 1e9), against, many / few, "<= 1.5");
    keeper_close(k);
    local_close(l);
    clear_dir();
}

/* At random, and in memory also in order, which shows the cost of cache misses. */
static void bench_cost(void)
{
    bench_cost_in(LOCAL_STRICT, AT_RANDOM, "strict, 64 threads");
    bench_cost_in(LOCAL_OPPORTUNISTIC, IN_ORDER, "opportunistic, in order");
    bench_cost_in(LOCAL_NONE, IN_ORDER, "none, in order");
    bench_cost_in(LOCAL_OPPORTUNISTIC, AT_RANDOM, "opportunistic, at random");
    bench_cost_in(LOCAL_NONE, AT_RANDOM, "none, at random");
}

static double resident_mb(void)
{
    FILE *in = fopen("/proc/self/statm", "r");
    long pages = 0;

    if (!in || fscanf(in, "%*d %ld", &pages) != 1)
        exit(1);
    fclose(in);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

/* Runs in a process of its own, so that memory is counted from nothing and a kill can be real. */
static void in_child(void (*work)(void))
{
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        work();
        fflush(stdout);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, NULL, 0) < 0)
        exit(1);
}

static void write_million(void)
{
    struct local *l = open_store(LOCAL_OPPORTUNISTIC, 1000 * MILLION);
    struct keeper *k = connect_to(l);
    char figure[32];
    double mb;

    fill(k, MILLION);
    mb = resident_mb();
    row("memory of 1,000,000 nodes", fmt(figure, "%.0f MB", mb), "300 MB allowed", mb / 300,
        "<= 1");
    check(local_snapshot(l), "snapshot");
    keeper_close(k);
    local_close(l);
}

static void report_start(const char *what)
{
    double start = now_s();
    struct local *l = open_store(LOCAL_OPPORTUNISTIC, 1000 * MILLION);
    struct local_stats stats;
    char figure[32], against[64];

    start = now_s() - start;
    local_stats(l, &stats);
    snprintf(against, sizeof against, "2 s allowed (%" PRIu64 " records)", stats.recovered_records);
    row(what, fmt(figure, "%.2f s", start), against, start / 2, "<= 1");
    local_close(l);
}

static void start_from_snapshot(void)
{
    report_start("start from a snapshot of 1,000,000 nodes");
}

static void write_records_and_die(void)
{
    struct local *l = open_store(LOCAL_OPPORTUNISTIC, 1000 * MILLION);
    struct keeper *k = connect_to(l);

    cost_of_set(k, MILLION, 200000, AT_RANDOM);
    check(keeper_sync(k, "/"), "sync");
    check(keeper_flush(k), "flush");
    kill(getpid(), SIGKILL);
}

static void start_after_kill(void)
{
    report_start("the same after a kill, 200,000 records");
}

static void bench_million(void)
{
    in_child(write_million);
    in_child(start_from_snapshot);
    in_child(write_records_and_die);
    in_child(start_after_kill);
    clear_dir();
}

/* The longest of many calls, while a snapshot runs and while none does. */
struct snapshot_run {
    struct local *l;
    _Atomic bool done;
    double seconds;
};

static void *take_snapshot(void *arg)
{
    struct snapshot_run *run = arg;
    double start = now_s();

    check(local_snapshot(run->l), "snapshot");
    run->seconds = now_s() - start;
    run->done = true;
    return NULL;
}

static double longest_call(struct keeper *k, struct snapshot_run *run, double seconds)
{
    double longest = 0, start = now_s(), before = start, after;
    unsigned random = 3;

    for (unsigned i = 0; run ? !run->done : before < start + seconds; i++) {
        check(keeper_set(k, path_of(next_random(&random) % MILLION), data_of(i), KEEPER_ANY_VERSION,
                         NULL),
              "set");
        after = now_s();
        longest = after - before > longest ? after - before : longest;
        before = after;
    }
    return longest;
}

static void bench_pause(enum local_mode mode, const char *name)
{
    struct local *l = open_store(mode, 1000 * MILLION);
    struct keeper *k = connect_to(l);
    char figure[32], against[64], what[64];
    double worst = 0, rest = 0;

    fill(k, MILLION);
    for (int i = 0; i < 3; i++) {
        struct snapshot_run run = {.l = l};
        pthread_t thread;
        double longest;

        pthread_create(&thread, NULL, take_snapshot, &run);
        longest = longest_call(k, &run, 0);
        pthread_join(thread, NULL);
        worst = longest > worst ? longest : worst;
        longest = longest_call(k, NULL, run.seconds);
        rest = longest > rest ? longest : rest;
    }
    snprintf(what, sizeof what, "longest set during a snapshot, %s", name);
    snprintf(against, sizeof against, "20 ms allowed (%.1f ms without)", rest * 1e3);
    row(what, fmt(figure, "%.1f ms", worst * 1e3), against, worst / 20e-3, "<= 1");
    keeper_close(k);
    local_close(l);
    clear_dir();
}

static void bench_snapshot(void)
{
    bench_pause(LOCAL_STRICT, "strict");
    bench_pause(LOCAL_OPPORTUNISTIC, "opportunistic");
}

static const struct {
    const char *name;
    void (*run)(void);
} MEASUREMENTS[] = {
    {"memory", bench_memory},   {"strict", bench_strict},     {"cost", bench_cost},
    {"million", bench_million}, {"snapshot", bench_snapshot},
};

static bool is_chosen(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc == 1;
}

int main(int argc, char **argv)
{
    snprintf(dir, sizeof dir, "bench-keeper-%ld.tmp", (long)getpid());
    printf("| %-50s | %16s | %-34s | %6s | %-7s |\n", "embedded keeper, 64 bytes of data", "figure",
           "against", "ratio", "wanted");
    printf("|%s|%s:|%s|%s:|%s|\n", "----------------------------------------------------",
           "-----------------", "------------------------------------", "-------", "---------");
    for (size_t i = 0; i < sizeof MEASUREMENTS / sizeof *MEASUREMENTS; i++)
        if (is_chosen(MEASUREMENTS[i].name, argc, argv))
            MEASUREMENTS[i].run();
    return 0;
}
