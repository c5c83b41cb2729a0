#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "http/metrics.h"
#include "queue/http.h"

enum { FINDINGS_SEARCHED = 16 };

struct finding {
    char queue[QUEUE_NAME_LEN + 1]; /* empty: any queue */
    int64_t id, count;
};

struct message_feed {
    struct queue_module *module;
    struct periodic *periodic;
    int64_t last_id; /* the last id examined; used by the thread only, as is `found` */
    struct finding *found;
    size_t found_count, found_cap;

    pthread_mutex_t lock; /* guards the rest */
    int64_t next;         /* the number of the next entry */
    char kept[FEED_KEPT][QUEUE_NAME_LEN + 1];
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

static bool is_queue(struct str group)
{
    return queue_valid_name(group) || str_eq(group, STR(QUEUE_ERROR));
}

static void on_look(void *arg, struct store *s, int64_t now_ms)
{
    struct message_feed *n = arg;
    int64_t last_id = store_last_id(s), id = n->last_id + 1;
    struct str group;
    (void)now_ms;
    if (last_id - n->last_id > FEED_IDS_MAX) {
        find_or_add(n, STR(""));
        id = last_id + 1;
    }
    for (; id <= last_id; id++) {
        if (store_group_of(s, id, &group) && is_queue(group)) {
            struct finding *f = find_or_add(n, group);
            f->id = id;
            f->count++;
        }
    }
    n->last_id = last_id;
}

/* While another server has the store, nothing is examined; then any queue may have messages. */
static void find(struct message_feed *n)
{
    struct service *tasks = n->module->context->tasks;
    n->found_count = 0;
    if (service_is_ready(tasks))
        service_look(tasks, on_look, n);
    else
        n->last_id = INT64_MIN / 2;
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
    http_topic_wake(&m->context->topic, queue_messages_key(name), HTTP_TOPIC_ALL);
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
        http_topic_wake(&n->module->context->topic, queue_posted_key(), HTTP_TOPIC_ALL);
        usleep(FEED_PAUSE_MS * 1000);
    }
}

void message_feed_nudge(struct message_feed *n)
{
    periodic_wake(n->periodic);
}

/* Readers. */

bool message_feed_put(struct message_feed *n, int64_t after, struct buf *b)
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
        for (int64_t i = after; i < n->next; i++)
            json_put_text(b, str_of(n->kept[(i - n->first) % FEED_KEPT]));
        json_close(b, ']');
    } else {
        json_put_null(b);
    }
    json_close(b, '}');
    return after != n->next;
}

struct message_feed *message_feed_start(struct queue_module *m)
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

void message_feed_free(struct message_feed *n)
{
    periodic_stop(n->periodic);
    pthread_mutex_destroy(&n->lock);
    free(n->found);
    free(n);
}
