/*
 * The thread of the store: seals, removes, and counts. It may take long, so it has the lowest
 * priority, and stops between two files when the store is closed: what is left is done after the
 * next start.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/human.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "dag/output_store_impl.h"

enum { LOWEST_PRIORITY = 19 };
#define SUFFIX_TEMPORARY ".tmp"

/* Sealing. */

/* Adds a block of records as a frame. Checks them, and moves the position on. */
static int put_block(struct output_file *f, struct output_at *at, struct output_marks *frames,
                     uint64_t file_at, struct buf *out)
{
    size_t done = 0;
    output_marks_add(frames, file_at, at);
    while (done < f->block.len) {
        struct output_record r;
        ssize_t len = output_read_record(f->block.p + done, f->block.len - done, false, &r);
        if (len <= 0)
            return DROVER_DAMAGED;
        if (r.kind == OUTPUT_GAP) {
            uint64_t numbers[3] = {r.numbers[0], r.numbers[1], 0}; /* there is no hole any more */
            struct buf gap = {0};
            at->of[0] += numbers[0];
            at->of[1] += numbers[1];
            output_put_numbers(&gap, OUTPUT_GAP, r.time_ms, numbers);
            memcpy(f->block.p + done, gap.p, gap.len);
            buf_release(&gap);
        } else {
            at->of[r.kind] += r.data.len;
        }
        done += (size_t)len;
    }
    output_put_frame(out, buf_str(&f->block));
    return 0;
}

static int write_frames(struct output_store *s, struct output_file *f, int to, uint64_t node,
                        uint64_t run, uint64_t *ret_len)
{
    CLEANUP(buf_release) struct buf out = {0};
    struct output_marks frames = {0};
    struct output_at at = {{0, 0}};
    uint64_t len = 0;
    int err = 0;
    output_put_file_head(&out, node, run, true);
    do {
        err = output_file_next(f);
        if (!err && f->block.len)
            err = put_block(f, &at, &frames, len + out.len, &out);
        if (!err && !f->block.len)
            output_put_index(&out, &frames, &f->total);
        if (!err && fs_write_all(&fs_system, to, out.p, out.len, (off_t)len, false))
            err = errno == ENOSPC || errno == EDQUOT ? DROVER_DISK_FULL : DROVER_IO;
        len += out.len;
        out.len = 0;
        if (!err && atomic_load(&s->stopping))
            err = DROVER_CLOSED;
    } while (!err && f->block.len);
    free(frames.all);
    *ret_len = len;
    return err;
}

/* Replaces the file of a run by a sealed one. In each state of the disk one of the two is whole. */
static int seal_file(struct output_store *s, struct output_file *f, const char *path, uint64_t node,
                     uint64_t run)
{
    CLEANUP(buf_release) struct buf temporary = {0}, sealed = {0}, raw = {0};
    struct stat st = {0};
    uint64_t len = 0;
    buf_printf(&temporary, "%s" SUFFIX_TEMPORARY, path);
    buf_printf(&sealed, "%s" OUTPUT_SUFFIX_SEALED, path);
    buf_printf(&raw, "%s" OUTPUT_SUFFIX_RAW, path);
    int to =
        open(buf_text(&temporary), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0)
        return DROVER_IO;
    fstat(f->fd, &st);
    int err = write_frames(s, f, to, node, run, &len);
    if (!err && (fdatasync(to) || rename(temporary.p, buf_text(&sealed))))
        err = DROVER_IO;
    close(to);
    if (err) {
        unlink(temporary.p);
        return err;
    }
    output_store_grew(s, len);
    if (!unlink(buf_text(&raw)))
        output_store_shrank(s, output_store_size(&st, false));
    return 0;
}

static void seal(struct output_store *s, uint64_t node, uint64_t run)
{
    CLEANUP(buf_release) struct buf path = {0};
    struct output_file f;
    struct err_info why;
    output_store_path(s, node, run, &path);
    int err = output_file_open(&f, buf_text(&path), node, run, &why);
    if (!err && f.damaged)
        log_error("%s" OUTPUT_SUFFIX_RAW " is damaged: what is behind %" PRIu64
                  " bytes cannot be read",
                  path.p, f.len);
    if (!err && !f.sealed && !f.damaged)
        err = seal_file(s, &f, path.p, node, run);
    if (err && err != DROVER_NO_NODE && err != DROVER_CLOSED)
        log_warning("cannot compress the output of node %" PRIu64 ": %s; it stays as it is", node,
                    drover_err_message(err));
    output_file_close(&f);
}

/* Removing. */

static bool remove_path(struct output_store *s, const char *path)
{
    struct stat st;
    if (stat(path, &st) || unlink(path))
        return false;
    output_store_shrank(s, output_store_size(&st, strstr(path, OUTPUT_SUFFIX_SEALED) != NULL));
    return true;
}

static void drop(struct output_store *s, uint64_t node, uint64_t run)
{
    static const char *const suffixes[] = {OUTPUT_SUFFIX_SEALED, OUTPUT_SUFFIX_RAW,
                                           SUFFIX_TEMPORARY};
    CLEANUP(buf_release) struct buf path = {0};
    output_store_path(s, node, run, &path);
    size_t len = path.len;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        path.len = len;
        buf_printf(&path, "%s", suffixes[i]);
        remove_path(s, buf_text(&path));
    }
    *strrchr(path.p, '/') = '\0';
    rmdir(path.p); /* if it was the last */
}

/* The files, in the order of their nodes. */

struct listed {
    struct output_name name;
    char suffix[8];
};

struct list {
    struct listed *all;
    size_t count, cap;
};

static int by_name(const void *a, const void *b)
{
    const struct output_name *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->run < y->run ? -1 : x->run > y->run;
}

/* The entries of a directory whose names begin with a number. */
static void list_dir(const char *path, struct list *l)
{
    DIR *dir = opendir(path);
    l->count = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct listed one = {0};
        if (sscanf(e->d_name, "%" SCNu64 "-%" SCNu64 "%7s", &one.name.node, &one.name.run,
                   one.suffix) < 1)
            continue;
        mem_grow(l->all, l->count, l->cap);
        l->all[l->count++] = one;
    }
    if (dir)
        closedir(dir);
    if (l->count)
        qsort(l->all, l->count, sizeof *l->all, by_name);
}

uint64_t output_store_find(struct output_store *s, uint64_t node)
{
    CLEANUP(buf_release) struct buf path = {0};
    struct list files = {0};
    uint64_t run = 0;
    output_store_path(s, node, 0, &path);
    *strrchr(buf_text(&path), '/') = '\0';
    list_dir(path.p, &files);
    for (size_t i = 0; i < files.count; i++)
        if (files.all[i].name.node == node && files.all[i].name.run > run)
            run = files.all[i].name.run;
    free(files.all);
    return run;
}

/* Calls fn for each file, the oldest first, until that returns false. */
static void each_file(struct output_store *s,
                      bool (*fn)(struct output_store *s, const struct listed *one, void *arg),
                      void *arg)
{
    struct list buckets = {0}, files = {0};
    CLEANUP(buf_release) struct buf path = {0};
    bool more = true;
    list_dir(s->dir, &buckets);
    for (size_t i = 0; i < buckets.count && more; i++) {
        path.len = 0;
        buf_printf(&path, "%s/%" PRIu64, s->dir, buckets.all[i].name.node);
        list_dir(buf_text(&path), &files);
        for (size_t k = 0; k < files.count && more; k++)
            more = !atomic_load(&s->stopping) && fn(s, &files.all[k], arg);
        if (!files.count)
            rmdir(path.p);
    }
    free(buckets.all);
    free(files.all);
}

static void put_path(struct output_store *s, const struct listed *one, struct buf *b)
{
    output_store_path(s, one->name.node, one->name.run, b);
    buf_printf(b, "%s", one->suffix);
}

/* After a start. Files of runs of this process are none of the old ones. */
static bool know_file(struct output_store *s, const struct listed *one, void *arg)
{
    const struct output_job *j = arg;
    CLEANUP(buf_release) struct buf path = {0};
    struct stat st;
    bool known = j->count && bsearch(&one->name, j->names, j->count, sizeof *j->names, by_name);
    if (one->name.run >= (uint64_t)s->opened_ms)
        return true;
    put_path(s, one, &path);
    if (!stat(buf_text(&path), &st))
        atomic_fetch_add(
            &s->used, (int64_t)output_store_size(&st, !strcmp(one->suffix, OUTPUT_SUFFIX_SEALED)));
    if (!strcmp(one->suffix, SUFFIX_TEMPORARY) || (!known && !s->is_shared))
        remove_path(s, path.p);
    else if (!strcmp(one->suffix, OUTPUT_SUFFIX_RAW) && !s->is_shared)
        seal(s, one->name.node, one->name.run);
    return true;
}

/* The total is reached: the oldest go, down to nine tenths. Those of runs that go on stay. */
static bool evict_file(struct output_store *s, const struct listed *one, void *arg)
{
    CLEANUP(buf_release) struct buf path = {0};
    (void)arg;
    if (!s->total || atomic_load(&s->used) <= s->total / 10 * 9)
        return false;
    put_path(s, one, &path);
    if (!strcmp(one->suffix, OUTPUT_SUFFIX_SEALED) && remove_path(s, buf_text(&path)))
        atomic_fetch_add(&s->removed, 1);
    return true;
}

static void evict(struct output_store *s)
{
    uint64_t before = atomic_load(&s->removed);
    char total[HUMAN_SIZE];
    each_file(s, evict_file, NULL);
    if (atomic_load(&s->removed) > before)
        log_info("removed the outputs of the oldest %" PRIu64 " runs: all together had more than "
                 "%s (--output-total)",
                 (uint64_t)atomic_load(&s->removed) - before,
                 human_size(total, (uint64_t)s->total));
}

/* The queue. */

static void enqueue(struct output_store *s, struct output_job *j)
{
    LOCKED(&s->lock);
    j->next = NULL;
    *s->last_job = j;
    s->last_job = &j->next;
    pthread_cond_broadcast(&s->cond);
}

void output_store_queue(struct output_store *s, enum output_job_kind kind, uint64_t node,
                        uint64_t run)
{
    struct output_job *j = mem_zalloc(sizeof *j);
    *j = (struct output_job){.kind = kind, .node = node, .run = run};
    enqueue(s, j);
}

void output_store_know(struct output_store *s, struct output_name *names, size_t count)
{
    struct output_job *j = mem_zalloc(sizeof *j);
    if (count)
        qsort(names, count, sizeof *names, by_name);
    *j = (struct output_job){.kind = OUTPUT_JOB_KNOW, .names = names, .count = count};
    enqueue(s, j);
}

void output_store_wake(struct output_store *s)
{
    LOCKED(&s->lock);
    pthread_cond_broadcast(&s->cond);
}

void output_store_settle(struct output_store *s)
{
    LOCKED(&s->lock);
    while (s->jobs || s->busy || atomic_load(&s->full))
        cond_wait_until(&s->cond, &s->lock, INT64_MAX);
}

/* The next job, or NULL: the total is reached, or the store is closed. */
static struct output_job *take(struct output_store *s)
{
    LOCKED(&s->lock);
    s->busy = false;
    pthread_cond_broadcast(&s->cond);
    while (!s->jobs && !atomic_load(&s->full) && !atomic_load(&s->stopping))
        cond_wait_until(&s->cond, &s->lock, INT64_MAX);
    struct output_job *j = atomic_load(&s->stopping) ? NULL : s->jobs;
    if (j && !(s->jobs = j->next))
        s->last_job = &s->jobs;
    s->busy = true;
    return j;
}

void *output_store_main(void *store)
{
    struct output_store *s = store;
    setpriority(PRIO_PROCESS, (id_t)gettid(), LOWEST_PRIORITY);
    while (!atomic_load(&s->stopping)) {
        struct output_job *j = take(s);
        if (j && j->kind == OUTPUT_JOB_SEAL)
            seal(s, j->node, j->run);
        else if (j && j->kind == OUTPUT_JOB_DROP)
            drop(s, j->node, j->run);
        else if (j)
            each_file(s, know_file, j);
        if (j)
            free(j->names);
        free(j);
        output_store_grew(s, 0); /* what was there already may be too much */
        if (atomic_load(&s->full)) {
            evict(s);
            atomic_store(&s->full, false);
        }
    }
    return NULL;
}
