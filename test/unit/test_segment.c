/* Segments read back: where the journal ends, where it is torn, and where something is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keeper/journal/format.h"
#include "keeper/journal/recover.h"

enum { SALT = 0x5a17 };

/* A record of transaction lsn, appended when `behind` of them were not yet on disk. */
static void put(struct buf *b, int64_t lsn, int64_t behind)
{
    struct tree_change c = {
        .kind = CHANGE_SET, .path = STR("/"), .data = STR("some data"), .number = 1};
    struct tree_changes list = {.zxid = lsn, .time_ms = 1, .list = &c, .count = 1};

    record_put_changes(b, SALT, &list, behind);
}

static void put_zeros(struct buf *b, size_t len)
{
    while (len--)
        buf_put_u8(b, 0);
}

static void spoil(struct buf *b, size_t at)
{
    b->p[at] = (char)(b->p[at] ^ 4);
}

/* Reads all there is; the reader is left at the end. */
static enum segment_state read_all(struct segment_reader *r, int64_t *ret_records)
{
    enum segment_state state;
    struct record record;

    *ret_records = 0;
    while ((state = segment_next(r, &record)) == SEGMENT_RECORD) {
        assert_int_equal(record.lsn, r->lsn);
        ++*ret_records;
    }
    return state;
}

/* Expects that many records, then this result; the valid part ends at `at`. */
static void expect(const struct buf *b, int64_t lsn, enum segment_state state, int64_t records,
                   size_t at)
{
    struct segment_reader r = {{b->p, b->len}, 0, lsn, SALT};
    int64_t found;

    assert_int_equal(read_all(&r, &found), state);
    assert_int_equal(found, records);
    assert_int_equal(r.at, at);
}

static int set_up(void **state)
{
    static struct buf b;

    b = (struct buf){0};
    buf_reserve(&b, 64);
    *state = &b;
    return 0;
}

static int tear_down(void **state)
{
    buf_release(*state);
    return 0;
}

static void the_end(void **state)
{
    struct buf *b = *state;
    size_t end;

    expect(b, 0, SEGMENT_END, 0, 0); /* nothing at all */
    put(b, 1, 1);
    put(b, 2, 2);
    put(b, 3, 1);
    end = b->len;
    expect(b, 0, SEGMENT_END, 3, end);
    for (int i = 1; i <= 100; i++) {
        put_zeros(b, 1);
        expect(b, 0, SEGMENT_END, 3, end);
    }
}

/* A journal that continues after a snapshot. */
static void it_begins_where_it_is_told_to(void **state)
{
    struct buf *b = *state;
    size_t end;

    put(b, 41, 1);
    put(b, 42, 1);
    end = b->len;
    expect(b, 40, SEGMENT_END, 2, end);
    expect(b, -1, SEGMENT_END, 2, end);
    expect(b, 39, SEGMENT_DAMAGED, 0, 0); /* 40 is missing */
    expect(b, 41, SEGMENT_DAMAGED, 0, 0);
}

static void marks_are_passed_over(void **state)
{
    struct buf *b = *state;

    record_put_mark(b, SALT, 0);
    put(b, 1, 1);
    record_put_mark(b, SALT, 1);
    record_put_mark(b, SALT, 1);
    put(b, 2, 1);
    record_put_mark(b, SALT, 2);
    expect(b, 0, SEGMENT_END, 2, b->len);
}

static void a_mark_that_does_not_fit(void **state)
{
    struct buf *b = *state;
    size_t end;

    put(b, 1, 1);
    end = b->len;
    record_put_mark(b, SALT, 2);
    expect(b, 0, SEGMENT_DAMAGED, 1, end);
}

static void one_missing_or_doubled(void **state)
{
    static const int64_t wrong[] = {1, 2, 4, 5, -1};
    struct buf *b = *state;
    size_t end;

    put(b, 1, 1);
    put(b, 2, 1);
    end = b->len;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        b->len = end;
        put(b, wrong[i], 1);
        expect(b, 0, SEGMENT_DAMAGED, 2, end);
    }
}

/* The last record cut or corrupted at any byte: it was never acknowledged, so nothing is lost. */
static void a_torn_tail(void **state)
{
    struct buf *b = *state;
    size_t last, end;

    put(b, 1, 1);
    last = b->len;
    put(b, 2, 1);
    end = b->len;
    for (size_t at = last; at < end; at++) {
        spoil(b, at);
        expect(b, 0, SEGMENT_TORN, 1, last);
        spoil(b, at);
    }
    for (size_t len = last + 1; len < end; len++) {
        struct buf cut = {b->p, len, len};

        expect(&cut, 0, SEGMENT_TORN, 1, last);
    }
    put_zeros(b, 64);
    memset(b->p + last + 8, 0, end - last - 8); /* only the first sector was written */
    expect(b, 0, SEGMENT_TORN, 1, last);
}

/*
 * Four records, the third corrupted. The `behind` of the fourth decides:
 * with LSN 4 and behind 1, number 3 was on disk; with 2 and more it may not have been.
 */
static void behind_tells_damage_from_a_torn_tail(void **state)
{
    static const struct {
        int64_t behind;
        enum segment_state state;
    } rows[] = {
        {0, SEGMENT_DAMAGED}, {1, SEGMENT_DAMAGED}, {2, SEGMENT_TORN},
        {3, SEGMENT_TORN},    {4, SEGMENT_TORN},    {1000, SEGMENT_TORN},
    };
    struct buf *b = *state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t third;

        b->len = 0;
        put(b, 1, 1);
        put(b, 2, 1);
        third = b->len;
        put(b, 3, 1);
        put(b, 4, rows[i].behind);
        put_zeros(b, 40);
        spoil(b, third + 30);
        expect(b, 0, rows[i].state, 2, third);
    }
}

/* A mark says that everything up to its number is on disk. */
static void a_mark_behind_damage(void **state)
{
    struct buf *b = *state;
    size_t last;

    put(b, 1, 1);
    last = b->len;
    put(b, 2, 1);
    record_put_mark(b, SALT, 2);
    spoil(b, last + 5);
    expect(b, 0, SEGMENT_DAMAGED, 1, last);
}

/* Also when nothing in front of it is left at all. */
static void the_first_record_is_damaged(void **state)
{
    struct buf *b = *state;

    put(b, 1, 1);
    put(b, 2, 1);
    spoil(b, 40);
    expect(b, 0, SEGMENT_DAMAGED, 0, 0);
    b->len = 0;
    put(b, 1, 1);
    put(b, 2, 2);
    spoil(b, 40);
    expect(b, 0, SEGMENT_TORN, 0, 0);
}

/* Records of a far-away number in the rest prove nothing: no journal of this size gets there. */
static void what_cannot_follow_proves_nothing(void **state)
{
    struct buf *b = *state;
    size_t end;

    put(b, 1, 1);
    end = b->len;
    buf_put(b, "junkjunk", 8);
    put(b, 1000000, 1);
    expect(b, 0, SEGMENT_TORN, 1, end);
    b->len = end + 8;
    put(b, 1, 0); /* nor do old ones */
    expect(b, 0, SEGMENT_TORN, 1, end);
    b->len = end + 8;
    put(b, 3, 1);
    expect(b, 0, SEGMENT_DAMAGED, 1, end);
}

static void no_byte_beyond_is_read(void **state)
{
    struct buf *b = *state;

    put(b, 1, 1);
    put(b, 2, 1);
    put(b, 3, 1);
    spoil(b, 12);
    for (size_t len = 0; len <= b->len; len++) {
        char *exact = malloc(len ? len : 1);
        struct segment_reader r = {{exact, len}, 0, 0, SALT};
        int64_t records;

        memcpy(exact, b->p, len);
        read_all(&r, &records);
        free(exact);
    }
}

/* On a real disk: the header, zeros up to the length, and the name it is found by. */
static void a_segment_is_made(void **state)
{
    enum { LEN = 600 * 1024 + 8 };
    char dir[] = "/tmp/drover-segment-XXXXXX", *path;
    struct format_header h;
    struct buf *b = *state;
    struct segment_reader r;
    struct err_info why;
    int64_t records;
    int fd;

    assert_non_null(mkdtemp(dir));
    path = format_path(dir, FORMAT_SEGMENT, 12);
    assert_int_equal(segment_make(&fs_system, dir, 99, 12, LEN, &fd, &why), 0);
    assert_int_equal(recover_read_file(path, b, &why), 0);
    assert_int_equal(b->len, LEN);
    assert_int_equal(format_header_read(b->p, FORMAT_SEGMENT, &h), 0);
    assert_true(h.store == 99 && h.number == 12);
    r = (struct segment_reader){{b->p, b->len}, FORMAT_HEADER_LEN, 0, SALT};
    assert_int_equal(read_all(&r, &records), SEGMENT_END);
    close(fd);
    unlink(path);
    assert_int_equal(rmdir(dir), 0); /* and nothing else is there */
    free(path);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_end),
        CASE(it_begins_where_it_is_told_to),
        CASE(marks_are_passed_over),
        CASE(a_mark_that_does_not_fit),
        CASE(one_missing_or_doubled),
        CASE(a_torn_tail),
        CASE(behind_tells_damage_from_a_torn_tail),
        CASE(a_mark_behind_damage),
        CASE(the_first_record_is_damaged),
        CASE(what_cannot_follow_proves_nothing),
        CASE(no_byte_beyond_is_read),
        CASE(a_segment_is_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
