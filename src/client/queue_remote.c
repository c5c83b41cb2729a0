#include "client/queue_remote.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "client/task_client.h"

static struct remote *of(struct messages *m)
{
    return (struct remote *)m;
}

/* The first of the reasons in an error body. */
static int refused(int status, const struct json *body, struct err_info *e)
{
    const struct json *errors = json_get(body, "errors");
    int err = status == 404   ? DROVER_NO_NODE
              : status == 400 ? DROVER_BAD_ARGUMENT
              : status == 503 ? DROVER_UNREACHABLE
                              : DROVER_IO;

    if (errors && errors->kind == JSON_LIST && errors->first && errors->first->kind == JSON_TEXT)
        return err_set(e, err, "%.*s", (int)errors->first->text.len, errors->first->text.p);
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
    body = json_parse(
        a,
        (struct str){arena_text(a, (struct str){answer.body.p, answer.body.len}), answer.body.len},
        NULL);
    buf_release(&answer.body);
    if (answer.status != 200)
        return refused(answer.status, body, e);
    if (!body)
        return err_set(e, DROVER_DAMAGED, "the server's answer is no JSON");
    *ret_body = body;
    return 0;
}

static int read_messages(struct messages *m, const char *queue, int64_t after, size_t limit,
                         struct message_list *ret_list, struct err_info *e)
{
    struct message_list list = {0};
    const struct json *body = NULL;
    char path[256];
    int err;

    snprintf(path, sizeof path, "/v1/queues/%s/messages?after=%" PRId64 "&limit=%zu", queue, after,
             limit);
    err = get(of(m)->client, path, &list.arena, &body, e);
    if (!err)
        err = messages_parse(body, &list, e);
    if (err)
        message_list_release(&list);
    else
        *ret_list = list;
    return err;
}

/* A task of the group, as any other: the client sees to it that it is there once. */
static int post_message(struct messages *m, const char *queue, struct str data, int64_t *ret_id,
                        struct err_info *e)
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

void remote_init(struct remote *r, struct drover_client *client)
{
    *r = (struct remote){{read_messages, post_message}, client};
}

int remote_keeper(struct drover_client *client, char **ret_url, struct err_info *e)
{
    struct arena a = {0};
    const struct json *body = NULL;
    struct str url = {0};
    int err = get(client, "/v1/keeper", &a, &body, e);

    if (!err && json_get_text(body, "keeper", &url, e) != 1)
        err = err_set(e, DROVER_UNREACHABLE,
                      "the server names no keeper that others can reach: give one with --keeper");
    if (!err)
        *ret_url = mem_dup(url.p, url.len);
    arena_release(&a);
    return err;
}
