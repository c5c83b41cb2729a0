/*
 * The worker runtime with its threads, on an embedded keeper in memory; messages are a list in this
 * program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "client/worker.h"
#include "keeper/local/local.h"

enum { QUEUES = 6, MESSAGES = 20, WORKERS_MAX = 4, PATIENCE_MS = 60000 };

struct scene {
    struct queue_source source; /* messages: the same in each queue: ids 1, 2, 3... */
    struct local *local;
    struct keeper *keeper;
    struct queues queues;
    char names[QUEUES][QUEUE_NAME_LEN + 1];
    struct drover_worker *shifts[WORKERS_MAX];
    struct drover_worker_options worker;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    int posted;              /* in each queue */
    int heard;               /* of these */
    bool listens, deaf;      /* hears of messages; has ended */
    int64_t handled[QUEUES]; /* the last one */
    bool in_hand[QUEUES];
    int bad; /* the message with this id fails this many times */
    int failures_left;
    int aside;
    bool hold, holding; /* handlers wait */
    int connects_to_fail, connects;
    const char *wrong; /* NULL: no failure */
};

static int at(const struct scene *s, const char *queue)
{
    for (int i = 0; i < QUEUES; i++)
        if (!strcmp(s->names[i], queue))
            return i;
    return -1;
}

/* What the workers are given. */

static int read_messages(struct queue_source *m, const char *queue, int64_t after, size_t limit,
                         struct queue_message_list *ret_list, struct err_info *e)
{
    struct scene *s = (struct scene *)m;
    struct queue_message_list list = {0};

    (void)queue, (void)e;
    pthread_mutex_lock(&s->lock);
    list.messages = arena_alloc(&list.arena, limit * sizeof *list.messages);
    for (int64_t id = after + 1; id <= s->posted && list.count < limit; id++)
        list.messages[list.count++] = (struct queue_message){id, 1, STR("data")};
    pthread_mutex_unlock(&s->lock);
    *ret_list = list;
    return 0;
}

static int post_message(struct queue_source *m, const char *queue, struct str data, int64_t *ret_id,
                        struct err_info *e)
{
    struct scene *s = (struct scene *)m;

    (void)e;
    pthread_mutex_lock(&s->lock);
    if (strcmp(queue, QUEUE_ERROR) || !memmem(data.p, data.len, "no luck", 7))
        s->wrong = "what was set aside";
    *ret_id = ++s->aside;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int judge(struct scene *s, const struct drover_message *m, int q)
{
    if (m->id == s->bad && s->failures_left) {
        s->failures_left--;
        return 1;
    }
    s->handled[q] = m->id;
    return 0;
}

static int handle(void *arg, struct drover_message *m)
{
    struct scene *s = arg;
    int q = at(s, m->queue);
    int verdict;

    pthread_mutex_lock(&s->lock);
    if (s->in_hand[q])
        s->wrong = "two messages of one queue in progress";
    if (m->id != s->handled[q] + 1 && m->id != s->handled[q])
        s->wrong = "out of order";
    if (!drover_message_is_sure(m) || m->fence <= 0)
        s->wrong = "not sure";
    s->in_hand[q] = s->holding = true;
    pthread_cond_broadcast(&s->changed);
    while (s->hold)
        pthread_cond_wait(&s->changed, &s->lock);
    s->in_hand[q] = false;
    snprintf(m->error, 256, "no luck");
    verdict = judge(s, m, q);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return verdict;
}

static int connect_one(struct queue_source *m, struct keeper **ret_keeper,
                       struct err_info *ret_error)
{
    struct scene *s = (struct scene *)m;
    bool fails;

    pthread_mutex_lock(&s->lock);
    fails = s->connects++ < s->connects_to_fail;
    pthread_mutex_unlock(&s->lock);
    if (fails)
        return err_set(ret_error, DROVER_IO, "no keeper yet");
    return local_connect(s->local, &(struct keeper_options){.timeout_ms = 30000}, ret_keeper);
}

/* Every other time it names the queues. */
static int listen(struct queue_source *m, struct arena *a, struct message_news *ret_news)
{
    struct scene *s = (struct scene *)m;
    bool deaf, which;

    pthread_mutex_lock(&s->lock);
    while (s->heard == s->posted && !s->deaf)
        pthread_cond_wait(&s->changed, &s->lock);
    s->heard = s->posted;
    which = s->posted % 2;
    deaf = s->deaf;
    pthread_mutex_unlock(&s->lock);
    *ret_news = (struct message_news){0};
    if (which) {
        ret_news->queues = arena_alloc(a, QUEUES * sizeof *ret_news->queues);
        for (int i = 0; i < QUEUES; i++)
            ret_news->queues[ret_news->count++] = str_of(s->names[i]);
    }
    return deaf ? DROVER_CLOSED : 0;
}

static void unlisten(struct queue_source *m)
{
    struct scene *s = (struct scene *)m;

    pthread_mutex_lock(&s->lock);
    s->deaf = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* The scene. */

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);

    s->source = (struct queue_source){
        .connect = connect_one, .read = read_messages, .post = post_message, .unlisten = unlisten};
    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->changed);
    assert_int_equal(local_open(&(struct local_options){.mode = LOCAL_NONE}, &s->local, NULL), 0);
    assert_int_equal(local_connect(s->local, &(struct keeper_options){0}, &s->keeper), 0);
    s->queues = (struct queues){s->keeper, QUEUE_NAMESPACE};
    for (int i = 0; i < QUEUES; i++) {
        queue_make_name(s->names[i]);
        assert_int_equal(queue_create(&s->queues, s->names[i]), 0);
    }
    s->worker = (struct drover_worker_options){.handle = handle,
                                               .arg = s,
                                               .quiet_ms = -1,
                                               .poll_ms = 5,
                                               .policy = DROVER_RETRY,
                                               .retries = 3,
                                               .parallel = 2};
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;

    for (int i = 0; i < WORKERS_MAX; i++)
        if (s->shifts[i])
            drover_worker_free(s->shifts[i]);
    assert_null(s->wrong);
    keeper_close(s->keeper);
    local_close(s->local);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return 0;
}

static void start(struct scene *s, int number)
{
    s->source.listen = s->listens ? listen : NULL;
    s->shifts[number] = worker_start(&s->source, QUEUE_NAMESPACE, &s->worker);
}

static void end(struct scene *s, int number)
{
    drover_worker_free(s->shifts[number]);
    s->shifts[number] = NULL;
}

static void post(struct scene *s, int count)
{
    pthread_mutex_lock(&s->lock);
    s->posted += count;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Until `last` of every queue has this value. */
static void wait_for_last(struct scene *s, int64_t last)
{
    int64_t deadline_ms = clock_boot_ms() + PATIENCE_MS;
    struct queue_info info;
    int ready = 0;

    while (ready < QUEUES) {
        assert_true(clock_boot_ms() < deadline_ms);
        ready = 0;
        for (int i = 0; i < QUEUES; i++) {
            assert_int_equal(queue_get(&s->queues, s->names[i], &info), 0);
            ready += info.last == last;
        }
    }
}

/* How many queues each worker owns, once all have an owner and that many workers share them. */
static void wait_for_shares(struct scene *s, size_t workers)
{
    int64_t deadline_ms = clock_boot_ms() + PATIENCE_MS;
    struct queue_warnings n = {0};
    struct queue_membership c = {0};
    size_t fair = 0;

    while (fair != workers) {
        assert_true(clock_boot_ms() < deadline_ms);
        assert_int_equal(queue_membership_read(&c, &s->queues, &n), 0);
        fair = 0;
        for (size_t i = 0; i < c.worker_count; i++)
            fair += c.workers[i].queue_count == QUEUES / workers;
        if (c.worker_count != workers)
            fair = 0;
    }
    queue_membership_release(&c);
}

static void one_worker_handles_everything(void **state)
{
    struct scene *s = *state;

    post(s, MESSAGES);
    start(s, 0);
    wait_for_last(s, MESSAGES);
    post(s, MESSAGES);
    wait_for_last(s, 2 * MESSAGES);
}

/* Long before it would look by itself. */
static void a_worker_hears_of_messages(void **state)
{
    struct scene *s = *state;

    s->listens = true;
    s->worker.poll_ms = 3600 * 1000;
    start(s, 0);
    wait_for_shares(s, 1);
    for (int i = 1; i <= 4; i++) {
        post(s, 1);
        wait_for_last(s, i);
    }
}

static void workers_that_come_and_go_share(void **state)
{
    struct scene *s = *state;

    for (int i = 0; i < 3; i++)
        start(s, i);
    wait_for_shares(s, 3);
    post(s, MESSAGES);
    wait_for_last(s, MESSAGES);
    end(s, 0);
    post(s, 1);
    wait_for_shares(s, 2);
    wait_for_last(s, MESSAGES + 1);
    end(s, 1);
    start(s, 3);
    wait_for_shares(s, 2);
    post(s, 1);
    wait_for_last(s, MESSAGES + 2);
}

static void what_is_in_hand_is_finished_first(void **state)
{
    struct scene *s = *state;
    struct queue_info info;

    s->hold = true;
    post(s, 1);
    start(s, 0);
    pthread_mutex_lock(&s->lock);
    while (!s->holding)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    drover_worker_stop(s->shifts[0]);
    for (int i = 0; i < QUEUES; i++) {
        assert_int_equal(queue_get(&s->queues, s->names[i], &info), 0);
        assert_int_equal(info.last, 0);
    }
    pthread_mutex_lock(&s->lock);
    s->hold = false;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    assert_int_equal(drover_worker_wait(s->shifts[0]), 0);
    for (int i = 0; i < QUEUES; i++) {
        assert_int_equal(queue_get(&s->queues, s->names[i], &info), 0);
        assert_string_equal(info.worker, "");
        assert_int_equal(info.last, s->handled[i]);
    }
}

static void a_failure_stops_the_worker_that_is_told_to(void **state)
{
    struct scene *s = *state;

    s->worker.policy = DROVER_STOP;
    s->bad = 2;
    s->failures_left = 1;
    post(s, 3);
    start(s, 0);
    assert_int_equal(drover_worker_wait(s->shifts[0]), DROVER_REFUSED);
}

static void a_failure_is_set_aside(void **state)
{
    struct scene *s = *state;

    s->worker.policy = DROVER_SKIP;
    s->bad = 2;
    s->failures_left = QUEUES;
    for (int i = 0; i < QUEUES; i++)
        s->handled[i] = 0;
    post(s, 2);
    start(s, 0);
    wait_for_last(s, 2);
    assert_int_equal(s->aside, QUEUES);
}

static void a_keeper_that_is_away_is_tried_again(void **state)
{
    struct scene *s = *state;

    s->connects_to_fail = 1;
    post(s, 1);
    start(s, 0);
    wait_for_last(s, 1);
    assert_int_equal(s->connects, 2);
}

/* Its node is deleted: it ends that session and joins again under a new name. */
static void a_worker_whose_node_is_gone_joins_again(void **state)
{
    struct scene *s = *state;
    char path[QUEUE_PATH_SIZE];

    start(s, 0);
    wait_for_shares(s, 1);
    queues_path(&s->queues, path, "workers/worker-0000000000");
    assert_int_equal(keeper_delete(s->keeper, path, KEEPER_ANY_VERSION), 0);
    wait_for_shares(s, 1);
    queues_path(&s->queues, path, "workers/worker-0000000001");
    assert_int_equal(keeper_exists(s->keeper, path, NULL), 0);
    post(s, 1);
    wait_for_last(s, 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(one_worker_handles_everything),
        CASE(a_worker_hears_of_messages),
        CASE(workers_that_come_and_go_share),
        CASE(what_is_in_hand_is_finished_first),
        CASE(a_failure_stops_the_worker_that_is_told_to),
        CASE(a_failure_is_set_aside),
        CASE(a_keeper_that_is_away_is_tried_again),
        CASE(a_worker_whose_node_is_gone_joins_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
