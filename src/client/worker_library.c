/* The queues of the public interface: drover_queue... and drover_worker... of drover.h. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/result.h"
#include "client/task_client.h"
#include "client/worker.h"
#include "keeper/zookeeper/zookeeper.h"

/* Of one request for news; and how long the answer may take beyond that. */
enum { LISTEN_WAIT_MS = 30 * 1000, ANSWER_MS = 10 * 1000 };

struct drover_queues {
    struct drover_client *client;
    char *url, *auth;
    char *ca, *cert, *key; /* for the keeper */
    struct queues at;      /* owns both */
    int timeout_ms;
    bool tokens; /* the keeper at url is the server's own port, and takes its tokens */
};

/* Explains the error of a call on a queue, if there is one. Returns it. */
static int explain(struct drover_error *e, int err, const char *queue)
{
    const char *why = err == DROVER_NO_NODE        ? "there is no such queue"
                      : err == DROVER_BAD_ARGUMENT ? QUEUE_NAME_RULE
                      : err == DROVER_EXISTS       ? "there is a queue of that name already"
                                                   : drover_err_message(err);
    return err ? err_set(e, err, "queue %.64s: %s", queue, why) : 0;
}

/* Requests. */

/* The first reason of an error body. */
static int refused(int status, const struct json *body, struct err_info *e)
{
    const struct json *errors = json_get(body, "errors");
    int err = status == 404   ? DROVER_NO_NODE
              : status == 400 ? DROVER_BAD_ARGUMENT
              : status == 503 ? DROVER_UNREACHABLE
                              : DROVER_IO;
    if (errors && errors->kind == JSON_LIST && errors->first && errors->first->kind == JSON_TEXT)
        return err_set(e, err, "%.*s", STR_ARGS(errors->first->text));
    return err_set(e, err, "the server answered %d", status);
}

/* The answer as JSON in the arena. */
static int read_answer(struct transport_answer *answer, struct arena *a,
                       const struct json **ret_body, struct err_info *e)
{
    const struct json *body = json_parse(a, arena_take(a, &answer->body), NULL);
    if (answer->status != 200)
        return refused(answer->status, body, e);
    if (!body)
        return err_set(e, DROVER_DAMAGED, "the server's answer is no JSON");
    *ret_body = body;
    return 0;
}

static int get(struct drover_client *c, const char *path, int64_t timeout_ms, struct arena *a,
               const struct json **ret_body, struct err_info *e)
{
    struct transport_answer answer = {0};
    TRY(task_client_call(c, "GET", path, (struct str){0}, timeout_ms, &answer, e));
    return read_answer(&answer, a, ret_body, e);
}

/* What GET /v1/keeper names: the keeper and the namespace, each if it is not given. */
static int ask_for_keeper(struct drover_queues *qs, struct err_info *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct transport_answer answer = {0};
    const struct json *body;
    struct str url = {0}, ns = STR(QUEUE_NAMESPACE);
    TRY(task_client_insist(qs->client, "GET", "/v1/keeper", (struct str){0}, 0, &answer,
                           ret_error));
    TRY(read_answer(&answer, &a, &body, ret_error));
    if (!qs->url && json_get_text(body, "keeper", &url, ret_error) != 1)
        return err_set(ret_error, DROVER_UNREACHABLE,
                       "the server names no keeper that others can reach: give one with --keeper");
    if (!qs->url) {
        qs->url = mem_dup(url.p, url.len);
        json_get_bool(body, "tokens", &qs->tokens, NULL);
    }
    if (!qs->at.ns && (json_get_text(body, "namespace", &ns, ret_error) < 0 ||
                       !queues_valid_namespace(arena_text(&a, ns))))
        return err_set(ret_error, DROVER_DAMAGED, "the server's answer has no namespace");
    if (!qs->at.ns)
        qs->at.ns = mem_dup(ns.p, ns.len);
    return 0;
}

/* Opening. */

static char *copy(const char *text)
{
    return text ? mem_dup(text, strlen(text)) : NULL;
}

/* A server's own port takes the token of its HTTP clients; an ensemble must not see it. */
static int connect_keeper(struct drover_queues *qs, struct keeper **ret_keeper, struct err_info *e)
{
    CLEANUP(buf_release) struct buf login = {0};
    struct zookeeper_options zo = {.auth = qs->auth, .tls = {qs->ca, qs->cert, qs->key}};
    if (qs->tokens && qs->client->token) {
        buf_printf(&login, "drover:%s", qs->client->token);
        zo.login = buf_text(&login);
    }
    struct keeper_options ko = {.timeout_ms = qs->timeout_ms};
    return zookeeper_connect(qs->url, &zo, &ko, ret_keeper, e);
}

static int open_all(struct drover_queues *qs, const struct drover_queues_options *o,
                    struct err_info *e)
{
    struct drover_client_options co = {.server = o->server,
                                       .token = o->token,
                                       .retry_ms = 5000,
                                       .ca = o->ca,
                                       .cert = o->cert,
                                       .key = o->key};
    TRY(drover_client_open(&co, &qs->client, e));
    if (!qs->url)
        TRY(ask_for_keeper(qs, e));
    if (qs->at.ns && !queues_valid_namespace(qs->at.ns))
        return err_set(e, DROVER_BAD_ARGUMENT, "'%.200s' is no namespace: it is a path, /a/b",
                       qs->at.ns);
    TRY(connect_keeper(qs, &qs->at.keeper, e));
    return qs->at.ns ? 0 : ask_for_keeper(qs, e);
}

int drover_queues_open(const struct drover_queues_options *o, struct drover_queues **ret_queues,
                       struct drover_error *ret_error)
{
    static const struct drover_queues_options none;
    struct drover_queues *qs = mem_alloc(sizeof *qs);
    o = o ? o : &none;
    *qs = (struct drover_queues){.url = copy(o->keeper),
                                 .auth = copy(o->auth),
                                 .ca = copy(o->keeper_ca),
                                 .cert = copy(o->keeper_cert),
                                 .key = copy(o->keeper_key),
                                 .at.ns = copy(o->ns),
                                 .timeout_ms = o->timeout_ms};
    int err = open_all(qs, o, ret_error);
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
    free(qs->url);
    free(qs->auth);
    free(qs->ca);
    free(qs->cert);
    free(qs->key);
    free((char *)qs->at.ns);
    free(qs);
}

/* Queues. */

int drover_queue_create(struct drover_queues *qs, char ret_name[DROVER_QUEUE_NAME_SIZE],
                        struct drover_error *ret_error)
{
    queue_make_name(ret_name);
    int err = queue_create(&qs->at, ret_name);
    return err ? err_explain(ret_error, err) : 0;
}

int drover_queue_create_named(struct drover_queues *qs, const char *name,
                              struct drover_error *ret_error)
{
    return explain(ret_error, queue_create(&qs->at, name), name);
}

/* Deletes some tasks of the group, those that nobody has claimed. Returns how many. */
static int delete_some(struct drover_client *c, const char *group, struct err_info *e)
{
    CLEANUP(drover_result_release) struct drover_result list = {0}, done = {0};
    int count = drover_client_list(c, group, MESSAGES_LIMIT, 0, &list, e);
    if (count <= 0)
        return count;
    CLEANUP(mem_free) int64_t *ids = mem_alloc((size_t)count * sizeof *ids);
    for (int i = 0; i < count; i++)
        ids[i] = list.tasks[i].id;
    struct drover_update u = {.deletes = ids, .delete_count = (size_t)count};
    int err = drover_client_update(c, &u, &done, e);
    return err ? err : count;
}

/* Retention knows the queues that exist. So the messages are deleted here, after their queue. */
int drover_queue_remove(struct drover_queues *qs, const char *queue, struct drover_error *ret_error)
{
    TRY(explain(ret_error, queue_remove(&qs->at, queue), queue));
    int some = 1;
    while (some > 0)
        some = delete_some(qs->client, queue, ret_error);
    return some;
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

/* Messages: tasks of the group that has the queue's name, read in the order of their ids. */

/* At most limit messages with ids above `after`. */
static int message_read(struct drover_client *c, const char *queue, int64_t after, size_t limit,
                        struct queue_message_list *ret_list, struct err_info *ret_error)
{
    struct queue_message_list list = {0};
    const struct json *body;
    char path[256];
    snprintf(path, sizeof path, "/v1/queues/%s/messages?after=%" PRId64 "&limit=%zu", queue, after,
             limit);
    int err = get(c, path, 0, &list.arena, &body, ret_error);
    if (!err)
        err = message_parse_list(body, &list, ret_error);
    if (err)
        queue_message_list_release(&list);
    else
        *ret_list = list;
    return err;
}

/* The client makes sure that it is added once. */
static int message_post(struct drover_client *c, const char *queue, struct str data,
                        int64_t *ret_id, struct err_info *ret_error)
{
    const struct drover_task task = {.group = queue, .data = data.p, .data_len = data.len};
    const struct drover_update update = {.adds = &task, .add_count = 1};
    CLEANUP(drover_result_release) struct drover_result result = {0};
    TRY(drover_client_update(c, &update, &result, ret_error));
    *ret_id = result.tasks[0].id;
    return 0;
}

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

int drover_queue_read(struct drover_queues *qs, const char *queue, int64_t after, size_t limit,
                      struct drover_result *ret_result, struct drover_error *ret_error)
{
    CLEANUP(queue_message_list_release) struct queue_message_list list = {0};
    if (!queue_valid_name(str_of(queue)) && strcmp(queue, QUEUE_ERROR))
        return explain(ret_error, DROVER_BAD_ARGUMENT, queue);
    TRY(message_read(qs->client, queue, after, limit > MESSAGES_LIMIT_MAX ? 0 : limit, &list,
                     ret_error));
    result_init(ret_result, list.count, 0);
    for (size_t i = 0; i < list.count; i++) {
        const struct queue_message *m = &list.messages[i];
        const struct drover_task rest = {.id = m->id, .timespec = m->time_ms};
        result_add_task(ret_result, str_of(queue), m->data, &rest);
    }
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

/*
 * Waits at the server for messages of any queue, and passes the number where it left off. So it
 * misses nothing between two requests, and does not depend on which queues are the worker's.
 */
static int source_listen(struct queue_source *s, struct arena *a, struct message_news *ret_news)
{
    int64_t *number = &of(s)->number;
    const struct json *body;
    char path[128];
    snprintf(path, sizeof path, "/v1/posted?after=%" PRId64 "&wait=%d", *number, LISTEN_WAIT_MS);
    TRY(get(of(s)->listener, path, LISTEN_WAIT_MS + ANSWER_MS, a, &body, NULL));
    return message_parse_news(body, a, number, ret_news);
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
    const char *server = qs->client->server, *token = qs->client->token;
    struct drover_client_options co = {.server = server ? server : "",
                                       .token = token ? token : "",
                                       .ca = qs->client->ca,
                                       .cert = qs->client->cert,
                                       .key = qs->client->key};
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
