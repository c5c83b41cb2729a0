/* Parses the server's answers about messages. Pure: the fuzzer links it alone. */
#include "client/worker.h"

int message_parse_list(const struct json *body, struct queue_message_list *l, struct err_info *e)
{
    const struct json *list = json_get(body, "messages");
    if (!list || list->kind != JSON_LIST)
        return err_set(e, DROVER_DAMAGED, "the server's answer has no messages");
    l->messages = arena_alloc(&l->arena, (list->count + 1) * sizeof *l->messages);
    json_each(v, list) {
        struct queue_message *m = &l->messages[l->count];
        if (json_get_int(v, "id", &m->id, e) != 1 || json_get_int(v, "time", &m->time_ms, e) != 1 ||
            json_get_text(v, "data", &m->data, e) != 1)
            return err_set(e, DROVER_DAMAGED, "the server's answer holds what is no message");
        l->count++;
    }
    return 0;
}

int message_parse_news(const struct json *body, struct arena *a, int64_t *ret_number,
                       struct message_news *ret_news)
{
    const struct json *list = NULL;
    struct message_news news = {0};
    int64_t number = 0;
    if (json_get_int(body, "posted", &number, NULL) != 1 || number < 0 ||
        json_get_list(body, "queues", &list, NULL) < 0)
        return DROVER_DAMAGED;
    if (list) {
        news.queues = arena_alloc(a, (list->count + 1) * sizeof *news.queues);
        json_each(queue, list) {
            if (queue->kind != JSON_TEXT)
                return DROVER_DAMAGED;
            news.queues[news.count++] = queue->text;
        }
    }
    *ret_number = number;
    *ret_news = news;
    return 0;
}
