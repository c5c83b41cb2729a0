/*
 * One slot for each name of the list. What is FREE stands in the heap of its type; TRIED is in the
 * hands of a claimer; TAKEN waits for its working node to go; BLOCKED hangs in the list of the nearest
 * ancestor that is pending and becomes free when that goes; FOREIGN is of another world and RUBBISH
 * of nobody: both are read again now and then, because a name can be deleted and made anew between
 * two looks.
 */
#include "world/pending.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/buf.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/mem.h"
#include "world/crew.h"
#include "world/name.h"
#include "world/record.h"

enum {
    LOOK_SHARE = 10,             /* of the time, looking takes at most one part of so many */
    REREAD_SHARE = 20,           /* the same for what is not ours */
    REREAD_US = 5 * 1000 * 1000, /* and not more often than this */
};

enum slot_state { EMPTY, FREE, TRIED, TAKEN, BLOCKED, FOREIGN, RUBBISH };

struct slot {
    char *key;
    int64_t czxid;
    enum slot_state state;
    uint32_t type; /* of ours: which heap, plus one */
    uint32_t heap_at;
    uint32_t seen; /* the look that saw it last */
    int32_t version;
    int64_t session; /* that claimed it in this process, 0: none is known */
    bool plain, noted;
    uint32_t blocker, waiting, wait_prev, wait_next;
};

struct type {
    char *name;
    struct heap free;
};

struct pending {
    struct pending_options o;
    char *root;
    struct keeper *k;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t looked, told;
    struct keeper_watch *watches[2]; /* on the two lists; NULL: not armed */
    int telling;                     /* events being told */
    struct slot *slots;              /* refs start at 1 */
    uint32_t len, cap, free_slot;
    struct map by_key;
    struct type *types;
    uint32_t type_count;
    struct map by_type;
    uint32_t *taken; /* refs that were TAKEN when they were put here */
    size_t taken_len, taken_cap;

    bool pending_changed, working_changed;
    bool looking;
    uint32_t begun;                   /* looks */
    uint32_t musts_begun, musts_done; /* those that somebody insisted on */
    int64_t looked_us, look_us, reread_us, reread_took_us;
};

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Slots, under the lock. */

static uint32_t slot_find(struct pending *p, struct str key)
{
    uint32_t hash = map_hash_str(key);

    for (uint32_t at, ref = map_first(&p->by_key, hash, &at); ref;
         ref = map_next(&p->by_key, hash, &at))
        if (str_eq(str_of(p->slots[ref].key), key))
            return ref;
    return 0;
}

static void heap_moved(void *arg, uint32_t ref, uint32_t at)
{
    ((struct pending *)arg)->slots[ref].heap_at = at;
}

static uint32_t type_ref(struct pending *p, struct str name, bool make)
{
    uint32_t hash = map_hash_str(name);

    for (uint32_t at, ref = map_first(&p->by_type, hash, &at); ref;
         ref = map_next(&p->by_type, hash, &at))
        if (str_eq(str_of(p->types[ref - 1].name), name))
            return ref;
    if (!make)
        return 0;
    p->types = mem_realloc(p->types, (p->type_count + 1) * sizeof *p->types);
    p->types[p->type_count] =
        (struct type){.name = mem_dup(name.p, name.len), .free = {.moved = heap_moved, .arg = p}};
    map_add(&p->by_type, hash, ++p->type_count);
    return p->type_count;
}

/* Out of whatever its state has put it into. */
static void slot_detach(struct pending *p, uint32_t ref)
{
    struct slot *s = &p->slots[ref];

    if (s->state == FREE)
        heap_remove(&p->types[s->type - 1].free, s->heap_at);
    if (s->state == BLOCKED) {
        *(s->wait_prev ? &p->slots[s->wait_prev].wait_next : &p->slots[s->blocker].waiting) =
            s->wait_next;
        if (s->wait_next)
            p->slots[s->wait_next].wait_prev = s->wait_prev;
        s->blocker = s->wait_prev = s->wait_next = 0;
    }
}

static void slot_set(struct pending *p, uint32_t ref, enum slot_state state)
{
    struct slot *s = &p->slots[ref];

    slot_detach(p, ref);
    s->state = state;
    if (state == FREE)
        heap_push(&p->types[s->type - 1].free, s->czxid, ref);
    if (state != TAKEN)
        return;
    if (p->taken_len == p->taken_cap) {
        p->taken_cap = p->taken_cap ? p->taken_cap * 2 : 16;
        p->taken = mem_realloc(p->taken, p->taken_cap * sizeof *p->taken);
    }
    p->taken[p->taken_len++] = ref;
}

static void slot_block(struct pending *p, uint32_t ref, uint32_t blocker)
{
    struct slot *s = &p->slots[ref];

    slot_set(p, ref, BLOCKED);
    s->blocker = blocker;
    s->wait_next = p->slots[blocker].waiting;
    if (s->wait_next)
        p->slots[s->wait_next].wait_prev = ref;
    p->slots[blocker].waiting = ref;
}

/* What is known of it may have changed meanwhile: read it before it is claimed. */
static void slot_free_again(struct pending *p, uint32_t ref)
{
    p->slots[ref].plain = false;
    p->slots[ref].session = 0;
    slot_set(p, ref, FREE);
}

static void free_waiting(struct pending *p, uint32_t ref)
{
    while (p->slots[ref].waiting)
        slot_set(p, p->slots[ref].waiting, FREE);
}

static void slot_remove(struct pending *p, uint32_t ref)
{
    struct slot *s = &p->slots[ref];

    slot_detach(p, ref);
    free_waiting(p, ref);
    map_remove(&p->by_key, map_hash_str(str_of(s->key)), ref);
    free(s->key);
    *s = (struct slot){.wait_next = p->free_slot};
    p->free_slot = ref;
}

static uint32_t slot_add(struct pending *p, struct str key)
{
    uint32_t ref = p->free_slot;

    if (ref) {
        p->free_slot = p->slots[ref].wait_next;
    } else {
        if (p->len + 1 >= p->cap) {
            p->cap = p->cap ? p->cap * 2 : 64;
            p->slots = mem_realloc(p->slots, p->cap * sizeof *p->slots);
        }
        ref = ++p->len;
    }
    p->slots[ref] = (struct slot){.key = mem_dup(key.p, key.len), .state = TRIED, .seen = p->begun};
    map_add(&p->by_key, map_hash_str(key), ref);
    return ref;
}

static void note(struct pending *p, struct slot *s, const char *why)
{
    struct buf line = {0};

    if (s->noted || !p->o.note)
        return;
    s->noted = true;
    buf_printf(&line, "%s/%s is skipped: %s", WORLD_PENDING, s->key, why);
    p->o.note(p->o.arg, buf_text(&line));
    buf_release(&line);
}

static bool is_plain(struct pending *p, struct arena *a, const struct slot *s, struct str type,
                     struct str data)
{
    struct world_record made;

    world_record_make(a, p->root, str_of(s->key), type, &made);
    return str_eq(world_record_write(a, &made), data);
}

/* What its data says decides where it belongs. */
static void slot_sort(struct pending *p, uint32_t ref, struct str data,
                      const struct keeper_stat *stat)
{
    struct slot *s = &p->slots[ref];
    struct arena a = {0};
    struct world_record r;

    s->czxid = stat->czxid;
    s->version = stat->version;
    s->plain = false;
    if (world_record_read(&a, data, str_of(s->key), &r)) {
        slot_set(p, ref, RUBBISH);
        note(p, s, "its data is not that of a pending task");
    } else if (!world_record_is_of(&r, p->root)) {
        slot_set(p, ref, FOREIGN);
    } else {
        slot_detach(p, ref);
        s->state = TRIED;
        s->type = type_ref(p, r.type, true);
        s->plain = is_plain(p, &a, s, r.type, data);
        slot_set(p, ref, FREE);
    }
    arena_release(&a);
}

/* Looking. */

struct reading {
    struct keeper *k;
    char **keys;
    struct buf *data;
    struct keeper_stat *stats;
    int *errs;
    size_t count;
};

static void read_one(void *arg, size_t i)
{
    struct reading *r = arg;
    struct buf path = {0};

    buf_printf(&path, "%s/%s", WORLD_PENDING, r->keys[i]);
    r->errs[i] = keeper_get(r->k, buf_text(&path), &r->data[i], &r->stats[i]);
    buf_release(&path);
}

/* The names that have no slot yet and, now and then, those that are not ours. */
static void choose(struct pending *p, const struct keeper_names *names, bool again,
                   struct reading *r)
{
    for (size_t i = 0; i < names->count; i++) {
        uint32_t ref = slot_find(p, str_of(names->names[i]));

        if (ref)
            p->slots[ref].seen = p->begun;
        if (!ref || (again && p->slots[ref].state >= FOREIGN))
            r->keys[r->count++] = names->names[i];
    }
}

static void merge(struct pending *p, const struct reading *r)
{
    for (size_t i = 0; i < r->count; i++) {
        uint32_t ref = slot_find(p, str_of(r->keys[i]));

        if (r->errs[i])
            continue;
        if (!ref)
            ref = slot_add(p, str_of(r->keys[i]));
        else if (p->slots[ref].state < FOREIGN)
            continue; /* a claimer was quicker */
        slot_sort(p, ref, (struct str){r->data[i].p, r->data[i].len}, &r->stats[i]);
    }
    for (uint32_t ref = 1; ref <= p->len; ref++)
        if (p->slots[ref].state != EMPTY && p->slots[ref].seen != p->begun)
            slot_remove(p, ref);
}

static int reading_error(const struct reading *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->errs[i] && r->errs[i] != DROVER_NO_NODE)
            return r->errs[i];
    return 0;
}

static void reading_release(struct reading *r)
{
    for (size_t i = 0; i < r->count; i++)
        buf_release(&r->data[i]);
    free(r->keys);
    free(r->data);
    free(r->stats);
    free(r->errs);
}

/* Under the lock, which is released while the keeper is asked. */
static int look_at_pending(struct pending *p, struct keeper *k)
{
    struct keeper_names names = {0};
    struct reading r = {.k = k};
    int64_t began_us = now_us();
    bool again;
    int err;

    pthread_mutex_unlock(&p->lock);
    err = keeper_children(k, WORLD_PENDING, &names, NULL);
    pthread_mutex_lock(&p->lock);
    if (err)
        return err;
    again = began_us - p->reread_us > REREAD_US + REREAD_SHARE * p->reread_took_us;
    r.keys = mem_alloc((names.count + 1) * sizeof *r.keys);
    choose(p, &names, again, &r);
    pthread_mutex_unlock(&p->lock);
    r.data = mem_zalloc((r.count + 1) * sizeof *r.data);
    r.stats = mem_zalloc((r.count + 1) * sizeof *r.stats);
    r.errs = mem_zalloc((r.count + 1) * sizeof *r.errs);
    crew_run(r.count, read_one, &r);
    pthread_mutex_lock(&p->lock);
    err = reading_error(&r);
    if (!err)
        merge(p, &r);
    if (again) {
        p->reread_us = now_us();
        p->reread_took_us = p->reread_us - began_us;
    }
    reading_release(&r);
    keeper_names_release(&names);
    return err;
}

static int by_name(const void *key, const void *name)
{
    return strcmp(key, *(char *const *)name);
}

/* What was taken and is worked on no longer is free again. */
static int look_at_working(struct pending *p, struct keeper *k)
{
    struct keeper_names names = {0};
    size_t kept = 0;
    int err;

    pthread_mutex_unlock(&p->lock);
    err = keeper_children(k, WORLD_WORKING, &names, NULL);
    pthread_mutex_lock(&p->lock);
    if (err)
        return err;
    for (size_t i = 0; i < p->taken_len; i++) {
        uint32_t ref = p->taken[i];

        if (p->slots[ref].state != TAKEN)
            continue;
        if (bsearch(p->slots[ref].key, names.names, names.count, sizeof *names.names, by_name))
            p->taken[kept++] = ref;
        else
            slot_free_again(p, ref);
    }
    p->taken_len = kept;
    keeper_names_release(&names);
    return 0;
}

static void on_event(void *arg, enum keeper_event event, const char *path);

/*
 * Under the lock, which it releases. A keeper on an ensemble reads a whole list to arm a watch on it, so
 * it is armed only when there was nothing left to take, and tells once: as long as tasks are claimed,
 * the lists are taken to have changed.
 */
static int arm(struct pending *p)
{
    static const char *const lists[] = {WORLD_PENDING, WORLD_WORKING};
    int err = 0;

    for (int i = 0; i < 2 && !err; i++) {
        struct keeper_watch *w = p->watches[i];

        if (w)
            continue;
        pthread_mutex_unlock(&p->lock);
        err = keeper_watch(p->k, lists[i], KEEPER_WATCH_CHILDREN, on_event, p, &w);
        pthread_mutex_lock(&p->lock);
        if (!err)
            p->watches[i] = w;
    }
    return err;
}

/* Under the lock. What was told before this is seen by it, so the flags go first. */
static int look(struct pending *p, struct keeper *k, bool must)
{
    bool pending = p->pending_changed || must, working = p->working_changed || must;
    int64_t began_us = now_us();
    int err = 0;

    p->looking = true;
    p->begun++;
    p->musts_begun += must;
    if (must)
        err = arm(p);
    p->pending_changed = !p->watches[0];
    p->working_changed = !p->watches[1];
    if (must && !err) {
        pthread_mutex_unlock(&p->lock);
        err = keeper_sync(k, WORLD_PENDING);
        pthread_mutex_lock(&p->lock);
    }
    if (!err && pending)
        err = look_at_pending(p, k);
    if (!err && working)
        err = look_at_working(p, k);
    p->looked_us = now_us();
    p->look_us = p->looked_us - began_us;
    if (err)
        p->pending_changed = p->working_changed = true;
    else if (must)
        p->musts_done = p->musts_begun;
    p->looking = false;
    pthread_cond_broadcast(&p->looked);
    return err;
}

int pending_look(struct pending *p, struct keeper *k, bool must)
{
    uint32_t wanted;
    int err = 0;

    pthread_mutex_lock(&p->lock);
    wanted = p->musts_begun + 1;
    if (!must) {
        if (!p->looking && (p->pending_changed || p->working_changed) &&
            now_us() - p->looked_us >= LOOK_SHARE * p->look_us)
            err = look(p, k, false);
    } else {
        while (!err && p->musts_done < wanted) {
            if (p->looking)
                pthread_cond_wait(&p->looked, &p->lock);
            else
                err = look(p, k, true);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return err;
}

bool pending_has_changed(struct pending *p)
{
    bool changed;

    pthread_mutex_lock(&p->lock);
    changed = p->pending_changed || p->working_changed;
    pthread_mutex_unlock(&p->lock);
    return changed;
}

/* Claiming. */

/* The nearest ancestor that is pending, as far as is known. */
static uint32_t known_blocker(struct pending *p, struct str key)
{
    uint32_t ref;

    for (key = zoott_parent_key(key); key.len; key = zoott_parent_key(key)) {
        ref = slot_find(p, key);
        if (ref && p->slots[ref].state != FOREIGN)
            return ref;
    }
    return 0;
}

static uint32_t oldest(struct pending *p, const struct str *types, size_t type_count)
{
    uint32_t found = 0;

    for (size_t i = 0; i < type_count; i++) {
        uint32_t type = type_ref(p, types[i], false);
        const struct heap *h = type ? &p->types[type - 1].free : NULL;

        if (h && h->count && (!found || h->entries[0].key < p->slots[found].czxid))
            found = h->entries[0].ref;
    }
    return found;
}

static void task_of(struct pending *p, struct arena *a, uint32_t ref, struct pending_task *ret_task)
{
    const struct slot *s = &p->slots[ref];

    *ret_task = (struct pending_task){
        .key = str_of(arena_text(a, str_of(s->key))),
        .type = str_of(arena_text(a, str_of(p->types[s->type - 1].name))),
        .czxid = s->czxid,
        .version = s->version,
        .plain = s->plain,
    };
}

bool pending_take(struct pending *p, struct arena *a, const struct str *types, size_t type_count,
                  struct pending_task *ret_task)
{
    uint32_t ref, blocker;

    pthread_mutex_lock(&p->lock);
    while ((ref = oldest(p, types, type_count))) {
        blocker = known_blocker(p, str_of(p->slots[ref].key));
        if (!blocker) {
            slot_set(p, ref, TRIED);
            task_of(p, a, ref, ret_task);
            break;
        }
        slot_block(p, ref, blocker);
    }
    pthread_mutex_unlock(&p->lock);
    return ref != 0;
}

void pending_is_claimed(struct pending *p, struct str key, int64_t session, int32_t version)
{
    uint32_t ref;

    pthread_mutex_lock(&p->lock);
    ref = slot_find(p, key);
    if (ref && p->slots[ref].type) {
        slot_set(p, ref, TAKEN);
        p->slots[ref].session = session;
        p->slots[ref].version = version;
    }
    pthread_mutex_unlock(&p->lock);
}

bool pending_claim_of(struct pending *p, struct arena *a, struct str key, int64_t session,
                      struct pending_task *ret_task)
{
    uint32_t ref;
    bool is;

    pthread_mutex_lock(&p->lock);
    ref = slot_find(p, key);
    is = ref && p->slots[ref].state == TAKEN && p->slots[ref].session == session;
    if (is)
        task_of(p, a, ref, ret_task);
    pthread_mutex_unlock(&p->lock);
    return is;
}

void pending_is_queued(struct pending *p, struct str key)
{
    uint32_t ref;

    pthread_mutex_lock(&p->lock);
    ref = slot_find(p, key);
    if (ref && p->slots[ref].state >= FOREIGN)
        slot_remove(p, ref); /* what was known of it is of another */
    p->pending_changed = true;
    pthread_mutex_unlock(&p->lock);
}

void pending_free_again(struct pending *p, struct str key, int64_t czxid)
{
    uint32_t ref;

    pthread_mutex_lock(&p->lock);
    ref = slot_find(p, key);
    if (ref && p->slots[ref].type) {
        slot_set(p, ref, TRIED);
        if (czxid)
            p->slots[ref].czxid = czxid;
        slot_free_again(p, ref);
    } else {
        p->pending_changed = true;
    }
    pthread_mutex_unlock(&p->lock);
}

void pending_is_taken(struct pending *p, struct str key)
{
    uint32_t ref;

    pthread_mutex_lock(&p->lock);
    ref = slot_find(p, key);
    if (ref && p->slots[ref].type) {
        slot_set(p, ref, TAKEN);
        p->slots[ref].session = 0;
        p->slots[ref].plain = false;
    }
    pthread_mutex_unlock(&p->lock);
}

void pending_is_gone(struct pending *p, struct str key)
{
    uint32_t ref;

    pthread_mutex_lock(&p->lock);
    ref = slot_find(p, key);
    if (ref)
        slot_remove(p, ref);
    pthread_mutex_unlock(&p->lock);
}

void pending_is_rubbish(struct pending *p, struct str key, const char *why)
{
    uint32_t ref;

    pthread_mutex_lock(&p->lock);
    ref = slot_find(p, key);
    if (ref) {
        slot_set(p, ref, RUBBISH);
        note(p, &p->slots[ref], why);
    }
    pthread_mutex_unlock(&p->lock);
}

void pending_is_blocked(struct pending *p, struct str key, struct str ancestor, struct str data,
                        const struct keeper_stat *stat)
{
    uint32_t ref, blocker;

    pthread_mutex_lock(&p->lock);
    blocker = slot_find(p, ancestor);
    if (!blocker) {
        blocker = slot_add(p, ancestor);
        slot_sort(p, blocker, data, stat);
    }
    ref = slot_find(p, key);
    if (ref)
        slot_block(p, ref, blocker);
    pthread_mutex_unlock(&p->lock);
}

bool pending_is_foreign(struct pending *p, struct str key, struct str data)
{
    struct arena a = {0};
    struct world_record r;
    bool foreign = !world_record_read(&a, data, key, &r) && !world_record_is_of(&r, p->root);

    arena_release(&a);
    return foreign;
}

/* The whole. */

/* Takes the watch back: the next look that somebody insists on arms it again. */
static void on_event(void *arg, enum keeper_event event, const char *path)
{
    struct pending *p = arg;
    int which = !strcmp(path, WORLD_WORKING);
    struct keeper_watch *w;

    pthread_mutex_lock(&p->lock);
    p->telling++;
    w = p->watches[which];
    p->watches[which] = NULL;
    p->pending_changed |= !which || event == KEEPER_EVENT_RECONNECTED;
    p->working_changed |= which || event == KEEPER_EVENT_RECONNECTED;
    pthread_mutex_unlock(&p->lock);
    if (w)
        keeper_unwatch(p->k, w);
    if (p->o.changed)
        p->o.changed(p->o.arg);
    pthread_mutex_lock(&p->lock);
    p->telling--;
    pthread_cond_broadcast(&p->told);
    pthread_mutex_unlock(&p->lock);
}

struct pending *pending_new(struct keeper *k, const struct pending_options *o)
{
    struct pending *p = mem_zalloc(sizeof *p);

    p->o = *o;
    p->root = mem_dup(o->root, strlen(o->root));
    p->k = k;
    p->pending_changed = p->working_changed = true;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->looked, NULL);
    pthread_cond_init(&p->told, NULL);
    return p;
}

/* An event that has the watch in its hands is waited for, as keeper_unwatch() waits for the others. */
static void disarm(struct pending *p)
{
    struct keeper_watch *w;

    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < 2; i++) {
        w = p->watches[i];
        p->watches[i] = NULL;
        pthread_mutex_unlock(&p->lock);
        if (w)
            keeper_unwatch(p->k, w);
        pthread_mutex_lock(&p->lock);
    }
    while (p->telling)
        pthread_cond_wait(&p->told, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void pending_free(struct pending *p)
{
    disarm(p);
    for (uint32_t ref = 1; ref <= p->len; ref++)
        free(p->slots[ref].key);
    for (uint32_t i = 0; i < p->type_count; i++) {
        free(p->types[i].name);
        heap_release(&p->types[i].free);
    }
    free(p->types);
    free(p->slots);
    free(p->taken);
    map_release(&p->by_key);
    map_release(&p->by_type);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->looked);
    pthread_cond_destroy(&p->told);
    free(p->root);
    free(p);
}
