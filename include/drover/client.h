/*
 * client - the task store of a server, over HTTP. drover/schedule.h has its schedules.
 *
 *     #include <drover.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         const char *groups[] = {"map"};
 *         struct drover_claim take = {
 *             .groups = groups, .group_count = 1, .duration_ms = 30000, .wait_ms = 60000};
 *         struct drover_finish end = {.result = "ok"};
 *         struct drover_update done = {.finishes = &end, .finish_count = 1};
 *         struct drover_client *client;
 *         struct drover_result claimed, result;
 *         struct drover_error error;
 *
 *         if (drover_client_open(NULL, &client, &error))
 *             return fprintf(stderr, "%s\n", error.text), 1;
 *         if (drover_client_claim(client, &take, &claimed, &error) > 0) {
 *             struct drover_hold *hold = drover_client_hold(client, &claimed.tasks[0], 30000);
 *
 *             printf("%s\n", claimed.tasks[0].data);
 *             if (!drover_hold_release(hold, &end.id) &&
 *                 !drover_client_update(client, &done, &result, &error))
 *                 drover_result_release(&result);
 *             drover_result_release(&claimed);
 *         }
 *         drover_client_close(client);
 *         return 0;
 *     }
 *
 * A call that cannot reach a server, or loses the connection, retries for a while. Each change
 * carries a request id that the server remembers, so a retry commits nothing twice and returns the
 * reply that was lost. UNKNOWN means that the server stayed away.
 */
#ifndef DROVER_CLIENT_H
#define DROVER_CLIENT_H

#include <drover/core.h>
#include <drover/task.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct drover_client;

struct drover_client_options {
    const char *server; /* URLs, comma-separated; NULL: $DROVER_URL, else http://127.0.0.1:8048 */
    const char *token;  /* NULL: $DROVER_TOKEN, else none */
    int64_t clientid;   /* owner of claims; 0: the process's id, which is drawn at random once */
    int64_t retry_ms;   /* how long to retry; 0: 30 s; negative: never */
    int stop_fd;        /* when it becomes readable, calls return CLOSED; 0: none */

    /* For https://, files in PEM. */
    const char *ca;   /* authorities; NULL: $DROVER_CA, else those of the system */
    const char *cert; /* the client's certificate; NULL: $DROVER_CERT, else none */
    const char *key;  /* its key; NULL: $DROVER_KEY, else in the file of the certificate */
};

/* Does not connect yet. `o` may be NULL. */
int drover_client_open(const struct drover_client_options *o, struct drover_client **ret_client,
                       struct drover_error *ret_error);

/* Release all holds before. */
void drover_client_close(struct drover_client *c);

int64_t drover_client_id(const struct drover_client *c);

/* These return what the functions of the same name in drover/task.h return. */
int drover_client_update(struct drover_client *c, const struct drover_update *u,
                         struct drover_result *ret_result, struct drover_error *ret_error);
int drover_client_claim(struct drover_client *c, const struct drover_claim *claim,
                        struct drover_result *ret_result, struct drover_error *ret_error);
int drover_client_get(struct drover_client *c, int64_t id, struct drover_result *ret_result,
                      struct drover_error *ret_error);
int drover_client_list(struct drover_client *c, const char *group, size_t limit, int owned,
                       struct drover_result *ret_result, struct drover_error *ret_error);
int drover_client_wait(struct drover_client *c, int64_t id, int64_t timeout_ms,
                       struct drover_result *ret_result, struct drover_error *ret_error);
int drover_client_find(struct drover_client *c, const struct drover_filter *f, size_t limit,
                       struct drover_result *ret_result, struct drover_error *ret_error);
int drover_client_groups(struct drover_client *c, struct drover_groups *ret_groups,
                         struct drover_error *ret_error);
int drover_client_count_groups(struct drover_client *c, int internal,
                               struct drover_groups *ret_groups, struct drover_error *ret_error);
int drover_client_group(struct drover_client *c, const char *group, struct drover_group *ret_group,
                        struct drover_error *ret_error);
int drover_client_set_group(struct drover_client *c, const char *pattern,
                            const struct drover_settings *settings, struct drover_error *ret_error);
int drover_client_unset_group(struct drover_client *c, const char *pattern,
                              struct drover_error *ret_error);

/* The same; a transaction that was repeated because its reply was lost may not count its tasks. */
int drover_client_bulk(struct drover_client *c, const struct drover_bulk *b,
                       struct drover_bulk_count *ret_count, struct drover_error *ret_error);

/*
 * A hold renews a claimed task: a thread of the client extends the claim by duration_ms, well
 * before it runs out. Each renewal changes the task's id; the hold knows the current one. It copies
 * the task. NULL: the task's data is not UTF-8 text, and not `bytes` either, so it was not claimed
 * from a server.
 */
struct drover_hold;

struct drover_hold *drover_client_hold(struct drover_client *c, const struct drover_task *t,
                                       int64_t duration_ms);

/* Whether the claim is lost: another client has the task, or the server was away too long. */
int drover_hold_lost(struct drover_hold *h);

/*
 * Stops the renewal and frees the hold. 0: *ret_id is the current id of the task. FENCED: the claim
 * was lost. UNKNOWN: the server stayed away.
 */
int drover_hold_release(struct drover_hold *h, int64_t *ret_id);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
