/* Messages over HTTP: reading, posting, and the request that waits for news. */
#include "client/queue_messages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "client/task_client.h"

/* Reading and posting. */

static struct message_remote *of(struct message_source *m)
{
    return (struct message_remote *)m;
}

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

/* GET, and the answer as JSON in the arena. */
static int get(struct drover_client *c, const char *path, struct arena *a,
               const struct json **ret_body, struct err_info *e)
{
    struct transport_answer answer = {0};
    int err = task_client_call(c, "GET", path, (struct str){0}, 0, &answer, e);
    const struct json *body = NULL;

    if (err)
        return err;
    body = json_parse(a, (struct str){arena_text(a, buf_str(&answer.body)), answer.body.len}, NULL);
    buf_release(&answer.body);
    if (answer.status != 200)
        return refused(answer.status, body, e);
    if (!body)
        return err_set(e, DROVER_DAMAGED, "the server's answer is no JSON");
    *ret_body = body;
    return 0;
}

static int read_messages(struct message_source *m, const char *queue, int64_t after, size_t limit,
                         struct queue_message_list *ret_list, struct err_info *e)
{
    struct queue_message_list list = {0};
    const struct json *body = NULL;
    char path[256];

    snprintf(path, sizeof path, "/v1/queues/%s/messages?after=%" PRId64 "&limit=%zu", queue, after,
             limit);
    int err = get(of(m)->client, path, &list.arena, &body, e);
    if (!err)
        err = message_parse_list(body, &list, e);
    if (err)
        queue_message_list_release(&list);
    else
        *ret_list = list;
    return err;
}

/* A task of the group; the client makes sure that it is added once. */
static int post_message(struct message_source *m, const char *queue, struct str data,
                        int64_t *ret_id, struct err_info *e)
{
    const struct drover_task task = {.group = queue, .data = data.p, .data_len = data.len};
    struct drover_result result;
    struct drover_error why = {""};
    int err = drover_client_update(
        of(m)->client, &(struct drover_update){.adds = &task, .add_count = 1}, &result, &why);

    if (!err)
        *ret_id = result.tasks[0].id;
    if (!err || err == DROVER_REFUSED)
        drover_result_release(&result);
    return err ? err_set(e, err, "%s", why.text) : 0;
}

void message_remote_init(struct message_remote *r, struct drover_client *client)
{
    *r = (struct message_remote){{read_messages, post_message}, client};
}

int message_remote_keeper(struct drover_client *client, char **ret_url, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct json *body = NULL;
    struct str url = {0};
    int err = get(client, "/v1/keeper", &a, &body, e);

    if (!err && json_get_text(body, "keeper", &url, e) != 1)
        err = err_set(e, DROVER_UNREACHABLE,
                      "the server names no keeper that others can reach: give one with --keeper");
    if (!err)
        *ret_url = mem_dup(url.p, url.len);
    return err;
}

/* Waiting for news. */

enum { ANSWER_MS = 10 * 1000 }; /* beyond the wait */

struct message_listener {
    struct drover_client *client; /* its own, so that it can be stopped alone */
    int stop_fd;
    int64_t number;
};

int message_listener_open(const struct drover_client_options *o,
                          struct message_listener **ret_listen, struct err_info *ret_error)
{
    struct message_listener *l = mem_zalloc(sizeof *l);
    struct drover_client_options own = *o;
    struct drover_error why = {""};
    int err = DROVER_IO;

    l->stop_fd = own.stop_fd = eventfd(0, EFD_CLOEXEC);
    if (l->stop_fd >= 0)
        err = drover_client_open(&own, &l->client, &why);
    if (!err) {
        *ret_listen = l;
        return 0;
    }
    if (l->stop_fd >= 0)
        close(l->stop_fd);
    free(l);
    return err_set(ret_error, err, "%s", why.text[0] ? why.text : drover_err_message(err));
}

void message_listener_close(struct message_listener *l)
{
    drover_client_close(l->client);
    close(l->stop_fd);
    free(l);
}

void message_listener_end(struct message_listener *l)
{
    eventfd_write(l->stop_fd, 1);
}

int message_listener_wait(struct message_listener *l, struct arena *a,
                          struct message_news *ret_news)
{
    struct transport_answer answer = {0};
    struct err_info e;
    char path[128];

    snprintf(path, sizeof path, "/v1/posted?after=%" PRId64 "&wait=%d", l->number, LISTEN_WAIT_MS);
    TRY(task_client_call(l->client, "GET", path, (struct str){0}, LISTEN_WAIT_MS + ANSWER_MS,
                         &answer, &e));
    struct str text = {
        arena_text(a, (struct str){answer.body.p ? answer.body.p : "", answer.body.len}),
        answer.body.len};
    buf_release(&answer.body);
    if (answer.status != 200)
        return DROVER_UNREACHABLE;
    return message_parse_news(json_parse(a, text, NULL), a, &l->number, ret_news);
}
