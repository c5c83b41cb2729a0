/* Which shell texts run without a shell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dag/shell_words.h"

/* The words with '|' between them; NULL: the shell runs it. */
static const char *words_of(const char *text, struct arena *a)
{
    const char *const *words = shell_words(text, a), *joined = NULL;
    for (; words && *words; words++)
        joined = joined ? arena_printf(a, "%s|%s", joined, *words) : *words;
    return joined;
}

static void test_words(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"true", "true"},
        {"  make  -j4\tall ", "make|-j4|all"},
        {"dd if=/dev/zero of=x,y:z+1@%^", "dd|if=/dev/zero|of=x,y:z+1@%^"},
        {"./configure --prefix=/usr", "./configure|--prefix=/usr"},
        {"echo hello", "echo|hello"},
        {"echo -n hello", NULL},
        {"echo --version", NULL},
        {"", NULL},
        {"  ", NULL},
        {"A=b make", NULL},
        {"%1", NULL},
        {"cd /tmp", NULL},
        {"exit 1", NULL},
        {"test -e x", NULL},
        {"[ -e x ]", NULL},
        {"time make", NULL},
        {"! true", NULL},
    };
    struct arena a = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *words = words_of(cases[i].text, &a);
        if (!cases[i].words)
            assert_null(words);
        else
            assert_string_equal(words, cases[i].words);
    }
    for (const char *c = "|&;<>()$`\\\"'*?[]#~{}!\n\r\v\x01\x7f\xc3"; *c; c++)
        assert_null(shell_words(arena_printf(&a, "make %c", *c), &a));
    for (const char *c = "|&;<>()$`\\\"'*?[]#~{}!\n"; *c; c++)
        assert_null(shell_words(arena_printf(&a, "make x%cy", *c), &a));
    CLEANUP(buf_release) struct buf many = {0};
    for (int i = 0; i < 256; i++)
        buf_printf(&many, "x ");
    assert_non_null(shell_words(buf_text(&many), &a));
    buf_printf(&many, "x ");
    assert_null(shell_words(buf_text(&many), &a));
    arena_release(&a);
}

static bool skips(const char *text, const char *variable, const char *cwd,
                  const struct policy_grant *grant, struct arena *a)
{
    const char *const argv[] = {"bash", "-c", text, NULL};
    const char *const envp[] = {"PATH=/nowhere:/usr/bin:/bin", variable, NULL};
    return shell_skip(argv, envp, cwd, grant, a) != argv;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    chmod(path, mode);
}

static void test_programs(void **state)
{
    char dir[] = "/tmp/drover-words-XXXXXX";
    static const char *const paths[] = {"/usr/bin/bash", NULL};
    const struct policy_grant any = {0}, named = {.paths = paths};
    struct arena a = {0};
    (void)state;
    assert_non_null(mkdtemp(dir));
    write_file(arena_printf(&a, "%s/script", dir), "#!/bin/sh\n", 0755);
    write_file(arena_printf(&a, "%s/text", dir), "echo hello\n", 0755);
    write_file(arena_printf(&a, "%s/data", dir), "#!/bin/sh\n", 0644);
    assert_true(skips("true", NULL, NULL, &any, &a));
    assert_false(skips("true", NULL, NULL, &named, &a));
    assert_false(skips("true", "BASH_ENV=/x", NULL, &any, &a));
    assert_false(skips("true", "BASH_FUNC_true%%=() { :; }", NULL, &any, &a));
    assert_false(skips("no-such-program", NULL, NULL, &any, &a));
    assert_true(skips("./script x", NULL, dir, &any, &a));
    assert_false(skips("./script x", NULL, "/", &any, &a));
    assert_false(skips("./text", NULL, dir, &any, &a));
    assert_false(skips("./data", NULL, dir, &any, &a));
    assert_false(skips("./missing", NULL, dir, &any, &a));
    const char *const other[] = {"sh", "-c", "true", NULL}, *const envp[] = {NULL};
    assert_ptr_equal(shell_skip(other, envp, NULL, &any, &a), other);
    for (const char *const *name = (const char *const[]){"script", "text", "data", NULL}; *name;
         name++)
        unlink(arena_printf(&a, "%s/%s", dir, *name));
    rmdir(dir);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
