/* How much memory the process may use, with cgroups and without. */
#include "base/memory_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static size_t ask(void)
{
    char self[128];
    snprintf(self, sizeof self, "%s/self", dir);
    return memory_limit_in(self, dir, 1000000);
}

static int setup(void **state)
{
    char path[128];
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/drover-memory-XXXXXX");
    assert_non_null(mkdtemp(dir));
    for (const char *const *name = (const char *const[]){"a", "a/b", NULL}; *name; name++) {
        snprintf(path, sizeof path, "%s/%s", dir, *name);
        assert_int_equal(0, mkdir(path, 0700));
    }
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {
        "self", "memory.max", "a/memory.max", "a/b/memory.max", "a/b", "a", ""};
    char path[128];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        remove(path);
    }
    return access(dir, F_OK) == 0;
}

static void the_least_limit_counts(void **state)
{
    (void)state;
    assert_int_equal(1000000, ask()); /* no cgroups */
    put("self", "1:name=systemd:/x\n0::/a/b\n");
    assert_int_equal(1000000, ask());
    put("a/b/memory.max", "max\n");
    assert_int_equal(1000000, ask());
    put("a/memory.max", "4096\n");
    assert_int_equal(4096, ask());
    put("a/b/memory.max", "5000\n");
    assert_int_equal(4096, ask());
    put("memory.max", "2000\n"); /* in a namespace the root has one */
    assert_int_equal(2000, ask());
    put("self", "0::/\n");
    assert_int_equal(2000, ask());
    put("memory.max", "9000000\n");
    assert_int_equal(1000000, ask());
}

static void there_is_some(void **state)
{
    (void)state;
    assert_true(memory_limit() > 1024 * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_least_limit_counts, setup, teardown),
        cmocka_unit_test(there_is_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
