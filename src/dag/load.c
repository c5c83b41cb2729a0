/*
 * Reading back what is kept: once when a server starts, or when it begins to lead.
 *
 * Names first, then the data of what they name. On an ensemble each of those is a round trip, and a
 * graph of 10,000 nodes has 10,000 records, so several threads read, each the next that none has read.
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

static void texts_release(struct kept_texts *t)
{
    for (size_t i = 0; i < t->count; i++)
        buf_release(&t->items[i].text);
    free(t->items);
}

void dag_kept_free(struct dag_kept *kept)
{
    texts_release(&kept->chunks);
    texts_release(&kept->records);
    for (int i = 0; i < BUCKET_KINDS; i++)
        free(kept->buckets[i]);
    free(kept->slots);
    free(kept);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static int by_id(const void *a, const void *b)
{
    return by_number(&((const struct kept_text *)a)->id, &((const struct kept_text *)b)->id);
}

const struct kept_text *dag_kept_record(const struct dag_kept *kept, uint64_t id)
{
    struct kept_text key = {.id = id};

    if (!kept->records.count)
        return NULL;
    return bsearch(&key, kept->records.items, kept->records.count, sizeof key, by_id);
}

/* The head, and the directories, which are made when there are none. */

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

static int read_head(struct keeper *k, struct dag_kept *kept)
{
    struct buf b = {0};
    struct arena a = {0};
    const struct json *v;
    int64_t last = 0;
    int err = keeper_get(k, DAG_HEAD, &b, NULL);

    if (!err) {
        v = json_parse(&a, (struct str){b.p, b.len}, NULL);
        if (json_get_int(v, "client", &kept->client, NULL) != 1 ||
            json_get_int(v, "last", &last, NULL) != 1)
            err = DROVER_DAMAGED;
        kept->last = (uint64_t)last;
    }
    arena_release(&a);
    buf_release(&b);
    return err;
}

/* Names: the buckets of one kind, and what is in each. */

#define GROW(array, count, cap)                                                                    \
    if ((count) == (cap)) {                                                                        \
        (cap) = (cap) ? (cap)*2 : 64;                                                              \
        (array) = mem_realloc((array), (cap) * sizeof *(array));                                   \
    }

typedef int note_fn(struct keeper *k, struct dag_kept *kept, const char *name);

static void note_text(struct kept_texts *t, uint64_t id)
{
    GROW(t->items, t->count, t->cap);
    t->items[t->count++] = (struct kept_text){.id = id};
}

static int note_chunk(struct keeper *k, struct dag_kept *kept, const char *name)
{
    uint64_t first = strtoull(name, NULL, 10);
    char path[DAG_PATH_LEN];

    if (first <= kept->last) {
        note_text(&kept->chunks, first);
        return 0;
    }
    dag_path(path, BUCKET_SPECS, first); /* of a graph that was not finished */
    return keeper_delete(k, path, KEEPER_ANY_VERSION);
}

static int note_record(struct keeper *k, struct dag_kept *kept, const char *name)
{
    (void)k;
    note_text(&kept->records, strtoull(name, NULL, 10));
    return 0;
}

static int note_slot(struct keeper *k, struct dag_kept *kept, const char *name)
{
    struct kept_slot s = {0};

    (void)k;
    if (sscanf(name, "%" SCNu64 "-%" SCNu32, &s.id, &s.number) != 2)
        return DROVER_DAMAGED;
    GROW(kept->slots, kept->slot_count, kept->slot_cap);
    kept->slots[kept->slot_count++] = s;
    return 0;
}

static int note_bucket(struct keeper *k, struct dag_kept *kept, const char *bucket, note_fn *fn)
{
    struct keeper_names names = {0};
    int err = keeper_children(k, bucket, &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++)
        err = fn(k, kept, names.names[i]);
    keeper_names_release(&names);
    return err;
}

static int note_kind(struct keeper *k, struct dag_kept *kept, enum bucket_kind kind, note_fn *fn)
{
    static const char *const roots[] = {DAG_ROOT "/specs", DAG_ROOT "/nodes", DAG_ROOT "/slots"};
    struct keeper_names names = {0};
    char path[DAG_PATH_LEN];
    int err = keeper_children(k, roots[kind], &names, NULL);

    if (err)
        return err;
    kept->buckets[kind] = mem_alloc((names.count + 1) * sizeof *kept->buckets[kind]);
    for (size_t i = 0; i < names.count; i++)
        kept->buckets[kind][i] = strtoull(names.names[i], NULL, 10);
    kept->bucket_counts[kind] = names.count;
    if (names.count)
        qsort(kept->buckets[kind], names.count, sizeof *kept->buckets[kind], by_number);
    for (size_t i = 0; i < names.count && !err; i++) {
        dag_bucket_path(path, kind, kept->buckets[kind][i]);
        err = note_bucket(k, kept, path, fn);
    }
    keeper_names_release(&names);
    return err;
}

/* Data. */

struct reading {
    struct keeper *keeper;
    enum bucket_kind kind;
    struct kept_texts *texts;
    atomic_size_t next;
    atomic_int err;
};

static void *read_some(void *arg)
{
    struct reading *r = arg;
    char path[DAG_PATH_LEN];
    size_t at;

    while (!r->err && (at = atomic_fetch_add(&r->next, 1)) < r->texts->count) {
        struct kept_text *t = &r->texts->items[at];
        int err;

        dag_path(path, r->kind, t->id);
        err = keeper_get(r->keeper, path, &t->text, NULL);
        if (err)
            r->err = err;
    }
    return NULL;
}

/* This thread reads too, and alone where there is little, or where no other can be had. */
static int read_texts(struct keeper *k, enum bucket_kind kind, struct kept_texts *texts)
{
    struct reading r = {.keeper = k, .kind = kind, .texts = texts};
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

int dag_read(struct keeper *k, struct dag_kept **ret_kept, struct err_info *ret_error)
{
    struct dag_kept *kept = mem_zalloc(sizeof *kept);
    int err = make_all(k);

    if (!err)
        err = read_head(k, kept);
    if (!err)
        err = note_kind(k, kept, BUCKET_SPECS, note_chunk);
    if (!err)
        err = note_kind(k, kept, BUCKET_NODES, note_record);
    if (!err)
        err = note_kind(k, kept, BUCKET_SLOTS, note_slot);
    if (!err)
        err = read_texts(k, BUCKET_SPECS, &kept->chunks);
    if (!err)
        err = read_texts(k, BUCKET_NODES, &kept->records);
    if (err) {
        dag_kept_free(kept);
        return err_set(ret_error, err, "dag: cannot read what is kept: %s",
                       drover_err_message(err));
    }
    *ret_kept = kept;
    return 0;
}
