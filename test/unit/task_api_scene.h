/*
 * task_api_scene - for the tests of libdrover that run on the store in process and on the client of
 * a server alike: both are opened once, and each call goes to the one that is tested.
 */
#ifndef TASK_API_SCENE_H
#define TASK_API_SCENE_H

#include <stdbool.h>
#include <stdint.h>

#include "drover.h"

enum { DEADLINE_S = 60, HOUR_MS = 3600 * 1000 };

extern struct drover_store *store;
extern struct drover_client *client;
extern bool remote; /* which of the two is tested */
extern struct drover_error e;
extern char group[64]; /* of the test */

int scene_set_up(void **state);
int scene_tear_down(void **state);
int scene_on_store(void **state);
int scene_on_client(void **state);

#define STORE(test)                                                                                \
    {                                                                                              \
        "store: " #test, test, scene_on_store, NULL, NULL                                          \
    }
#define CLIENT(test)                                                                               \
    {                                                                                              \
        "client: " #test, test, scene_on_client, NULL, NULL                                        \
    }
#define BOTH(test) STORE(test), CLIENT(test)

/* The calls, by client 1 unless given. */
int try_update(const struct drover_update *u, struct drover_result *r);
int claim_with(struct drover_claim c, struct drover_result *r);
int get(int64_t id, struct drover_result *r);
int await(int64_t id, int64_t ms, struct drover_result *r);
int find(const struct drover_filter *f, size_t limit, struct drover_result *r);
int bulk(const struct drover_bulk *b, struct drover_bulk_count *count);
int set(const char *pattern, struct drover_settings s);
int unset(const char *pattern);

/* What has to succeed. */
struct drover_result update(const struct drover_update *u);
int64_t change(const struct drover_update *u); /* the id of the only task; 0: there is none */
int64_t add(struct drover_task t);
int64_t claim(void);
struct drover_group settings_of(const char *name);
struct drover_result show(int64_t first); /* the task whose first id was this */

/* Claims a task and fails it with the error "no luck". Texts of the answer are not to be read. */
struct drover_task fail_once(struct drover_fail f);

#endif
