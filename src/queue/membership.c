/*
 * Reading costs one call per worker and two for the lists. A worker's node is the only place that
 * holds everything the worker handles, and there are fewer workers than queues.
 *
 * Queues that the same workers may handle form a class. Usually there is one class: all queues, all
 * workers. Each class is assigned on its own. So every worker computes the same result without a
 * search for the best matching, and workers are balanced within each class.
 */
#include "queue/membership.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/json.h"
#include "base/mem.h"

enum { NOTES_MAX = 1000 };

/* Warnings. */

void queue_warnings_release(struct queue_warnings *n)
{
    free(n->seen);
    n->seen = NULL;
    n->count = 0;
}

/* After NOTES_MAX warnings it is silent: somebody fills the tree with invalid nodes. */
void queue_warn(struct queue_warnings *n, const char *path, int64_t mzxid, const char *what)
{
    uint64_t key = XXH3_64bits_withSeed(path, strlen(path), (uint64_t)mzxid);
    char line[QUEUE_PATH_SIZE + 128];
    for (size_t i = 0; i < n->count; i++)
        if (n->seen[i] == key)
            return;
    if (!n->note || n->count == NOTES_MAX)
        return;
    if (!n->seen)
        n->seen = mem_alloc(NOTES_MAX * sizeof *n->seen);
    n->seen[n->count++] = key;
    snprintf(line, sizeof line, "skipped %s: %s", path, what);
    n->note(n->arg, line);
}

/* Names. */

static bool is_worker_name(struct str name)
{
    size_t digits = str_starts(name, STR("worker-")) ? strspn(name.p + 7, "0123456789") : 0;
    return digits && digits <= 20 && name.len == 7 + digits;
}

int queue_compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int32_t find_queue(const struct queue_membership *c, struct str name)
{
    char text[QUEUE_NAME_LEN_MAX + 1];
    const char *key = text;
    if (name.len > QUEUE_NAME_LEN_MAX || !c->queue_count)
        return -1;
    snprintf(text, sizeof text, "%.*s", STR_ARGS(name));
    const char **found =
        bsearch(&key, c->queues, c->queue_count, sizeof *c->queues, queue_compare_names);
    return found ? (int32_t)(found - c->queues) : -1;
}

/* Nodes. */

void queue_membership_put_worker(struct buf *b, const char *const *queues, size_t queue_count,
                                 const char *const *only, size_t only_count)
{
    buf_printf(b, "{\"queues\": [");
    for (size_t i = 0; i < queue_count; i++)
        buf_printf(b, "%s\"%s\"", i ? ", " : "", queues[i]);
    buf_printf(b, "]");
    for (size_t i = 0; i < only_count; i++)
        buf_printf(b, "%s\"%s\"", i ? ", " : ", \"only\": [", only[i]);
    buf_printf(b, only_count ? "]}" : "}");
}

/* A list of strings. False if it holds anything else. */
static bool parse_names(struct arena *a, const struct json *list, struct str **ret_names,
                        size_t *ret_count)
{
    size_t count = 0;
    struct str *names = arena_alloc(a, (list->count + 1) * sizeof *names);
    json_each(name, list) {
        if (name->kind != JSON_TEXT)
            return false;
        names[count++] = name->text;
    }
    *ret_names = names;
    *ret_count = count;
    return true;
}

bool queue_membership_parse_worker(struct arena *a, struct str data, struct queue_member *w)
{
    struct json *v = json_parse(a, data, NULL);
    const struct json *queues = NULL, *only = NULL;
    if (!v || json_get_list(v, "queues", &queues, NULL) != 1 ||
        json_get_list(v, "only", &only, NULL) < 0)
        return false;
    return parse_names(a, queues, &w->queues, &w->queue_count) &&
           (!only || parse_names(a, only, &w->only, &w->only_count));
}

static int read_worker(struct queue_membership *c, const struct queues *qs, const char *name,
                       struct queue_warnings *n)
{
    struct queue_member w = {.name = arena_text(&c->arena, str_of(name))}, empty = w;
    char path[QUEUE_PATH_SIZE];
    struct keeper_stat stat;
    struct buf data = {0};
    queues_path(qs, path, "workers/%s", name);
    int err = keeper_get(qs->keeper, path, &data, &stat);
    struct str text = arena_take(&c->arena, &data);
    if (err)
        return err == DROVER_NO_NODE ? 0 : err; /* the worker has just left */
    if (!queue_membership_parse_worker(&c->arena, text, &w)) {
        queue_warn(n, path, stat.mzxid, "its data is not {\"queues\": [...]}");
        w = empty;
    }
    w.mzxid = stat.mzxid;
    c->workers[c->worker_count++] = w;
    return 0;
}

/* The valid names of a list. Warns of the others. */
static int read_names(const struct queues *qs, struct queue_warnings *n, const char *list,
                      bool (*is_valid)(struct str name), const char *what,
                      struct keeper_names *names)
{
    char path[QUEUE_PATH_SIZE];
    size_t kept = 0;
    queues_path(qs, path, "%s", list);
    TRY(keeper_children(qs->keeper, path, names, NULL));
    for (size_t i = 0; i < names->count; i++) {
        if (is_valid(str_of(names->names[i]))) {
            names->names[kept++] = names->names[i];
        } else {
            queues_path(qs, path, "%s/%.255s", list, names->names[i]);
            queue_warn(n, path, 0, what);
        }
    }
    names->count = kept;
    return 0;
}

int queue_membership_read(struct queue_membership *c, const struct queues *qs,
                          struct queue_warnings *n)
{
    CLEANUP(keeper_names_release) struct keeper_names workers = {0}, queues = {0};
    arena_reset(&c->arena);
    c->worker_count = c->queue_count = 0;
    TRY(read_names(qs, n, "workers", is_worker_name, "not the name of a worker", &workers));
    c->workers = arena_alloc(&c->arena, (workers.count + 1) * sizeof *c->workers);
    for (size_t i = 0; i < workers.count; i++)
        TRY(read_worker(c, qs, workers.names[i], n));
    TRY(read_names(qs, n, "queues", queue_valid_name, "not the name of a queue", &queues));
    c->queues = arena_alloc(&c->arena, (queues.count + 1) * sizeof *c->queues);
    for (size_t i = 0; i < queues.count; i++)
        c->queues[c->queue_count++] = arena_text(&c->arena, str_of(queues.names[i]));
    return 0;
}

void queue_membership_release(struct queue_membership *c)
{
    arena_release(&c->arena);
}

/*
 * Assignment.
 *
 * With m queues and n workers, m % n workers get one queue more than the m / n that every worker
 * gets. A worker keeps what it holds up to its share. The rest, and the queues that nobody holds,
 * go to the workers below their share. Larger shares go first to the workers that already hold that
 * many, so no queue moves that need not move.
 *
 * The result is stable while the moves are carried out, because three choices do not depend on how
 * many of them are done:
 *  - Who gets a larger share: first the workers that hold more than m / n, then the others, each in
 *    list order. Of the first kind, only workers without a larger share shrink out of it; of the
 *    second, only workers with one grow out of it.
 *  - What a worker releases: its last queues in list order. The queues it keeps stay the first
 *    ones.
 *  - Who gets what: released queues are dealt in list order to the workers in list order; each
 *    worker takes all it lacks before the next takes any. Removing a queue together with the worker
 *    slot it was dealt to leaves the rest of the deal unchanged.
 *
 * Why hashing the names is not enough: if losing a worker moves only its own queues, whatever the
 * set of workers, then each queue ranks all possible workers and goes to the first one present.
 * Among enough workers (Erdős and Szekeres) some three are ranked by any two of three queues in the
 * same or in the reverse order, so two queues share a worker while another has none: three workers,
 * three queues, not balanced.
 */

struct share {
    size_t held, size;
};

/* One more queue for those that hold more than `common`, or for the others, while any is left. */
static size_t enlarge(struct share *shares, size_t worker_count, size_t common, bool holding_more,
                      size_t left)
{
    for (size_t w = 0; w < worker_count && left; w++) {
        if ((shares[w].held > common) == holding_more) {
            shares[w].size++;
            left--;
        }
    }
    return left;
}

static void size_shares(struct share *shares, size_t worker_count, size_t queue_count)
{
    size_t common = queue_count / worker_count, left = queue_count % worker_count;
    for (size_t w = 0; w < worker_count; w++)
        shares[w].size = common;
    left = enlarge(shares, worker_count, common, true, left);
    enlarge(shares, worker_count, common, false, left);
}

/* A worker keeps its first queues. From here on `held` counts the queues it keeps. */
static void keep(struct share *shares, size_t worker_count, size_t queue_count,
                 const int32_t *holders, int32_t *owners)
{
    for (size_t w = 0; w < worker_count; w++)
        shares[w].held = 0;
    for (size_t q = 0; q < queue_count; q++) {
        int32_t w = holders[q];
        if (w != ASSIGN_NOBODY && shares[w].held < shares[w].size)
            shares[w].held++;
        else
            w = ASSIGN_NOBODY;
        owners[q] = w;
    }
}

static void deal(struct share *shares, size_t queue_count, int32_t *owners)
{
    int32_t w = 0;
    for (size_t q = 0; q < queue_count; q++) {
        if (owners[q] != ASSIGN_NOBODY)
            continue;
        while (shares[w].held == shares[w].size)
            w++;
        shares[w].held++;
        owners[q] = w;
    }
}

void assign(size_t worker_count, size_t queue_count, const int32_t *holders, int32_t *ret_owners)
{
    CLEANUP(mem_free) struct share *shares = mem_zalloc((worker_count + 1) * sizeof *shares);
    for (size_t q = 0; q < queue_count; q++)
        if (holders[q] != ASSIGN_NOBODY)
            shares[holders[q]].held++;
    if (worker_count)
        size_shares(shares, worker_count, queue_count);
    keep(shares, worker_count, queue_count, holders, ret_owners);
    if (worker_count)
        deal(shares, queue_count, ret_owners);
}

/* Classes. */

/* Who holds each queue according to the workers' nodes. If two claim it, the later write counts. */
static void find_holders(const struct queue_membership *c, int32_t *holders)
{
    for (size_t q = 0; q < c->queue_count; q++)
        holders[q] = ASSIGN_NOBODY;
    for (size_t w = 0; w < c->worker_count; w++) {
        for (size_t i = 0; i < c->workers[w].queue_count; i++) {
            int32_t q = find_queue(c, c->workers[w].queues[i]);
            if (q >= 0 && (holders[q] == ASSIGN_NOBODY ||
                           c->workers[w].mzxid >= c->workers[holders[q]].mzxid))
                holders[q] = (int32_t)w;
        }
    }
}

/* may[q * words] has one bit for each worker that may handle q */
struct eligible {
    size_t words;
    uint64_t *may;
};

static uint64_t *eligible_row(const struct eligible *e, size_t q)
{
    return e->may + q * e->words;
}

static void find_eligible(const struct queue_membership *c, struct eligible *e)
{
    e->words = (c->worker_count + 63) / 64;
    e->may = mem_zalloc((c->queue_count * e->words + 1) * sizeof *e->may);
    for (size_t w = 0; w < c->worker_count; w++) {
        const struct queue_member *worker = &c->workers[w];
        uint64_t bit = UINT64_C(1) << (w % 64);
        for (size_t q = 0; q < c->queue_count && !worker->only; q++)
            eligible_row(e, q)[w / 64] |= bit;
        for (size_t i = 0; i < worker->only_count; i++) {
            int32_t q = find_queue(c, worker->only[i]);
            if (q >= 0)
                eligible_row(e, (size_t)q)[w / 64] |= bit;
        }
    }
}

static int compare_rows(const struct eligible *e, size_t a, size_t b)
{
    return memcmp(eligible_row(e, a), eligible_row(e, b), e->words * sizeof *e->may);
}

static int compare_queues(const void *a, const void *b, void *e)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int rows = compare_rows(e, x, y);
    return rows ? rows : (x > y) - (x < y);
}

/* Assigns the queues of one class. Workers are renumbered to those that may handle it. */
static void assign_class(const struct queue_membership *c, const struct eligible *e,
                         const size_t *class, size_t count, int32_t *owners)
{
    CLEANUP(mem_free) int32_t *place = mem_alloc((c->worker_count + 1) * sizeof *place);
    CLEANUP(mem_free) int32_t *worker = mem_alloc((c->worker_count + 1) * sizeof *worker);
    CLEANUP(mem_free) int32_t *within = mem_alloc((count + 1) * sizeof *within);
    const uint64_t *may = eligible_row(e, class[0]);
    int32_t worker_count = 0;
    for (size_t w = 0; w < c->worker_count; w++) {
        place[w] = ASSIGN_NOBODY;
        if (may[w / 64] >> (w % 64) & 1) {
            place[w] = worker_count;
            worker[worker_count++] = (int32_t)w;
        }
    }
    for (size_t i = 0; i < count; i++) {
        int32_t holder = owners[class[i]];
        within[i] = holder == ASSIGN_NOBODY ? ASSIGN_NOBODY : place[holder];
    }
    assign((size_t)worker_count, count, within, within);
    for (size_t i = 0; i < count; i++)
        owners[class[i]] = within[i] == ASSIGN_NOBODY ? ASSIGN_NOBODY : worker[within[i]];
}

void queue_membership_assign(const struct queue_membership *c, int32_t *ret_owners)
{
    CLEANUP(mem_free) size_t *all = mem_alloc((c->queue_count + 1) * sizeof *all);
    struct eligible e;
    find_holders(c, ret_owners);
    find_eligible(c, &e);
    for (size_t q = 0; q < c->queue_count; q++)
        all[q] = q;
    qsort_r(all, c->queue_count, sizeof *all, compare_queues, &e);
    for (size_t start = 0, end; start < c->queue_count; start = end) {
        for (end = start + 1; end < c->queue_count && !compare_rows(&e, all[start], all[end]);)
            end++;
        assign_class(c, &e, all + start, end - start, ret_owners);
    }
    free(e.may);
}
