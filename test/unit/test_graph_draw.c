/* Pictures of graphs: what is drawn, what is escaped, and that lines fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/graph_draw.h"
#include "cli/run_follow.h"

/* A graph in text: "a b<a c<a,b" has the ids a, b, c. */
static void read_graph(struct draw *d, const char *text, uint32_t limit)
{
    CLEANUP(buf_release) struct buf b = {0};
    const char *at = text;
    json_open(&b, '[');
    while (*at) {
        size_t word = strcspn(at, " "), name = strcspn(at, " <"), from = name;
        json_open(&b, '{');
        json_member_text(&b, "id", (struct str){at, name});
        json_member_text(&b, "state", STR("finished"));
        json_member_open(&b, "parents", '[');
        while (from < word) {
            size_t len = strcspn(at + from + 1, " ,");
            json_put_text(&b, (struct str){at + from + 1, len});
            from += len + 1;
        }
        json_close(&b, ']');
        json_close(&b, '}');
        at += word + (at[word] == ' ');
    }
    json_close(&b, ']');
    draw_read(d, json_parse(&d->arena, arena_take(&d->arena, &b), NULL), limit, 0);
}

static void expect(const char *graph, uint32_t limit, const struct draw_text *how,
                   const char *picture)
{
    CLEANUP(draw_release) struct draw d = {0};
    CLEANUP(buf_release) struct buf b = {0};
    read_graph(&d, graph, limit);
    draw_put_text(&d, how, &b);
    assert_string_equal(buf_text(&b), picture);
}

/* In 12 columns there is no room for states. */
static const struct draw_text NARROW = {.columns = 12}, NARROW_UTF8 = {.columns = 12, .utf8 = true};

static void lanes(void **state)
{
    (void)state;
    expect("a b<a c<b", 9, &NARROW, "* a\n* b\n* c\n");
    expect("a b", 9, &NARROW, "* a\n* b\n");
    expect("a b<a c<a d<b,c", 9, &NARROW_UTF8,
           "● a\n"
           "├─╮\n"
           "│ ● b\n"
           "● │ c\n"
           "├─╯\n"
           "● d\n");
    expect("a b<a c<a d<b,c", 9, &NARROW, "* a\n|-.\n| * b\n* | c\n|-'\n* d\n");
    /* The edge from a to d passes the lane of b without touching it. */
    expect("a b<a x<b d<a y<b,d", 9, &NARROW_UTF8,
           "● a\n"
           "├─╮\n"
           "│ ● b\n"
           "│ ├─╮\n"
           "│ │ ● x\n"
           "● │ d\n"
           "├─╯\n"
           "● y\n");
}

static void what_does_not_fit(void **state)
{
    (void)state;
    expect("a b<a c<b", 2, &NARROW, "* a\n* b\n1 more nodes (--limit)\n");
    /* Three lanes at most: the edge from d to Z is named. */
    expect("a b c d A<a B<b C<c D<d Z<a,b,c,d", 9, &(struct draw_text){.columns = 11},
           "* a\n|-.\n| * A\n| * b\n| |-.\n| | * B\n| | * c\n| | |-.\n| | | * C\n"
           "| | | * d\n| | | * D ~\n|-+-'\n* Z  < d\n");
    expect("abcdefghijklmnop", 9, &(struct draw_text){.columns = 10}, "* abcdefg~\n");
    term_set_ascii(false);
    expect("abcdefghijklmnop", 9, &(struct draw_text){.columns = 10, .utf8 = true}, "● abcdefg…\n");
    term_set_ascii(true);
}

static void odd_input(void **state)
{
    (void)state;
    expect("", 9, &NARROW, "");
    expect("a<a", 9, &NARROW, "* a\n");                 /* a node below itself */
    expect("a<b b<a", 9, &NARROW, "* a\n* b\n");        /* a cycle is cut */
    expect("b<a a", 9, &NARROW, "* a\n* b\n");          /* a parent that comes later */
    expect("a b<a,a,nobody", 9, &NARROW, "* a\n* b\n"); /* twice, and one that is not there */
}

static void hostile_names(void **state)
{
    static const char list[] =
        "[{\"id\":\"1\",\"name\":\"\\u001b]0;x\\u0007<&\\\"'\\\\\\u202e\\n\"}]";
    void (*const formats[])(const struct draw *d, struct buf *b) = {draw_put_dot, draw_put_mermaid,
                                                                    draw_put_svg};
    static const char *const shown[] = {"[label=\"\\\\x1b]0;x\\\\x07<&\\\"'",
                                        "[\"\\x1b]0#59;x\\x07#60;#38;#34;'",
                                        "\\x1b]0;x\\x07&#60;&#38;&#34;&#39;"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        CLEANUP(draw_release) struct draw d = {.title = STR("a\"<b>")};
        CLEANUP(buf_release) struct buf b = {0};
        draw_read(&d, json_parse(&d.arena, str_of(list), NULL), 9, 0);
        formats[i](&d, &b);
        const char *text = buf_text(&b);
        assert_non_null(strstr(text, shown[i]));
        for (const char *c = text; *c; c++)
            assert_true(*c == '\n' || (unsigned char)*c >= ' ');
        assert_null(strstr(text, "\xe2\x80\xae"));
    }
}

static void states(void **state)
{
    static const char list[] =
        "[{\"id\":\"1\",\"name\":\"go/a\",\"run\":\"go-3\",\"state\":\"failed\",\"started\":1000,"
        "\"ended\":2500},{\"id\":\"2\",\"parent\":\"1\",\"state\":\"running\",\"started\":3000},"
        "{\"id\":\"3\",\"parents\":[\"2\"],\"branch\":\"then\",\"state\":\"incipient\"}]";
    CLEANUP(draw_release) struct draw d = {.title = STR("go-3")};
    CLEANUP(buf_release) struct buf text = {0}, dot = {0}, mermaid = {0}, svg = {0};
    (void)state;
    draw_read(&d, json_parse(&d.arena, str_of(list), NULL), 9, 5000);
    draw_put_text(&d, &(struct draw_text){.columns = 40}, &text);
    assert_string_equal(buf_text(&text), "X a    failed 1.5s\n> 2    running 2s\no 3    waiting\n");
    draw_put_dot(&d, &dot);
    assert_non_null(strstr(buf_text(&dot), "n0 [label=\"a\", style=filled, fillcolor=\"#f4a6a0\""));
    assert_non_null(strstr(buf_text(&dot), "n1 -> n2 [label=\"then\"];"));
    draw_put_mermaid(&d, &mermaid);
    assert_non_null(strstr(buf_text(&mermaid), "n0[\"a\"]:::failed\n"));
    assert_non_null(strstr(buf_text(&mermaid), "n1 --> |then| n2\n"));
    assert_non_null(strstr(buf_text(&mermaid), "classDef failed fill:#f4a6a0\n"));
    draw_put_svg(&d, &svg);
    assert_non_null(strstr(buf_text(&svg), "<title>a: failed, 1.500 s</title>"));
}

static void selected(void **state)
{
    CLEANUP(draw_release) struct draw d = {0};
    CLEANUP(buf_release) struct buf b = {0};
    (void)state;
    read_graph(&d, "a b<a c<a d<b e<c x", 9);
    assert_false(draw_select(&d, (struct str[]){STR("y")}, 1));
    assert_true(draw_select(&d, (struct str[]){STR("b")}, 1));
    draw_put_text(&d, &NARROW, &b);
    assert_string_equal(buf_text(&b), "* a\n* b\n* d\n");
}

/* Random graphs: every node has one line, after its parents, and lines fit. */
static void random_graphs(void **state)
{
    unsigned seed = (unsigned)(uintptr_t)*state;
    char *given = getenv("DROVER_SEED");
    seed = given ? (unsigned)strtoul(given, NULL, 10) : 20260101u + seed;
    print_message("seed %u\n", seed);
    for (int round = 0; round < 300; round++) {
        CLEANUP(draw_release) struct draw d = {0};
        CLEANUP(buf_release) struct buf graph = {0}, b = {0};
        int nodes = 1 + rand_r(&seed) % 60, chance = 1 + rand_r(&seed) % 8;
        size_t columns = 24 + (size_t)(rand_r(&seed) % 177);
        for (int i = 0; i < nodes; i++) {
            char before = '<';
            buf_printf(&graph, "%sN%d.", i ? " " : "", i);
            for (int k = 0; k < i; k++)
                if (rand_r(&seed) % (i + chance) < 2) {
                    buf_printf(&graph, "%cN%d.", before, k);
                    before = ',';
                }
        }
        read_graph(&d, buf_text(&graph), 1000);
        draw_put_text(&d, &(struct draw_text){.columns = columns, .utf8 = round % 2}, &b);
        int lines = 0;
        for (char *line = (char *)buf_text(&b), *end; (end = strchr(line, '\n')); line = end + 1) {
            struct str text = {line, (size_t)(end - line)};
            size_t width = 0;
            for (size_t i = 0; i < text.len; i++)
                width += ((unsigned char)text.p[i] & 0xc0) != 0x80;
            assert_in_range(width, 1, columns);
            const char *name = memchr(line, 'N', text.len);
            if (!name)
                continue;
            assert_int_equal(atoi(name + 1), d.order[lines]);
            lines++;
        }
        assert_int_equal(lines, nodes);
        for (uint32_t i = 0; i < d.count; i++)
            for (uint32_t k = 0; k < d.nodes[i].parent_count; k++)
                assert_true(d.nodes[d.nodes[i].parents[k]].at < d.nodes[i].at);
    }
}

/* One row for each slot; the path goes back along the parent that ended last. */
static void profile(void **state)
{
    static const char list[] =
        "[{\"id\":\"1\",\"name\":\"a\\\"\",\"state\":\"finished\",\"started\":1000,\"ended\":2000},"
        "{\"id\":\"2\",\"state\":\"finished\",\"started\":1500,\"ended\":1700},"
        "{\"id\":\"3\",\"parents\":[\"1\",\"2\"],\"state\":\"failed\",\"started\":2100,\"ended\":"
        "2200},"
        "{\"id\":\"4\",\"parents\":[\"3\"],\"state\":\"skipped\"}]";
    CLEANUP(draw_release) struct draw d = {0};
    CLEANUP(buf_release) struct buf b = {0};
    uint32_t path[4];
    (void)state;
    draw_read(&d, json_parse(&d.arena, str_of(list), NULL), 9, 5000);
    run_put_trace(&d, "go-1", &b);
    const struct json *events = json_get(json_parse(&d.arena, buf_str(&b), NULL), "traceEvents");
    static const struct {
        const char *name;
        int64_t ts, dur, tid;
    } wanted[] = {{"a\"", 0, 1000000, 1}, {"2", 500000, 200000, 2}, {"3", 1100000, 100000, 1}};
    size_t i = 0, rows = 0;
    json_each(e, json_list(events)) {
        rows += str_eq(json_text_of(e, "name"), STR("thread_name"));
        if (!str_eq(json_text_of(e, "ph"), STR("X")))
            continue;
        assert_true(str_eq(json_text_of(e, "name"), str_of(wanted[i].name)));
        assert_int_equal(json_int_of(e, "ts"), wanted[i].ts);
        assert_int_equal(json_int_of(e, "dur"), wanted[i].dur);
        assert_int_equal(json_int_of(e, "tid"), wanted[i].tid);
        i++;
    }
    assert_int_equal(i, 3);
    assert_int_equal(rows, 2);
    assert_int_equal(run_critical_path(&d, path), 2);
    assert_int_equal(path[0], 0);
    assert_int_equal(path[1], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes),         cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(odd_input),     cmocka_unit_test(hostile_names),
        cmocka_unit_test(states),        cmocka_unit_test(selected),
        cmocka_unit_test(random_graphs), cmocka_unit_test(profile),
    };
    term_set_ascii(true);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
