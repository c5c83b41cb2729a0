/*
 * How much opportunistic mode may lose. A change is let in only while nothing older than
 * LOCAL_FLUSH_MS waits for the disk. So if L was lost, then every change M that was let in at all
 * was let in no later than that after L was appended: M's call began before L's call ended plus
 * LOCAL_FLUSH_MS. That holds exactly, however slow the machine is, where a comparison with the
 * moment of the kill would also measure how long a stopped process stood still before it.
 */
#include "workload.h"

#include <stdio.h>

#include "base/clock.h"
#include "keeper/tree/tree.h"
#include "store.h"

static const char *lane_path(char *buf, size_t len, char kind, int lane)
{
    snprintf(buf, len, "/%c%d", kind, lane);
    return buf;
}

int workload_prepare(struct keeper *k)
{
    struct keeper_op ops[1 + 2 * LANES] = {keeper_op_create("/log", STR(""), 0)};
    char paths[2 * LANES][16];
    int err;

    for (int i = 0; i < 2 * LANES; i++)
        ops[1 + i] =
            keeper_op_create(lane_path(paths[i], sizeof *paths, "ab"[i % 2], i / 2), STR("0"), 0);
    err = keeper_multi(k, ops, sizeof ops / sizeof *ops, NULL);
    return err == DROVER_EXISTS ? 0 : err;
}

int workload_number(struct keeper *k, int lane, int64_t *ret_number)
{
    struct buf data = {0};
    char path[16];
    int err = keeper_get(k, lane_path(path, sizeof path, 'a', lane), &data, NULL);

    if (!err)
        *ret_number = strtoll(buf_text(&data), NULL, 10);
    buf_release(&data);
    return err;
}

static void take_note(struct board *b, int noter, struct ack ack)
{
    struct notes *n = &b->notes[noter];
    uint64_t count = atomic_load(&n->count);

    n->acks[count] = ack;
    atomic_store(&n->count, count + 1);
}

static bool is_full(struct board *b, int noter)
{
    return atomic_load(&b->notes[noter].count) == NOTES_MAX;
}

int workload_step(struct keeper *k, struct board *b, int lane, int64_t number)
{
    char a_path[16], b_path[16], made[32], old[32], text[24];
    struct keeper_result results[4];
    struct keeper_op ops[4];
    struct ack ack = {.lane = lane, .number = number};
    size_t count = number > LOG_KEPT ? 4 : 3;
    int err;

    if (is_full(b, lane))
        return DROVER_TOO_BIG;
    lane_path(a_path, sizeof a_path, 'a', lane);
    lane_path(b_path, sizeof b_path, 'b', lane);
    snprintf(text, sizeof text, "%lld", (long long)number);
    snprintf(made, sizeof made, "/log/%d-%lld", lane, (long long)number);
    snprintf(old, sizeof old, "/log/%d-%lld", lane, (long long)number - LOG_KEPT);
    ops[0] = keeper_op_set(a_path, str_of(text), KEEPER_ANY_VERSION);
    ops[1] = keeper_op_create(made, str_of(text), 0);
    ops[2] = keeper_op_set(b_path, str_of(text), KEEPER_ANY_VERSION);
    ops[3] = keeper_op_delete(old, 0);
    ack.before_ms = clock_boot_ms();
    err = (lane % 2 ? commit_and_wait : keeper_multi)(k, ops, count, results);
    ack.after_ms = clock_boot_ms();
    ack.zxid = results[0].stat.mzxid;
    keeper_results_release(results, count);
    if (!err)
        take_note(b, lane, ack);
    return err;
}

int workload_read(struct keeper *k, struct board *b, int reader, int lane)
{
    struct ack ack = {.lane = lane, .before_ms = clock_boot_ms()};
    int64_t *seen = &b->notes[LANES + reader].seen[lane];
    struct keeper_stat stat;
    struct buf data = {0};
    char path[16];
    int err;

    if (is_full(b, LANES + reader))
        return DROVER_TOO_BIG;
    err = keeper_get(k, lane_path(path, sizeof path, 'a', lane), &data, &stat);
    ack.after_ms = clock_boot_ms();
    if (!err && stat.mzxid != *seen) {
        ack.number = strtoll(buf_text(&data), NULL, 10);
        ack.zxid = *seen = stat.mzxid;
        take_note(b, LANES + reader, ack);
    }
    buf_release(&data);
    return err;
}

struct board_view board_view(const struct board *b)
{
    struct board_view v = {.board = b};

    for (int i = 0; i < NOTERS; i++)
        v.counts[i] = atomic_load(&((struct board *)b)->notes[i].count);
    return v;
}

/* -1: the node is not there. */
static int64_t number_at(const struct tree *t, const char *path, int64_t *ret_mzxid)
{
    char text[24] = "";
    struct tree_view v;

    if (tree_look(t, str_of(path), &v))
        return -1;
    memcpy(text, v.data.p, v.data.len < sizeof text ? v.data.len : sizeof text - 1);
    *ret_mzxid = v.stat.mzxid;
    return strtoll(text, NULL, 10);
}

/* How far a lane came; all traces of its last transactions agree. */
static int64_t expect_whole(const struct tree *t, int lane)
{
    int64_t n, other, zxid = 0, other_zxid = 0;
    char path[40];

    n = number_at(t, lane_path(path, sizeof path, 'a', lane), &zxid);
    other = number_at(t, lane_path(path, sizeof path, 'b', lane), &other_zxid);
    if (n != other || zxid != other_zxid)
        fail_msg("lane %d: half of transaction %lld (%lld, %lld)", lane, (long long)zxid,
                 (long long)n, (long long)other);
    for (int64_t i = n + 1; i > 0 && i >= n - LOG_KEPT; i--) {
        bool want = i <= n && i > n - LOG_KEPT;

        snprintf(path, sizeof path, "/log/%d-%lld", lane, (long long)i);
        if ((number_at(t, path, &other_zxid) == i) != want)
            fail_msg("lane %d reached %lld, but %s is%s there", lane, (long long)n, path,
                     want ? " not" : "");
    }
    return n;
}

void expect_prefix(const struct tree *t, const struct board_view *v, int64_t *ret_numbers)
{
    for (int lane = 0; lane < LANES; lane++)
        ret_numbers[lane] = expect_whole(t, lane);
    for (int i = 0; i < NOTERS; i++)
        for (uint64_t n = 0; n < v->counts[i]; n++) {
            const struct ack *a = &v->board->notes[i].acks[n];
            int64_t reached = ret_numbers[a->lane];

            if ((a->zxid <= t->zxid) != (a->number <= reached))
                fail_msg("lane %d reached %lld, and the tree transaction %lld, but %lld was %lld",
                         a->lane, (long long)reached, (long long)t->zxid, (long long)a->number,
                         (long long)a->zxid);
        }
}

/* The first acknowledged transaction that is not in the tree, or NULL. */
static const struct ack *first_lost(const struct tree *t, const struct board_view *v)
{
    const struct ack *first = NULL;

    for (int i = 0; i < NOTERS; i++)
        for (uint64_t n = 0; n < v->counts[i]; n++) {
            const struct ack *a = &v->board->notes[i].acks[n];

            if (a->zxid > t->zxid && (!first || a->after_ms < first->after_ms))
                first = a;
        }
    return first;
}

void expect_nothing_lost(const struct tree *t, const struct board_view *v)
{
    const struct ack *lost = first_lost(t, v);

    if (lost)
        fail_msg("transaction %lld was acknowledged, but the tree ends at %lld",
                 (long long)lost->zxid, (long long)t->zxid);
}

/* When the last change was let in, or a little earlier. */
static int64_t last_change_ms(const struct board_view *v)
{
    int64_t last_ms = 0;

    for (int lane = 0; lane < LANES; lane++) {
        uint64_t count = v->counts[lane];

        if (count && v->board->notes[lane].acks[count - 1].before_ms > last_ms)
            last_ms = v->board->notes[lane].acks[count - 1].before_ms;
    }
    return last_ms;
}

void expect_little_lost(const struct tree *t, const struct board_view *v)
{
    const struct ack *lost = first_lost(t, v);
    int64_t last_ms = last_change_ms(v);

    if (lost && last_ms > lost->after_ms + LOCAL_FLUSH_MS)
        fail_msg("transaction %lld was acknowledged %lld ms before the last one, and is lost",
                 (long long)lost->zxid, (long long)(last_ms - lost->after_ms));
}
