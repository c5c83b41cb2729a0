/* Limits of runs. What the cgroup lacks the controller for is a resource limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>

#include "runner_scene.h"

static struct run_outcome limited(struct scene *s, const char *text, enum limit_kind kind,
                                  int64_t limit)
{
    struct policy_grant grant = {0};
    struct run_outcome o = {0};
    grant.limits.of[kind] = limit;
    start(s, (struct run_spec){.argv = SHELL(text), .grant = &grant}, &o);
    run_until(s, &o.over);
    return o;
}

static void limits_hold_body(struct scene *s)
{
    struct run_outcome o = limited(s, "ulimit -n; ulimit -Hn", LIMIT_FILES, 40);
    assert_string_equal(buf_text(&o.text[RUN_STDOUT]), "40\n40\n");
    outcome_release(&o);
    o = limited(s, "while :; do :; done", LIMIT_CPU, 1000);
    assert_int_equal(o.end.how, RUN_SIGNALLED);
    assert_string_equal(o.reason, "used more than its limit of CPU time: 1s");
    outcome_release(&o);
    o = limited(s, "exec dd if=/dev/zero of=/dev/null bs=200M count=1", LIMIT_MEMORY, 100000000);
    assert_true(o.end.how == RUN_SIGNALLED || o.end.status != 0);
    if (o.end.how == RUN_SIGNALLED && o.end.status == SIGKILL)
        assert_string_equal(o.reason, "used more than its limit of memory: 95.3 MiB");
    outcome_release(&o);
}

/* Many short processes, of which none uses much: only the cgroup tells. */
static void cpu_time_is_that_of_all_body(struct scene *s)
{
    if (!s->runner->cgroups) {
        print_message("no cgroups that we may make on this machine\n");
        return;
    }
    struct run_outcome o = limited(
        s, "while :; do (i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done); done", LIMIT_CPU, 300);
    assert_string_equal(o.reason, "used more than its limit of CPU time: 300ms");
    outcome_release(&o);
    o = limited(s, "exit 3", LIMIT_CPU, 300); /* it counts from 0 again */
    assert_int_equal(o.end.status, 3);
    outcome_release(&o);
}

static void limits_hold(void **state)
{
    struct scene s = {0};
    (void)state;
    with_reach(&s, true, limits_hold_body);
    with_reach(&s, false, limits_hold_body);
    with_runner(&s, cpu_time_is_that_of_all_body);
    assert_int_equal(count_cgroups(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(limits_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
