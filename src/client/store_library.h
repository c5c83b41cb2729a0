/*
 * store_library - the inside of struct drover_store: its calls (store_library.c, store_groups.c)
 * and the structs of drover/task.h as those of the task store (store_convert.c).
 */
#ifndef CLIENT_STORE_LIBRARY_H
#define CLIENT_STORE_LIBRARY_H

#include <pthread.h>
#include <stdatomic.h>

#include "drover.h"
#include "task/service.h"

struct store_waiter;

struct drover_store {
    struct local *local;             /* NULL: an ensemble */
    struct store_ensemble *ensemble; /* NULL: an embedded keeper */
    struct service *service;
    struct own_journal *journal; /* NULL: the keeper's */

    /* Those who wait for the end of a task. */
    atomic_size_t waiter_count; /* so that events cost nothing while nobody waits */
    pthread_mutex_t lock;       /* guards waiters */
    pthread_cond_t ended;
    struct store_waiter *waiters;
};

/* Appends a copy of a task. */
void store_library_add(struct drover_result *r, const struct task *t, int64_t now_ms);

/* Wakes those who wait for it. */
service_event_fn store_library_on_event;

/* What follows gives BAD_ARGUMENT for what a server would refuse, and borrows texts. */

/* A server that opens the store later shows its text as JSON. */
int store_check_text(struct str text, const char *what, struct err_info *e);

int store_convert_adds(struct arena *a, const struct drover_task *tasks, size_t count,
                       const struct task **ret_tasks, struct err_info *e);
int store_convert_updates(struct arena *a, const struct drover_task *tasks, size_t count,
                          const struct task **ret_tasks, struct err_info *e);

struct store_edits {
    const struct drover_fail *fails;
    const struct drover_finish *finishes;
    const int64_t *releases;
    size_t fail_count, finish_count, release_count;
};

int store_convert_edits(struct arena *a, const struct store_edits *from,
                        const struct task_edit **ret_edits, size_t *ret_count, struct err_info *e);

int store_convert_filter(const struct drover_filter *f, struct store_filter *ret_filter,
                         struct store_cursor *ret_from, struct err_info *e);

#endif
