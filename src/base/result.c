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

void result_grow(struct drover_result *r, size_t *cap, size_t more)
{
    if (r->task_count + more <= *cap)
        return;
    *cap = r->task_count + more + *cap;
    struct drover_task *tasks = arena_alloc(r->memory, *cap * sizeof *tasks);
    if (r->task_count)
        memcpy(tasks, r->tasks, r->task_count * sizeof *tasks);
    r->tasks = tasks;
}

static void copy_text(struct arena *a, const char **text, size_t len)
{
    if (*text)
        *text = arena_text(a, (struct str){*text, len});
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
    copy_text(r->memory, &t->key, t->key_len);
    copy_text(r->memory, &t->share, t->share_len);
    copy_text(r->memory, &t->error, t->error_len);
    copy_text(r->memory, &t->origin, t->origin_len);
    copy_text(r->memory, &t->result, t->result_len);
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

void drover_group_release(struct drover_group *g)
{
    release(g->memory);
    *g = (struct drover_group){0};
}

void drover_schedules_release(struct drover_schedules *s)
{
    release(s->memory);
    *s = (struct drover_schedules){0};
}
