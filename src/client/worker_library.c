/* The queues of the public interface: drover_queue... and drover_worker... of drover.h. */
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/worker.h"
#include "keeper/zookeeper/zookeeper.h"

struct drover_queues {
    struct drover_client *client;
    char *server, *token, *url, *auth;
    struct queues at; /* owns both */
    int timeout_ms;
};

/* Explains the error of a call on a queue, if there is one. Returns it. */
static int explain(struct drover_error *e, int err, const char *queue)
{
    const char *why = err == DROVER_NO_NODE        ? "there is no such queue"
                      : err == DROVER_BAD_ARGUMENT ? "a name has 32 hex digits"
                                                   : drover_err_message(err);
    return err ? err_set(e, err, "queue %.64s: %s", queue, why) : 0;
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

static int open_all(struct drover_queues *qs, struct err_info *e)
{
    struct drover_client_options co = {.server = qs->server, .token = qs->token, .retry_ms = 5000};
    TRY(drover_client_open(&co, &qs->client, e));
    if (!queues_valid_namespace(qs->at.ns))
        return err_set(e, DROVER_BAD_ARGUMENT, "'%.200s' is no namespace: it is a path, /a/b",
                       qs->at.ns);
    if (!qs->url)
        TRY(message_keeper(qs->client, &qs->url, e));
    return connect_keeper(qs, &qs->at.keeper, e);
}

int drover_queues_open(const struct drover_queues_options *o, struct drover_queues **ret_queues,
                       struct drover_error *ret_error)
{
    static const struct drover_queues_options none;
    struct drover_queues *qs = mem_alloc(sizeof *qs);
    o = o ? o : &none;
    *qs = (struct drover_queues){.server = copy(o->server),
                                 .token = copy(o->token),
                                 .url = copy(o->keeper),
                                 .auth = copy(o->auth),
                                 .at.ns = copy(o->ns ? o->ns : QUEUE_NAMESPACE),
                                 .timeout_ms = o->timeout_ms};
    int err = open_all(qs, ret_error);
    if (err)
        drover_queues_close(qs);
    else
        *ret_queues = qs;
    return err;
}

void drover_queues_close(struct drover_queues *qs)
{
    if (qs->at.keeper)
        keeper_close(qs->at.keeper);
    if (qs->client)
        drover_client_close(qs->client);
    free(qs->server);
    free(qs->token);
    free(qs->url);
    free(qs->auth);
    free((char *)qs->at.ns);
    free(qs);
}

/* Queues. */

int drover_queue_create(struct drover_queues *qs, char ret_name[DROVER_QUEUE_NAME_SIZE],
                        struct drover_error *ret_error)
{
    int err = queue_create(&qs->at, ret_name);
    return err ? err_explain(ret_error, err) : 0;
}

int drover_queue_remove(struct drover_queues *qs, const char *queue, struct drover_error *ret_error)
{
    return explain(ret_error, queue_remove(&qs->at, queue), queue);
}

int drover_queue_last(struct drover_queues *qs, const char *queue, int64_t *ret_last,
                      struct drover_error *ret_error)
{
    struct queue_info info;
    TRY(explain(ret_error, queue_get(&qs->at, queue, &info), queue));
    *ret_last = info.last;
    return 0;
}

int drover_queue_set_last(struct drover_queues *qs, const char *queue, int64_t last,
                          struct drover_error *ret_error)
{
    return explain(ret_error, queue_set_last(&qs->at, queue, last, KEEPER_ANY_VERSION), queue);
}

/* Messages. */

int drover_queue_post(struct drover_queues *qs, const char *queue, const char *data, size_t len,
                      int64_t *ret_id, struct drover_error *ret_error)
{
    struct str message = {data, len ? len : strlen(data)};
    int64_t id;
    TRY(drover_queue_last(qs, queue, &id, ret_error)); /* whether the queue exists */
    TRY(message_post(qs->client, queue, message, &id, ret_error));
    if (ret_id)
        *ret_id = id;
    return 0;
}

static void give_messages(const struct queue_message_list *list, const char *queue,
                          struct drover_result *ret_result)
{
    struct arena *memory = mem_alloc(sizeof *memory);
    *memory = list->arena;
    struct drover_task *tasks = arena_alloc(memory, (list->count + 1) * sizeof *tasks);
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
    struct queue_message_list list;
    if (!queue_valid_name(str_of(queue)) && strcmp(queue, QUEUE_ERROR))
        return explain(ret_error, DROVER_BAD_ARGUMENT, queue);
    TRY(message_read(qs->client, queue, after, limit ? limit : MESSAGES_LIMIT, &list, ret_error));
    give_messages(&list, queue, ret_result);
    return (int)list.count;
}

/* The source of a worker. Listening has a client of its own, so that it can be stopped alone. */

struct remote_source {
    struct queue_source base;
    struct drover_queues *queues;
    struct drover_client *listener;
    int stop_fd;
    int64_t number; /* of the news that were heard */
};

static struct remote_source *of(struct queue_source *s)
{
    return (struct remote_source *)s;
}

static int source_connect(struct queue_source *s, struct keeper **ret_keeper, struct err_info *e)
{
    return connect_keeper(of(s)->queues, ret_keeper, e);
}

static int source_read(struct queue_source *s, const char *queue, int64_t after, size_t limit,
                       struct queue_message_list *ret_list, struct err_info *e)
{
    return message_read(of(s)->queues->client, queue, after, limit, ret_list, e);
}

static int source_post(struct queue_source *s, const char *queue, struct str data, int64_t *ret_id,
                       struct err_info *e)
{
    return message_post(of(s)->queues->client, queue, data, ret_id, e);
}

static int source_listen(struct queue_source *s, struct arena *a, struct message_news *ret_news)
{
    return message_listen(of(s)->listener, &of(s)->number, a, ret_news);
}

static void source_unlisten(struct queue_source *s)
{
    eventfd_write(of(s)->stop_fd, 1);
}

static void source_free(struct queue_source *s)
{
    if (of(s)->listener)
        drover_client_close(of(s)->listener);
    close(of(s)->stop_fd);
    free(s);
}

static int source_open(struct drover_queues *qs, struct queue_source **ret_source,
                       struct err_info *e)
{
    struct drover_client_options co = {.server = qs->server, .token = qs->token};
    struct remote_source *s = mem_alloc(sizeof *s);
    *s = (struct remote_source){.base = {source_connect, source_read, source_post, source_listen,
                                         source_unlisten, source_free},
                                .queues = qs,
                                .stop_fd = eventfd(0, EFD_CLOEXEC)};
    co.stop_fd = s->stop_fd;
    int err = s->stop_fd < 0 ? err_explain(e, DROVER_IO) : drover_client_open(&co, &s->listener, e);
    if (err)
        source_free(&s->base);
    else
        *ret_source = &s->base;
    return err;
}

int drover_worker_join(struct drover_queues *qs, const struct drover_worker_options *o,
                       struct drover_worker **ret_worker, struct drover_error *ret_error)
{
    struct queue_source *source;
    for (size_t i = 0; i < o->only_count; i++)
        if (!queue_valid_name(str_of(o->only[i])))
            return explain(ret_error, DROVER_BAD_ARGUMENT, o->only[i]);
    if (!o->handle || o->policy > DROVER_STOP)
        return err_explain(ret_error, DROVER_BAD_ARGUMENT);
    TRY(source_open(qs, &source, ret_error));
    *ret_worker = worker_start(source, qs->at.ns, o);
    return 0;
}
