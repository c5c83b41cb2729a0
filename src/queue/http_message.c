/*
 * Messages over HTTP: posting, reading, and waiting for new ones, which the feed tells; and their
 * retention.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/metrics.h"
#include "queue/http.h"
#include "queue/message.h"

enum { SWEEP_EVERY_MIN_MS = 1000, SWEEP_EVERY_MAX_MS = 10 * 60 * 1000 };

/* What requests wait for, on the topic of the context: messages of a queue; entries of the feed. */

static uint64_t messages_key(struct str queue) /* p NULL: any queue may have new messages */
{
    return http_key("messages", queue, (struct str){0});
}

static uint64_t posted_key(void)
{
    return http_key("posted", (struct str){0}, (struct str){0});
}

/*
 * The feed tells which queues have new messages. It has a thread of its own.
 *
 * Messages are tasks, and any client can add one: through a queue, through /update, through the
 * library. Ids rise with every task, so the feed looks up each new id once, and whether its group
 * is a queue. It does so every FEED_MS, and at once after a message was posted here, but at most
 * every FEED_PAUSE_MS: under load, waiting requests are woken a hundred times a second and not
 * thousands of times.
 *
 * The last FEED_KEPT entries are kept and numbered. A reader that passes the last number it saw
 * misses nothing. Numbers also rise over a restart: the first one is the current time.
 */
enum {
    FEED_MS = 200,
    FEED_PAUSE_MS = 10,
    FEED_KEPT = 4096,
    FINDINGS_SEARCHED = 16,
    FEED_IDS_MAX = 100 * 1000, /* more new ids are not looked up: any queue may have messages */
};

struct finding {
    char queue[QUEUE_NAME_LEN_MAX + 1]; /* empty: any queue */
    int64_t id, count;
};

struct message_feed {
    struct queue_module *module;
    struct periodic *periodic;
    int64_t last_id; /* the last id examined; used by the thread only, as all down to the lock */
    struct finding *found;
    size_t found_count, found_cap;
    struct keeper_names queues; /* as they were at queues_zxid */
    int64_t queues_zxid, until_id;

    pthread_mutex_t lock; /* guards the rest */
    int64_t next;         /* the number of the next entry */
    char kept[FEED_KEPT][QUEUE_NAME_LEN_MAX + 1];
    int64_t first; /* number of the first entry ever kept; it stands at kept[0] */
};

/* Searches only the last few entries: many queues cost no more. A queue may stand twice. */
static struct finding *find_or_add(struct message_feed *n, struct str queue)
{
    for (size_t i = 1; i <= FINDINGS_SEARCHED && i <= n->found_count; i++)
        if (str_eq(str_of(n->found[n->found_count - i].queue), queue))
            return &n->found[n->found_count - i];
    mem_grow(n->found, n->found_count, n->found_cap);
    n->found[n->found_count] = (struct finding){0};
    memcpy(n->found[n->found_count].queue, queue.p, queue.len);
    return &n->found[n->found_count++];
}

/* A made name is that of a queue, perhaps in another namespace. */
static bool is_queue(const struct message_feed *n, struct str group)
{
    if (queue_is_made_name(group) || str_eq(group, STR(QUEUE_ERROR)))
        return true;
    return queues_have(&n->queues, group);
}

static void on_look(void *arg, struct store *s, int64_t now_ms)
{
    struct message_feed *n = arg;
    struct str group, before = {0};
    bool is_message = false;
    (void)now_ms;
    for (int64_t id = n->last_id + 1; id <= n->until_id; id++) {
        if (!store_group_of(s, id, &group))
            continue;
        if (group.p != before.p) /* names of groups do not move under the lock */
            is_message = is_queue(n, group);
        before = group;
        if (is_message) {
            struct finding *f = find_or_add(n, group);
            f->id = id;
            f->count++;
        }
    }
}

/* Reads the list of queues if it has changed. */
static int refresh_queues(struct message_feed *n, const struct queues *qs)
{
    char path[QUEUE_PATH_SIZE];
    struct keeper_stat stat = {0};
    struct keeper_names names = {0};
    queues_path(qs, path, "queues");
    int err = keeper_exists(qs->keeper, path, &stat);
    if (err && err != DROVER_NO_NODE)
        return err;
    if (stat.pzxid == n->queues_zxid)
        return 0;
    TRY(queues_list(qs, &names));
    keeper_names_release(&n->queues);
    n->queues = names;
    n->queues_zxid = stat.pzxid;
    return 0;
}

static int read_queues(struct message_feed *n)
{
    struct queue_module *m = n->module;
    struct keeper *k = context_keeper(m->context);
    int err = k ? refresh_queues(n, &(struct queues){k, m->ns}) : DROVER_CLOSED;
    if (k)
        context_return(m->context, k);
    return err;
}

/*
 * A message is posted after its queue was created. So the ids are looked up to one that was given
 * before the queues were read. While another server has the store, nothing is examined; then any
 * queue may have messages.
 */
static void find(struct message_feed *n)
{
    struct service *tasks = n->module->context->tasks;
    struct service_stats stats;
    n->found_count = 0;
    if (!service_is_ready(tasks)) {
        n->last_id = INT64_MIN / 2;
        return;
    }
    service_stats(tasks, &stats);
    n->until_id = stats.last_id;
    if (n->until_id <= n->last_id)
        return;
    if (n->until_id - n->last_id > FEED_IDS_MAX || read_queues(n))
        find_or_add(n, STR(""));
    else
        service_look(tasks, on_look, n);
    n->last_id = n->until_id;
}

static void keep(struct message_feed *n)
{
    LOCKED(&n->lock);
    for (size_t i = 0; i < n->found_count; i++) {
        int64_t at = (n->next++ - n->first) % FEED_KEPT;
        memcpy(n->kept[at], n->found[i].queue, sizeof n->kept[at]);
    }
}

static void tell(struct queue_module *m, const struct finding *f)
{
    struct str name = f->queue[0] ? str_of(f->queue) : (struct str){0};
    struct buf b = {0};
    http_topic_wake(&m->context->topic, messages_key(name), HTTP_TOPIC_ALL);
    if (!name.p)
        return;
    counter_add(m->messages, (uint64_t)f->count);
    json_open(&b, '{');
    json_member_text(&b, "queue", name);
    json_member_int(&b, "id", f->id);
    json_member_int(&b, "count", f->count);
    queue_publish(m, "message", f->queue, "posted", &b);
}

/* The pause after new messages lets the next ones be reported together. */
static void run(struct periodic *p, void *arg)
{
    struct message_feed *n = arg;
    (void)p;
    find(n);
    keep(n);
    for (size_t i = 0; i < n->found_count; i++)
        tell(n->module, &n->found[i]);
    if (n->found_count) {
        http_topic_wake(&n->module->context->topic, posted_key(), HTTP_TOPIC_ALL);
        usleep(FEED_PAUSE_MS * 1000);
    }
}

/*
 * Writes the queues of the entries after a number, and the number to pass next time:
 * {"posted": 4711, "queues": [...]}. A queue may stand twice; null: any queue. True: there are new
 * entries.
 */
static bool message_feed_put(struct message_feed *n, int64_t after, const struct http_request *r,
                             struct buf *b)
{
    LOCKED(&n->lock);
    bool known = after >= n->first && after <= n->next && n->next - after <= FEED_KEPT;
    for (int64_t i = after; known && i < n->next; i++)
        known = n->kept[(i - n->first) % FEED_KEPT][0];
    json_open(b, '{');
    json_member_int(b, "posted", n->next);
    json_key(b, "queues");
    if (known) {
        json_open(b, '[');
        for (int64_t i = after; i < n->next; i++) {
            struct str queue = str_of(n->kept[(i - n->first) % FEED_KEPT]);
            if (http_reaches(r, SCOPE_QUEUE, queue))
                json_put_text(b, queue);
        }
        json_close(b, ']');
    } else {
        json_put_null(b);
    }
    json_close(b, '}');
    return after != n->next;
}

static struct message_feed *message_feed_start(struct queue_module *m)
{
    struct message_feed *n = mem_zalloc(sizeof *n);
    struct service_stats stats;
    n->module = m;
    service_stats(m->context->tasks, &stats);
    n->last_id = service_is_ready(m->context->tasks) ? stats.last_id : INT64_MIN / 2;
    n->first = n->next = clock_wall_ms();
    pthread_mutex_init(&n->lock, NULL);
    n->periodic = periodic_start("queue-feed", FEED_MS, run, n);
    return n;
}

static void message_feed_free(struct message_feed *n)
{
    periodic_stop(n->periodic);
    pthread_mutex_destroy(&n->lock);
    keeper_names_release(&n->queues);
    free(n->found);
    free(n);
}

/* Requests. */

/* Whether the queue exists, and its `last`; or answers 404. The error queue always does. */
static bool check_queue(struct http_request *r, const char *name, int64_t *ret_last)
{
    struct queue_info info = {0};
    struct queues qs;
    *ret_last = 0;
    if (!strcmp(name, QUEUE_ERROR))
        return true;
    if (!queue_enter(r, &qs))
        return false;
    int err = queue_get(&qs, name, &info);
    *ret_last = info.last;
    return queue_leave(r, &qs, err == DROVER_DAMAGED ? 0 : err);
}

static void put_ids(struct buf *b, const int64_t *ids, size_t count, bool single, int64_t last)
{
    json_open(b, '{');
    if (single) {
        json_member_int(b, "id", ids[0]);
    } else {
        json_member_open(b, "ids", '[');
        for (size_t i = 0; i < count; i++)
            json_put_int(b, ids[i]);
        json_close(b, ']');
    }
    queue_put_warning(b, last, ids[0] - 1);
    json_close(b, '}');
}

void queue_post_messages(struct http_request *r)
{
    const struct queue_in *in = r->in;
    struct queue_module *module = r->arg;
    const char *name = queue_named(r, in->queue, true);
    const struct str *data = in->data.p ? &in->data : in->messages;
    size_t count = in->data.p ? 1 : in->message_count;
    CLEANUP(buf_release) struct buf b = {0};
    int64_t last;

    if (!name)
        return;
    if (!in->data.p == !in->messages) {
        http_reply_field(r, "data", "give data, a string, or messages, a list of strings");
        return;
    }
    if (!check_queue(r, name, &last))
        return;
    int64_t *ids = arena_alloc(&r->arena, count * sizeof *ids);
    int err = queue_messages_post(module->context->tasks, str_of(name), data, count, ids);
    if (err) {
        queue_refuse_task(r, err);
        return;
    }
    periodic_wake(module->feed->periodic);
    put_ids(&b, ids, count, in->data.p, last);
    http_reply(r, 200, buf_str(&b));
}

static void put_messages(struct buf *b, const struct queue_message_list *list)
{
    json_open(b, '{');
    json_member_open(b, "messages", '[');
    for (size_t i = 0; i < list->count; i++) {
        json_open(b, '{');
        json_member_int(b, "id", list->messages[i].id);
        json_member_int(b, "time", list->messages[i].time_ms);
        json_member_text(b, "data", list->messages[i].data);
        json_close(b, '}');
    }
    json_close(b, ']');
    if (list->more)
        json_member_int(b, "next", list->messages[list->count - 1].id);
    json_close(b, '}');
}

void queue_get_messages(struct http_request *r)
{
    const struct queue_in *in = r->in;
    struct queue_module *module = r->arg;
    const char *name = queue_named(r, in->queue, true);
    uint64_t keys[] = {messages_key(in->queue), messages_key((struct str){0})};
    struct http_watch w = http_watch(r, &module->context->topic, keys, 2);
    CLEANUP(queue_message_list_release) struct queue_message_list list = {0};
    CLEANUP(buf_release) struct buf b = {0};
    size_t limit = in->limit ? (size_t)in->limit : MESSAGES_LIMIT_MAX;
    int64_t after = 0, last;

    if (!name)
        return;
    if (in->after.p && queue_parse_id(in->after, &after)) { /* `last` as it is: may be empty */
        http_reply_field(r, "after", "after must be the id of a message");
        return;
    }
    if (!check_queue(r, name, &last))
        return;
    int err = queue_messages_read(module->context->tasks, str_of(name), after, limit, &list);
    if (err) {
        queue_refuse_task(r, err);
    } else if (list.count || !in->wait_ms || !http_park(r, &w, in->wait_ms)) {
        put_messages(&b, &list);
        http_reply(r, 200, buf_str(&b));
    }
}

void queue_get_posted(struct http_request *r)
{
    const struct queue_in *in = r->in;
    struct queue_module *module = r->arg;
    uint64_t key = posted_key();
    struct http_watch w = http_watch(r, &module->context->topic, &key, 1);
    CLEANUP(buf_release) struct buf b = {0};
    if (!service_is_ready(module->context->tasks))
        queue_refuse_task(r, DROVER_NOT_LEADER);
    else if (message_feed_put(module->feed, in->posted, r, &b) || !in->wait_ms ||
             !http_park(r, &w, in->wait_ms))
        http_reply(r, 200, buf_str(&b));
}

/*
 * Retention. The sweep removes old messages, periodically, on a thread of its own. The error queue
 * has a retention of its own. Whether a message was handled does not matter. Messages of a queue
 * that is removed are swept once, when it is removed.
 */

static int64_t sweep_one(struct queue_module *m, struct str queue, int64_t retention_ms)
{
    struct service *tasks = m->context->tasks;
    int swept = queue_messages_sweep(tasks, queue, service_now_ms(tasks) - retention_ms);
    return swept > 0 ? swept : 0;
}

static int64_t sweep_every_ms(const struct queue_module *m)
{
    int64_t ms = m->retention_ms, error_ms = m->error_retention_ms;
    int64_t every_ms = (ms < error_ms ? ms : error_ms) / 100;
    if (every_ms < SWEEP_EVERY_MIN_MS)
        return SWEEP_EVERY_MIN_MS;
    return every_ms > SWEEP_EVERY_MAX_MS ? SWEEP_EVERY_MAX_MS : every_ms;
}

static void sweep_all(struct periodic *p, void *arg)
{
    struct queue_module *m = arg;
    periodic_next(p, sweep_every_ms(m));
    struct keeper *k = service_is_ready(m->context->tasks) ? context_keeper(m->context) : NULL;
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    int64_t swept = 0;
    if (!k)
        return;
    if (!queues_list(&(struct queues){k, m->ns}, &names)) {
        for (size_t i = 0; i < names.count && !periodic_is_stopping(p); i++)
            swept += sweep_one(m, str_of(names.names[i]), m->retention_ms);
        swept += sweep_one(m, STR(QUEUE_ERROR), m->error_retention_ms);
    }
    context_return(m->context, k);
    if (swept)
        log_info("queues: removed %lld messages that were too old", (long long)swept);
}

void queue_messages_open(struct queue_module *m)
{
    m->sweep = periodic_start("queue-sweep", sweep_every_ms(m), sweep_all, m);
    m->feed = message_feed_start(m);
}

void queue_messages_close(struct queue_module *m)
{
    message_feed_free(m->feed);
    periodic_stop(m->sweep);
}
