/*
 * A list with a map by id. There are few sessions, one per client, so operations on all walk the
 * list.
 */
#include "keeper/tree/session.h"

#include <stdlib.h>

#include "base/mem.h"

void sessions_release(struct tree_sessions *s)
{
    for (uint32_t i = 0; i < s->len; i++)
        free(s->list[i]);
    free(s->list);
    map_release(&s->by_id);
    *s = (struct tree_sessions){0};
}

/* The session's position in the list plus one; 0: not found. */
static uint32_t position(const struct tree_sessions *s, int64_t id)
{
    uint32_t hash = map_hash_u64((uint64_t)id);
    for (uint32_t at, ref = map_first(&s->by_id, hash, &at); ref;
         ref = map_next(&s->by_id, hash, &at))
        if (s->list[ref - 1]->id == id)
            return ref;
    return 0;
}

struct tree_session *sessions_find(const struct tree_sessions *s, int64_t id)
{
    uint32_t ref = position(s, id);
    return ref ? s->list[ref - 1] : NULL;
}

static uint32_t free_position(struct tree_sessions *s)
{
    if (s->count < s->len)
        for (uint32_t i = 0; i < s->len; i++)
            if (!s->list[i])
                return i;
    mem_grow(s->list, s->len, s->cap);
    return s->len++;
}

struct tree_session *sessions_put(struct tree_sessions *s, int64_t id, int32_t timeout_ms,
                                  const char *password)
{
    struct tree_session *session = sessions_find(s, id);

    if (!session) {
        uint32_t at = free_position(s);
        session = s->list[at] = mem_zalloc(sizeof *session);
        session->id = id;
        map_add(&s->by_id, map_hash_u64((uint64_t)id), at + 1);
        s->count++;
    }
    session->timeout_ms = timeout_ms;
    memcpy(session->password, password, KEEPER_PASSWORD_LEN);
    return session;
}

void sessions_remove(struct tree_sessions *s, int64_t id)
{
    uint32_t ref = position(s, id);
    if (!ref)
        return;
    map_remove(&s->by_id, map_hash_u64((uint64_t)id), ref);
    free(s->list[ref - 1]);
    s->list[ref - 1] = NULL;
    s->count--;
}

void session_touch(struct tree_session *s, int64_t now_ms)
{
    s->deadline_ms = now_ms + s->timeout_ms;
}

void sessions_touch_all(struct tree_sessions *s, int64_t now_ms)
{
    for (uint32_t i = 0; i < s->len; i++)
        if (s->list[i])
            session_touch(s->list[i], now_ms);
}

struct tree_session *sessions_expired(struct tree_sessions *s, int64_t now_ms)
{
    for (uint32_t i = 0; i < s->len; i++)
        if (s->list[i] && !s->list[i]->pins && s->list[i]->deadline_ms <= now_ms)
            return s->list[i];
    return NULL;
}

int64_t sessions_next_deadline(const struct tree_sessions *s)
{
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < s->len; i++)
        if (s->list[i] && !s->list[i]->pins && s->list[i]->deadline_ms < next)
            next = s->list[i]->deadline_ms;
    return next;
}
