/*
 * Cases about what may name a node.
 */
#include <stdio.h>

#include "fixture.h"

/*
 * A leading '~' stands for the case's root, so that bad parts are tried below a node that exists.
 */
static const char *spell(struct fixture *f, const char *path)
{
    char *text;

    if (path[0] != '~')
        return path;
    if (asprintf(&text, "%s%s", f->root, path + 1) < 0)
        abort();
    return keep(f, text);
}

static void count_call(void *arg, int err, const struct keeper_result *results, size_t count)
{
    (void)err, (void)results, (void)count;
    ++*(int *)arg;
}

static void count_event(void *arg, enum keeper_event event, const char *path)
{
    (void)event, (void)path;
    ++*(int *)arg;
}

static void refused_by_reads(struct fixture *f, const char *path)
{
    struct keeper_names names = {0};
    struct keeper_watch *w = NULL;
    struct buf data = {0};
    int *calls = keep(f, mem_zalloc(sizeof *calls));

    expect_err(DROVER_BAD_ARGUMENT, keeper_get(f->k, path, &data, NULL));
    expect_err(DROVER_BAD_ARGUMENT, keeper_exists(f->k, path, NULL));
    expect_err(DROVER_BAD_ARGUMENT, keeper_children(f->k, path, &names, NULL));
    expect_err(DROVER_BAD_ARGUMENT, keeper_sync(f->k, path));
    expect_err(DROVER_BAD_ARGUMENT,
               keeper_watch(f->k, path, KEEPER_WATCH_DATA, count_event, calls, &w));
}

static void refused_by_changes(struct fixture *f, const char *path)
{
    const struct keeper_op ops[] = {
        keeper_op_create(path, STR(""), 0),
        keeper_op_create(path, STR(""), KEEPER_EPHEMERAL),
        keeper_op_set(path, STR(""), KEEPER_ANY_VERSION),
        keeper_op_delete(path, KEEPER_ANY_VERSION),
        keeper_op_check(path, KEEPER_ANY_VERSION),
    };
    int *calls = keep(f, mem_zalloc(sizeof *calls));

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        expect_err(DROVER_BAD_ARGUMENT, keeper_multi(f->k, &ops[i], 1, NULL));
        expect_err(DROVER_BAD_ARGUMENT, keeper_commit(f->k, &ops[i], 1, count_call, calls));
    }
    assert_int_equal(*calls, 0);
}

static void path_is_refused(struct fixture *f)
{
    const char *before = tree_dump(f);

    for (const char *const *path = f->arg; *path; path++) {
        refused_by_reads(f, spell(f, *path));
        refused_by_changes(f, spell(f, *path));
    }
    assert_string_equal(tree_dump(f), before);
}

static void path_is_fine(struct fixture *f)
{
    const char *const *paths = f->arg;
    struct keeper_names names;
    size_t count = 0;

    for (; paths[count]; count++) {
        const char *path = spell(f, paths[count]);

        assert_string_equal(mk_flags(f, f->k, path + strlen(f->root) + 1, 0), path);
        must(keeper_set(f->k, path, str_of(paths[count]), 0, NULL));
    }
    names = must_children(f, f->root);
    assert_int_equal(names.count, count);
    for (size_t i = 0; i < count; i++) {
        expect_data(f, spell(f, paths[i]), paths[i]);
        must(keeper_exists(f->k, at(f, "%s", names.names[i]), NULL));
    }
}

static void path_with_a_zero_byte(struct fixture *f)
{
    struct keeper_op op = keeper_op_create(at(f, "a_b"), STR(""), 0);
    char *path = keep(f, mem_dup(op.path.p, op.path.len));

    path[op.path.len - 2] = '\0';
    op.path.p = path;
    expect_err(DROVER_BAD_ARGUMENT, keeper_multi(f->k, &op, 1, NULL));
    assert_int_equal(must_stat(f->k, f->root).cversion, 0);
}

static void path_with_a_long_name(struct fixture *f)
{
    char name[1001];

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    mk(f, name, "x");
    assert_string_equal(children_text(f, f->root), name);
}

static void path_of_a_sequence_may_end_in_slash(struct fixture *f)
{
    char *path = NULL;

    mk(f, "a", "");
    must(keeper_create(f->k, at(f, "a/"), STR("x"), KEEPER_SEQUENTIAL, &path));
    keep(f, path);
    assert_string_equal(path, at(f, "a/0000000000"));
    assert_string_equal(children_text(f, at(f, "a")), "0000000000");
}

/*
 * Only the end is judged differently. (A last part "." or ".." would be legal on the server, once
 * it has its digits, but ZooKeeper's C client refuses it: no case.)
 */
static void path_of_a_sequence_is_judged_too(struct fixture *f)
{
    static const char *const wrong[] = {"a//", "a/./", "../a", "a\x01", "a\xff"};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_err(DROVER_BAD_ARGUMENT,
                   keeper_create(f->k, at(f, "%s", wrong[i]), STR(""), KEEPER_SEQUENTIAL, NULL));
    assert_int_equal(must_stat(f->k, f->root).cversion, 0);
}

/* Every call must refuse each of these; each of those must be carried through unchanged. */
#define BAD(name, ...)                                                                             \
    {                                                                                              \
        name, path_is_refused, (const char *const[])                                               \
        {                                                                                          \
            __VA_ARGS__, NULL                                                                      \
        }                                                                                          \
    }
#define FINE(name, ...)                                                                            \
    {                                                                                              \
        name, path_is_fine, (const char *const[])                                                  \
        {                                                                                          \
            __VA_ARGS__, NULL                                                                      \
        }                                                                                          \
    }

const struct conformance_case path_cases[] = {
    BAD("path_empty", ""),
    BAD("path_relative", "a", "a/b", ".", " /a"),
    BAD("path_ends_in_slash", "~/", "~/a/", "//"),
    BAD("path_with_an_empty_part", "~//a", "//a", "~/a//b"),
    BAD("path_with_a_dot_part", "~/.", "~/./a", "/."),
    BAD("path_with_a_dot_dot_part", "~/..", "~/../a", "/.."),
    BAD("path_with_control_characters", "~/\x01", "~/a\tb", "~/a\nb", "~/a\rb", "~/\x1f",
        "~/a\x1b/b"),
    BAD("path_with_delete_or_c1", "~/\x7f", "~/a\xc2\x80", "~/\xc2\x85", "~/\xc2\x9f"),
    BAD("path_with_surrogates", "~/\xed\xa0\x80", "~/\xed\xaf\xbf", "~/\xed\xb0\x80",
        "~/\xed\xbf\xbf", "~/\xed\xa0\xbd\xed\xb8\x80"),
    BAD("path_of_private_use", "~/\xee\x80\x80", "~/\xef\x80\x80", "~/\xef\xa3\xbf"),
    BAD("path_of_specials", "~/\xef\xbf\xb0", "~/\xef\xbf\xbd", "~/\xef\xbf\xbe", "~/\xef\xbf\xbf"),
    BAD("path_beyond_the_bmp", "~/\xf0\x90\x80\x80", "~/\xf0\x9f\x98\x80", "~/\xf4\x8f\xbf\xbf",
        "~/\xf4\x90\x80\x80"),
    BAD("path_not_utf8", "~/\x80", "~/\xff", "~/a\xc3", "~/a\xc3/b", "~/\xe2\x82", "~/\xc0\xaf",
        "~/\xe0\x80\xaf", "~/\xc3\x28", "~/\xf0\x80\x80\xaf", "~/\xe2\x28\xa1", "~/\xe0\x83\xa9",
        "~/\xf0\x82\x82\xac"),
    FINE("path_of_dots_that_is_fine", "~/...", "~/.a", "~/a.", "~/..b", "~/a..b", "~/....", "~/. "),
    FINE("path_of_ascii_that_is_fine", "~/ ", "~/a b", "~/!\"#$%&'()*+,-:;<=>?@", "~/[\\]^_`{|}~",
         "~/%s%n", "~/0"),
    FINE("path_of_utf8_that_is_fine", "~/\xc3\xa9", "~/\xce\xb1\xce\xb2",
         "~/\xe4\xb8\xad\xe6\x96\x87", "~/e\xcc\x81"),
    FINE("path_at_the_edges_of_what_is_allowed", "~/\x20", "~/\x7e", "~/\xc2\xa0", "~/\xed\x9f\xbf",
         "~/\xef\xa4\x80", "~/\xef\xbf\xaf"),
    CASE(path_with_a_zero_byte),
    CASE(path_with_a_long_name),
    CASE(path_of_a_sequence_may_end_in_slash),
    CASE(path_of_a_sequence_is_judged_too),
    {0},
};
