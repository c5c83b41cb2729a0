/*
 * A queue worker in C: creates a queue, posts its arguments, and processes the messages in order.
 *
 *     queue SERVER WORD...
 *
 * Prints each message. A word that begins with "bad" fails the first time, to show the retry
 * policy. Several workers that are started with the same server share the queues.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <drover.h>

static int fail(const char *what, const struct drover_error *e)
{
    fprintf(stderr, "%s: %s\n", what, e->text);
    return 1;
}

static int handle(void *arg, struct drover_message *m)
{
    int *failures = arg;

    if (!strncmp(m->data, "bad", 3) && !*failures) {
        ++*failures;
        snprintf(m->error, 256, "it is bad");
        return 1;
    }
    printf("%" PRId64 " %.*s\n", m->id, (int)m->data_len, m->data);
    return 0;
}

/* Receives the log lines of the library. */
static void note(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

static int post_all(struct drover_queues *qs, const char *queue, char **words, int64_t *ret_last)
{
    struct drover_error e;

    for (; *words; words++)
        if (drover_queue_post(qs, queue, *words, 0, ret_last, &e))
            return fail("post", &e);
    return 0;
}

/* Waits until `last` says that all are handled. */
static int wait_for(struct drover_queues *qs, const char *queue, int64_t id)
{
    struct drover_error e;
    struct drover_result r;
    int64_t last = 0;
    int waiting;

    while (last < id) {
        if (drover_queue_last(qs, queue, &last, &e))
            return fail("last", &e);
        waiting = drover_queue_read(qs, queue, last, 100, &r, &e);
        if (waiting < 0)
            return fail("read", &e);
        drover_result_release(&r);
        nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    }
    return 0;
}

static int run(struct drover_queues *qs, char **words)
{
    int failures = 0;
    const struct drover_worker_options options = {
        .handle = handle, .note = note, .arg = &failures, .quiet_ms = -1, .poll_ms = 50};
    char queue[DROVER_QUEUE_NAME_SIZE];
    struct drover_worker *worker;
    struct drover_error e;
    int64_t last = 0;
    int status;

    if (drover_queue_create(qs, queue, &e))
        return fail("create", &e);
    status = post_all(qs, queue, words, &last);
    if (!status && drover_worker_join(qs, &options, &worker, &e))
        return fail("join", &e);
    if (!status) {
        status = wait_for(qs, queue, last);
        drover_worker_free(worker);
    }
    if (drover_queue_remove(qs, queue, &e))
        return fail("remove", &e);
    return status;
}

int main(int argc, char **argv)
{
    struct drover_queues *qs;
    struct drover_error e;
    int status;

    if (argc < 3) {
        fprintf(stderr, "usage: queue SERVER WORD...\n");
        return 2;
    }
    if (drover_queues_open(&(struct drover_queues_options){.server = argv[1]}, &qs, &e))
        return fail("open", &e);
    status = run(qs, argv + 2);
    drover_queues_close(qs);
    return status;
}
