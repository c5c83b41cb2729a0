/*
 * Journals that are truncated, corrupted, missing or foreign. A possible torn tail is cut off; what
 * proves that an acknowledged transaction is lost fails the start, with the position, and changes
 * nothing.
 */
#include <stdio.h>

#include "base/crc32c.h"
#include "damage.h"
#include "keeper/journal/format.h"
#include "keeper/journal/record.h"

/* The last record that ends at or before this length of its segment. */
static int64_t last_before(const struct subject *sub, const char *name, size_t len)
{
    int64_t lsn = 0;

    for (size_t i = 0; i < sub->record_count; i++)
        if (strcmp(sub->records[i].name, name) != 0 ||
            sub->records[i].at + sub->records[i].whole <= len)
            lsn = sub->records[i].lsn;
    return lsn;
}

/* Whether there is anything but zeros after the last complete record or mark. */
static bool is_torn(const struct subject *sub, const struct buf *segment, size_t end)
{
    const struct place *last = &sub->records[sub->record_count - 1];
    size_t at = FORMAT_HEADER_LEN;

    for (size_t i = 0; i < sub->record_count; i++)
        if (sub->records[i].at + sub->records[i].whole <= end)
            at = sub->records[i].at + sub->records[i].whole;
    if (end == last->at + last->whole + RECORD_HEADER_LEN)
        return false;
    while (at < end && !segment->p[at])
        at++;
    return at < end;
}

/* What a version before the mark has left, or one whose mark is gone; test_mark.c has the rest. */
static void cut_at_every_byte_without_the_mark(void **state)
{
    struct subject sub;
    const struct place *from, *last;
    struct buf *segment;

    (void)state;
    subject_make(&sub, subject_few_records);
    from = &sub.records[sub.record_count - 3];
    last = &sub.records[sub.record_count - 1];
    segment = image_find(&sub.im, from->name);
    image_remove(&sub.im, "mark");
    for (size_t len = last->at + last->whole + RECORD_HEADER_LEN; len >= from->at; len--) {
        segment->len = len;
        subject_restore(&sub);
        expect_found(&sub, last_before(&sub, from->name, len),
                     is_torn(&sub, segment, len) ? from->name : NULL);
    }
    subject_release(&sub);
}

/* Every bit of a record and its padding in turn: the start is refused and says where it stands. */
static void flip_record(struct subject *sub, const struct place *p)
{
    char offset[48];

    snprintf(offset, sizeof offset, "offset %zu:", p->at);
    for (size_t bit = p->at * 8; bit < (p->at + p->whole) * 8; bit += short_run_stride(5)) {
        file_flip(sub->dir, p->name, bit);
        expect_refused(sub, DROVER_DAMAGED, p->name, offset);
        file_flip(sub->dir, p->name, bit);
    }
}

static void flip_a_record_in_the_middle(void **state)
{
    struct subject sub;

    (void)state;
    subject_make(&sub, subject_few_records);
    flip_record(&sub, &sub.records[0]);
    flip_record(&sub, &sub.records[4]);
    subject_release(&sub);
}

/* Only the mark record after it proves that it was on disk, and the mark. */
static void flip_the_last_record_before_the_mark(void **state)
{
    struct subject sub;

    (void)state;
    subject_make(&sub, subject_few_records);
    flip_record(&sub, &sub.records[sub.record_count - 1]);
    subject_release(&sub);
}

static void flip_the_last_record_without_a_mark(void **state)
{
    static const char no_mark[RECORD_HEADER_LEN];
    struct subject sub;
    const struct place *last;

    (void)state;
    subject_make(&sub, subject_few_records);
    last = &sub.records[sub.record_count - 1];
    file_patch(sub.dir, last->name, last->at + last->whole, no_mark, sizeof no_mark);
    file_remove(sub.dir, "mark");
    for (size_t bit = last->at * 8; bit < (last->at + last->whole) * 8;
         bit += short_run_stride(5)) {
        file_flip(sub.dir, last->name, bit);
        expect_readable(&sub, last->lsn - 1, last->name);
        file_flip(sub.dir, last->name, bit);
    }
    expect_readable(&sub, last->lsn, NULL);
    subject_release(&sub);
}

/* The mark and what follows it hold nothing that could be lost. */
static void flip_the_mark_and_the_zeros(void **state)
{
    struct subject sub;
    const struct place *last;
    size_t end;

    (void)state;
    subject_make(&sub, subject_few_records);
    last = &sub.records[sub.record_count - 1];
    end = last->at + last->whole;
    for (size_t bit = end * 8; bit < (end + RECORD_HEADER_LEN + 40) * 8;
         bit += short_run_stride(5)) {
        file_flip(sub.dir, last->name, bit);
        expect_readable(&sub, last->lsn, last->name);
        file_flip(sub.dir, last->name, bit);
    }
    expect_found(&sub, last->lsn, NULL);
    subject_release(&sub);
}

/* Fills two segments and begins a third. */
static void three_segments(struct subject *sub, struct store *s)
{
    static char data[30000];

    memset(data, 'x', sizeof data);
    must(keeper_create(s->k, "/big", STR(""), 0, NULL));
    subject_did(sub, s);
    for (int i = 0; i < 20; i++) {
        must(keeper_set(s->k, "/big", (struct str){data, sizeof data}, i, NULL));
        subject_did(sub, s);
    }
}

static void flip_the_header_of_a_segment(void **state)
{
    struct subject sub;

    (void)state;
    subject_make(&sub, three_segments);
    for (int nth = 0; nth < 3; nth++) {
        const char *name = image_name(&sub.im, "journal-", nth);

        assert_non_null(name);
        for (size_t bit = 0; bit < FORMAT_HEADER_LEN * 8; bit += nth == 1 ? 1 : 5) {
            file_flip(sub.dir, name, bit);
            expect_refused(&sub, DROVER_DAMAGED, name, "offset 0:");
            file_flip(sub.dir, name, bit);
        }
    }
    expect_found(&sub, sub.zxid, NULL);
    subject_release(&sub);
}

/* A segment that is cut short, by a record or in the middle of one, before others that go on. */
static void cut_a_segment_in_the_middle(void **state)
{
    struct subject sub;
    const char *name, *next;
    struct buf *segment;

    (void)state;
    subject_make(&sub, three_segments);
    name = image_name(&sub.im, "journal-", 1);
    next = image_name(&sub.im, "journal-", 2);
    segment = image_find(&sub.im, name);
    for (size_t i = sub.record_count; i-- > 0;) {
        if (strcmp(sub.records[i].name, name) != 0)
            continue;
        for (int part = 1; part >= 0; part--) {
            segment->len = sub.records[i].at + (part ? 100 : 0);
            subject_restore(&sub);
            expect_refused(&sub, DROVER_DAMAGED, next, "offset 64:");
        }
    }
    subject_release(&sub);
}

static void a_segment_is_missing(void **state)
{
    struct subject sub;

    (void)state;
    subject_make(&sub, three_segments);
    for (int nth = 0; nth < 2; nth++) {
        char name[32];

        subject_restore(&sub);
        snprintf(name, sizeof name, "%s", image_name(&sub.im, "journal-", nth));
        file_remove(sub.dir, name);
        expect_refused(&sub, DROVER_DAMAGED, name, "missing");
    }
    subject_release(&sub);
}

/* A segment out of another store, and one of this store under the number of another. */
static void a_segment_from_elsewhere(void **state)
{
    struct subject sub, other;
    const char *name, *third;

    (void)state;
    subject_make(&sub, three_segments);
    subject_make(&other, three_segments);
    name = image_name(&sub.im, "journal-", 1);
    third = image_name(&sub.im, "journal-", 2);
    file_write(sub.dir, name, image_find(&other.im, name));
    expect_refused(&sub, DROVER_DAMAGED, name, "offset 0:");
    file_write(sub.dir, name, image_find(&sub.im, third));
    expect_refused(&sub, DROVER_DAMAGED, name, "offset 0:");
    subject_release(&other);
    subject_release(&sub);
}

static void a_segment_of_a_newer_version(void **state)
{
    struct subject sub;
    char header[FORMAT_HEADER_LEN];
    const char *name;

    (void)state;
    subject_make(&sub, three_segments);
    for (int nth = 0; nth < 3; nth++) {
        subject_restore(&sub);
        name = image_name(&sub.im, "journal-", nth);
        memcpy(header, image_find(&sub.im, name)->p, sizeof header);
        le_store32(header + 8, FORMAT_VERSION + 1);
        le_store32(header + 12, 0);
        le_store32(header + 12, crc32c(0, header, sizeof header));
        file_patch(sub.dir, name, 0, header, sizeof header);
        expect_refused(&sub, DROVER_NEWER_VERSION, name, NULL);
    }
    subject_release(&sub);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_every_byte_without_the_mark),
        cmocka_unit_test(flip_a_record_in_the_middle),
        cmocka_unit_test(flip_the_last_record_before_the_mark),
        cmocka_unit_test(flip_the_last_record_without_a_mark),
        cmocka_unit_test(flip_the_mark_and_the_zeros),
        cmocka_unit_test(flip_the_header_of_a_segment),
        cmocka_unit_test(cut_a_segment_in_the_middle),
        cmocka_unit_test(a_segment_is_missing),
        cmocka_unit_test(a_segment_from_elsewhere),
        cmocka_unit_test(a_segment_of_a_newer_version),
    };

    return run_group(tests);
}
