/* The queues of the public interface: drover_queue... and drover_worker... of drover.h. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "client/worker.h"
#include "drover.h"
#include "keeper/zookeeper/zookeeper.h"

struct drover_queues {
    struct drover_client *client;
    struct message_remote messages;
    char *server, *token, *url, *auth, *ns;
    int timeout_ms;
    struct keeper *keeper;
};

struct drover_worker {
    struct drover_worker_options o;
    struct drover_queues *queues;
    struct message_listener *listen;
    struct worker_runtime *runtime;
};

/* Errors. */

static int fail(struct drover_error *e, int err, const char *what)
{
    if (err && e)
        snprintf(e->text, sizeof e->text, "%s", what[0] ? what : drover_err_message(err));
    return err;
}

static int fail_queue(struct drover_error *e, int err, const char *queue)
{
    char text[512];

    snprintf(text, sizeof text, "queue %.64s: %s", queue,
             err == DROVER_NO_NODE        ? "there is no such queue"
             : err == DROVER_BAD_ARGUMENT ? "a name has 32 hex digits"
                                          : drover_err_message(err));
    return fail(e, err, text);
}

/* Opening. */

static char *copy(const char *text)
{
    return text ? mem_dup(text, strlen(text)) : NULL;
}

static int connect_keeper(struct drover_queues *qs, struct keeper **ret_keeper, struct err_info *e)
{
    struct zookeeper_options zo = {.auth = qs->auth};
    struct keeper_options ko = {.timeout_ms = qs->timeout_ms};

    return zookeeper_connect(qs->url, &zo, &ko, ret_keeper, e);
}

static int open_all(struct drover_queues *qs, const struct drover_queues_options *o,
                    struct err_info *e)
{
    struct drover_client_options co = {.server = o->server, .token = o->token, .retry_ms = 5000};
    struct drover_error why = {""};
    int err = drover_client_open(&co, &qs->client, &why);

    if (err)
        return err_set(e, err, "%s", why.text);
    message_remote_init(&qs->messages, qs->client);
    if (!queues_valid_namespace(qs->ns))
        return err_set(e, DROVER_BAD_ARGUMENT, "'%.200s' is no namespace: it is a path, /a/b",
                       qs->ns);
    if (!qs->url)
        err = message_remote_keeper(qs->client, &qs->url, e);
    return err ? err : connect_keeper(qs, &qs->keeper, e);
}

int drover_queues_open(const struct drover_queues_options *o, struct drover_queues **ret_queues,
                       struct drover_error *ret_error)
{
    static const struct drover_queues_options none;
    struct drover_queues *qs = mem_zalloc(sizeof *qs);
    struct err_info e = {""};
    int err;

    o = o ? o : &none;
    qs->server = copy(o->server);
    qs->token = copy(o->token);
    qs->url = copy(o->keeper);
    qs->auth = copy(o->auth);
    qs->ns = copy(o->ns ? o->ns : QUEUE_NAMESPACE);
    qs->timeout_ms = o->timeout_ms;
    err = open_all(qs, o, &e);
    if (err) {
        drover_queues_close(qs);
        return fail(ret_error, err, e.text);
    }
    *ret_queues = qs;
    return 0;
}

void drover_queues_close(struct drover_queues *qs)
{
    if (qs->keeper)
        keeper_close(qs->keeper);
    if (qs->client)
        drover_client_close(qs->client);
    free(qs->server);
    free(qs->token);
    free(qs->url);
    free(qs->auth);
    free(qs->ns);
    free(qs);
}

/* Queues. */

static struct queues at(const struct drover_queues *qs)
{
    return (struct queues){qs->keeper, qs->ns};
}

int drover_queue_create(struct drover_queues *qs, char ret_name[DROVER_QUEUE_NAME_SIZE],
                        struct drover_error *ret_error)
{
    struct queues where = at(qs);

    return fail(ret_error, queue_create(&where, ret_name), "");
}

int drover_queue_remove(struct drover_queues *qs, const char *queue, struct drover_error *ret_error)
{
    struct queues where = at(qs);
    int err = queue_remove(&where, queue);

    return err ? fail_queue(ret_error, err, queue) : 0;
}

int drover_queue_last(struct drover_queues *qs, const char *queue, int64_t *ret_last,
                      struct drover_error *ret_error)
{
    struct queues where = at(qs);
    struct queue_info info;
    int err = queue_get(&where, queue, &info);

    if (err)
        return fail_queue(ret_error, err, queue);
    *ret_last = info.last;
    return 0;
}

int drover_queue_set_last(struct drover_queues *qs, const char *queue, int64_t last,
                          struct drover_error *ret_error)
{
    struct queues where = at(qs);
    int err = queue_set_last(&where, queue, last, KEEPER_ANY_VERSION);

    return err ? fail_queue(ret_error, err, queue) : 0;
}

/* Messages. */

int drover_queue_post(struct drover_queues *qs, const char *queue, const char *data, size_t len,
                      int64_t *ret_id, struct drover_error *ret_error)
{
    struct message_source *m = &qs->messages.base;
    struct err_info e = {""};
    int64_t id;
    TRY(drover_queue_last(qs, queue, &id, ret_error)); /* whether the queue exists */
    int err = m->post(m, queue, (struct str){data, len ? len : strlen(data)}, &id, &e);
    if (!err && ret_id)
        *ret_id = id;
    return fail(ret_error, err, e.text);
}

static void give_messages(const struct queue_message_list *list, const char *queue,
                          struct drover_result *ret_result)
{
    struct arena *memory = mem_alloc(sizeof *memory);
    struct drover_task *tasks;

    *memory = list->arena;
    tasks = arena_zalloc(memory, (list->count + 1) * sizeof *tasks);
    for (size_t i = 0; i < list->count; i++) {
        const struct queue_message *m = &list->messages[i];

        tasks[i] = (struct drover_task){.id = m->id,
                                        .group = arena_text(memory, str_of(queue)),
                                        .group_len = strlen(queue),
                                        .data = arena_text(memory, m->data),
                                        .data_len = m->data.len,
                                        .timespec = m->time_ms};
    }
    *ret_result =
        (struct drover_result){.tasks = tasks, .task_count = list->count, .memory = memory};
}

int drover_queue_read(struct drover_queues *qs, const char *queue, int64_t after, size_t limit,
                      struct drover_result *ret_result, struct drover_error *ret_error)
{
    struct message_source *m = &qs->messages.base;
    struct queue_message_list list = {0};
    struct err_info e = {""};

    if (!queue_valid_name(str_of(queue)) && strcmp(queue, QUEUE_ERROR))
        return fail_queue(ret_error, DROVER_BAD_ARGUMENT, queue);
    int err = m->read(m, queue, after, limit ? limit : MESSAGES_LIMIT, &list, &e);
    if (err)
        return fail(ret_error, err, e.text);
    give_messages(&list, queue, ret_result);
    return (int)list.count;
}

/* Workers. */

static int connect_worker(void *arg, struct keeper **ret_keeper, struct err_info *ret_error)
{
    struct drover_worker *w = arg;

    return connect_keeper(w->queues, ret_keeper, ret_error);
}

static int hear(void *arg, struct arena *a, struct message_news *ret_news)
{
    struct drover_worker *w = arg;

    return message_listener_wait(w->listen, a, ret_news);
}

static void unhear(void *arg)
{
    struct drover_worker *w = arg;

    message_listener_end(w->listen);
}

static void note(void *arg, const char *line)
{
    struct drover_worker *w = arg;

    if (w->o.note)
        w->o.note(w->o.arg, line);
}

static enum worker_verdict handle(void *arg, struct worker_message *m)
{
    struct drover_worker *w = arg;
    struct drover_message given = {.queue = m->queue,
                                   .id = m->id,
                                   .time = m->time_ms,
                                   .data = m->data.p,
                                   .data_len = m->data.len,
                                   .fence = m->fence,
                                   .error = m->error,
                                   .inside = m};
    int verdict = w->o.handle(w->o.arg, &given);

    return !verdict ? MESSAGE_HANDLED : verdict > 0 ? MESSAGE_FAILED : MESSAGE_INTERRUPTED;
}

int drover_message_is_sure(const struct drover_message *m)
{
    return worker_message_is_sure(m->inside);
}

int64_t drover_message_grace_ms(const struct drover_message *m)
{
    return worker_message_grace_ms(m->inside);
}

static int64_t chosen(int64_t given, int64_t otherwise)
{
    return given > 0 ? given : given < 0 ? 0 : otherwise;
}

static struct queue_worker_options queue_worker_options(const struct drover_worker_options *o)
{
    static const enum queue_worker_policy policies[] = {
        [DROVER_RETRY] = WORKER_RETRY, [DROVER_SKIP] = WORKER_SKIP, [DROVER_STOP] = WORKER_STOP};

    return (struct queue_worker_options){
        .quiet_ms = chosen(o->quiet_ms, WORKER_QUIET_MS),
        .poll_ms = chosen(o->poll_ms, WORKER_POLL_MS),
        .timeout_ms = KEEPER_TIMEOUT_DEFAULT_MS,
        .policy = policies[o->policy],
        .back_off_ms = chosen(o->back_off_ms, WORKER_BACKOFF_MS),
        .retries = (int)chosen(o->retries, WORKER_RETRIES),
        .parallel = o->parallel > 0 ? o->parallel : 1,
    };
}

int drover_worker_join(struct drover_queues *qs, const struct drover_worker_options *o,
                       struct drover_worker **ret_worker, struct drover_error *ret_error)
{
    struct drover_client_options co = {.server = qs->server, .token = qs->token};
    struct err_info e = {""};
    struct message_listener *listen;
    struct drover_worker *w;

    for (size_t i = 0; i < o->only_count; i++)
        if (!queue_valid_name(str_of(o->only[i])))
            return fail_queue(ret_error, DROVER_BAD_ARGUMENT, o->only[i]);
    if (!o->handle || o->policy > DROVER_STOP)
        return fail(ret_error, DROVER_BAD_ARGUMENT, "");
    int err = message_listener_open(&co, &listen, &e);
    if (err)
        return fail(ret_error, err, e.text);
    w = mem_zalloc(sizeof *w);
    w->o = *o;
    w->queues = qs;
    w->listen = listen;
    w->runtime =
        worker_runtime_start(&(struct worker_runtime_options){.worker = queue_worker_options(o),
                                                              .ns = qs->ns,
                                                              .only = o->only,
                                                              .only_count = o->only_count,
                                                              .connect = connect_worker,
                                                              .messages = &qs->messages.base,
                                                              .listen = hear,
                                                              .unlisten = unhear,
                                                              .handle = handle,
                                                              .note = note,
                                                              .arg = w});
    *ret_worker = w;
    return 0;
}

void drover_worker_stop(struct drover_worker *w)
{
    worker_runtime_stop(w->runtime);
}

int drover_worker_wait(struct drover_worker *w)
{
    return worker_runtime_wait(w->runtime);
}

void drover_worker_free(struct drover_worker *w)
{
    worker_runtime_free(w->runtime);
    message_listener_close(w->listen);
    free(w);
}
