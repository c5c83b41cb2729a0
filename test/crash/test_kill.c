/*
 * Kills a writing process repeatedly on the same directory, and checks the content: complete
 * transactions, a prefix of them, in strict mode all acknowledged ones, in opportunistic mode all
 * but the very last.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/journal/recover.h"
#include "kill_worker.h"
#include "store.h"

enum { ROUNDS = 10, SOAK_ROUNDS = 500, SPAN_MAX_MS = 300 };

/* Starts a worker, waits for its signal, kills it. */
static void kill_one(const struct kill_order *order)
{
    int pipe_fd, status;
    pid_t pid = worker_start(order, &pipe_fd);
    char word;
    bool said = read(pipe_fd, &word, 1) == 1;

    kill(pid, SIGKILL);
    assert_int_equal(pid, waitpid(pid, &status, 0));
    close(pipe_fd);
    if (!said || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("the worker ended by itself, with status %x", (unsigned)status);
}

struct totals {
    uint64_t acknowledged, lost;
    int64_t numbers[LANES]; /* that the lanes have reached */
};

static uint64_t count_lost(const struct tree *t, const struct board_view *v)
{
    uint64_t lost = 0;

    for (int lane = 0; lane < LANES; lane++)
        for (uint64_t i = 0; i < v->counts[lane]; i++)
            lost += v->board->notes[lane].acks[i].zxid > t->zxid;
    return lost;
}

static void check(const struct kill_order *order, struct board *board, struct totals *totals)
{
    static const struct recover_hooks silent;
    struct board_view view = board_view(board);
    int64_t reached[LANES];
    struct err_info error;
    struct recovery r;

    if (recover_read(order->dir, &silent, &r, &error))
        fail_msg("the start is refused: %s", error.text);
    expect_prefix(&r.tree, &view, reached);
    if (order->mode == LOCAL_STRICT)
        expect_nothing_lost(&r.tree, &view);
    else
        expect_little_lost(&r.tree, &view);
    for (int lane = 0; lane < LANES; lane++) {
        totals->acknowledged += view.counts[lane];
        if (reached[lane] < totals->numbers[lane])
            fail_msg("lane %d was at %lld before this round, and is at %lld", lane,
                     (long long)totals->numbers[lane], (long long)reached[lane]);
        totals->numbers[lane] = reached[lane];
    }
    totals->lost += count_lost(&r.tree, &view);
    recovery_release(&r);
}

static void run(enum local_mode mode)
{
    struct rng rng = {seed_or(1)};
    char *dir = dir_make_on_disk(), *place = dir_make();
    struct totals totals = {0};
    struct buf path = {0};

    buf_printf(&path, "%s/board", place);
    for (int round = 0; round < (soaking() ? SOAK_ROUNDS : ROUNDS); round++) {
        struct board *board = board_map(buf_text(&path));
        struct kill_order order = {mode, dir, path.p, rng_below(&rng, SPAN_MAX_MS)};

        doing("round %d, seed %llu", round, (unsigned long long)seed_or(1));
        kill_one(&order);
        check(&order, board, &totals);
        board_unmap(board);
        file_remove(place, "board");
        done();
    }
    for (int lane = 0; lane < LANES; lane++)
        assert_true(totals.numbers[lane] > ROUNDS);
    fprintf(stderr, "%llu acknowledged, %llu lost\n", (unsigned long long)totals.acknowledged,
            (unsigned long long)totals.lost);
    buf_release(&path);
    dir_remove(place);
    dir_remove(dir);
}

static void strict_loses_nothing(void **state)
{
    (void)state;
    run(LOCAL_STRICT);
}

static void opportunistic_loses_little(void **state)
{
    (void)state;
    run(LOCAL_OPPORTUNISTIC);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_loses_nothing),
        cmocka_unit_test(opportunistic_loses_little),
    };

    if (argc == 7 && strcmp(argv[1], "worker") == 0)
        return worker_main(argv);
    return run_group(tests);
}
