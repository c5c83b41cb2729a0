/*
 * A client of ZooKeeper's protocol that keeps a window of requests on their way, for bench/zookeeper.
 *
 *     zookeeper_client HOST:PORT OPERATION WINDOW SECONDS
 *
 * Prints how many requests were answered in a second. It uses the official C library and nothing of
 * ours, so that both servers meet the same client.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum { NODES = 1000, DATA_LEN = 64, MULTI_OPS = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static int on_their_way, refill_at; /* when so few are left, the window is filled again */
static long done;
static char root[64], data[DATA_LEN];
static zhandle_t *zh;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check(int rc, const char *what)
{
    if (rc == ZOK)
        return;
    fprintf(stderr, "zookeeper_client: %s: %s\n", what, zerror(rc));
    exit(1);
}

static void one_done(int rc)
{
    check(rc, "answer");
    pthread_mutex_lock(&lock);
    on_their_way--;
    done++;
    if (on_their_way <= refill_at)
        pthread_cond_signal(&answered);
    pthread_mutex_unlock(&lock);
}

static void on_string(int rc, const char *value, const void *arg)
{
    (void)value, (void)arg;
    one_done(rc);
}

static void on_stat(int rc, const struct Stat *stat, const void *arg)
{
    (void)stat, (void)arg;
    one_done(rc);
}

static void on_data(int rc, const char *value, int len, const struct Stat *stat, const void *arg)
{
    (void)value, (void)len, (void)stat, (void)arg;
    one_done(rc);
}

/* A transaction's results must live until its answer. */
struct multi {
    zoo_op_result_t results[MULTI_OPS];
    struct Stat stats[MULTI_OPS];
};

static void on_multi(int rc, const void *arg)
{
    free((void *)arg);
    one_done(rc);
}

static void node_path(char *out, long i)
{
    sprintf(out, "%s/n%03ld", root, i % NODES);
}

static void send_create(long i)
{
    char path[96];

    sprintf(path, "%s/c%ld", root, i);
    check(zoo_acreate(zh, path, data, DATA_LEN, &ZOO_OPEN_ACL_UNSAFE, 0, on_string, NULL),
          "create");
}

static void send_set(long i)
{
    char path[96];

    node_path(path, i);
    check(zoo_aset(zh, path, data, DATA_LEN, -1, on_stat, NULL), "set");
}

static void send_get(long i)
{
    char path[96];

    node_path(path, i);
    check(zoo_aget(zh, path, 0, on_data, NULL), "get");
}

static void send_multi(long i)
{
    struct multi *m = calloc(1, sizeof *m);
    char a[96], b[96];
    zoo_op_t ops[MULTI_OPS];

    node_path(a, i);
    node_path(b, i + 1);
    zoo_check_op_init(&ops[0], a, -1);
    zoo_set_op_init(&ops[1], a, data, DATA_LEN, -1, &m->stats[1]);
    zoo_set_op_init(&ops[2], b, data, DATA_LEN, -1, &m->stats[2]);
    check(zoo_amulti(zh, MULTI_OPS, ops, m->results, on_multi, m), "multi");
}

static const struct {
    const char *name;
    void (*send)(long i);
} OPERATIONS[] = {
    {"create", send_create},
    {"set", send_set},
    {"get", send_get},
    {"multi", send_multi},
};

/* Waits until at most `left` are on their way. */
static void wait_for(int left)
{
    pthread_mutex_lock(&lock);
    refill_at = left;
    while (on_their_way > left)
        pthread_cond_wait(&answered, &lock);
    pthread_mutex_unlock(&lock);
}

/*
 * The window is filled up, and again when half of it has been answered: to wake this thread for each
 * answer would measure the waking.
 */
static void run(void (*send)(long), int window, double seconds)
{
    static long next; /* goes on over several runs: a name is used once */
    double until = now_s() + seconds;
    int room;

    while (now_s() < until) {
        wait_for(window / 2);
        pthread_mutex_lock(&lock);
        room = window - on_their_way;
        on_their_way = window;
        pthread_mutex_unlock(&lock);
        while (room--)
            send(next++);
    }
}

static void prepare(void)
{
    char path[96];

    sprintf(root, "/bench-%ld", (long)getpid());
    check(zoo_create(zh, root, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), "root");
    for (long i = 0; i < NODES; i++) {
        node_path(path, i);
        pthread_mutex_lock(&lock);
        on_their_way++;
        pthread_mutex_unlock(&lock);
        check(zoo_acreate(zh, path, data, DATA_LEN, &ZOO_OPEN_ACL_UNSAFE, 0, on_string, NULL),
              "prepare");
    }
    wait_for(0);
}

static void measure(void (*send)(long), int window, double seconds)
{
    double start;

    run(send, window, seconds / 4); /* to warm up */
    wait_for(0);
    done = 0;
    start = now_s();
    run(send, window, seconds);
    wait_for(0);
    printf("%.0f\n", (double)done / (now_s() - start));
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: zookeeper_client HOST:PORT OPERATION WINDOW SECONDS\n");
        return 2;
    }
    zoo_set_debug_level(0);
    zh = zookeeper_init(argv[1], NULL, 10000, NULL, NULL, 0);
    for (int i = 0; zh && zoo_state(zh) != ZOO_CONNECTED_STATE && i < 1000; i++)
        usleep(10000);
    prepare();
    for (size_t i = 0; i < sizeof OPERATIONS / sizeof *OPERATIONS; i++)
        if (!strcmp(argv[2], OPERATIONS[i].name))
            measure(OPERATIONS[i].send, atoi(argv[3]), atof(argv[4]));
    zookeeper_close(zh);
    return 0;
}
