#include "dag/output_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/human.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "dag/output_store_impl.h"

enum { BUCKET_NODES = 1000, WARN_EVERY_MS = 60 * 1000 };

static void put_bucket(const struct output_store *s, uint64_t node, struct buf *b)
{
    buf_printf(b, "%s/%" PRIu64, s->dir, node / BUCKET_NODES);
}

void output_store_path(const struct output_store *s, uint64_t node, uint64_t run, struct buf *b)
{
    put_bucket(s, node, b);
    buf_printf(b, "/%" PRIu64 "-%" PRIu64, node, run);
}

uint64_t output_store_run(struct output_store *s, int64_t now_ms)
{
    uint64_t now = (uint64_t)now_ms;
    s->last_run = now > s->last_run ? now : s->last_run + 1;
    return s->last_run;
}

/* Called by the writers. */

void output_store_failed(struct output_store *s, int error)
{
    int64_t now = clock_boot_ms();
    if (s->warned_ms && now - s->warned_ms < WARN_EVERY_MS)
        return;
    s->warned_ms = now;
    log_warning("cannot write the output of commands to %s: %s; they go on, and bytes that are not "
                "kept are counted",
                s->dir, strerror(error));
}

void output_store_grew(struct output_store *s, uint64_t len)
{
    atomic_fetch_add(&s->used, (int64_t)len);
    if (s->total && atomic_load(&s->used) > s->total && !atomic_exchange(&s->full, true))
        output_store_wake(s);
}

void output_store_shrank(struct output_store *s, uint64_t len)
{
    atomic_fetch_sub(&s->used, (int64_t)len);
}

uint64_t output_store_size(const struct stat *st, bool sealed)
{
    uint64_t len = (uint64_t)st->st_size, blocks = (uint64_t)st->st_blocks * 512;
    return !sealed && blocks < len ? blocks : len;
}

void output_store_count_missing(struct output_store *s, uint64_t bytes)
{
    atomic_fetch_add(&s->missing, bytes);
}

struct output_store_numbers output_store_numbers(const struct output_store *s)
{
    int64_t used = atomic_load(&s->used);
    return (struct output_store_numbers){used > 0 ? (uint64_t)used : 0, atomic_load(&s->missing),
                                         atomic_load(&s->removed)};
}

static int create(struct output_store *s, uint64_t node, uint64_t run, const char *suffix)
{
    CLEANUP(buf_release) struct buf path = {0};
    int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    output_store_path(s, node, run, &path);
    buf_printf(&path, "%s", suffix);
    int fd = open(buf_text(&path), flags, 0600);
    if (fd < 0 && errno == ENOENT) {
        CLEANUP(buf_release) struct buf bucket = {0};
        put_bucket(s, node, &bucket);
        mkdir(buf_text(&bucket), 0700);
        fd = open(path.p, flags, 0600);
    }
    if (fd < 0)
        output_store_failed(s, errno);
    return fd;
}

int output_store_create(struct output_store *s, uint64_t node, uint64_t run)
{
    return create(s, node, run, OUTPUT_SUFFIX_RAW);
}

/* One frame with everything, at once. */
static bool write_sealed(struct output_store *s, const struct output *o)
{
    CLEANUP(buf_release) struct buf b = {0};
    CLEANUP(mem_free) struct output_mark *all = NULL;
    struct output_marks frames = {0};
    output_put_file_head(&b, o->node, o->run, true);
    output_marks_add(&frames, b.len, &(struct output_at){{0, 0}});
    all = frames.all;
    output_put_frame(&b, buf_str(&o->memory));
    output_put_index(&b, &frames, &o->total);
    int fd = create(s, o->node, o->run, OUTPUT_SUFFIX_SEALED);
    if (fd < 0)
        return false;
    bool written = !fs_write_all(&fs_system, fd, b.p, b.len, 0, false);
    if (!written) {
        CLEANUP(buf_release) struct buf path = {0};
        output_store_failed(s, errno);
        output_store_path(s, o->node, o->run, &path);
        buf_printf(&path, OUTPUT_SUFFIX_SEALED);
        unlink(buf_text(&path));
    }
    close(fd);
    if (written)
        output_store_grew(s, b.len);
    return written;
}

bool output_store_keep(struct output_store *s, const struct output *o)
{
    if (o->missing)
        output_store_count_missing(s, o->missing);
    if (!o->file_len)
        return write_sealed(s, o);
    output_store_queue(s, OUTPUT_JOB_SEAL, o->node, o->run);
    return true;
}

void output_store_drop(struct output_store *s, uint64_t node, uint64_t run)
{
    output_store_queue(s, OUTPUT_JOB_DROP, node, run);
}

/* The store. */

static int make_dir(const char *dir, struct err_info *ret_error)
{
    struct stat st;
    CLEANUP(mem_free) char *path = mem_dup(dir, strlen(dir));
    fs_make_parents(path);
    if (mkdir(dir, 0700) && errno != EEXIST)
        return err_set_errno(ret_error, errno, "cannot create the directory of outputs %s", dir);
    int error = stat(dir, &st) ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (!error && faccessat(AT_FDCWD, dir, R_OK | W_OK | X_OK, AT_EACCESS))
        error = errno;
    return error ? err_set_errno(ret_error, error, "cannot use the directory of outputs %s", dir)
                 : 0;
}

int output_store_open(const struct output_store_options *o, struct output_store **ret_store,
                      struct err_info *ret_error)
{
    TRY(make_dir(o->dir, ret_error));
    struct output_store *s = mem_zalloc(sizeof *s);
    s->dir = mem_dup(o->dir, strlen(o->dir));
    s->total = o->total;
    s->is_shared = o->is_shared;
    s->opened_ms = clock_wall_ms();
    s->last_run = (uint64_t)s->opened_ms;
    s->last_job = &s->jobs;
    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->cond);
    int err = thread_start(&s->thread, "outputs", output_store_main, s, ret_error);
    if (err) {
        free(s->dir);
        free(s);
        return err;
    }
    *ret_store = s;
    return 0;
}

void output_store_set_total(struct output_store *s, int64_t total)
{
    s->total = total;
    output_store_grew(s, 0);
}

void output_store_close(struct output_store *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->stopping, true);
    pthread_cond_broadcast(&s->cond);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    for (struct output_job *j = s->jobs, *next; j; j = next) {
        next = j->next;
        free(j->names);
        free(j);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->cond);
    free(s->dir);
    free(s);
}
