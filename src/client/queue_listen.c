#include "client/queue_listen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "client/task_client.h"

enum { ANSWER_MS = 10 * 1000 }; /* beyond the wait */

struct listen {
    struct drover_client *client; /* its own: it is stopped by itself */
    int stop_fd;
    int64_t number;
};

int listen_open(const struct drover_client_options *o, struct listen **ret_listen,
                struct err_info *ret_error)
{
    struct listen *l = mem_zalloc(sizeof *l);
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

void listen_close(struct listen *l)
{
    drover_client_close(l->client);
    close(l->stop_fd);
    free(l);
}

void listen_end(struct listen *l)
{
    eventfd_write(l->stop_fd, 1);
}

int listen_wait(struct listen *l, struct arena *a, struct message_news *ret_news)
{
    struct transport_answer answer = {0};
    struct err_info e;
    char path[128];
    struct str text;
    int err;

    snprintf(path, sizeof path, "/v1/posted?after=%" PRId64 "&wait=%d", l->number, LISTEN_WAIT_MS);
    err = task_client_call(l->client, "GET", path, (struct str){0}, LISTEN_WAIT_MS + ANSWER_MS,
                           &answer, &e);
    if (err)
        return err;
    text = (struct str){
        arena_text(a, (struct str){answer.body.p ? answer.body.p : "", answer.body.len}),
        answer.body.len};
    buf_release(&answer.body);
    if (answer.status != 200)
        return DROVER_UNREACHABLE;
    return messages_parse_news(json_parse(a, text, NULL), a, &l->number, ret_news);
}
