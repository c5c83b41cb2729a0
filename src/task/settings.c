#include "task/settings.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"

enum { NS_PER_MS = 1000 * 1000 };

const struct task_settings TASK_SETTINGS_DEFAULT = {
    .attempts = 5,
    .backoff_ms = 1000,
    .backoff_max_ms = 3600 * 1000,
    .backoff_factor = 2,
    .backoff_jitter = 0.1,
    .dead = {"", 0},
};

uint64_t store_random_next(struct store_random *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

size_t store_random_below(struct store_random *r, size_t limit)
{
    return (size_t)(((unsigned __int128)store_random_next(r) * limit) >> 64);
}

int64_t settings_delay_ms(const struct task_settings *s, uint32_t attempts, struct store_random *r)
{
    double delay = (double)s->backoff_ms, max = (double)s->backoff_max_ms;
    for (uint32_t i = 1; i < attempts && delay < max && s->backoff_factor > 1; i++)
        delay *= s->backoff_factor;
    if (delay > max)
        delay = max;
    double random = (double)(store_random_next(r) >> 11) * 0x1p-53; /* 0 to 1 */
    return (int64_t)(delay * (1 - s->backoff_jitter * random));
}

int64_t settings_token_ns(const struct task_settings *s)
{
    return s->rate_ms * NS_PER_MS / s->rate;
}

/* The table. */

bool settings_match(struct str pattern, struct str group)
{
    if (pattern.len && pattern.p[pattern.len - 1] == '*')
        return str_starts(group, (struct str){pattern.p, pattern.len - 1});
    return str_eq(pattern, group);
}

static bool is_prefix(struct str pattern)
{
    return pattern.len && pattern.p[pattern.len - 1] == '*';
}

/* Hashes what is before the "*", so that the prefixes of a name can be looked up as they are. */
static uint32_t hash_of(struct str text, bool prefix)
{
    return map_hash_str(text) ^ (prefix ? UINT32_MAX : 0);
}

static uint32_t find(const struct settings_table *t, struct str text, bool prefix)
{
    uint32_t hash = hash_of(text, prefix);
    for (uint32_t at, n = map_first(&t->by_pattern, hash, &at); n;
         n = map_next(&t->by_pattern, hash, &at)) {
        struct str pattern = t->entries[n]->pattern;
        if (is_prefix(pattern) == prefix && pattern.len == text.len + prefix &&
            str_starts(pattern, text))
            return n;
    }
    return 0;
}

static struct str stem_of(struct str pattern)
{
    return (struct str){pattern.p, pattern.len - is_prefix(pattern)};
}

static void entry_free(struct settings_entry *e)
{
    if (!e)
        return;
    free((char *)e->pattern.p);
    free((char *)e->settings.dead.p);
    free(e);
}

void settings_table_release(struct settings_table *t)
{
    for (uint32_t i = 1; i < t->top; i++)
        entry_free(t->entries[i]);
    free(t->entries);
    map_release(&t->by_pattern);
    *t = (struct settings_table){0};
}

static struct settings_entry *entry_new(struct str pattern, const struct task_settings *settings)
{
    struct settings_entry *e = mem_alloc(sizeof *e);
    *e = (struct settings_entry){{mem_dup(pattern.p, pattern.len), pattern.len}, *settings};
    e->settings.dead.p = mem_dup(settings->dead.p ? settings->dead.p : "", settings->dead.len);
    return e;
}

static uint32_t unused_number(struct settings_table *t)
{
    if (!t->top) {
        mem_grow(t->entries, t->top, t->cap);
        t->entries[t->top++] = NULL; /* 0: none */
    }
    for (uint32_t i = 1; i < t->top && t->count + 1 < t->top; i++)
        if (!t->entries[i])
            return i;
    mem_grow(t->entries, t->top, t->cap);
    return t->top++;
}

void settings_table_set(struct settings_table *t, struct str pattern,
                        const struct task_settings *settings)
{
    bool prefix = is_prefix(pattern);
    uint32_t n = find(t, stem_of(pattern), prefix);
    if (n) {
        map_remove(&t->by_pattern, hash_of(stem_of(pattern), prefix), n);
        entry_free(t->entries[n]);
        t->entries[n] = NULL;
        t->prefixes -= prefix;
        t->count--;
    }
    if (!settings)
        return;
    if (!n)
        n = unused_number(t);
    t->entries[n] = entry_new(pattern, settings);
    map_add(&t->by_pattern, hash_of(stem_of(pattern), prefix), n);
    t->prefixes += prefix;
    t->count++;
}

const struct settings_entry *settings_table_find(const struct settings_table *t, struct str pattern)
{
    uint32_t n = find(t, stem_of(pattern), is_prefix(pattern));
    return n ? t->entries[n] : NULL;
}

const struct task_settings *settings_table_of(const struct settings_table *t, struct str group)
{
    uint32_t n = t->count ? find(t, group, false) : 0;
    struct str prefix = group;
    for (size_t len = group.len + 1; !n && t->prefixes && len-- > 0;) {
        prefix.len = len;
        n = find(t, prefix, true);
    }
    return n ? &t->entries[n]->settings : &TASK_SETTINGS_DEFAULT;
}

struct str settings_pattern(const struct task_settings *settings)
{
    const char *entry = (const char *)settings - offsetof(struct settings_entry, settings);
    return ((const struct settings_entry *)entry)->pattern;
}
