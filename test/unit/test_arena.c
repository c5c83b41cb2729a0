/* Arenas: allocations are disjoint, aligned and stay valid; a reset frees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

/* Pieces of many sizes, each filled to its end with a byte of its own; then all are looked at. */
static void use(struct arena *a, unsigned seed)
{
    enum { PIECES = 400 };
    char *pieces[PIECES];
    size_t sizes[PIECES];

    for (int i = 0; i < PIECES; i++) {
        sizes[i] = (size_t)(rand_r(&seed) % (i % 20 ? 300 : 20000)) + 1;
        pieces[i] = arena_alloc(a, sizes[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], i & 0xff, sizes[i]);
    }
    for (int i = 0; i < PIECES; i++)
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal((unsigned char)pieces[i][j], i & 0xff);
}

static void pieces_are_apart(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 10; seed++) {
        struct arena a = {0};

        use(&a, seed);
        arena_release(&a);
    }
}

static void a_reset_arena_is_used_again(void **state)
{
    struct arena a = {0};

    (void)state;
    for (unsigned seed = 1; seed <= 10; seed++) {
        use(&a, seed);
        arena_reset(&a);
    }
    arena_reset(&a);
    arena_release(&a);
    arena_reset(&a);
    arena_release(&a);
}

/* One block is kept, so a request after the other needs no new memory. */
static void a_reset_keeps_a_block(void **state)
{
    struct arena a = {0};
    void *first = arena_alloc(&a, 100);

    (void)state;
    arena_reset(&a);
    assert_ptr_equal(arena_alloc(&a, 50), first);
    arena_release(&a);
}

/* A large piece at the beginning, and small ones after it. */
static void large_pieces_come_first(void **state)
{
    struct arena a = {0};
    char *large, *small;

    (void)state;
    large = arena_alloc(&a, 1 << 20);
    small = arena_alloc(&a, 10);
    memset(large, 1, 1 << 20);
    memset(small, 2, 10);
    assert_int_equal(large[(1 << 20) - 1], 1);
    arena_reset(&a);
    use(&a, 1);
    arena_release(&a);
}

static void zeros_and_texts(void **state)
{
    static const char zeros[1000];
    struct arena a = {0};
    char *text;

    (void)state;
    memset(arena_alloc(&a, 900), 0xff, 900);
    arena_reset(&a);
    assert_memory_equal(arena_zalloc(&a, 900), zeros, 900);
    text = arena_text(&a, STR("ab\0c"));
    assert_memory_equal(text, "ab\0c", 5);
    assert_string_equal(arena_text(&a, (struct str){0}), "");
    assert_string_equal(arena_printf(&a, "%d-%s", 7, "x"), "7-x");
    assert_string_equal(arena_printf(&a, "%s", ""), "");
    assert_string_equal(arena_printf(&a, "/jobs/%s/%s", "jid", "lock"), "/jobs/jid/lock");
    assert_string_equal(arena_printf(&a, "%s is 100%% of %.1s", "all", "xyz"), "all is 100% of x");
    for (size_t len = 250; len < 260; len++) { /* around the limit of joining without printf */
        char expected[300];

        memset(expected, 'x', len);
        expected[len] = '\0';
        assert_string_equal(arena_printf(&a, "%s%s", expected, "y") + len, "y");
    }
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_apart),      cmocka_unit_test(a_reset_arena_is_used_again),
        cmocka_unit_test(a_reset_keeps_a_block), cmocka_unit_test(large_pieces_come_first),
        cmocka_unit_test(zeros_and_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
