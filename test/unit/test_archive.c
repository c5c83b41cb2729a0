/* Archives: the content comes back, and a truncated, corrupted or reordered one is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "keeper/journal/archive.h"

static const struct archive_info INFO = {.store = 77, .last_zxid = 12, .time_ms = 1700000000123};

struct part {
    enum format_kind kind;
    uint64_t number;
    const char *content;
};

static const struct part USUAL[] = {
    {FORMAT_SNAPSHOT, 9, "the snapshot"},
    {FORMAT_SEGMENT, 3, "a segment"},
    {FORMAT_SEGMENT, 4, ""},
    {FORMAT_SEGMENT, 5, "the last one"},
};

static void put(struct buf *b, const struct part *parts, size_t count)
{
    archive_put_header(b, &INFO);
    for (size_t i = 0; i < count; i++) {
        struct str content = str_of(parts[i].content);
        archive_put_part(b, parts[i].kind, parts[i].number, content.len);
        buf_put_str(b, content);
        archive_put_sum(b, crc32c(0, content.p, content.len));
    }
    archive_put_end(b, count, b->len);
}

/* What a sink was given, as text. */
struct heard {
    struct buf text;
    int refuse; /* the error of the next call */
};

static int hear_part(void *arg, enum format_kind kind, uint64_t number, uint64_t len,
                     struct err_info *e)
{
    struct heard *h = arg;
    (void)e;
    buf_printf(&h->text, "%s %d, %d:", kind == FORMAT_SNAPSHOT ? "snapshot" : "segment",
               (int)number, (int)len);
    return h->refuse;
}

static int hear_data(void *arg, struct str bytes, struct err_info *e)
{
    struct heard *h = arg;
    (void)e;
    buf_put_str(&h->text, bytes);
    return 0;
}

static int hear_end(void *arg, struct err_info *e)
{
    struct heard *h = arg;
    (void)e;
    buf_put_str(&h->text, STR(".\n"));
    return 0;
}

static int read_pieces(struct str bytes, size_t piece, struct heard *h, struct archive_info *info,
                       struct err_info *e)
{
    struct archive_reader r = {.sink = {hear_part, hear_data, hear_end, h}};
    for (size_t at = 0; at < bytes.len; at += piece) {
        size_t len = bytes.len - at < piece ? bytes.len - at : piece;
        TRY(archive_feed(&r, (struct str){bytes.p + at, len}, e));
    }
    TRY(archive_finish(&r, e));
    *info = r.info;
    assert_int_equal(r.len, bytes.len);
    return 0;
}

static int read_silently(struct str bytes, struct err_info *e)
{
    struct archive_reader r = {0};
    char *exact = mem_dup(bytes.p, bytes.len); /* so that the sanitizer sees a byte too many */
    int err = archive_feed(&r, (struct str){exact, bytes.len}, e);
    free(exact);
    return err ? err : archive_finish(&r, e);
}

static void it_comes_back_in_pieces_of_any_length(void **state)
{
    struct buf b = {0};
    (void)state;
    put(&b, USUAL, 4);
    for (size_t piece = 1; piece <= b.len; piece++) {
        struct archive_info info;
        struct heard h = {0};
        struct err_info e = {""};
        assert_int_equal(read_pieces(buf_str(&b), piece, &h, &info, &e), 0);
        assert_string_equal(buf_text(&h.text), "snapshot 9, 12:the snapshot.\n"
                                               "segment 3, 9:a segment.\n"
                                               "segment 4, 0:.\n"
                                               "segment 5, 12:the last one.\n");
        assert_memory_equal(&info, &INFO, sizeof info);
        buf_release(&h.text);
    }
    buf_release(&b);
}

static void a_part_of_it_is_refused(void **state)
{
    struct buf b = {0};
    (void)state;
    put(&b, USUAL, 4);
    for (size_t len = 0; len < b.len; len++) {
        struct err_info e = {""};
        assert_int_equal(read_silently((struct str){b.p, len}, &e), DROVER_DAMAGED);
        assert_non_null(strstr(e.text, "cut off after"));
    }
    buf_put(&b, "", 1);
    struct err_info e = {""};
    assert_int_equal(read_silently(buf_str(&b), &e), DROVER_DAMAGED);
    assert_non_null(strstr(e.text, "something stands behind the end"));
    buf_release(&b);
}

static void every_flipped_bit_is_noticed(void **state)
{
    struct buf b = {0};
    (void)state;
    put(&b, USUAL, 4);
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        struct err_info e = {""};
        b.p[bit / 8] ^= (char)(1 << bit % 8);
        if (read_silently(buf_str(&b), &e) != DROVER_DAMAGED || !e.text[0])
            fail_msg("bit %zu: %s", bit, e.text);
        b.p[bit / 8] ^= (char)(1 << bit % 8);
    }
    buf_release(&b);
}

static void parts_are_in_order(void **state)
{
    static const struct {
        struct part parts[3];
        size_t count;
        int err;
    } rows[] = {
        {{{FORMAT_SEGMENT, 1, ""}}, 1, 0},
        {{{FORMAT_SEGMENT, 1, "a"}, {FORMAT_SEGMENT, 2, "b"}}, 2, 0},
        {{{FORMAT_SNAPSHOT, 1, ""}, {FORMAT_SEGMENT, 9999999999, ""}}, 2, 0},
        {{{0}}, 0, DROVER_DAMAGED}, /* nothing to replay */
        {{{FORMAT_SNAPSHOT, 1, ""}}, 1, DROVER_DAMAGED},
        {{{FORMAT_SEGMENT, 0, ""}}, 1, DROVER_DAMAGED},
        {{{FORMAT_SEGMENT, 10000000000, ""}}, 1, DROVER_DAMAGED}, /* no name for it */
        {{{FORMAT_SEGMENT, 1, ""}, {FORMAT_SEGMENT, 1, ""}}, 2, DROVER_DAMAGED},
        {{{FORMAT_SEGMENT, 1, ""}, {FORMAT_SEGMENT, 3, ""}}, 2, DROVER_DAMAGED},
        {{{FORMAT_SEGMENT, 1, ""}, {FORMAT_SNAPSHOT, 2, ""}}, 2, DROVER_DAMAGED},
        {{{FORMAT_SNAPSHOT, 1, ""}, {FORMAT_SNAPSHOT, 2, ""}, {FORMAT_SEGMENT, 1, ""}},
         3,
         DROVER_DAMAGED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b = {0};
        struct err_info e = {""};
        put(&b, rows[i].parts, rows[i].count);
        int err = read_silently(buf_str(&b), &e);
        if (err != rows[i].err)
            fail_msg("row %zu: %d, %s", i, err, e.text);
        buf_release(&b);
    }
}

static void a_newer_version_is_not_damage(void **state)
{
    struct buf b = {0};
    struct err_info e = {""};
    (void)state;
    put(&b, USUAL, 4);
    le_store32(b.p + 8, ARCHIVE_VERSION + 1);
    le_store32(b.p + 12, 0);
    le_store32(b.p + 12, crc32c(0, b.p, ARCHIVE_HEADER_LEN));
    assert_int_equal(read_silently(buf_str(&b), &e), DROVER_NEWER_VERSION);
    buf_release(&b);
}

static void another_file_is_said_to_be_one(void **state)
{
    static const char other[ARCHIVE_HEADER_LEN] = "#!/bin/sh\n";
    struct err_info e = {""};
    (void)state;
    assert_int_equal(read_silently((struct str){other, sizeof other}, &e), DROVER_DAMAGED);
    assert_string_equal(e.text, "this is not a backup of drover");
}

static void the_sink_may_refuse(void **state)
{
    struct buf b = {0};
    struct heard h = {.refuse = DROVER_DISK_FULL};
    struct archive_info info;
    struct err_info e = {""};
    (void)state;
    put(&b, USUAL, 4);
    assert_int_equal(read_pieces(buf_str(&b), b.len, &h, &info, &e), DROVER_DISK_FULL);
    assert_string_equal(buf_text(&h.text), "snapshot 9, 12:");
    buf_release(&h.text);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back_in_pieces_of_any_length),
        cmocka_unit_test(a_part_of_it_is_refused),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(parts_are_in_order),
        cmocka_unit_test(a_newer_version_is_not_damage),
        cmocka_unit_test(another_file_is_said_to_be_one),
        cmocka_unit_test(the_sink_may_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
