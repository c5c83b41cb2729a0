/*
 * Strict: when a change is acknowledged, no part of the journal that it needs can be lost in a
 * power failure. A write that syncs itself covers only its own bytes, so a missing sync is not the
 * only possible error: a change may follow a mark, which is written and not synced, or need several
 * writes.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"
#include "files.h"
#include "fs_faulty.h"
#include "keeper/journal/format.h"
#include "keeper/journal/record.h"
#include "store.h"

enum { ACKNOWLEDGED = 1, LARGE_LEN = 200 * 1000, SEGMENT_LEN = 4 * 1024 * 1024 };

static bool is_of_journal(const struct fs_event *e)
{
    return !strncmp(e->name, "journal-", strlen("journal-"));
}

/* The last thing that was done to the journal is a write. */
static bool has_mark(void *arg)
{
    struct fs_faulty *f = arg;
    bool written = false;

    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < f->event_count; i++)
        if (is_of_journal(&f->events[i]) &&
            (f->events[i].op == FS_PWRITE || f->events[i].op == FS_FDATASYNC))
            written = f->events[i].op == FS_PWRITE;
    pthread_mutex_unlock(&f->lock);
    return written;
}

static void set(struct store *s, struct fs_faulty *f, size_t len)
{
    static char data[LARGE_LEN];

    memset(data, 'x', len);
    must(keeper_set(s->k, "/n", (struct str){data, len}, KEEPER_ANY_VERSION, NULL));
    fs_faulty_note(f, ACKNOWLEDGED);
}

/* Where the journal, in its one segment, ends now. */
static size_t end_of_journal(struct store *s)
{
    struct local_stats stats;

    local_stats(s->l, &stats);
    return FORMAT_HEADER_LEN + (size_t)stats.journal_bytes;
}

/*
 * A mark that begins in one block and ends in the next, and a change behind it, whose write does
 * not touch the block that the mark begins in.
 */
static void set_behind_mark_across_blocks(struct store *s, struct fs_faulty *f)
{
    size_t before, overhead, end;

    do {
        before = end_of_journal(s);
        set(s, f, 100);
        end = end_of_journal(s);
        overhead = end - before - 100;
        set(s, f, 2 * FS_BLOCK_LEN - end % FS_BLOCK_LEN - overhead - RECORD_HEADER_LEN / 2);
        wait_until(has_mark, f);
        before = end_of_journal(s);
    } while (before % FS_BLOCK_LEN >=
             RECORD_HEADER_LEN); /* one came in between, or none does yet */
    set(s, f, 10);
}

static void write_all_kinds(struct store *s, struct fs_faulty *f)
{
    for (size_t i = 0; i < 4; i++) {
        set(s, f, 10);
        set(s, f, LARGE_LEN);
        wait_until(has_mark, f);
        set(s, f, 1000 * i);
        wait_until(has_mark, f);
        set(s, f, LARGE_LEN);
        set_behind_mark_across_blocks(s, f);
    }
}

static size_t count_unsynced(const struct disk *d)
{
    size_t count = 0;

    for (size_t i = 0; i < d->now.count; i++) {
        const struct disk_file *file = &d->files[d->now.files[i]];

        if (!strncmp(d->now.names[i], "journal-", strlen("journal-")))
            count += file->now.len != file->synced.len ||
                     memcmp(file->now.p, file->synced.p, file->now.len) != 0;
    }
    return count;
}

static void what_is_acknowledged_is_on_disk(void **state)
{
    struct fs_faulty *f = fs_faulty_new();
    struct store *s = store_new();
    struct image nothing = {0};
    char *dir = dir_make();
    size_t seen = 0;
    struct local_options o;
    struct disk d;

    (void)state;
    f->recording = true;
    o = store_options(s, dir, &f->fs);
    o.segment_len = SEGMENT_LEN;
    must(store_open_with(s, &o));
    must(store_connect(s));
    must(keeper_create(s->k, "/n", STR(""), 0, NULL));
    fs_faulty_note(f, ACKNOWLEDGED);
    write_all_kinds(s, f);
    store_close(s);
    disk_init(&d, &nothing);
    for (size_t i = 0; i < f->event_count; i++) {
        const struct fs_event *e = &f->events[i];

        disk_apply(&d, e);
        if (e->op != FS_NOTE)
            continue;
        seen++;
        assert_int_equal(count_unsynced(&d), 0);
    }
    assert_true(seen >= 29);
    disk_release(&d);
    store_free(s);
    fs_faulty_free(f);
    dir_remove(dir);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_acknowledged_is_on_disk),
    };

    return run_group(tests);
}
