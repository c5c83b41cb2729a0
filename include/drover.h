/*
 * drover.h - the public C interface of Drover.
 *
 * It includes its parts: drover/core.h (version, errors, the keeper), task.h (the task store in
 * this process), group.h (groups and their settings), client.h (the task store of a server),
 * schedule.h, queue.h, world.h and batch.h.
 *
 * Example: a task store in this process, without a server. Build it with `cc example.c -ldrover`.
 * The tests compile and run it.
 *
 *     #include <drover.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         const char *groups[] = {"greetings"};
 *         struct drover_store_options options = {.mode = DROVER_STRICT, .dir = "tasks"};
 *         struct drover_task add = {.group = "greetings", .data = "hello"};
 *         struct drover_update put = {.clientid = 1, .adds = &add, .add_count = 1};
 *         struct drover_claim take = {
 *             .clientid = 2, .groups = groups, .group_count = 1, .duration_ms = 60000};
 *         struct drover_store *store;
 *         struct drover_result result;
 *         struct drover_error error;
 *
 *         if (drover_store_open(&options, &store, &error))
 *             return fprintf(stderr, "%s\n", error.text), 1;
 *         if (!drover_store_update(store, &put, &result, &error))
 *             drover_result_release(&result);
 *         while (drover_store_claim(store, &take, &result, &error) > 0) {
 *             struct drover_update done = {
 *                 .clientid = 2, .deletes = &result.tasks[0].id, .delete_count = 1};
 *             struct drover_result nothing;
 *
 *             printf("%s\n", result.tasks[0].data);
 *             if (!drover_store_update(store, &done, &nothing, &error))
 *                 drover_result_release(&nothing);
 *             drover_result_release(&result);
 *         }
 *         drover_result_release(&result);
 *         drover_store_close(store);
 *         return 0;
 *     }
 *
 * A function that can fail returns int: 0 or a count on success, a negative enum drover_err
 * otherwise. Out-parameters are named ret_... and stay untouched on failure. A `ret_error` may be
 * NULL. Calls may come from any thread unless a comment says otherwise.
 *
 * There is no error for memory: when it runs out, or when the system has no thread for the library,
 * the process prints a line on stderr and ends (SIGABRT). What was acknowledged is durable by then.
 */
#ifndef DROVER_H
#define DROVER_H

#include <drover/batch.h>
#include <drover/client.h>
#include <drover/core.h>
#include <drover/group.h>
#include <drover/queue.h>
#include <drover/schedule.h>
#include <drover/task.h>
#include <drover/world.h>

#endif
