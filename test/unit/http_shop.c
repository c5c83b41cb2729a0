#include "http_shop.h"

static void on_unparked(struct http_request *r)
{
    ((struct shop *)r->arg)->unparked++;
}

struct shop_in {
    struct str part, x;
    int64_t number, wait_ms;
    bool passes, fails;
    const struct str *kinds;
    size_t kind_count;
    const struct json *body;
};

static void get_echo(struct http_request *r)
{
    const struct shop_in *in = r->in;
    struct buf b = {0};

    http_add_header(r, "X-Echo", in->part);
    json_open(&b, '[');
    json_put_text(&b, in->part);
    json_put_text(&b, in->x);
    json_close(&b, ']');
    http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
}

static void get_number(struct http_request *r)
{
    const struct shop_in *in = r->in;
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)in->number);
    http_reply(r, 200, str_of(text));
}

static void post_json(struct http_request *r)
{
    const struct shop_in *in = r->in;

    http_reply(r, 200, str_of(in->body->kind == JSON_OBJECT ? "{}" : "[]"));
}

static void get_block(struct http_request *r)
{
    struct shop *shop = r->arg;

    sem_post(&shop->entered);
    sem_wait(&shop->go);
    http_reply(r, 200, STR("\"done\""));
}

/* Takes an item, or waits for one up to the given time. With "pass", leaves it to the next. */
static void get_item(struct http_request *r)
{
    const struct shop_in *in = r->in;
    struct shop *shop = r->arg;
    struct http_watch w = http_watch(r, &shop->topic, &(uint64_t){0}, 1);
    bool got;

    shop->entries++;
    pthread_mutex_lock(&shop->lock);
    got = shop->items > 0 && !in->passes;
    shop->items -= got;
    pthread_mutex_unlock(&shop->lock);
    if (in->passes && shop->items)
        http_topic_wake(&shop->topic, 0, 1);
    else if (!got && http_park(r, &w, in->wait_ms)) {
        sem_post(&shop->entered);
        return;
    }
    http_reply(r, 200, got ? STR("1") : http_wait_over(r) ? STR("\"over\"") : STR("0"));
}

/*
 * Waits to be woken for one of the kinds, and tells how often the handler ran. With "fail", the
 * second time is an error.
 */
static void get_kind(struct http_request *r)
{
    const struct shop_in *in = r->in;
    struct shop *shop = r->arg;
    uint64_t keys[8];
    struct http_watch w;

    for (size_t i = 0; i < in->kind_count; i++)
        keys[i] = http_key("kind", in->kinds[i], (struct str){0});
    w = http_watch(r, &shop->topic, keys, in->kind_count);
    shop->entries++;
    r->unparked = on_unparked;
    if (http_was_parked(r) && in->fails)
        http_reply_error(r, 409, "failed");
    else if (http_was_parked(r) || !http_park(r, &w, in->wait_ms))
        http_reply(r, 200, http_wait_over(r) ? STR("\"over\"") : STR("\"woken\""));
}

/* Holds the loop, which no real handler does. */
static void get_hold(struct http_request *r)
{
    struct shop *shop = r->arg;

    sem_post(&shop->entered);
    sem_wait(&shop->go);
    http_reply(r, 200, STR("0"));
}

static void *answer_later(void *r)
{
    http_reply(r, 200, STR("\"later\""));
    return NULL;
}

/* Answers from yet another thread, perhaps before the handler has returned. */
static void get_later(struct http_request *r)
{
    pthread_t thread;

    pthread_create(&thread, NULL, answer_later, r);
    pthread_detach(thread);
}

#define JSON                                                                                       \
    ROUTE_IN(struct shop_in, FIELD_JSON(IN_BODY | REQUIRED, struct shop_in, body, "", "any", ""))
#define ITEM                                                                                       \
    ROUTE_IN(struct shop_in,                                                                       \
             FIELD_INT(IN_QUERY, struct shop_in, wait_ms, "wait", 0, INT64_MAX, ""),               \
             FIELD_BOOL(IN_QUERY, struct shop_in, passes, "pass", ""))

static const struct route ROUTES[] = {
    {METHOD_GET, "/echo/{part}", get_echo, 0, "", "echo",
     ROUTE_IN(struct shop_in, FIELD_TEXT(IN_PATH, struct shop_in, part, "part", 1, 80, ""),
              FIELD_TEXT(IN_QUERY, struct shop_in, x, "x", 0, 80, ""),
              FIELD_IGNORED(IN_QUERY, "y", ""))},
    {METHOD_GET, "/number", get_number, ROUTE_WORKER, "", "number",
     ROUTE_IN(struct shop_in,
              FIELD_INT(IN_QUERY, struct shop_in, number, "n", 0, 1000, "", .preset = -1))},
    {METHOD_POST, "/json", post_json, 0, "", "post", JSON},
    {METHOD_POST, "/json/worker", post_json, ROUTE_WORKER, "", "postWorker", JSON},
    {METHOD_DELETE, "/json", post_json, 0, "", "delete", JSON},
    {METHOD_GET, "/block", get_block, ROUTE_WORKER, "", "block"},
    {METHOD_GET, "/hold", get_hold, 0, "", "hold"},
    {METHOD_GET, "/item", get_item, 0, "", "item", ITEM},
    {METHOD_GET, "/item/worker", get_item, ROUTE_WORKER, "", "itemWorker", ITEM},
    {METHOD_GET, "/kind/{kinds}", get_kind, 0, "", "kind",
     ROUTE_IN(struct shop_in,
              FIELD_TEXTS(IN_PATH, struct shop_in, kinds, kind_count, "kinds", 1, 8, ""),
              FIELD_INT(IN_QUERY, struct shop_in, wait_ms, "wait", 0, INT64_MAX, ""),
              FIELD_BOOL(IN_QUERY, struct shop_in, fails, "fail", ""))},
    {METHOD_GET, "/later", get_later, ROUTE_WORKER, "", "later"},
};

int open_with(void **state, const struct http_options *o)
{
    struct shop *shop = calloc(1, sizeof *shop);

    http_topic_init(&shop->topic);
    pthread_mutex_init(&shop->lock, NULL);
    sem_init(&shop->entered, 0, 0);
    sem_init(&shop->go, 0, 0);
    serving_start(&shop->serving, o, ROUTES, sizeof ROUTES / sizeof *ROUTES, shop);
    *state = shop;
    return 0;
}

int open_shop(void **state)
{
    return open_with(state, NULL);
}

int close_shop(void **state)
{
    struct shop *shop = *state;

    serving_stop(&shop->serving);
    http_topic_release(&shop->topic);
    free(shop);
    return 0;
}

void stock(struct shop *shop, int items, int wake)
{
    pthread_mutex_lock(&shop->lock);
    shop->items += items;
    pthread_mutex_unlock(&shop->lock);
    http_topic_wake(&shop->topic, 0, wake);
}

void expect(struct shop *shop, const char *target, int status, const char *body)
{
    const char *got;
    int answered = serving_ask(&shop->serving, "GET", target, NULL, &got);

    if (answered != status || (body && strcmp(got, body) != 0))
        fail_msg("%s: %d %s", target, answered, got);
}

int close_if_open(void **state)
{
    return *state ? close_shop(state) : 0;
}
