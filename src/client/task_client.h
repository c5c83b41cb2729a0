/*
 * task_client - the inside of struct drover_client, for the parts of it that stand in different files.
 *
 * Transports are used by one thread at a time, so the client has as many as there were calls at once,
 * and hands them out. The thread that renews has a client's lock of its own; see task_hold.c.
 */
#ifndef CLIENT_TASK_CLIENT_H
#define CLIENT_TASK_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "drover.h"
#include "http/transport.h"

enum {
    TASK_CLIENT_RETRY_MS = 30 * 1000,
    TASK_CLIENT_WAIT_MS = 30 * 1000, /* of one request; a longer wait is several */
    TASK_CLIENT_REQUESTID_LEN = 32,
};

struct transport_entry {
    struct transport_entry *next;
    struct transport *transport;
};

struct drover_client {
    char *server, *token;
    int64_t clientid, retry_ms;
    int stop_fd; /* -1: none */

    pthread_mutex_t lock;
    struct transport_entry *idle;

    /* Renewal: under the lock too. */
    pthread_cond_t changed;
    struct drover_hold *holds;
    pthread_t renewer;
    bool renewing, closing;
};

/* One request, tried once. The answer's body is the caller's to release. */
int task_client_call(struct drover_client *c, const char *method, const char *path, struct str body,
                     int64_t timeout_ms, struct transport_answer *ret_answer,
                     struct err_info *ret_error);

/* The same, tried again for retry_ms while the server is away or says that it is not ready. */
int task_client_insist(struct drover_client *c, const char *method, const char *path,
                       struct str body, int64_t timeout_ms, struct transport_answer *ret_answer,
                       struct err_info *ret_error);

/* What an answer means: its tasks and 0, or REFUSED and its reasons, or another error. Releases it. */
int task_client_read(struct transport_answer *answer, struct drover_result *ret_result,
                     struct err_info *ret_error);

/* Whether trying again may help. */
bool task_client_is_away(int err, int status);

/* Random, from the system. */
void task_client_requestid(char text[static TASK_CLIENT_REQUESTID_LEN + 1]);

/* Ends the thread that renews, if there is one. */
void task_hold_end(struct drover_client *c);

#endif
