#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "runner_scene.h"

char run_token[64];
const char *const run_environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", run_token, "A=b c",
                                       NULL};

static void on_done(void *arg, struct run *r, const struct run_end *end)
{
    struct run_outcome *o = arg;

    o->over = true;
    o->end = *end;
    snprintf(o->reason, sizeof o->reason, "%s", end->reason ? end->reason : "");
    output_end(o->output, clock_wall_ms());
    output_put_texts(o->output, true, o->text);
    o->total = o->output->total.of[RUN_STDOUT];
    run_free(r);
    output_free(o->output);
    o->output = NULL;
}

void outcome_release(struct run_outcome *o)
{
    for (int i = 0; i < RUN_STREAMS; i++)
        buf_release(&o->text[i]);
}

struct run *start(struct scene *s, struct run_spec spec, struct run_outcome *o)
{
    struct err_info e;
    int status;
    struct run *r;

    snprintf(run_token, sizeof run_token, "DROVER_RUN=%d.%ld", (int)getpid(), random());
    spec.envp = run_environment;
    spec.token = run_token;
    spec.output = o->output = output_new(NULL, 1, 1, o->limit ? o->limit : 1024 * 1024);
    r = runner_start(s->runner, &spec, on_done, NULL, o, &status, &e);
    if (!r)
        fail_msg("%s", e.text);
    return r;
}

void run_until(struct scene *s, const bool *over)
{
    while (!*over)
        uv_run(&s->loop, UV_RUN_ONCE);
}

/* With cgroups, where this machine has them, and without. */
void with_reach(struct scene *s, bool by_cgroup, void (*body)(struct scene *s))
{
    uv_loop_init(&s->loop);
    s->runner = runner_open(&s->loop);
    if (!by_cgroup && s->runner->cgroups) {
        cgroups_close(s->runner->cgroups);
        s->runner->cgroups = NULL;
    }
    body(s);
    assert_null(s->runner->runs);
    runner_close(s->runner);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->loop), 0);
}

void with_runner(struct scene *s, void (*body)(struct scene *s))
{
    with_reach(s, true, body);
}

struct run_outcome shell(struct scene *s, const char *text)
{
    struct run_outcome o = {0};
    int64_t from = clock_boot_ms();

    start(s, (struct run_spec){.argv = SHELL(text)}, &o);
    run_until(s, &o.over);
    o.took_ms = clock_boot_ms() - from;
    return o;
}

/* How many of our cgroups there are. */
int count_cgroups(void)
{
    FILE *f = popen("find $(awk '$0 ~ / - cgroup2 / {print $5; exit}' /proc/self/mountinfo) "
                    "-name drover-$PPID-'*' | wc -l",
                    "r");
    int count = -1;

    assert_int_equal(fscanf(f, "%d", &count), 1);
    pclose(f);
    return count;
}
