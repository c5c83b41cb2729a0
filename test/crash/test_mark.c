/*
 * A journal that lost its end, and the mark that tells. After a clean stop, and after a kill, the
 * last segment is cut at every record and in between, emptied or removed: the start is refused,
 * says which file and how far it should reach, and changes nothing, unless nothing was lost. A
 * salvage then keeps what is left. That no crash leads to a refusal is what the other tests of this
 * directory show: the mark is in all their images.
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "damage.h"
#include "fs_faulty.h"
#include "keeper/journal/format.h"
#include "keeper/journal/mark.h"
#include "keeper/journal/record.h"

/* The stride of cuts between records: every byte takes a minute. */
static size_t stride(void)
{
    return soaking() ? 1 : is_short_run() ? 37 : 5;
}

static const char *last_segment(const struct subject *sub)
{
    return image_name(&sub->im, "journal-", -1);
}

/* Where the last transaction ends in the last segment that has any. */
static const struct place *last_record(const struct subject *sub)
{
    return &sub->records[sub->record_count - 1];
}

/* Enough for three segments; the last one has a few records too. */
static void three_segments(struct subject *sub, struct store *s)
{
    static char data[30000];

    memset(data, 'x', sizeof data);
    must(keeper_create(s->k, "/big", STR(""), 0, NULL));
    subject_did(sub, s);
    for (int i = 0; i < 20; i++) {
        must(keeper_set(s->k, "/big", (struct str){data, i < 18 ? sizeof data : 100}, i, NULL));
        subject_did(sub, s);
    }
}

static void with_snapshots(struct subject *sub, struct store *s)
{
    subject_few_records(sub, s);
    must(local_snapshot(s->l));
    must(keeper_create(s->k, "/between", STR(""), 0, NULL));
    subject_did(sub, s);
    must(local_snapshot(s->l));
    must(keeper_create(s->k, "/after", STR(""), 0, NULL));
    subject_did(sub, s);
    must(keeper_set(s->k, "/after", STR("the snapshots"), 0, NULL));
    subject_did(sub, s);
}

static subject_fn *const WORKS[] = {subject_few_records, three_segments, with_snapshots};

enum { WORK_COUNT = sizeof WORKS / sizeof *WORKS };

static bool all_zero(const char *p, size_t len)
{
    while (len && !*p)
        p++, len--;
    return !len;
}

/* Cuts the last segment here: refused if a transaction is lost, else everything is found. */
static void cut_clean(struct subject *sub, size_t len, size_t whole_len)
{
    const struct place *last = last_record(sub);
    struct buf *segment = image_find(&sub->im, last->name);
    char reach[64];

    doing("%s cut at %zu of %zu", last->name, len, whole_len);
    segment->len = len;
    subject_restore(sub);
    snprintf(reach, sizeof reach, "offset %zu (transaction %lld)", last->at + last->whole,
             (long long)last->lsn);
    size_t end = last->at + last->whole;
    if (len >= end) {
        bool torn = len < whole_len && !all_zero(segment->p + end, len - end);
        expect_readable(sub, last->lsn, torn ? last->name : NULL);
    } else if (len >= FORMAT_HEADER_LEN) {
        expect_refused(sub, DROVER_DAMAGED, last->name, reach);
    } else {
        expect_refused(sub, DROVER_DAMAGED, last->name, "it has no header");
    }
    segment->len = whole_len;
    done();
}

/* The record after the last one is the mark in the segment: a part of it is a torn tail. */
static void cut_after_a_clean_stop(void **state)
{
    (void)state;
    for (int i = 0; i < WORK_COUNT; i++) {
        struct subject sub;

        subject_make(&sub, WORKS[i]);
        size_t end = last_record(&sub)->at + last_record(&sub)->whole + RECORD_HEADER_LEN;
        for (size_t r = 0; r < sub.record_count; r++)
            if (strcmp(sub.records[r].name, last_record(&sub)->name) == 0)
                cut_clean(&sub, sub.records[r].at, end);
        for (size_t len = 0; len <= end; len += stride() * (1 + end / 1000))
            cut_clean(&sub, len, end);
        subject_release(&sub);
    }
}

static void the_last_segment_is_gone(void **state)
{
    (void)state;
    for (int i = 0; i < WORK_COUNT; i++) {
        struct subject sub;
        char name[32];

        subject_make(&sub, WORKS[i]);
        snprintf(name, sizeof name, "%s", last_segment(&sub));
        file_remove(sub.dir, name);
        expect_refused(&sub, DROVER_DAMAGED, name, "is missing");
        subject_release(&sub);
    }
}

static void everything_is_gone(void **state)
{
    struct subject sub;
    const char *name;

    (void)state;
    subject_make(&sub, subject_few_records);
    while ((name = image_name(&sub.im, "journal-", 0)))
        image_remove(&sub.im, name);
    subject_restore(&sub);
    expect_refused(&sub, DROVER_DAMAGED, "journal-0000000001 is missing", "transaction 9");
    subject_release(&sub);
}

/* Starts that change nothing keep what was claimed before them, about an older segment. */
static void cut_after_idle_starts(void **state)
{
    struct fs_faulty *quick = fs_faulty_new();
    struct subject sub;

    (void)state;
    subject_make(&sub, subject_few_records);
    for (int i = 0; i < 2; i++) {
        struct store *s = store_new();
        must(store_open(s, sub.dir, &quick->fs));
        store_leave(s);
        store_free(s);
    }
    fs_faulty_free(quick);
    image_release(&sub.im);
    image_read(&sub.im, sub.dir);
    expect_readable(&sub, sub.zxid, NULL);
    image_find(&sub.im, last_record(&sub)->name)->len = last_record(&sub)->at;
    subject_restore(&sub);
    expect_refused(&sub, DROVER_DAMAGED, last_record(&sub)->name, "(transaction 9)");
    subject_release(&sub);
}

/* The directory as it is while the store runs, which is what a kill leaves. */
static void subject_kill(struct subject *sub, subject_fn *work, enum local_mode mode)
{
    struct fs_faulty *quick = fs_faulty_new();
    struct store *s = store_new();
    struct local_options o;

    *sub = (struct subject){.dir = dir_make()};
    o = store_options(s, sub->dir, &quick->fs);
    o.mode = mode;
    must(store_open_with(s, &o));
    subject_did(sub, s);
    must(store_connect(s));
    subject_did(sub, s);
    work(sub, s);
    must(keeper_sync(s->k, "/"));
    sub->zxid = store_zxid(s);
    if (mode == LOCAL_OPPORTUNISTIC)
        must(local_snapshot(s->l)); /* which syncs the journal */
    image_read(&sub->im, sub->dir);
    store_leave(s);
    store_free(s);
    fs_faulty_free(quick);
    subject_restore(sub);
}

static void expect_kill_is_survived(struct subject *sub)
{
    subject_restore(sub);
    expect_readable(sub, sub->zxid, NULL);
}

static void cut_after_a_kill(struct subject *sub)
{
    char name[32];

    snprintf(name, sizeof name, "%s", last_segment(sub));
    struct buf *segment = image_find(&sub->im, name);
    size_t whole_len = segment->len;
    for (size_t len = FORMAT_HEADER_LEN; len < whole_len; len += whole_len / 97 * stride()) {
        doing("%s cut at %zu", name, len);
        segment->len = len;
        subject_restore(sub);
        expect_refused(sub, DROVER_DAMAGED, name, "bytes, but it was made with");
    }
    segment->len = whole_len;
    done();
}

static void a_kill(void **state)
{
    (void)state;
    for (int i = 0; i < WORK_COUNT; i++)
        for (int mode = LOCAL_STRICT; mode <= LOCAL_OPPORTUNISTIC; mode++) {
            struct subject sub;

            subject_kill(&sub, WORKS[i], (enum local_mode)mode);
            expect_kill_is_survived(&sub);
            cut_after_a_kill(&sub);
            subject_release(&sub);
        }
}

/* The segment that was written last, not one that was made ahead of need. */
static const char *last_with_records(const struct subject *sub)
{
    static const char zeros[RECORD_HEADER_LEN];
    int nth = -1;

    while (
        memcmp(image_find(&sub->im, image_name(&sub->im, "journal-", nth))->p + FORMAT_HEADER_LEN,
               zeros, sizeof zeros) == 0)
        nth--;
    return image_name(&sub->im, "journal-", nth);
}

static void a_segment_is_gone_after_a_kill(void **state)
{
    struct subject sub;
    char name[32];

    (void)state;
    subject_kill(&sub, three_segments, LOCAL_STRICT);
    snprintf(name, sizeof name, "%s", last_with_records(&sub));
    while (strcmp(last_segment(&sub), name) != 0)
        image_remove(&sub.im, last_segment(&sub));
    subject_restore(&sub);
    expect_readable(&sub, sub.zxid, NULL);
    file_remove(sub.dir, name);
    expect_refused(&sub, DROVER_DAMAGED, name, "is missing");
    subject_release(&sub);
}

/* Versions before the mark cut tails without telling it. */
static void an_older_version_was_here(void **state)
{
    struct subject sub;
    char header[FORMAT_HEADER_LEN], name[32];
    struct format_header h;

    (void)state;
    subject_kill(&sub, subject_few_records, LOCAL_STRICT);
    snprintf(name, sizeof name, "%s", last_with_records(&sub));
    while (strcmp(last_segment(&sub), name) != 0)
        image_remove(&sub.im, last_segment(&sub));
    struct buf *segment = image_find(&sub.im, name);
    while (!segment->p[segment->len - 1])
        segment->len--;
    segment->len += -segment->len % RECORD_ALIGN;
    must(format_header_read(segment->p, FORMAT_SEGMENT, &h));
    h.number++;
    h.made_len = 0;
    format_header_put(header, &h);
    buf_put(image_add(&sub.im, "journal-0000000002"), header, sizeof header);
    expect_kill_is_survived(&sub);
    image_remove(&sub.im, "journal-0000000002");
    subject_restore(&sub);
    expect_refused(&sub, DROVER_DAMAGED, name, "bytes, but it was made with");
    subject_release(&sub);
}

/* The mark itself. */

static void a_damaged_mark(void **state)
{
    struct subject sub, other;

    (void)state;
    subject_make(&sub, subject_few_records);
    subject_make(&other, subject_few_records);
    for (size_t bit = 0; bit < MARK_LEN * 8; bit += 1 + short_run_stride(30)) {
        file_flip(sub.dir, "mark", bit);
        expect_readable(&sub, sub.zxid, NULL); /* the other slot says the same */
        file_flip(sub.dir, "mark", bit);
    }
    file_flip(sub.dir, "mark", 100);
    file_flip(sub.dir, "mark", MARK_SLOT_LEN * 8 + 100);
    expect_refused(&sub, DROVER_DAMAGED, "mark is damaged", "fsck --salvage");
    file_write(sub.dir, "mark", &(struct buf){0});
    expect_refused(&sub, DROVER_DAMAGED, "mark is damaged", "fsck --salvage");
    file_write(sub.dir, "mark", image_find(&other.im, "mark"));
    expect_refused(&sub, DROVER_DAMAGED, "mark belongs to another store", "fsck --salvage");
    file_remove(sub.dir, "mark");
    expect_found(&sub, sub.zxid, NULL);
    subject_release(&other);
    subject_release(&sub);
}

static void a_mark_of_a_newer_version(void **state)
{
    struct subject sub;

    (void)state;
    subject_make(&sub, subject_few_records);
    struct buf *mark = image_find(&sub.im, "mark");
    for (int slot = 0; slot < 2; slot++) {
        char *p = mark->p + (size_t)slot * MARK_SLOT_LEN;
        le_store32(p + 8, 2);
        le_store32(p + 12, 0);
        le_store32(p + 12, crc32c(0, p, MARK_SLOT_LEN));
    }
    subject_restore(&sub);
    expect_refused(&sub, DROVER_NEWER_VERSION, "mark", "newer version");
    subject_release(&sub);
}

/* Salvage. */

static bool agree(void *arg, const char *question)
{
    snprintf(arg, 256, "%s", question);
    return true;
}

/* Keeps everything up to this transaction; then the directory is whole. */
static void salvage(struct subject *sub, int64_t zxid)
{
    char asked[256] = "", want[64];
    FILE *out = fopen("/dev/null", "w");
    struct fsck_options o = {.dir = sub->dir, .salvage = true, .confirm = agree, .arg = asked};
    struct err_info error;

    o.out = out;
    if (fsck_run(&o, &error))
        fail_msg("%s", error.text);
    snprintf(want, sizeof want, "Keep everything up to transaction %lld", (long long)zxid);
    assert_non_null(strstr(asked, want));
    asked[0] = '\0';
    must(fsck_run(&o, &error));
    assert_string_equal(asked, "");
    fclose(out);
    expect_readable(sub, zxid, NULL);
    expect_found(sub, zxid, NULL);
}

static void salvage_after_cuts(void **state)
{
    (void)state;
    for (int i = 0; i < WORK_COUNT; i++) {
        struct subject sub;

        subject_make(&sub, WORKS[i]);
        const struct place *last = last_record(&sub);
        for (size_t part = 0; part < last->whole; part += 8 * short_run_stride(3)) {
            image_find(&sub.im, last->name)->len = last->at + part;
            subject_restore(&sub);
            salvage(&sub, last->lsn - 1);
        }
        subject_release(&sub);
    }
}

static void salvage_what_is_missing(void **state)
{
    struct subject sub;

    (void)state;
    subject_make(&sub, three_segments);
    int64_t lsn = sub.zxid;
    while (strcmp(sub.records[lsn - 1].name, last_segment(&sub)) == 0)
        lsn--;
    file_remove(sub.dir, last_segment(&sub));
    salvage(&sub, lsn);
    subject_release(&sub);
}

static void salvage_a_mark(void **state)
{
    struct subject sub;

    (void)state;
    subject_make(&sub, three_segments);
    file_write(sub.dir, "mark", &(struct buf){0});
    salvage(&sub, sub.zxid);
    subject_release(&sub);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_after_a_clean_stop),
        cmocka_unit_test(the_last_segment_is_gone),
        cmocka_unit_test(everything_is_gone),
        cmocka_unit_test(cut_after_idle_starts),
        cmocka_unit_test(a_kill),
        cmocka_unit_test(a_segment_is_gone_after_a_kill),
        cmocka_unit_test(an_older_version_was_here),
        cmocka_unit_test(a_damaged_mark),
        cmocka_unit_test(a_mark_of_a_newer_version),
        cmocka_unit_test(salvage_after_cuts),
        cmocka_unit_test(salvage_what_is_missing),
        cmocka_unit_test(salvage_a_mark),
    };

    return run_group(tests);
}
