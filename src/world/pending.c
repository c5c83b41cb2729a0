/* What claimers take from the pending list, and what they say came of it. */
#include "world/pending.h"

#include <stdlib.h>

#include "base/mem.h"
#include "world/name.h"
#include "world/pending_impl.h"
#include "world/record.h"

/* The nearest ancestor that is pending, as far as is known. */
static uint32_t known_blocker(struct pending *p, struct str key)
{
    uint32_t ref;

    for (key = world_parent_key(key); key.len; key = world_parent_key(key)) {
        ref = pending_slot_find(p, key);
        if (ref && p->slots[ref].state != FOREIGN)
            return ref;
    }
    return 0;
}

static uint32_t oldest(struct pending *p, const struct str *types, size_t type_count)
{
    uint32_t found = 0;

    for (size_t i = 0; i < type_count; i++) {
        uint32_t type = pending_type_ref(p, types[i], false);
        const struct heap *h = type ? &p->types[type - 1].free : NULL;

        if (h && h->count && (!found || h->entries[0].key < p->slots[found].czxid))
            found = h->entries[0].ref;
    }
    return found;
}

static void task_of(struct pending *p, struct arena *a, uint32_t ref, struct pending_task *ret_task)
{
    const struct pending_slot *s = &p->slots[ref];

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
            pending_slot_set(p, ref, TRIED);
            task_of(p, a, ref, ret_task);
            break;
        }
        pending_slot_block(p, ref, blocker);
    }
    pthread_mutex_unlock(&p->lock);
    return ref != 0;
}

void pending_is_claimed(struct pending *p, struct str key, int64_t session, int32_t version)
{
    uint32_t ref;

    pthread_mutex_lock(&p->lock);
    ref = pending_slot_find(p, key);
    if (ref && p->slots[ref].type) {
        pending_slot_set(p, ref, TAKEN);
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
    ref = pending_slot_find(p, key);
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
    ref = pending_slot_find(p, key);
    if (ref && p->slots[ref].state >= FOREIGN)
        pending_slot_remove(p, ref); /* what was known of it is of another */
    p->pending_changed = true;
    pthread_mutex_unlock(&p->lock);
}

void pending_free_again(struct pending *p, struct str key, int64_t czxid)
{
    uint32_t ref;

    pthread_mutex_lock(&p->lock);
    ref = pending_slot_find(p, key);
    if (ref && p->slots[ref].type) {
        pending_slot_set(p, ref, TRIED);
        if (czxid)
            p->slots[ref].czxid = czxid;
        pending_slot_free_again(p, ref);
    } else {
        p->pending_changed = true;
    }
    pthread_mutex_unlock(&p->lock);
}

void pending_is_taken(struct pending *p, struct str key)
{
    uint32_t ref;

    pthread_mutex_lock(&p->lock);
    ref = pending_slot_find(p, key);
    if (ref && p->slots[ref].type) {
        pending_slot_set(p, ref, TAKEN);
        p->slots[ref].session = 0;
        p->slots[ref].plain = false;
    }
    pthread_mutex_unlock(&p->lock);
}

void pending_is_gone(struct pending *p, struct str key)
{
    uint32_t ref;

    pthread_mutex_lock(&p->lock);
    ref = pending_slot_find(p, key);
    if (ref)
        pending_slot_remove(p, ref);
    pthread_mutex_unlock(&p->lock);
}

void pending_is_rubbish(struct pending *p, struct str key, const char *why)
{
    uint32_t ref;

    pthread_mutex_lock(&p->lock);
    ref = pending_slot_find(p, key);
    if (ref) {
        pending_slot_set(p, ref, RUBBISH);
        pending_note(p, &p->slots[ref], why);
    }
    pthread_mutex_unlock(&p->lock);
}

void pending_is_blocked(struct pending *p, struct str key, struct str ancestor, struct str data,
                        const struct keeper_stat *stat)
{
    uint32_t ref, blocker;

    pthread_mutex_lock(&p->lock);
    blocker = pending_slot_find(p, ancestor);
    if (!blocker) {
        blocker = pending_slot_add(p, ancestor);
        pending_slot_sort(p, blocker, data, stat);
    }
    ref = pending_slot_find(p, key);
    if (ref)
        pending_slot_block(p, ref, blocker);
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

void pending_free(struct pending *p)
{
    pending_disarm(p);
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
