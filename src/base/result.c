#include "base/result.h"

#include <stdlib.h>

#include "base/mem.h"

void result_init(struct drover_result *r, size_t task_max, size_t error_max)
{
    struct arena *a = mem_zalloc(sizeof *a);
    *r = (struct drover_result){.memory = a};
    r->tasks = arena_alloc(a, task_max * sizeof *r->tasks);
    r->errors = arena_alloc(a, error_max * sizeof *r->errors);
}

void result_add_task(struct drover_result *r, struct str group, struct str data,
                     const struct drover_task *rest)
{
    struct drover_task *t = &r->tasks[r->task_count++];
    *t = *rest;
    t->group = arena_text(r->memory, group);
    t->group_len = group.len;
    t->data = arena_text(r->memory, data);
    t->data_len = data.len;
}

void result_add_error(struct drover_result *r, struct str text)
{
    r->errors[r->error_count++] = arena_text(r->memory, text);
}

static void release(struct arena *a)
{
    if (a)
        arena_release(a);
    free(a);
}

void drover_result_release(struct drover_result *r)
{
    release(r->memory);
    *r = (struct drover_result){0};
}

void drover_groups_release(struct drover_groups *g)
{
    release(g->memory);
    *g = (struct drover_groups){0};
}
