/*
 * queue - queues whose messages are processed in order, by workers that share the queues.
 *
 *     #include <drover.h>
 *     #include <stdio.h>
 *
 *     static int handle(void *arg, struct drover_message *m)
 *     {
 *         (void)arg;
 *         return printf("%s: %s\n", m->queue, m->data) < 0;
 *     }
 *
 *     int main(void)
 *     {
 *         struct drover_worker_options options = {.handle = handle};
 *         struct drover_queues *queues;
 *         struct drover_worker *worker;
 *         struct drover_error error;
 *
 *         if (drover_queues_open(NULL, &queues, &error) ||
 *             drover_worker_join(queues, &options, &worker, &error))
 *             return fprintf(stderr, "%s\n", error.text), 1;
 *         drover_worker_wait(worker); // until another thread calls drover_worker_stop()
 *         drover_worker_free(worker);
 *         drover_queues_close(queues);
 *         return 0;
 *     }
 *
 * A queue has a name, by default 32 hex digits. Its messages are tasks of the group of that name.
 * The keeper holds how far a queue has been processed and which worker handles it. When workers
 * join, leave or die, the others re-balance and move no more queues than necessary. A message is
 * processed at least once, in order, and by one worker at a time.
 */
#ifndef DROVER_QUEUE_H
#define DROVER_QUEUE_H

#include <drover/core.h>
#include <drover/task.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct drover_queues;

enum { DROVER_QUEUE_NAME_SIZE = 33 }; /* of a name that drover_queue_create() makes, with its NUL */

struct drover_queues_options {
    const char *server; /* URL of the messages; NULL: $DROVER_URL, else http://127.0.0.1:8048 */
    const char *token;  /* NULL: $DROVER_TOKEN, else none */
    const char *keeper; /* zk://... or zks://...; NULL: ask the server */
    const char *auth;   /* "user:password" for the keeper; NULL: none */
    const char *ns;     /* the namespace; NULL: ask the server */
    int timeout_ms;     /* session timeout; 0: 10 s */
    const char *ca, *cert, *key; /* as in struct drover_client_options */

    /* For a keeper zks://..., as in struct drover_keeper_options. */
    const char *keeper_ca, *keeper_cert, *keeper_key;
};

/* Opens a session on the keeper. */
int drover_queues_open(const struct drover_queues_options *o, struct drover_queues **ret_queues,
                       struct drover_error *ret_error);

/* Free all workers before. */
void drover_queues_close(struct drover_queues *qs);

/*
 * Creates a queue with a random name, or with this one: at most 64 letters, digits, '.', '_' and
 * '-', the first a letter or digit. EXISTS: there is one. The tasks of the group of that name, if
 * there are any, become its messages.
 */
int drover_queue_create(struct drover_queues *qs, char ret_name[DROVER_QUEUE_NAME_SIZE],
                        struct drover_error *ret_error);
int drover_queue_create_named(struct drover_queues *qs, const char *name,
                              struct drover_error *ret_error);

/*
 * Removes the queue, and then its messages, except those that a client has claimed as tasks. After
 * an error that is not NO_NODE the queue may be gone and messages be left: delete them as tasks.
 */
int drover_queue_remove(struct drover_queues *qs, const char *queue,
                        struct drover_error *ret_error);

/* Appends a message. len 0: data ends with NUL. ret_id may be NULL. */
int drover_queue_post(struct drover_queues *qs, const char *queue, const char *data, size_t len,
                      int64_t *ret_id, struct drover_error *ret_error);

/*
 * Reads the messages after the id `after`, at most `limit`, and returns their number. 0, or more
 * than 1000: as many as fit into one answer, 1000 or a MiB. The timespec of a message is the time
 * when it was posted. The queue "qdo_error" holds failed messages.
 */
int drover_queue_read(struct drover_queues *qs, const char *queue, int64_t after, size_t limit,
                      struct drover_result *ret_result, struct drover_error *ret_error);

/* Gets and sets the id of the last processed message; 0: none. Workers follow a change. */
int drover_queue_last(struct drover_queues *qs, const char *queue, int64_t *ret_last,
                      struct drover_error *ret_error);
int drover_queue_set_last(struct drover_queues *qs, const char *queue, int64_t last,
                          struct drover_error *ret_error);

/* A message that is being processed. */
struct drover_message {
    const char *queue;
    int64_t id;
    int64_t time; /* when it was posted */
    const char *data;
    size_t data_len;
    int64_t fence; /* fencing token: rises each time a worker takes the queue */
    char *error;   /* 256 bytes: the handler writes here why it failed */
    const void *inside;
};

/* Returns 0: processed; positive: failed; negative: interrupted, process it again. */
typedef int drover_message_fn(void *arg, struct drover_message *m);

/*
 * Whether this worker certainly still owns the queue. A handler that runs long must ask from time
 * to time. On 0 it must stop within drover_message_grace_ms(): another worker may then start.
 */
int drover_message_is_sure(const struct drover_message *m);
int64_t drover_message_grace_ms(const struct drover_message *m);

enum drover_policy {
    DROVER_RETRY, /* retry a failed message with growing delays, then post it to qdo_error */
    DROVER_SKIP,  /* post a failed message to qdo_error at once and go on */
    DROVER_STOP,  /* stop the worker */
};

struct drover_worker_options {
    drover_message_fn *handle; /* called by `parallel` threads, each for another queue */
    void *arg;
    void (*note)(void *arg, const char *line); /* receives log lines; NULL: none */
    enum drover_policy policy;
    int retries;         /* of a failed message; 0: 10; negative: none */
    int64_t back_off_ms; /* before the first retry; doubles with each further one; 0: 1 s */
    int parallel;        /* messages processed at the same time; 0: 1 */
    int64_t quiet_ms;    /* re-balance after no change for this long; 0: 3 s; negative: at once */
    int64_t poll_ms;     /* read an empty queue this often even without news; 0: 10 s. The server
                            has no news of named queues in a namespace that is not its own */
    const char *const *only; /* only these queues; NULL: all */
    size_t only_count;
};

struct drover_worker;

/* Opens a session and processes messages until it is stopped. `o` must stay valid. */
int drover_worker_join(struct drover_queues *qs, const struct drover_worker_options *o,
                       struct drover_worker **ret_worker, struct drover_error *ret_error);

/* Asks the worker to finish its messages, release its queues and leave. Returns at once. */
void drover_worker_stop(struct drover_worker *w);

/* Waits until the worker has left. 0, or REFUSED: a message failed and the policy is STOP. */
int drover_worker_wait(struct drover_worker *w);

/* Stops the worker if necessary, waits for it, and frees it. */
void drover_worker_free(struct drover_worker *w);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
