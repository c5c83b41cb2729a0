/* Arguments: "worker", mode, directory, board, span, and the descriptor of the pipe. */
#include "kill_worker.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

extern char **environ;

struct board *board_map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *p = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(struct board)) == 0)
        p = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        perror(path);
        abort();
    }
    close(fd);
    return p;
}

void board_unmap(struct board *b)
{
    munmap(b, sizeof *b);
}

int worker_start(const struct kill_order *order, int *ret_pipe)
{
    char mode[8], span[24], pipe_fd[8], word[] = "worker", self[] = "/proc/self/exe";
    char *argv[] = {self, word,    mode, (char *)order->dir, (char *)order->board,
                    span, pipe_fd, NULL};
    int ends[2];
    pid_t pid;

    if (pipe(ends) < 0 || fcntl(ends[0], F_SETFD, FD_CLOEXEC) < 0)
        abort();
    snprintf(mode, sizeof mode, "%d", (int)order->mode);
    snprintf(span, sizeof span, "%lld", (long long)order->span_ms);
    snprintf(pipe_fd, sizeof pipe_fd, "%d", ends[1]);
    if (posix_spawn(&pid, self, NULL, NULL, argv, environ))
        abort();
    close(ends[1]);
    *ret_pipe = ends[0];
    return pid;
}

struct worker {
    struct local *l;
    struct board *board;
    int64_t span_ms;
    int pipe;
    _Atomic int64_t first_ms; /* of the first acknowledgement */
    _Atomic bool said;
};

static void give_up(const char *what, int err)
{
    fprintf(stderr, "worker: %s: %s\n", what, drover_err_name(err));
    _exit(3);
}

/* Once, by the first thread after the time is over. */
static void say_now(struct worker *w)
{
    int64_t now_ms = clock_boot_ms(), none = 0;

    atomic_compare_exchange_strong(&w->first_ms, &none, now_ms);
    if (now_ms - atomic_load(&w->first_ms) < w->span_ms || atomic_exchange(&w->said, true))
        return;
    if (write(w->pipe, "!", 1) != 1)
        give_up("the pipe", DROVER_IO);
}

struct worker_lane {
    struct worker *w;
    int lane;
};

static struct keeper *connect_or_die(struct worker *w)
{
    struct keeper_options o = {.timeout_ms = KEEPER_TIMEOUT_MIN_MS};
    struct keeper *k;
    int err = local_connect(w->l, &o, &k);

    if (err)
        give_up("connecting", err);
    return k;
}

static void *lane_main(void *arg)
{
    struct worker_lane *lane = arg;
    struct worker *w = lane->w;
    struct keeper *k = connect_or_die(w);
    int64_t number;
    int err = workload_number(k, lane->lane, &number);

    if (!err)
        err = keeper_create(k, "/here-", STR(""), KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL, NULL);
    while (!err) {
        err = workload_step(k, w->board, lane->lane, ++number);
        say_now(w);
        if (err == DROVER_TOO_BIG) /* the board is full: nothing more to note */
            pause();
    }
    give_up("writing", err);
    return NULL;
}

static void *reader_main(void *arg)
{
    struct worker_lane *reader = arg;
    struct keeper *k = connect_or_die(reader->w);
    int err = 0;

    for (int i = 0; !err; i++)
        err = workload_read(k, reader->w->board, reader->lane - LANES, i % LANES);
    if (err != DROVER_TOO_BIG)
        give_up("reading", err);
    return NULL;
}

static void start_threads(struct worker *w)
{
    static struct worker_lane threads[NOTERS];
    pthread_t thread;

    for (int i = 0; i < NOTERS; i++) {
        threads[i] = (struct worker_lane){w, i};
        if (pthread_create(&thread, NULL, i < LANES ? lane_main : reader_main, &threads[i]))
            abort();
    }
}

int worker_main(char **argv)
{
    struct worker w = {.span_ms = atoll(argv[5]), .pipe = atoi(argv[6])};
    struct local_options o = {.mode = (enum local_mode)atoi(argv[2]),
                              .dir = argv[3],
                              .snapshot_every = 500,
                              .segment_len = LOCAL_SEGMENT_LEN_MIN};
    struct err_info error;
    struct keeper *k;
    int err = local_open(&o, &w.l, &error);

    if (err)
        give_up(error.text, err);
    w.board = board_map(argv[4]);
    k = connect_or_die(&w);
    err = workload_prepare(k);
    if (err)
        give_up("preparing", err);
    start_threads(&w);
    while (!err)
        err = local_snapshot(w.l);
    give_up("a snapshot", err);
    return 3;
}
