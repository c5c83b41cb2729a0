/*
 * A linked list; there are few worlds. A world whose session has ended is marked, and closed by its
 * last user.
 *
 * Wake-ups. A task that becomes free wakes one claim that waits for its type, from the thread that
 * made the change. A change by another client only says that the lists have changed: then one
 * waiting claim, whatever its types, is run to refresh the view and to set the watches again, and
 * what it finds wakes the others. If it claims a task instead, the next one is run, until the
 * watches are set.
 */
#include "world/http.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "http/metrics.h"

struct open_world {
    struct world_registry *registry;
    struct world *world;
    char *name;
    struct keeper *k; /* borrowed from the context */
    int users;
    bool over;
    bool changed; /* a watch fired; on the loop */
    struct open_world *next;
};

struct world_registry {
    struct context *context;
    uv_timer_t timer;
    struct counter *became[WORLD_IS_NONE + 1]; /* how many tasks, by state */

    pthread_mutex_t lock;
    struct open_world *worlds;
    size_t count;
};

uint64_t world_type_key(struct str world, struct str type)
{
    return http_key("world-type", type, world);
}

uint64_t world_list_key(struct str world)
{
    return http_key("world-lists", world, (struct str){0});
}

/* Whether it must be called again. */
static bool wake_one(struct world_registry *s, struct open_world *p)
{
    uint64_t key = world_list_key(str_of(p->name));
    bool waiting = http_topic_parked(&s->context->topic, key);

    if (p->changed || (waiting && world_has_changed(p->world)))
        http_topic_wake(&s->context->topic, key, 1);
    else
        waiting = false;
    p->changed = false;
    return waiting;
}

static void on_timer(uv_timer_t *timer)
{
    struct world_registry *s = timer->data;
    bool again = false;

    pthread_mutex_lock(&s->lock);
    for (struct open_world *p = s->worlds; p; p = p->next)
        again |= !p->over && wake_one(s, p);
    pthread_mutex_unlock(&s->lock);
    if (again)
        UV_CHECK(uv_timer_start(timer, on_timer, REGISTRY_WAKE_MS, 0));
}

/* Without a type, the lists have changed: on the loop. */
static void on_ready(void *arg, struct str type, uint32_t count)
{
    struct open_world *p = arg;
    struct world_registry *s = p->registry;

    if (type.p) {
        http_topic_wake(&s->context->topic, world_type_key(str_of(p->name), type), (int)count);
        return;
    }
    p->changed = true;
    if (!uv_is_active((uv_handle_t *)&s->timer))
        UV_CHECK(uv_timer_start(&s->timer, on_timer, REGISTRY_WAKE_MS, 0));
}

static void on_note(void *arg, const char *line)
{
    (void)arg;
    log_warning("%s", line);
}

/* Publishes an event. */
static void on_told(void *arg, const struct world_change *c)
{
    struct open_world *p = arg;
    bool removed = c->state == WORLD_IS_NONE;
    struct str state = removed ? STR("deleted") : str_of(world_state_name(c->state));
    CLEANUP(buf_release) struct buf b = {0};

    json_open(&b, '{');
    json_member_text(&b, "world", str_of(p->name));
    json_member_text(&b, "node", c->key);
    if (c->type.p)
        json_member_text(&b, "type", c->type);
    json_member_text(&b, "state", state);
    if (c->error.p)
        json_member_text(&b, "error", c->error);
    json_close(&b, '}');
    counter_add(p->registry->became[c->state], 1);
    events_publish(
        p->registry->context->events,
        &(struct event){
            .kind = "world", .id = c->key, .type = c->type, .state = state, .json = {b.p, b.len}});
}

/* Under the lock. */

static struct open_world *find(struct world_registry *s, struct str name)
{
    for (struct open_world *p = s->worlds; p; p = p->next)
        if (!p->over && str_eq(str_of(p->name), name))
            return p;
    return NULL;
}

/* Removes one that is over and unused from the list; NULL: none. */
static struct open_world *take_unused(struct world_registry *s)
{
    for (struct open_world **at = &s->worlds; *at; at = &(*at)->next) {
        struct open_world *p = *at;

        if (p->over && !p->users) {
            *at = p->next;
            s->count--;
            return p;
        }
    }
    return NULL;
}

/* Without the lock: closing removes watches, whose callbacks may be running. */
static void close_unused(struct world_registry *s)
{
    for (;;) {
        pthread_mutex_lock(&s->lock);
        struct open_world *p = take_unused(s);
        pthread_mutex_unlock(&s->lock);
        if (!p)
            return;
        world_close(p->world);
        context_return(s->context, p->k);
        free(p->name);
        free(p);
    }
}

static int open_one(struct world_registry *s, struct str name, struct open_world **ret_place,
                    struct err_info *e)
{
    struct open_world *p;
    struct world_options o = {.ready = on_ready, .note = on_note, .told = on_told};
    struct keeper *k = context_keeper(s->context);

    if (!k)
        return err_set(e, DROVER_CLOSED, "the keeper is unreachable: try again");
    o.arg = p = mem_zalloc(sizeof *p);
    p->registry = s;
    p->name = mem_dup(name.p, name.len);
    p->k = k;
    int err = world_open(k, name, &o, &p->world, e);
    if (err) {
        context_return(s->context, k);
        free(p->name);
        free(p);
        return err;
    }
    *ret_place = p;
    return 0;
}

int world_registry_get(struct world_registry *s, struct str name, struct world **ret_world,
                       struct err_info *ret_error)
{
    struct open_world *opened = NULL;

    pthread_mutex_lock(&s->lock);
    struct open_world *p = find(s, name);
    if (p)
        p->users++;
    pthread_mutex_unlock(&s->lock);
    if (p) {
        *ret_world = p->world;
        return 0;
    }
    TRY(open_one(s, name, &opened, ret_error));
    pthread_mutex_lock(&s->lock);
    p = find(s, name);
    opened->next = s->worlds;
    s->worlds = opened;
    s->count++;
    /* Another thread was faster, or there are too many: this one is closed after its use. */
    opened->over = p || s->count > REGISTRY_WORLDS_MAX;
    p = p ? p : opened;
    p->users++;
    pthread_mutex_unlock(&s->lock);
    *ret_world = p->world;
    close_unused(s);
    return 0;
}

void world_registry_put(struct world_registry *s, struct world *w)
{
    struct open_world *p;

    pthread_mutex_lock(&s->lock);
    for (p = s->worlds; p->world != w; p = p->next)
        ;
    bool unused = !--p->users && p->over;
    pthread_mutex_unlock(&s->lock);
    if (unused)
        close_unused(s);
}

static void all_over(struct world_registry *s)
{
    pthread_mutex_lock(&s->lock);
    for (struct open_world *p = s->worlds; p; p = p->next)
        p->over = true;
    pthread_mutex_unlock(&s->lock);
    close_unused(s);
}

static void on_session(void *arg, struct keeper *k)
{
    if (!k)
        all_over(arg);
}

static void register_counters(struct world_registry *s)
{
    static const char *const labels[] = {
        [WORLD_IS_PENDING] = "state=\"pending\"",
        [WORLD_IS_WORKING] = "state=\"working\"",
        [WORLD_IS_COMPLETED] = "state=\"completed\"",
        [WORLD_IS_NONE] = "state=\"deleted\"",
    };

    for (int i = 0; i <= WORLD_IS_NONE; i++)
        s->became[i] =
            metrics_counter(s->context->metrics, "drover_world_tasks_total", labels[i],
                            "Tasks of worlds that this server has brought into a state.");
}

struct world_registry *world_registry_new(struct context *h)
{
    struct world_registry *s = mem_zalloc(sizeof *s);

    s->context = h;
    register_counters(s);
    pthread_mutex_init(&s->lock, NULL);
    UV_CHECK(uv_timer_init(h->loop, &s->timer));
    s->timer.data = s;
    context_listen(h, on_session, s);
    return s;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct world_registry *s = handle->data;

    pthread_mutex_destroy(&s->lock);
    free(s);
}

void world_registry_free(struct world_registry *s)
{
    all_over(s);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}
