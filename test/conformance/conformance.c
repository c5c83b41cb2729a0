/*
 * The list of all cases, and running them with cmocka as tests with names of their own.
 */
#include "conformance.h"

#include <stdio.h>

#include "fixture.h"

static const struct conformance_case *const lists[] = {
    read_cases,        create_cases,    path_cases,           set_cases,         delete_cases,
    stat_cases,        sequence_cases,  multi_cases,          transaction_cases, commit_cases,
    watch_table_cases, watch_cases,     watch_callback_cases, dispatch_cases,    thread_cases,
    limits_cases,      ephemeral_cases, session_cases,
};

enum { LISTS = sizeof lists / sizeof *lists };

/* What a cmocka test starts from. Its state becomes the fixture while it runs. */
struct run {
    const struct conformance_backend *backend;
    const struct conformance_case *c;
    struct fixture *f;
};

/* What comes before a case is not what it tests: a keeper that was too busy is asked again. */
static int setup(void **state)
{
    struct run *r = *state;
    int err = 0;

    for (int tries = 0; tries < 3; tries++) {
        err = fixture_open(r->backend, r->c, &r->f);
        if (!err)
            return 0;
        print_error("%s: no session: %s\n", r->c->name, drover_err_name(err));
    }
    return err;
}

static int teardown(void **state)
{
    struct run *r = *state;

    fixture_close(r->f);
    r->f = NULL;
    return 0;
}

static void run_case(void **state)
{
    struct run *r = *state;

    if (setjmp(fixture_broken)) { /* from the beginning, with new sessions */
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
    r->c->run(r->f);
}

static bool applies(const struct conformance_backend *backend, const char *name)
{
    for (const char *const *part = backend->without; part && *part; part++)
        if (strstr(name, *part))
            return false;
    return true;
}

/* Fills in the cases that match, or only counts them. */
static size_t select_cases(const struct conformance_backend *backend, const char *filter,
                           struct run *runs, struct CMUnitTest *tests)
{
    size_t n = 0;

    for (size_t i = 0; i < LISTS; i++) {
        for (const struct conformance_case *c = lists[i]; c->name; c++) {
            if ((filter && !strstr(c->name, filter)) || !applies(backend, c->name))
                continue;
            if (tests) {
                runs[n] = (struct run){backend, c, NULL};
                tests[n] = (struct CMUnitTest){c->name, run_case, setup, teardown, &runs[n]};
            }
            n++;
        }
    }
    return n;
}

int conformance_run(const struct conformance_backend *backend, const char *filter)
{
    size_t count = select_cases(backend, filter, NULL, NULL);
    struct run *runs = mem_zalloc((count + 1) * sizeof *runs);
    struct CMUnitTest *tests = mem_zalloc((count + 1) * sizeof *tests);
    int failed = 1;

    fixture_allow_breaks(backend->breaks_max);
    if (count) {
        select_cases(backend, filter, runs, tests);
        failed = _cmocka_run_group_tests(backend->name, tests, count, NULL, NULL);
    } else {
        fprintf(stderr, "no case is named like '%s'\n", filter);
    }
    free(tests);
    free(runs);
    return failed;
}

void conformance_list(void)
{
    for (size_t i = 0; i < LISTS; i++) {
        for (const struct conformance_case *c = lists[i]; c->name; c++)
            puts(c->name);
    }
}
