/*
 * Reads the stored state, when a server starts or becomes the leader.
 *
 * It reads the names of the keeper nodes first, then their data. On an ensemble each read is a
 * round trip, and a graph of 10,000 nodes has 10,000 records, so several threads read in parallel.
 */
#include "dag/load.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"

enum { READERS = 16, PER_READER_MIN = 64 };

static void texts_release(struct saved_texts *t)
{
    for (size_t i = 0; i < t->count; i++)
        buf_release(&t->items[i].text);
    free(t->items);
}

void dag_saved_free(struct dag_saved *saved)
{
    texts_release(&saved->chunks);
    texts_release(&saved->records);
    for (int i = 0; i < BUCKET_KINDS; i++)
        free(saved->buckets[i]);
    free(saved->slots);
    free(saved);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static int by_id(const void *a, const void *b)
{
    return by_number(&((const struct saved_text *)a)->id, &((const struct saved_text *)b)->id);
}

const struct saved_text *dag_saved_record(const struct dag_saved *saved, uint64_t id)
{
    struct saved_text key = {.id = id};

    if (!saved->records.count)
        return NULL;
    return bsearch(&key, saved->records.items, saved->records.count, sizeof key, by_id);
}

/* The head and the directories, which are created if missing. */

static int make_all(struct keeper *k)
{
    static const char *const paths[] = {"/drover", DAG_ROOT, DAG_ROOT "/specs", DAG_ROOT "/nodes",
                                        DAG_ROOT "/slots"};
    char head[64];
    uint64_t random;
    int err = 0;

    for (size_t i = 0; i < sizeof paths / sizeof *paths && !err; i++)
        err = keeper_ensure(k, paths[i], STR(""));
    random_fill(&random, sizeof random);
    snprintf(head, sizeof head, "{\"client\":%" PRIu64 ",\"last\":0}", (random >> 12) + 1);
    return err ? err : keeper_ensure(k, DAG_HEAD, str_of(head));
}

static int read_head(struct keeper *k, struct dag_saved *saved)
{
    CLEANUP(buf_release) struct buf b = {0};
    CLEANUP(arena_release) struct arena a = {0};
    const struct json *v;
    int64_t last = 0;
    int err = keeper_get(k, DAG_HEAD, &b, NULL);

    if (!err) {
        v = json_parse(&a, buf_str(&b), NULL);
        if (json_get_int(v, "client", &saved->client, NULL) != 1 ||
            json_get_int(v, "last", &last, NULL) != 1)
            err = DROVER_DAMAGED;
        saved->last = (uint64_t)last;
    }
    return err;
}

/* Names: the buckets of one kind, and their contents. */

typedef int note_fn(struct keeper *k, struct dag_saved *saved, const char *name);

static void note_text(struct saved_texts *t, uint64_t id)
{
    mem_grow(t->items, t->count, t->cap);
    t->items[t->count++] = (struct saved_text){.id = id};
}

static int note_chunk(struct keeper *k, struct dag_saved *saved, const char *name)
{
    uint64_t first = strtoull(name, NULL, 10);
    char path[DAG_PATH_LEN];

    if (first <= saved->last) {
        note_text(&saved->chunks, first);
        return 0;
    }
    dag_path(path, BUCKET_SPECS,
             first); /* the head does not count it: its request did not commit */
    return keeper_delete(k, path, KEEPER_ANY_VERSION);
}

static int note_record(struct keeper *k, struct dag_saved *saved, const char *name)
{
    (void)k;
    note_text(&saved->records, strtoull(name, NULL, 10));
    return 0;
}

static int note_slot(struct keeper *k, struct dag_saved *saved, const char *name)
{
    struct saved_slot s = {0};

    (void)k;
    if (sscanf(name, "%" SCNu64 "-%" SCNu32, &s.id, &s.number) != 2)
        return DROVER_DAMAGED;
    mem_grow(saved->slots, saved->slot_count, saved->slot_cap);
    saved->slots[saved->slot_count++] = s;
    return 0;
}

static int note_bucket(struct keeper *k, struct dag_saved *saved, const char *bucket, note_fn *fn)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    int err = keeper_children(k, bucket, &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++)
        err = fn(k, saved, names.names[i]);
    return err;
}

static int note_kind(struct keeper *k, struct dag_saved *saved, enum bucket_kind kind, note_fn *fn)
{
    static const char *const roots[] = {DAG_ROOT "/specs", DAG_ROOT "/nodes", DAG_ROOT "/slots"};
    struct keeper_names names = {0};
    char path[DAG_PATH_LEN];
    int err = keeper_children(k, roots[kind], &names, NULL);

    if (err)
        return err;
    saved->buckets[kind] = mem_alloc((names.count + 1) * sizeof *saved->buckets[kind]);
    for (size_t i = 0; i < names.count; i++)
        saved->buckets[kind][i] = strtoull(names.names[i], NULL, 10);
    saved->bucket_counts[kind] = names.count;
    if (names.count)
        qsort(saved->buckets[kind], names.count, sizeof *saved->buckets[kind], by_number);
    for (size_t i = 0; i < names.count && !err; i++) {
        dag_bucket_path(path, kind, saved->buckets[kind][i]);
        err = note_bucket(k, saved, path, fn);
    }
    keeper_names_release(&names);
    return err;
}

/* Data. */

struct parallel_read {
    struct keeper *keeper;
    enum bucket_kind kind;
    struct saved_texts *texts;
    atomic_size_t next;
    atomic_int err;
};

static void *read_some(void *arg)
{
    struct parallel_read *r = arg;
    char path[DAG_PATH_LEN];
    size_t at;

    while (!r->err && (at = atomic_fetch_add(&r->next, 1)) < r->texts->count) {
        struct saved_text *t = &r->texts->items[at];

        dag_path(path, r->kind, t->id);
        int err = keeper_get(r->keeper, path, &t->text, NULL);
        if (err)
            r->err = err;
    }
    return NULL;
}

/* This thread reads too; it reads alone if there is little to read or no thread can be started. */
static int read_texts(struct keeper *k, enum bucket_kind kind, struct saved_texts *texts)
{
    struct parallel_read r = {.keeper = k, .kind = kind, .texts = texts};
    pthread_t others[READERS - 1];
    size_t count = 0, want = texts->count / PER_READER_MIN;

    while (count < want && count < READERS - 1 &&
           !thread_start(&others[count], "dag-load", read_some, &r, NULL))
        count++;
    read_some(&r);
    for (size_t i = 0; i < count; i++)
        pthread_join(others[i], NULL);
    if (!r.err && texts->count)
        qsort(texts->items, texts->count, sizeof *texts->items, by_id);
    return r.err;
}

int dag_read(struct keeper *k, struct dag_saved **ret_saved, struct err_info *ret_error)
{
    struct dag_saved *saved = mem_zalloc(sizeof *saved);
    int err = make_all(k);

    if (!err)
        err = read_head(k, saved);
    if (!err)
        err = note_kind(k, saved, BUCKET_SPECS, note_chunk);
    if (!err)
        err = note_kind(k, saved, BUCKET_NODES, note_record);
    if (!err)
        err = note_kind(k, saved, BUCKET_SLOTS, note_slot);
    if (!err)
        err = read_texts(k, BUCKET_SPECS, &saved->chunks);
    if (!err)
        err = read_texts(k, BUCKET_NODES, &saved->records);
    if (err) {
        dag_saved_free(saved);
        return err_set(ret_error, err, "dag: cannot read the stored state: %s",
                       drover_err_message(err));
    }
    *ret_saved = saved;
    return 0;
}
