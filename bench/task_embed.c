/*
 * task_embed - cycles of a task in this process: added, claimed, deleted, with a store of drover.h.
 *
 *   task_embed MODE DIR THREADS SECONDS      MODE is strict, opportunistic or memory
 *
 * Prints cycles a second.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "drover.h"

enum { THREADS_MAX = 64 };

static struct drover_store *store;
static atomic_bool over;
static atomic_long cycles;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(int result)
{
    if (result >= 0)
        return;
    fprintf(stderr, "task_embed: %s\n", drover_err_message(result));
    exit(1);
}

static void cycle(int64_t client)
{
    static const char data[65] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    static const char *const groups[] = {"bench"};
    struct drover_task task = {.group = "bench", .data = data, .data_len = 64};
    struct drover_result r, none;

    must(drover_store_update(
        store, &(struct drover_update){.clientid = client, .adds = &task, .add_count = 1}, &r,
        NULL));
    drover_result_release(&r);
    must(drover_store_claim(
        store,
        &(struct drover_claim){
            .clientid = client, .groups = groups, .group_count = 1, .duration_ms = 60000},
        &r, NULL));
    must(drover_store_update(
        store,
        &(struct drover_update){.clientid = client, .deletes = &r.tasks[0].id, .delete_count = 1},
        &none, NULL));
    drover_result_release(&none);
    drover_result_release(&r);
}

static void *work(void *arg)
{
    while (!atomic_load(&over)) {
        cycle((int64_t)(size_t)arg + 1);
        atomic_fetch_add(&cycles, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"strict", "opportunistic", "memory"};
    struct drover_store_options o = {0};
    pthread_t threads[THREADS_MAX];
    struct drover_error error;
    struct timespec pause;
    double start, seconds;
    size_t count;

    if (argc != 5) {
        fprintf(stderr, "usage: task_embed MODE DIR THREADS SECONDS\n");
        return 2;
    }
    for (int i = 0; i < 3; i++)
        if (!strcmp(argv[1], modes[i]))
            o.mode = (enum drover_mode)i;
    o.dir = argv[2];
    count = (size_t)atoi(argv[3]);
    count = count > THREADS_MAX ? THREADS_MAX : count;
    seconds = atof(argv[4]);
    if (drover_store_open(&o, &store, &error)) {
        fprintf(stderr, "task_embed: %s\n", error.text);
        return 1;
    }
    start = now();
    for (size_t i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    pause = (struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&pause, NULL);
    atomic_store(&over, true);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%.0f\n", (double)atomic_load(&cycles) / (now() - start));
    drover_store_close(store);
    return 0;
}
