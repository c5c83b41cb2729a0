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
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/uv_check.h"
#include "http/metrics.h"
#include "server/ground.h"
#include "world/http.h"
#include "world/impl.h"

enum { SWEEP_MIN_MS = 500, SWEEP_MAX_MS = 10 * 60 * 1000 };

static int64_t retention_ms; /* the option; 0: never */

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
    if (p->changed || (waiting && list_view_is_stale(p->world->pending)))
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
    LOCKED(&s->lock);
    for (struct open_world *p = s->worlds; p; p = p->next)
        again |= !p->over && wake_one(s, p);
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
            .kind = "world", .id = c->key, .type = c->type, .state = state, .json = buf_str(&b)});
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
    LOCKED(&s->lock);
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

/* One that is not in the list. */
static void close_one(struct open_world *p)
{
    if (p->world)
        world_close(p->world);
    context_return(p->registry->context, p->k);
    free(p->name);
    free(p);
}

/* Without the lock: closing removes watches, whose callbacks may be running. */
static void close_unused(struct world_registry *s)
{
    struct open_world *p;
    while ((p = take_unused(s)))
        close_one(p);
}

static int open_one(struct world_registry *s, struct str name, struct open_world **ret_place,
                    struct err_info *e)
{
    struct keeper *k = context_keeper(s->context);
    if (!k)
        return err_set(e, DROVER_CLOSED, WORLD_UNREACHABLE);
    struct open_world *p = mem_alloc(sizeof *p);
    *p = (struct open_world){.registry = s, .name = mem_dup(name.p, name.len), .k = k};
    struct world_options o = {.ready = on_ready, .note = on_note, .told = on_told, .arg = p};
    int err = world_open(k, name, &o, &p->world, e);
    if (err)
        close_one(p);
    else
        *ret_place = p;
    return err;
}

/* One that is open and gets a user; NULL: none. Adds `opened` to the list, unless it is NULL. */
static struct open_world *use(struct world_registry *s, struct str name, struct open_world *opened)
{
    LOCKED(&s->lock);
    struct open_world *p = find(s, name);
    if (opened) {
        opened->next = s->worlds;
        s->worlds = opened;
        s->count++;
        /* Another thread was faster, or there are too many: this one is closed after its use. */
        opened->over = p || s->count > REGISTRY_WORLDS_MAX;
        p = p ? p : opened;
    }
    if (p)
        p->users++;
    return p;
}

int world_registry_get(struct world_registry *s, struct str name, struct world **ret_world,
                       struct err_info *ret_error)
{
    struct open_world *p = use(s, name, NULL);
    if (!p) {
        TRY(open_one(s, name, &p, ret_error));
        p = use(s, name, p);
        close_unused(s);
    }
    *ret_world = p->world;
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

/* The sweep. */

/* The world in a record's path. */
static struct str world_of(const struct world_record *r)
{
    struct str prefix = STR(WORLD_ROOT_PREFIX);
    struct str rest = {r->path.p + prefix.len, r->path.len - prefix.len};
    return str_cut(&rest, '/');
}

/* Removes a completed task. Young tasks, tasks with children and foreign nodes stay. */
static int sweep_one(struct world_registry *s, struct keeper *k, struct arena *a, const char *name,
                     int64_t before_ms)
{
    struct str key = str_of(name), data;
    struct keeper_stat stat;
    struct world_record r;
    struct world *w;
    TRY(world_read(k, a, world_list_path(a, WORLD_COMPLETED, key), &data, &stat));
    if (stat.ctime_ms >= before_ms)
        return DROVER_NOT_ALLOWED;
    TRY(world_record_read(a, data, key, &r));
    TRY(world_registry_get(s, world_of(&r), &w, NULL));
    int err = world_remove(w, k, key, before_ms, NULL);
    world_registry_put(s, w);
    return err;
}

static int64_t sweep_every_ms(const struct world_registry *s)
{
    int64_t ms = s->retention_ms ? s->retention_ms / 100 : SWEEP_MAX_MS;
    return ms < SWEEP_MIN_MS ? SWEEP_MIN_MS : ms > SWEEP_MAX_MS ? SWEEP_MAX_MS : ms;
}

/* Backwards: children come after their parents. */
static void sweep_all(struct periodic *c, void *arg)
{
    struct world_registry *s = arg;
    int64_t kept_ms = s->retention_ms, before_ms = clock_wall_ms() - kept_ms;
    periodic_next(c, sweep_every_ms(s));
    struct keeper *k = kept_ms ? context_keeper(s->context) : NULL;
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    CLEANUP(arena_release) struct arena a = {0};
    size_t swept = 0;
    if (!k)
        return;
    if (!keeper_children(k, WORLD_COMPLETED, &names, NULL))
        for (size_t i = names.count; i-- > 0 && !periodic_is_stopping(c);) {
            arena_reset(&a);
            swept += !sweep_one(s, k, &a, names.names[i], before_ms);
        }
    context_return(s->context, k);
    if (swept)
        log_info("worlds: removed %zu tasks that were completed long ago", swept);
}

/* At the start, and when the option may have changed. */
static void set_retention(void *module)
{
    struct world_registry *s = module;
    s->retention_ms = retention_ms;
    if (s->sweep)
        periodic_wake(s->sweep);
    else if (retention_ms)
        s->sweep = periodic_start("world-sweep", sweep_every_ms(s), sweep_all, s);
}

/* Opening and closing. */

static void register_counters(struct world_registry *s)
{
    static const char *const labels[] = {
        [WORLD_IS_PENDING] = "state=\"pending\"",     [WORLD_IS_WORKING] = "state=\"working\"",
        [WORLD_IS_COMPLETED] = "state=\"completed\"", [WORLD_IS_FAILED] = "state=\"failed\"",
        [WORLD_IS_NONE] = "state=\"deleted\"",
    };
    for (int i = 0; i <= WORLD_IS_NONE; i++)
        s->became[i] =
            metrics_counter(s->context->metrics, "drover_world_tasks_total", labels[i],
                            "Tasks of worlds that this server has brought into a state.");
}

static int registry_open(struct context *h, void **ret_module, struct err_info *ret_error)
{
    (void)ret_error;
    struct world_registry *s = *ret_module = mem_zalloc(sizeof *s);
    s->context = h;
    register_counters(s);
    pthread_mutex_init(&s->lock, NULL);
    UV_CHECK(uv_timer_init(h->loop, &s->timer));
    s->timer.data = s;
    context_listen(h, on_session, s);
    ground_need(h, WORLD_PENDING);
    ground_need(h, WORLD_WORKING);
    ground_need(h, WORLD_COMPLETED);
    set_retention(s);
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct world_registry *s = handle->data;
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void registry_close(void *module)
{
    struct world_registry *s = module;
    periodic_stop(s->sweep);
    all_over(s);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

static const struct option OPTIONS[] = {
    {"world-retention", "TIME|never", "Remove tasks of worlds this long after they were completed.",
     option_span_or_never, &retention_ms, 1, INT64_MAX, .initial = "never",
     .flags = OPTION_RELOADS},
};

const struct module world_module = {.name = "worlds",
                                    .open = registry_open,
                                    .routes = world_routes,
                                    .reload = set_retention,
                                    .close = registry_close,
                                    .options = OPTIONS,
                                    .option_count = sizeof OPTIONS / sizeof *OPTIONS};
