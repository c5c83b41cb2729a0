/* What a run prints: files, limits, torn and damaged ends, a disk without room, sealed files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "dag/output_store.h"

enum { NODE = 12034, LIMIT = 1024 * 1024 };

static char dir[64];

static struct output_store *open_store(int64_t total)
{
    struct output_store *s;
    struct err_info why;
    snprintf(dir, sizeof dir, "/tmp/drover-output-XXXXXX");
    assert_non_null(mkdtemp(dir));
    struct output_store_options o = {.dir = dir, .total = total};
    assert_int_equal(output_store_open(&o, &s, &why), 0);
    return s;
}

static void close_store(struct output_store *s)
{
    char command[128];
    output_store_close(s);
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static void put(struct output *o, enum run_stream s, const char *text)
{
    output_put(o, s, str_of(text), 1000);
}

/* Printable bytes that tell where they stand. */
static void put_much(struct output *o, uint64_t len, size_t piece)
{
    char *bytes = malloc(piece);
    while (len) {
        size_t n = len < piece ? (size_t)len : piece;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)('a' + (o->total.of[0] + i) % 23);
        output_put(o, RUN_STDOUT, (struct str){bytes, n}, 2000);
        len -= n;
    }
    free(bytes);
}

static void check_much(struct str text, uint64_t from)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.p[i] != (char)('a' + (from + i) % 23))
            fail_msg("byte %zu after %lu is wrong", i, (unsigned long)from);
}

/* What a live output has, from an offset on. */
static struct buf look(const struct output *o, struct output_want *w)
{
    struct output_file f;
    struct output_view v;
    struct buf out = {0};
    output_file_live(&f, -1);
    output_look(o, w->stream, w->next, true, &v);
    assert_int_equal(output_view_read(&v, &f, w, SIZE_MAX / 2, &out), 0);
    output_view_release(&v);
    output_file_close(&f);
    return out;
}

/* The same of its file. Returns the error. */
static int read_file(struct output_store *s, uint64_t node, uint64_t run, struct output_want *w,
                     struct buf *out)
{
    CLEANUP(buf_release) struct buf path = {0};
    struct output_file f;
    struct err_info why;
    output_store_path(s, node, run, &path);
    int err = output_file_open(&f, buf_text(&path), node, run, &why);
    if (!err) {
        output_file_seek(&f, w->stream, w->next);
        err = output_file_read(&f, w, SIZE_MAX / 2, out);
    }
    output_file_close(&f);
    return err;
}

static struct output_want all(enum run_stream s)
{
    return (struct output_want){.stream = s, .end = INT64_MAX};
}

static void file_path(struct output_store *s, uint64_t run, const char *suffix, struct buf *b)
{
    output_store_path(s, NODE, run, b);
    buf_printf(b, "%s", suffix);
    buf_text(b);
}

/* Streams in their order, live and sealed; ranges; sizes that do not fit a block. */
static void streams_and_ranges(void **state)
{
    static const char *const texts[] = {"onethree", "two", "onetwothree"};
    struct output_store *s = open_store(0);
    struct output *o = output_new(s, NODE, 7, LIMIT);
    (void)state;
    put(o, RUN_STDOUT, "one");
    put(o, RUN_STDERR, "two");
    for (int round = 0; round < 3; round++) {
        if (round == 1)
            output_tick(o, INT64_MAX); /* to its file */
        if (round < 2)
            assert_int_equal(o->file_len > 0, round);
        if (!round)
            put(o, RUN_STDOUT, "three");
        if (round == 2) {
            output_end(o, 0);
            assert_true(output_store_keep(s, o));
            output_store_settle(s);
        }
        for (int i = 0; i < RUN_STREAMS; i++)
            for (uint64_t from = 0; from <= strlen(texts[i]); from++) {
                struct output_want w = all((enum run_stream)i);
                w.next = from;
                w.end = from + 4;
                struct buf text = {0};
                if (round < 2)
                    text = look(o, &w);
                else
                    assert_int_equal(read_file(s, NODE, 7, &w, &text), 0);
                size_t len = strlen(texts[i]) - from;
                assert_int_equal(text.len, len < 4 ? len : 4);
                assert_memory_equal(buf_text(&text), texts[i] + from, text.len);
                buf_release(&text);
            }
    }
    output_free(o);
    close_store(s);
}

/* Head and tail are there, and the number of bytes between: live, sealed, and without files. */
static void a_limit_keeps_both_ends(void **state)
{
    (void)state;
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        struct output_store *s = open_store(0);
        struct output *o = output_new(in_memory ? NULL : s, NODE, 7, LIMIT);
        uint64_t len = 10 * LIMIT + 12345;
        put_much(o, len, 10000);
        for (int round = 0; round < 2 - in_memory; round++) {
            struct output_want w = all(RUN_STDOUT);
            struct buf text = {0};
            if (!round)
                text = look(o, &w);
            else
                assert_int_equal(read_file(s, NODE, 7, &w, &text), 0);
            assert_int_equal(text.len + w.missing, len);
            assert_in_range(text.len, LIMIT / 2, LIMIT + LIMIT / 4);
            size_t head = LIMIT / 4;
            check_much((struct str){text.p, head}, 0);
            size_t tail = LIMIT / 8;
            check_much((struct str){text.p + text.len - tail, tail}, len - tail);
            buf_release(&text);
            w = (struct output_want){.stream = RUN_STDOUT, .next = len - 100, .end = INT64_MAX};
            if (!round)
                text = look(o, &w);
            else
                assert_int_equal(read_file(s, NODE, 7, &w, &text), 0);
            assert_int_equal(text.len, 100);
            check_much(buf_str(&text), len - 100);
            buf_release(&text);
            if (!round && !in_memory) {
                struct stat st;
                CLEANUP(buf_release) struct buf path = {0};
                file_path(s, 7, OUTPUT_SUFFIX_RAW, &path);
                assert_int_equal(stat(path.p, &st), 0);
                assert_in_range(st.st_blocks * 512, 1, 2 * LIMIT); /* the rest is a hole */
                output_end(o, 0);
                output_store_keep(s, o);
                output_store_settle(s);
                assert_int_equal(access(path.p, F_OK), -1);
            }
        }
        output_free(o);
        close_store(s);
    }
}

/* Cut at each byte, the file has all whole records before that. */
static void torn_ends_are_cut(void **state)
{
    struct output_store *s = open_store(0);
    CLEANUP(buf_release) struct buf path = {0}, bytes = {0};
    struct output *o = output_new(s, NODE, 7, LIMIT);
    (void)state;
    put(o, RUN_STDOUT, "one");
    output_tick(o, INT64_MAX);
    put(o, RUN_STDERR, "four");
    put(o, RUN_STDOUT, "fifth");
    uint64_t ends[] = {OUTPUT_FILE_HEAD_LEN, OUTPUT_FILE_HEAD_LEN + 27, OUTPUT_FILE_HEAD_LEN + 55,
                       OUTPUT_FILE_HEAD_LEN + 84};
    uint64_t lens[] = {0, 3, 7, 12};
    assert_int_equal(o->file_len, ends[3]);
    file_path(s, 7, OUTPUT_SUFFIX_RAW, &path);
    for (uint64_t len = ends[3]; len >= OUTPUT_FILE_HEAD_LEN; len--) {
        struct output_want w = all(RUN_MIXED);
        int whole = 3;
        assert_int_equal(truncate(path.p, (off_t)len), 0);
        while (ends[whole] > len)
            whole--;
        bytes.len = 0;
        assert_int_equal(read_file(s, NODE, 7, &w, &bytes), 0);
        assert_int_equal(bytes.len, lens[whole]);
        assert_memory_equal(buf_text(&bytes), "onefourfifth", bytes.len);
    }
    output_free(o);

    /* Another process goes on with it. */
    o = output_reopen(s, NODE, 7, LIMIT);
    assert_non_null(o);
    put(o, RUN_STDOUT, "more");
    struct output_want w = all(RUN_MIXED);
    struct buf text = look(o, &w);
    assert_string_equal(buf_text(&text), "more");
    buf_release(&text);
    output_free(o);
    assert_int_equal(truncate(path.p, OUTPUT_FILE_HEAD_LEN - 1), 0);
    assert_int_equal(read_file(s, NODE, 7, &w, &bytes), DROVER_DAMAGED);
    close_store(s);
}

/* A flipped bit anywhere in a sealed file, or in a raw one, is noticed, or changes nothing. */
static void damage_is_noticed(void **state)
{
    struct output_store *s = open_store(0);
    (void)state;
    for (int sealed = 0; sealed < 2; sealed++) {
        CLEANUP(buf_release) struct buf path = {0};
        struct output *o = output_new(s, NODE, 7 + (uint64_t)sealed, LIMIT);
        put(o, RUN_STDOUT, "some text that compresses, that compresses");
        put(o, RUN_STDERR, "more");
        if (sealed) {
            output_end(o, 0);
            assert_true(output_store_keep(s, o));
        } else {
            output_tick(o, INT64_MAX);
        }
        file_path(s, o->run, sealed ? OUTPUT_SUFFIX_SEALED : OUTPUT_SUFFIX_RAW, &path);
        int fd = open(path.p, O_RDWR);
        struct stat st;
        fstat(fd, &st);
        for (off_t at = 0; at < st.st_size; at++) {
            CLEANUP(buf_release) struct buf text = {0};
            struct output_want w = all(RUN_MIXED);
            unsigned char byte, flipped;
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            flipped = byte ^ 4;
            assert_int_equal(pwrite(fd, &flipped, 1, at), 1);
            int err = read_file(s, NODE, o->run, &w, &text);
            if (!err && sealed)
                fail_msg("byte %ld", (long)at);
            /* A raw file ends where it is damaged: what is before that is right. */
            assert_memory_equal(buf_text(&text), "some text that compresses, that compressesmore",
                                text.len);
            assert_true(err || text.len < 46);
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        close(fd);
        output_free(o);
    }
    close_store(s);
}

/* A file that must not grow is a full disk. The command goes on, and what is lost is counted. */
static void a_full_disk_is_a_gap(void **state)
{
    struct output_store *s = open_store(0);
    struct output *o = output_new(s, NODE, 7, 64 * LIMIT);
    struct rlimit before, small = {.rlim_cur = 300 * 1000};
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    put_much(o, 1000 * 1000, 10000);
    assert_true(o->ringing);
    setrlimit(RLIMIT_FSIZE, &before);
    o->retry_at_ms = 0;
    put_much(o, 100 * 1000, 10000);
    assert_false(o->ringing);
    output_end(o, 0);
    output_store_keep(s, o);
    output_store_settle(s);
    struct output_want w = all(RUN_STDOUT);
    struct buf text = {0};
    assert_int_equal(read_file(s, NODE, 7, &w, &text), 0);
    assert_int_equal(text.len + w.missing, 1100 * 1000);
    assert_int_equal(w.missing, o->missing);
    assert_in_range(w.missing, 400 * 1000, 750 * 1000);
    check_much((struct str){text.p, 290 * 1000}, 0);
    check_much((struct str){text.p + text.len - 150 * 1000, 150 * 1000}, 950 * 1000);
    buf_release(&text);
    output_free(o);
    close_store(s);
}

/* Who holds it loses nothing: it is full instead. */
static void a_held_output_is_full(void **state)
{
    (void)state;
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        struct output_store *s = open_store(0);
        struct output *o = output_new(in_memory ? NULL : s, NODE, 7, LIMIT);
        struct output_want w = all(RUN_STDOUT);
        output_hold(o, &(struct output_at){{0, 0}});
        while (!output_is_full(o))
            put_much(o, 10000, 10000);
        assert_in_range(o->total.of[0], LIMIT / 2, 2 * LIMIT);
        for (int round = 0; round < 200; round++) {
            w.end = w.next + 50000;
            struct buf text = look(o, &w);
            check_much(buf_str(&text), w.next - text.len);
            buf_release(&text);
            assert_int_equal(w.missing, 0);
            output_hold(o, &(struct output_at){{w.next, 0}});
            while (!output_is_full(o))
                put_much(o, 10000, 10000);
        }
        assert_in_range(o->total.of[0], 2 * LIMIT, 20 * LIMIT);
        output_hold(o, NULL);
        assert_false(output_is_full(o));
        output_free(o);
        close_store(s);
    }
}

/* The oldest go; those that nobody knows after a start go too. */
static void the_oldest_go_first(void **state)
{
    struct output_store *s = open_store(400 * 1000);
    struct output_want w;
    struct buf text = {0};
    (void)state;
    srandom(1);
    for (uint64_t node = 1; node <= 20; node++) {
        struct output *o = output_new(s, node, 5, LIMIT);
        char noise[30000];
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (char)random();
        output_put(o, RUN_STDOUT, (struct str){noise, sizeof noise}, 0);
        output_end(o, 0);
        assert_true(output_store_keep(s, o));
        output_free(o);
        output_store_settle(s);
    }
    assert_in_range(output_store_numbers(s).bytes, 100 * 1000, 410 * 1000);
    for (uint64_t node = 1; node <= 20; node += 19) {
        w = all(RUN_STDOUT);
        text.len = 0;
        assert_int_equal(read_file(s, node, 5, &w, &text), node == 1 ? DROVER_NO_NODE : 0);
        assert_int_equal(text.len, node == 1 ? 0 : 30000);
    }
    struct output_name *known = calloc(1, sizeof *known);
    *known = (struct output_name){20, 5};
    output_store_know(s, known, 1);
    output_store_settle(s);
    w = all(RUN_STDOUT);
    assert_int_equal(read_file(s, 20, 5, &w, &text), 0);
    assert_int_equal(read_file(s, 19, 5, &w, &text), DROVER_NO_NODE);
    output_store_drop(s, 20, 5);
    output_store_settle(s);
    assert_int_equal(read_file(s, 20, 5, &w, &text), DROVER_NO_NODE);
    buf_release(&text);
    close_store(s);
}

/* Small text needs no file, whether it was spilled or not; bytes do. */
static void small_text(void **state)
{
    struct output_store *s = open_store(0);
    (void)state;
    for (int spilled = 0; spilled < 2; spilled++) {
        struct output *o = output_new(s, NODE, 7 + (uint64_t)spilled, LIMIT);
        struct buf texts[RUN_STREAMS] = {{0}}, json = {0};
        put(o, RUN_STDOUT, "h\xc3\xa4");
        if (spilled)
            output_tick(o, INT64_MAX);
        put(o, RUN_STDERR, "e");
        assert_true(output_is_small(o));
        output_put_texts(o, true, texts);
        assert_string_equal(buf_text(&texts[RUN_MIXED]), "h\xc3\xa4"
                                                         "e");
        output_put_pieces(o, 990, &json);
        assert_string_equal(buf_text(&json), "[[0,3,10],[1,1,10]]");
        buf_release(&json);
        for (int i = 0; i < RUN_STREAMS; i++)
            buf_release(&texts[i]);
        put(o, RUN_STDOUT, "\xff");
        assert_false(output_is_small(o));
        output_free(o);
    }
    close_store(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_and_ranges),   cmocka_unit_test(a_limit_keeps_both_ends),
        cmocka_unit_test(torn_ends_are_cut),    cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(a_full_disk_is_a_gap), cmocka_unit_test(a_held_output_is_full),
        cmocka_unit_test(the_oldest_go_first),  cmocka_unit_test(small_text),
    };
    log_begin(LOG_TEXT, LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
