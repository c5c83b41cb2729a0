/* Messages over HTTP. */
#include "client/queue_messages.h"

#include <inttypes.h>
#include <stdio.h>

#include "client/task_client.h"

enum { ANSWER_MS = 10 * 1000 }; /* beyond the wait for news */

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
static int get(struct drover_client *c, const char *path, int64_t timeout_ms, struct arena *a,
               const struct json **ret_body, struct err_info *e)
{
    struct transport_answer answer = {0};
    TRY(task_client_call(c, "GET", path, (struct str){0}, timeout_ms, &answer, e));
    const struct json *body = json_parse(a, arena_take(a, &answer.body), NULL);
    if (answer.status != 200)
        return refused(answer.status, body, e);
    if (!body)
        return err_set(e, DROVER_DAMAGED, "the server's answer is no JSON");
    *ret_body = body;
    return 0;
}

int message_read(struct drover_client *c, const char *queue, int64_t after, size_t limit,
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

/* A task of the group; the client makes sure that it is added once. */
int message_post(struct drover_client *c, const char *queue, struct str data, int64_t *ret_id,
                 struct err_info *ret_error)
{
    const struct drover_task task = {.group = queue, .data = data.p, .data_len = data.len};
    struct drover_result result;
    int err = drover_client_update(c, &(struct drover_update){.adds = &task, .add_count = 1},
                                   &result, ret_error);
    if (!err)
        *ret_id = result.tasks[0].id;
    if (!err || err == DROVER_REFUSED)
        drover_result_release(&result);
    return err;
}

int message_listen(struct drover_client *c, int64_t *number, struct arena *a,
                   struct message_news *ret_news)
{
    const struct json *body;
    char path[128];
    snprintf(path, sizeof path, "/v1/posted?after=%" PRId64 "&wait=%d", *number, LISTEN_WAIT_MS);
    TRY(get(c, path, LISTEN_WAIT_MS + ANSWER_MS, a, &body, NULL));
    return message_parse_news(body, a, number, ret_news);
}

int message_keeper(struct drover_client *c, char **ret_url, struct err_info *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct json *body;
    struct str url = {0};
    TRY(get(c, "/v1/keeper", 0, &a, &body, ret_error));
    if (json_get_text(body, "keeper", &url, ret_error) != 1)
        return err_set(ret_error, DROVER_UNREACHABLE,
                       "the server names no keeper that others can reach: give one with --keeper");
    *ret_url = mem_dup(url.p, url.len);
    return 0;
}
