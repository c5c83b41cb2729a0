/*
 * The map against a plain array, above all where probing wraps around and removal has to close
 * gaps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"

enum { REFS_MAX = 4096 };

/* hashes[ref] of those that are in, by ref. */
struct model {
    uint32_t hashes[REFS_MAX];
    bool in[REFS_MAX];
    uint32_t count;
};

/* Under each hash the map gives the refs that the model has there, each once. */
static void compare_hash(const struct map *m, const struct model *model, uint32_t hash)
{
    uint32_t expected = 0, found = 0;

    for (uint32_t ref = 1; ref < REFS_MAX; ref++)
        expected += model->in[ref] && model->hashes[ref] == hash;
    for (uint32_t at, ref = map_first(m, hash, &at); ref; ref = map_next(m, hash, &at)) {
        assert_true(ref < REFS_MAX && model->in[ref] && model->hashes[ref] == hash);
        found++;
    }
    assert_int_equal(found, expected);
}

static void model_add(struct map *m, struct model *model, uint32_t hash, uint32_t ref)
{
    map_add(m, hash, ref);
    model->hashes[ref] = hash;
    model->in[ref] = true;
    model->count++;
}

static void model_remove(struct map *m, struct model *model, uint32_t ref)
{
    map_remove(m, model->hashes[ref], ref);
    model->in[ref] = false;
    model->count--;
}

static void an_empty_map_has_nothing(void **state)
{
    struct map m = {0};
    uint32_t at;

    (void)state;
    assert_int_equal(map_first(&m, 0, &at), 0);
    assert_int_equal(map_first(&m, 12345, &at), 0);
    map_release(&m);
}

static void one_hash_may_have_many(void **state)
{
    static struct model model;
    struct map m = {0};

    (void)state;
    for (uint32_t ref = 1; ref <= 40; ref++)
        model_add(&m, &model, 5, ref);
    model_add(&m, &model, 6, 41);
    compare_hash(&m, &model, 5);
    compare_hash(&m, &model, 6);
    model_remove(&m, &model, 20);
    model_remove(&m, &model, 1);
    model_remove(&m, &model, 40);
    compare_hash(&m, &model, 5);
    compare_hash(&m, &model, 6);
    compare_hash(&m, &model, 7);
    map_release(&m);
}

/* Calls fn with each order of six numbers. */
static void permute(int *order, int len, void (*fn)(const int *order))
{
    if (len == 6) {
        fn(order);
        return;
    }
    for (int i = len; i < 6; i++) {
        int kept = order[len];

        order[len] = order[i];
        order[i] = kept;
        permute(order, len + 1, fn);
        order[i] = order[len];
        order[len] = kept;
    }
}

/*
 * Six pairs whose homes are among the last and the first of 16 slots, so that they run over the end
 * and into each other. Removed in any order, those that are left must be found.
 */
static void remove_in_order(const int *order)
{
    static const uint32_t hashes[] = {14u << 28,       15u << 28, (15u << 28) + 1,
                                      (14u << 28) + 1, 0,         1u << 28};
    struct model model = {.count = 0};
    struct map m = {0};

    for (uint32_t i = 0; i < 6; i++)
        model_add(&m, &model, hashes[i], i + 1);
    assert_int_equal(m.len, 16);
    for (int i = 0; i < 6; i++) {
        model_remove(&m, &model, (uint32_t)order[i] + 1);
        for (uint32_t h = 0; h < 6; h++)
            compare_hash(&m, &model, hashes[h]);
    }
    assert_int_equal(m.count, 0);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(m.slots[i].ref, 0);
    map_release(&m);
}

static void removal_around_the_end(void **state)
{
    int order[] = {0, 1, 2, 3, 4, 5};

    (void)state;
    permute(order, 0, remove_in_order);
}

/* Hashes from a small range, high ones among them, so that most share a home. */
static void random_steps_against_the_array(void **state)
{
    static struct model model;
    struct map m = {0};
    uint32_t x = 99;

    (void)state;
    for (int step = 0; step < 20000; step++) {
        uint32_t ref, hash;

        x = x * 1664525 + 1013904223;
        ref = 1 + (x >> 8) % 300;
        hash = (x >> 20) % 24 + (x >> 16 & 1 ? UINT32_MAX - 12 : 0);
        if (model.in[ref])
            model_remove(&m, &model, ref);
        else
            model_add(&m, &model, hash, ref);
        assert_int_equal(m.count, model.count);
        compare_hash(&m, &model, hash);
        if (step % 500 == 0)
            for (uint32_t other = 1; other <= 300; other++)
                compare_hash(&m, &model, model.hashes[other]);
    }
    map_release(&m);
}

static void it_grows_and_stays_sparse(void **state)
{
    struct map m = {0};
    uint32_t at;

    (void)state;
    for (uint32_t ref = 1; ref <= 100000; ref++) {
        map_add(&m, map_hash_u64(ref), ref);
        assert_true((uint64_t)m.count * 3 <= (uint64_t)m.len * 2);
        assert_true(ref < 16 || m.len * 2 <= m.count * 5); /* and hardly more than half empty */
    }
    for (uint32_t ref = 1; ref <= 100000; ref++) {
        uint32_t hash = map_hash_u64(ref), found = map_first(&m, hash, &at);

        while (found && found != ref)
            found = map_next(&m, hash, &at);
        assert_int_equal(found, ref);
    }
    map_release(&m);
}

static uint32_t hash_number(uint32_t i)
{
    return map_hash_u64(i);
}

static uint32_t hash_name(uint32_t i)
{
    char name[32];

    return map_hash_str((struct str){name, (size_t)snprintf(name, sizeof name, "/tasks/%010u", i)});
}

static uint32_t hash_mixed(uint32_t i)
{
    char name[32];

    return map_hash_str(
        (struct str){name, (size_t)snprintf(name, sizeof name, "%08x-%04x", i * 2654435761u, i)});
}

/* The last byte is any, as in names that are no text. */
static uint32_t hash_bytes(uint32_t i)
{
    char name[] = {'n', (char)(i >> 16), (char)(i >> 8), (char)i};

    return map_hash_str((struct str){name, sizeof name});
}

/* Neighbours lie side by side; the distance of an entry from its home slot must stay small. */
static void things_are_near_their_homes(void **state)
{
    enum { THINGS = 200000 };
    static uint32_t (*const hashes[])(uint32_t i) = {hash_number, hash_name, hash_mixed,
                                                     hash_bytes};

    (void)state;
    for (size_t h = 0; h < sizeof hashes / sizeof *hashes; h++) {
        struct map m = {0};
        uint64_t steps = 0;

        for (uint32_t i = 1; i <= THINGS; i++)
            map_add(&m, hashes[h](i), i);
        for (uint32_t at = 0; at < m.len; at++)
            if (m.slots[at].ref)
                steps += (at + m.len - map_home(&m, m.slots[at].hash)) % m.len;
        if (steps / THINGS >= 8)
            fail_msg("hash %zu: %llu steps", h, (unsigned long long)(steps / THINGS));
        map_release(&m);
    }
}

/* A run of eight lies in the order of the names, as far as there is room. */
static void neighbours_lie_side_by_side(void **state)
{
    struct map m = {.len = 15000};

    (void)state;
    for (uint32_t i = 0; i < 1000; i += 10)
        for (uint32_t k = 1; k < 8; k++) {
            uint32_t before = map_home(&m, hash_name(i + k - 1));

            assert_int_equal(map_home(&m, hash_name(i + k)), (before + 1) % m.len);
        }
}

static void hashes_differ(void **state)
{
    (void)state;
    assert_int_equal(map_hash_str(STR("/a")), map_hash_str(STR("/a")));
    assert_int_not_equal(map_hash_str(STR("/a")), map_hash_str(STR("/b")));
    assert_int_not_equal(map_hash_str(STR("a")), map_hash_str(STR("a\0")));
    assert_int_not_equal(map_hash_u64(1), map_hash_u64(2));
    assert_int_not_equal(map_hash_u64(1), map_hash_u64(UINT64_C(1) << 32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_has_nothing),
        cmocka_unit_test(one_hash_may_have_many),
        cmocka_unit_test(removal_around_the_end),
        cmocka_unit_test(random_steps_against_the_array),
        cmocka_unit_test(it_grows_and_stays_sparse),
        cmocka_unit_test(things_are_near_their_homes),
        cmocka_unit_test(neighbours_lie_side_by_side),
        cmocka_unit_test(hashes_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
