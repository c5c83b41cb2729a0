/* Every transition of the three machines, as in the specification; and machines from JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "batch/machine.h"

/* Rows of the specification: a state, and the states that may follow. */
struct row {
    const char *from, *to;
};

static const struct row JOB[] = {
    {"Pending", "Held Estimating Failed"},
    {"Held", "Pending Deleted"},
    {"Estimating", "Provisioning Failed"},
    {"Provisioning", "Downloading Failed"},
    {"Downloading", "Processing Failed"},
    {"Processing", "Recording Failed"},
    {"Recording", "Notify Failed"},
    {"Notify", "Completed Failed"},
    {"Failed", "Pending Estimating Provisioning Downloading Processing Recording Notify Deleted"},
    {"Completed", ""},
    {"Deleted", ""},
};

static const struct row BATCH[] = {
    {"Pending", "Held Processing"},
    {"Held", "Pending Deleted"},
    {"Processing", "Reporting Failed"},
    {"Reporting", "Completed Failed"},
    {"Failed", "UpdateReporting Deleted"},
    {"UpdateReporting", "Completed Failed"},
    {"Completed", ""},
    {"Deleted", ""},
};

static const struct row ACCESS[] = {
    {"Pending", "Processing"},
    {"Processing", "Completed Failed"},
    {"Failed", "Processing Deleted"},
    {"Completed", ""},
    {"Deleted", ""},
};

static bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = strstr(words, word); at; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

static void check_machine(const struct batch_machine *m, const struct row *rows, int count)
{
    assert_int_equal(m->count, count);
    for (int f = 0; f < count; f++) {
        int from = batch_machine_find(m, str_of(rows[f].from));

        assert_true(from >= 0);
        assert_int_equal(batch_machine_is_final(m, from), rows[f].to[0] == '\0');
        for (int t = 0; t < count; t++) {
            struct err_info why = {""};
            int to = batch_machine_find(m, str_of(rows[t].from)),
                got = batch_machine_resolve(m, from, "x1", str_of(rows[t].from), &why);

            if (has_word(rows[f].to, rows[t].from)) {
                assert_int_equal(got, to);
            } else {
                assert_int_equal(got, DROVER_NOT_ALLOWED);
                assert_non_null(strstr(why.text, rows[f].from));
            }
        }
    }
}

static void every_change_of_the_three(void **state)
{
    (void)state;
    check_machine(&BATCH_MACHINES_BUILT_IN.job, JOB, 11);
    check_machine(&BATCH_MACHINES_BUILT_IN.batch, BATCH, 8);
    check_machine(&BATCH_MACHINES_BUILT_IN.access, ACCESS, 5);
}

static int go(const struct batch_machine *m, const char *from, const char *word,
              struct err_info *why)
{
    return batch_machine_resolve(m, batch_machine_find(m, str_of(from)), "jid0000000001",
                                 str_of(word), why);
}

static void success_and_failure(void **state)
{
    static const char *const steps[] = {"Pending",    "Estimating", "Provisioning", "Downloading",
                                        "Processing", "Recording",  "Notify",       "Completed"};
    const struct batch_machine *m = &BATCH_MACHINES_BUILT_IN.job;
    struct err_info why;

    (void)state;
    for (int i = 0; i < 7; i++) {
        assert_string_equal(m->states[go(m, steps[i], "next", &why)].name, steps[i + 1]);
        assert_string_equal(m->states[go(m, steps[i], "fail", &why)].name, "Failed");
    }
    assert_int_equal(go(m, "Completed", "next", &why), DROVER_NOT_ALLOWED);
    assert_string_equal(why.text, "job jid0000000001 is Completed, a final state");
    assert_int_equal(go(m, "Held", "fail", &why), DROVER_NOT_ALLOWED);
    assert_int_equal(go(m, "Failed", "next", &why), DROVER_NOT_ALLOWED);
}

static void a_refusal_says_what_is_allowed(void **state)
{
    struct err_info why;

    (void)state;
    assert_int_equal(go(&BATCH_MACHINES_BUILT_IN.job, "Pending", "Notify", &why),
                     DROVER_NOT_ALLOWED);
    assert_string_equal(why.text, "job jid0000000001 is Pending, which can become Held, "
                                  "Estimating or Failed, not Notify");
    assert_int_equal(go(&BATCH_MACHINES_BUILT_IN.job, "Pending", "Flying", &why),
                     DROVER_BAD_ARGUMENT);
    assert_string_equal(why.text,
                        "a job has no state 'Flying'; the states are Pending, Held, Estimating, "
                        "Provisioning, Downloading, Processing, Recording, Notify, Failed, "
                        "Completed and Deleted");
    assert_int_equal(go(&BATCH_MACHINES_BUILT_IN.access, "Pending", "Failed", &why),
                     DROVER_NOT_ALLOWED);
    assert_string_equal(why.text, "access item jid0000000001 is Pending, which can become "
                                  "Processing, not Failed");
}

static void lists_and_names(void **state)
{
    const struct batch_machine *m = &BATCH_MACHINES_BUILT_IN.job;

    (void)state;
    for (int i = 0; i < m->count; i++) {
        const char *name = m->states[i].name;
        enum batch_list list = !strcmp(name, "Failed")      ? BATCH_LIST_FAILED
                               : !strcmp(name, "Completed") ? BATCH_LIST_COMPLETED
                               : !strcmp(name, "Deleted")   ? BATCH_LIST_DELETED
                                                            : BATCH_LIST_PROCESSING;

        assert_int_equal(m->states[i].list, list);
        assert_int_equal(batch_machine_find(m, str_of(m->states[i].dir)), i);
    }
    assert_int_equal(batch_machine_find(m, STR("")), BATCH_NO_STATE);
    assert_int_equal(batch_machine_find(m, STR("pend")), BATCH_NO_STATE);
    assert_int_equal(batch_machine_find(m, STR("pending2")), BATCH_NO_STATE);
}

static int load(struct arena *a, const char *text, struct batch_machines *ret, struct err_info *why)
{
    return batch_machines_load(a, str_of(text), ret, why);
}

static void a_machine_from_json(void **state)
{
    struct arena a = {0};
    struct batch_machines m;
    struct err_info why = {""};

    (void)state;
    assert_int_equal(
        load(&a,
             "{\"job\": {\"first\": \"New\", \"held\": \"Parked\", \"states\": {"
             "\"New\": {\"to\": [\"Parked\", \"Scan\"], \"success\": \"Scan\"},"
             "\"Parked\": {\"to\": [\"New\"], \"success\": \"New\"},"
             "\"Scan\": {\"to\": [\"Done\", \"Broken\"], \"success\": \"Done\", \"fail\": "
             "\"Broken\", \"keep\": true},"
             "\"Broken\": {\"to\": [\"New\"], \"batch\": \"batch-failed\"},"
             "\"Done\": {\"batch\": \"batch-completed\"}}}}",
             &m, &why),
        0);
    assert_int_equal(m.job.count, 5);
    assert_string_equal(m.job.states[m.job.first].name, "New");
    assert_string_equal(m.job.states[m.job.held].dir, "parked");
    assert_string_equal(m.job.states[go(&m.job, "Scan", "fail", &why)].name, "Broken");
    assert_true(m.job.states[batch_machine_find(&m.job, STR("scan"))].keeps_lock);
    assert_int_equal(m.job.states[batch_machine_find(&m.job, STR("broken"))].list,
                     BATCH_LIST_FAILED);
    assert_int_equal(go(&m.job, "New", "Done", &why), DROVER_NOT_ALLOWED);
    assert_int_equal(m.batch.count, BATCH_MACHINES_BUILT_IN.batch.count);
    arena_release(&a);
}

static void wrong_machines_are_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", ""},
        {"[]", "a pipeline is an object"},
        {"{}", "a pipeline is an object"},
        {"{\"jobs\": {}}", "jobs"},
        {"{\"job\": 1}", "is not an object"},
        {"{\"job\": {}}", "'states' is missing"},
        {"{\"job\": {\"states\": {}}}", "1 to 64"},
        {"{\"job\": {\"states\": {\"A/b\": {}}}}", "letters and digits"},
        {"{\"job\": {\"states\": {\"next\": {}}}}", "'next'"},
        {"{\"job\": {\"states\": {\"A\": {\"to\": [\"a\"]}, \"a\": {}}}}", "twice"},
        {"{\"job\": {\"states\": {\"A\": {\"to\": [\"B\"]}}}}", "'B', which is not a state"},
        {"{\"job\": {\"states\": {\"A\": {\"to\": [1]}}}}", "not a string"},
        {"{\"job\": {\"states\": {\"A\": {\"too\": [\"B\"]}}}}", "too"},
        {"{\"job\": {\"first\": \"X\", \"states\": {\"A\": {\"batch\": \"batch-completed\"}}}}",
         "'X', which is not a state"},
        {"{\"job\": {\"states\": {\"A\": {\"to\": [\"B\"]}, \"B\": {\"to\": [\"A\"]}}}}",
         "there is no final state"},
        {"{\"job\": {\"states\": {\"A\": {\"batch\": \"batch-completed\"}, \"B\": {\"to\": "
         "[\"A\"]}}}}",
         "'B' cannot be reached"},
        {"{\"job\": {\"states\": {\"A\": {\"to\": [\"B\", \"C\"]}, \"B\": {\"to\": [\"B\"]}, "
         "\"C\": {\"batch\": \"batch-completed\"}}}}",
         "can be reached from 'B'"},
        {"{\"job\": {\"states\": {\"A\": {\"to\": [\"B\"], \"success\": \"A\"}, \"B\": "
         "{\"batch\": \"batch-completed\"}}}}",
         "not among its 'to'"},
        {"{\"job\": {\"states\": {\"A\": {\"to\": [\"B\"]}, \"B\": {}}}}", "needs 'batch'"},
        {"{\"job\": {\"states\": {\"A\": {\"batch\": \"batch-lost\"}}}}", "not a list of a batch"},
        {"{\"batch\": {\"states\": {\"A\": {}}}}", "'Pending' is required"},
    };
    struct arena a = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct batch_machines m = {.job.count = 77};
        struct err_info why = {""};

        if (load(&a, rows[i].text, &m, &why) != DROVER_BAD_ARGUMENT)
            fail_msg("%s should be refused", rows[i].text);
        if (!strstr(why.text, rows[i].says))
            fail_msg("%s: '%s' does not say '%s'", rows[i].text, why.text, rows[i].says);
        assert_int_equal(m.job.count, 77);
        arena_reset(&a);
    }
    arena_release(&a);
}

/* As the built-in machine, with Storing between Processing and Recording. */
static void the_pipeline_storing(void **state)
{
    const struct batch_machine *was = &BATCH_MACHINES_BUILT_IN.job;
    struct arena a = {0};
    struct batch_machines m;
    struct err_info why;
    int at = batch_machine_find(was, STR("Recording"));

    (void)state;
    assert_int_equal(load(&a, "storing", &m, &why), 0);
    assert_int_equal(m.job.count, was->count + 1);
    assert_string_equal(m.job.states[at].name, "Storing");
    assert_string_equal(m.job.states[m.job.held].name, "Held");
    for (int i = 0; i < was->count; i++) {
        const struct batch_machine_state *old = &was->states[i],
                                         *new = &m.job.states[i + (i >= at)];
        uint64_t low = (UINT64_C(1) << at) - 1, to = (old->to & low) | (old->to & ~low) << 1;
        int success = old->success >= at ? old->success + 1 : old->success;

        assert_string_equal(old->name, new->name);
        assert_int_equal(old->list, new->list);
        if (strcmp(old->name, "Processing") == 0) {
            to = (to & ~(UINT64_C(1) << (at + 1))) | UINT64_C(1) << at;
            success = at;
        }
        if (strcmp(old->name, "Failed") == 0)
            to |= UINT64_C(1) << at;
        assert_int_equal(new->to, to);
        assert_int_equal(new->success, success);
        assert_int_equal(new->fail, old->fail >= at ? old->fail + 1 : old->fail);
    }
    assert_int_equal(go(&m.job, "Storing", "next", &why), at + 1);
    assert_ptr_equal(m.batch.states, BATCH_MACHINES_BUILT_IN.batch.states);
    arena_release(&a);
}

/* Every member stays in its place; those that a move sets get new values. */
static void statuses(void **state)
{
    static const struct {
        bool job;
        const char *text, *written; /* after a move to Failed or Completed at "now" */
    } rows[] = {
        {true, "{}", NULL},
        {true, "[]", NULL},
        {true, "{\"status\": 1}", NULL},
        {true, "{\"status\": \"a/b\"}", NULL},
        {true, "{\"status\": \"Pending\", \"retry_count\": \"x\"}", NULL},
        {true, "{\"status\": \"Pending\"}",
         "{\"status\":\"Failed\",\"last_successful_status\":null,"
         "\"last_modification_date\":\"now\",\"retry_count\":0}"},
        {true,
         "{\"x\": [1, 2.50], \"message\": \"m\", \"last_modified\": \"then\", \"status\": "
         "\"Pending\", \"last_successful_status\": \"Storing\", \"retry_count\": 3, \"y\": null}",
         "{\"x\":[1,2.50],\"message\":\"m\",\"last_modified\":\"now\",\"status\":\"Failed\","
         "\"last_successful_status\":\"Storing\",\"retry_count\":3,\"y\":null,"
         "\"last_modification_date\":\"now\"}"},
        {true, "{\"message\":\"\",\"status\":\"Pending\"}",
         "{\"message\":\"\",\"status\":\"Failed\",\"last_successful_status\":null,"
         "\"last_modification_date\":\"now\",\"retry_count\":0}"},
        {false,
         "{\"status\": \"Pending\", \"message\": null, \"last_successful_status\": \"Q\", "
         "\"retry_count\": 2, \"last_modification_date\": \"then\"}",
         "{\"status\":\"Failed\",\"message\":null,\"last_successful_status\":\"Q\","
         "\"retry_count\":2,\"last_modification_date\":\"then\",\"last_modified\":\"now\"}"},
    };
    struct arena a = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct batch_machine *m =
            rows[i].job ? &BATCH_MACHINES_BUILT_IN.job : &BATCH_MACHINES_BUILT_IN.batch;
        struct batch_status s;
        struct err_info why;
        int err = batch_status_read(m, &a, str_of(rows[i].text), &s, &why);

        assert_int_equal(err, rows[i].written ? 0 : DROVER_DAMAGED);
        if (err)
            continue;
        s.state = batch_machine_find(m, STR("Failed"));
        s.modified = STR("now");
        assert_string_equal(batch_status_write(m, &s, &a).p, rows[i].written);
    }
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pipeline_storing),
        cmocka_unit_test(statuses),
        cmocka_unit_test(every_change_of_the_three),
        cmocka_unit_test(success_and_failure),
        cmocka_unit_test(a_refusal_says_what_is_allowed),
        cmocka_unit_test(lists_and_names),
        cmocka_unit_test(a_machine_from_json),
        cmocka_unit_test(wrong_machines_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
