/*
 * task_client - the inside of struct drover_client: its calls (task_client.c, group_client.c,
 * schedule_client.c), the renewal of claims (task_hold.c), and requests and replies as JSON
 * (task_body.c, group_body.c).
 *
 * A transport is used by one thread at a time, so the client has as many as there were concurrent
 * calls, and reuses them.
 */
#ifndef CLIENT_TASK_CLIENT_H
#define CLIENT_TASK_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "drover.h"
#include "http/transport.h"

enum {
    TASK_CLIENT_RETRY_MS = 30 * 1000,
    TASK_CLIENT_WAIT_MS = 30 * 1000, /* of one request; a longer wait takes several */
    TASK_CLIENT_REQUESTID_LEN = 32,
};

struct drover_client {
    char *server, *token;
    char *ca, *cert, *key; /* NULL: the default */
    int64_t clientid, retry_ms;
    int stop_fd; /* -1: none */

    pthread_mutex_t lock;
    struct transport **idle;
    size_t idle_count, idle_cap;

    /* Renewal, also under the lock. */
    pthread_cond_t changed;
    struct drover_hold *holds;
    pthread_t renewer;
    bool renewing, closing;
};

/* Sends one request once. The caller releases the body of the answer. */
int task_client_call(struct drover_client *c, const char *method, const char *path, struct str body,
                     int64_t timeout_ms, struct transport_answer *ret_answer,
                     struct err_info *ret_error);

/* The same, repeated for retry_ms while the server cannot be reached or is not ready. */
int task_client_insist(struct drover_client *c, const char *method, const char *path,
                       struct str body, int64_t timeout_ms, struct transport_answer *ret_answer,
                       struct err_info *ret_error);

/* Reads and releases an answer: 0 and its tasks, REFUSED and the reasons, or another error. */
int task_client_read(struct transport_answer *answer, struct drover_result *ret_result,
                     struct err_info *ret_error);

/*
 * Sends a request, with retries, and parses its answer into the arena. Any status but 200 is an
 * error, 404 NO_TASK.
 */
int task_client_ask(struct drover_client *c, const char *method, const char *path, struct str body,
                    int64_t timeout_ms, struct arena *a, const struct json **ret_json,
                    struct err_info *ret_error);

/* The same for an answer that has come. */
int task_client_parse(struct transport_answer *answer, struct arena *a,
                      const struct json **ret_json, struct err_info *ret_error);

/* Append to a path: an id; "?name=text" or "&name=text", percent-encoded, unless text is NULL. */
void task_client_put_id(struct buf *path, int64_t id);
void task_client_put_quoted(struct buf *path, const char *text);
void task_client_put_query(struct buf *path, const char *name, const char *text);

/* Stops the thread that renews, if it was started. */
void task_hold_end(struct drover_client *c);

/*
 * Append the body of a request as JSON. clientid is used if the request has none. Text that is not
 * UTF-8 is BAD_ARGUMENT: JSON could not return it unchanged.
 */
int task_body_update(struct buf *b, const struct drover_update *u, int64_t clientid,
                     const char *requestid, struct err_info *ret_error);
int task_body_claim(struct buf *b, const struct drover_claim *c, int64_t clientid, int64_t wait_ms,
                    const char *requestid, struct err_info *ret_error);

/*
 * Reads a reply: {"tasks": [...]}, a bare list of tasks (null where there is none), one task, or
 * {"errors": [...]}; anything else is IO. The caller releases the result.
 */
int task_body_read(struct str json, struct drover_result *ret_result, struct err_info *ret_error);

/* Appends the tasks of a list, or one task; *cap as in result_grow(). */
int task_body_add(struct drover_result *r, size_t *cap, const struct json *v,
                  struct err_info *ret_error);

/* IO, for an answer that does not have what it should have. */
int task_body_unexpected(struct err_info *ret_error);

/* Appends a list of ids. */
void task_body_put_ids(struct buf *b, const char *key, const int64_t *ids, size_t count);

/* Whether an id is DROVER_FIRST() of one. */
bool task_body_is_first(int64_t id);

/* Reads a list of names. */
int task_body_read_groups(struct str json, struct drover_groups *ret_groups,
                          struct err_info *ret_error);

#endif
