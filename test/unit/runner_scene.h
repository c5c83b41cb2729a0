/* runner_scene - a runner on a loop, for tests: commands by a shell, and how they ended. */
#ifndef TEST_UNIT_RUNNER_SCENE_H
#define TEST_UNIT_RUNNER_SCENE_H

#include "dag/runner_impl.h"

extern char run_token[64]; /* of the last run */
extern const char *const run_environment[];

struct run_outcome {
    uint64_t limit; /* of the output; 0: 1 MiB */
    struct output *output;
    bool over;
    struct run_end end;
    char reason[96];
    struct buf text[RUN_STREAMS];
    uint64_t total;
    int64_t took_ms;
};

struct scene {
    uv_loop_t loop;
    struct runner *runner;
};

#define SHELL(text) ((const char *const[]){"/bin/bash", "-c", text, NULL})

/* Opens a runner, with cgroups where this machine has them or without, and closes it. */
void with_reach(struct scene *s, bool by_cgroup, void (*body)(struct scene *s));
void with_runner(struct scene *s, void (*body)(struct scene *s)); /* with them */

/* Starts a command, whose end is written to the outcome; runs the loop until then. */
struct run *start(struct scene *s, struct run_spec spec, struct run_outcome *o);
void run_until(struct scene *s, const bool *over);
struct run_outcome shell(struct scene *s, const char *text);
void outcome_release(struct run_outcome *o);

/* How many of our cgroups there are. */
int count_cgroups(void);

#endif
