/*
 * Snapshots that are truncated or corrupted. Two are kept, so a damaged one is skipped with a
 * message, and the older one and the journal give the same tree; if there is no other, the start is
 * refused.
 */
#include <stdio.h>

#include "base/crc32c.h"
#include "damage.h"
#include "fs_faulty.h"
#include "keeper/journal/format.h"

static void work(struct subject *sub, struct store *s, int count)
{
    static char data[3000];
    char path[16];

    memset(data, 'y', sizeof data);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/%d", (int)store_zxid(s));
        must(keeper_create(s->k, path, (struct str){data, (size_t)i * 700 % sizeof data},
                           i % 3 == 2 ? KEEPER_EPHEMERAL : 0, NULL));
        subject_did(sub, s);
    }
}

static void one_snapshot(struct subject *sub, struct store *s)
{
    work(sub, s, 5);
    must(local_snapshot(s->l));
    work(sub, s, 5);
}

/* Of which the first is dropped again, and the segments before the second. */
static void three_snapshots(struct subject *sub, struct store *s)
{
    one_snapshot(sub, s);
    must(local_snapshot(s->l));
    work(sub, s, 5);
    must(local_snapshot(s->l));
    work(sub, s, 5);
}

/* Cuts everywhere near the ends, and here and there between. */
static void cut_the_newest(void **state)
{
    struct subject sub;
    struct buf *bytes;
    const char *name;
    size_t whole, stride;

    (void)state;
    subject_make(&sub, three_snapshots);
    name = image_name(&sub.im, "snapshot-", -1);
    bytes = image_find(&sub.im, name);
    whole = bytes->len;
    stride = short_run_stride(5);
    for (size_t len = 0; len < whole;
         len += len < 200 || len + 100 > whole ? stride : 37 * stride) {
        bytes->len = len;
        file_write(sub.dir, name, bytes);
        expect_readable(&sub, sub.zxid, name);
    }
    bytes->len = whole;
    subject_restore(&sub);
    expect_readable(&sub, sub.zxid, NULL);
    subject_release(&sub);
}

static void flip_the_newest(void **state)
{
    struct subject sub;
    const char *name;
    size_t bits, stride;

    (void)state;
    subject_make(&sub, three_snapshots);
    name = image_name(&sub.im, "snapshot-", -1);
    bits = image_find(&sub.im, name)->len * 8;
    stride = short_run_stride(5);
    for (size_t bit = 0; bit < bits; bit += bit < 1200 || bit + 500 > bits ? stride : 91 * stride) {
        file_flip(sub.dir, name, bit);
        expect_readable(&sub, sub.zxid, name);
        file_flip(sub.dir, name, bit);
    }
    expect_readable(&sub, sub.zxid, NULL);
    subject_release(&sub);
}

static void more_behind_the_end_of_the_newest(void **state)
{
    struct subject sub;
    const char *name;

    (void)state;
    subject_make(&sub, three_snapshots);
    name = image_name(&sub.im, "snapshot-", -1);
    buf_put_u8(image_find(&sub.im, name), 0);
    subject_restore(&sub);
    expect_found(&sub, sub.zxid, name);
    subject_release(&sub);
}

/* After a fallback the next snapshots replace the damaged one. */
static void work_goes_on_from_the_older_one(void **state)
{
    struct fs_faulty *quick = fs_faulty_new();
    struct store *s = store_new();
    struct subject sub;
    struct err_info error;
    char *text, *again;
    int64_t zxid;

    (void)state;
    subject_make(&sub, three_snapshots);
    file_flip(sub.dir, image_name(&sub.im, "snapshot-", -1), 2000);
    must(store_open(s, sub.dir, &quick->fs));
    must(store_connect(s));
    for (int i = 0; i < 3; i++) {
        must(local_snapshot(s->l));
        work(&sub, s, 3);
    }
    text = store_text(s);
    store_leave(s);
    must(dir_text(sub.dir, &again, &zxid, &error));
    expect_text("after three more snapshots", text, again);
    free(text);
    free(again);
    store_free(s);
    fs_faulty_free(quick);
    subject_release(&sub);
}

static void nothing_to_fall_back_on(void **state)
{
    struct subject sub;

    (void)state;
    subject_make(&sub, three_snapshots);
    assert_null(image_name(&sub.im, "snapshot-", 2));
    for (int nth = 0; nth < 2; nth++)
        file_flip(sub.dir, image_name(&sub.im, "snapshot-", nth), 2000);
    expect_refused(&sub, DROVER_DAMAGED, "journal-0000000001 is missing", "snapshot");
    subject_release(&sub);
}

/* Nothing was dropped yet: the journal alone is complete. */
static void the_only_one_is_damaged(void **state)
{
    struct subject sub;
    const char *name;

    (void)state;
    subject_make(&sub, one_snapshot);
    name = image_name(&sub.im, "snapshot-", 0);
    file_flip(sub.dir, name, 2000);
    expect_found(&sub, sub.zxid, name);
    subject_restore(&sub);
    file_remove(sub.dir, name);
    expect_found(&sub, sub.zxid, NULL);
    subject_release(&sub);
}

/* A snapshot is useless without the journal from the segment that it names. */
static void the_journal_after_it_is_missing(void **state)
{
    struct subject sub;
    const char *name;

    (void)state;
    subject_make(&sub, one_snapshot);
    name = image_name(&sub.im, "journal-", -1);
    file_remove(sub.dir, name);
    expect_refused(&sub, DROVER_DAMAGED, name, "missing");
    subject_release(&sub);
}

static void of_a_newer_version(void **state)
{
    char header[FORMAT_HEADER_LEN];
    struct subject sub;
    const char *name;

    (void)state;
    subject_make(&sub, three_snapshots);
    name = image_name(&sub.im, "snapshot-", -1);
    memcpy(header, image_find(&sub.im, name)->p, sizeof header);
    le_store32(header + 8, FORMAT_VERSION + 1);
    le_store32(header + 12, 0);
    le_store32(header + 12, crc32c(0, header, sizeof header));
    file_patch(sub.dir, name, 0, header, sizeof header);
    expect_refused(&sub, DROVER_NEWER_VERSION, name, NULL);
    subject_release(&sub);
}

static void of_another_store(void **state)
{
    struct subject sub, other;
    const char *name;

    (void)state;
    subject_make(&sub, three_snapshots);
    subject_make(&other, three_snapshots);
    name = image_name(&sub.im, "snapshot-", -1);
    file_write(sub.dir, name, image_find(&other.im, name));
    expect_refused(&sub, DROVER_DAMAGED, "another", NULL);
    subject_release(&other);
    subject_release(&sub);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_the_newest),
        cmocka_unit_test(flip_the_newest),
        cmocka_unit_test(more_behind_the_end_of_the_newest),
        cmocka_unit_test(work_goes_on_from_the_older_one),
        cmocka_unit_test(nothing_to_fall_back_on),
        cmocka_unit_test(the_only_one_is_damaged),
        cmocka_unit_test(the_journal_after_it_is_missing),
        cmocka_unit_test(of_a_newer_version),
        cmocka_unit_test(of_another_store),
    };

    return run_group(tests);
}
