#include "task/tally.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    HASH_LEN = 9, /* "~" and 8 digits */
    MINUTE_MS = 60 * 1000,
};

struct task_tallies *tallies_new(void)
{
    return mem_zalloc(sizeof(struct task_tallies));
}

void tallies_free(struct task_tallies *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < TALLY_GROUPS_MAX; i++)
        free((char *)t->groups[i].name.p);
    free(t);
}

void tallies_fold(struct task_tallies *t, const char *label,
                  bool (*has)(void *arg, struct str group), void *arg)
{
    assert(t->fold_count < TALLY_FOLDS_MAX);
    t->folds[t->fold_count++] = (struct tally_fold){.label = label, .has = has, .arg = arg};
}

void tallies_unfold(struct task_tallies *t, const void *arg)
{
    for (size_t i = 0; i < t->fold_count; i++)
        if (t->folds[i].arg == arg)
            t->folds[i].has = NULL;
}

/* NULL: it belongs to none. */
static struct task_tally *fold_of(struct task_tallies *t, struct str group)
{
    for (size_t i = 0; i < t->fold_count; i++)
        if (t->folds[i].has && t->folds[i].has(t->folds[i].arg, group))
            return &t->folds[i].tally;
    return NULL;
}

/* A name that is too long ends with its hash, so that names with the same start differ. */
void tally_label(struct str name, char *ret_label)
{
    const char *p = name.p, *end = p + name.len;
    size_t max = name.len > TALLY_LABEL_MAX ? TALLY_LABEL_MAX - HASH_LEN : TALLY_LABEL_MAX;
    size_t len = 0;
    while (p < end) {
        size_t step = utf8_len(p, end);
        bool is_plain = step > 1 || (step == 1 && (unsigned char)*p >= ' ' && *p != 0x7f);
        size_t put = is_plain ? step : 1;
        if (len + put > max)
            break;
        memcpy(ret_label + len, is_plain ? p : "?", put);
        len += put;
        p += step ? step : 1;
    }
    ret_label[len] = '\0';
    if (name.len > TALLY_LABEL_MAX)
        snprintf(ret_label + len, HASH_LEN + 1, "~%08x", map_hash_str(name));
}

static uint8_t *bucket_of(struct task_tallies *t, uint32_t hash)
{
    return &t->buckets[hash >> 24];
}

static struct task_tally *find_named(struct task_tallies *t, struct str group, uint32_t hash)
{
    for (uint8_t at = *bucket_of(t, hash); at; at = t->groups[at - 1].next)
        if (t->groups[at - 1].hash == hash && str_eq(t->groups[at - 1].name, group))
            return &t->groups[at - 1];
    return NULL;
}

/* There is room. NULL: another group has this label. */
static __attribute__((noinline)) struct task_tally *name_it(struct task_tallies *t,
                                                            struct str group, uint32_t hash)
{
    char label[TALLY_LABEL_MAX + 1];
    struct task_tally *free_one = NULL;
    tally_label(group, label);
    for (size_t i = 0; i < TALLY_GROUPS_MAX; i++) {
        struct task_tally *one = &t->groups[i];
        if (!one->name.p)
            free_one = free_one ? free_one : one;
        else if (!strcmp(one->label, label))
            return NULL;
    }
    *free_one = (struct task_tally){.name = {mem_dup(group.p, group.len), group.len},
                                    .hash = hash,
                                    .next = *bucket_of(t, hash)};
    memcpy(free_one->label, label, sizeof label);
    *bucket_of(t, hash) = (uint8_t)(free_one - t->groups + 1);
    t->used++;
    return free_one;
}

struct task_tally *tallies_find(struct task_tallies *t, struct str group)
{
    uint32_t hash = map_hash_str(group);
    struct task_tally *found = find_named(t, group, hash), *fold = NULL;
    if (!found)
        fold = fold_of(t, group);
    if (!found && !fold && tallies_have_room(t))
        found = name_it(t, group, hash);
    if (found)
        t->last = found;
    return found ? found : fold ? fold : &t->others;
}

void tally_count(struct task_tally *one, enum tally_kind kind, int64_t now_ms)
{
    int64_t minute = now_ms / MINUTE_MS;
    if (minute != one->minute) {
        bool follows = minute == one->minute + 1;
        for (int i = 0; i < TALLY_KINDS; i++) {
            one->before[i] = follows ? one->in_it[i] : 0;
            one->in_it[i] = 0;
        }
        one->minute = minute;
    }
    one->counts[kind]++;
    one->in_it[kind]++;
}

int64_t tally_per_minute(const struct task_tally *one, enum tally_kind kind, int64_t now_ms)
{
    int64_t age = now_ms / MINUTE_MS - one->minute, rest_ms = MINUTE_MS - now_ms % MINUTE_MS;
    if (age == 0)
        return one->in_it[kind] + one->before[kind] * rest_ms / MINUTE_MS;
    return age == 1 ? one->in_it[kind] * rest_ms / MINUTE_MS : 0;
}

static void drop(struct task_tallies *t, struct task_tally *one)
{
    uint8_t *at = bucket_of(t, one->hash);
    while (*at != one - t->groups + 1)
        at = &t->groups[*at - 1].next;
    *at = one->next;
    free((char *)one->name.p);
    *one = (struct task_tally){0};
    t->used--;
    t->last = NULL;
}

bool tally_keep(struct task_tallies *t, struct task_tally *one, bool in_use, int64_t now_ms)
{
    uint64_t sum = 0;
    for (int i = 0; i < TALLY_KINDS; i++)
        sum += one->counts[i];
    if (fold_of(t, one->name)) {
        drop(t, one);
        return false;
    }
    if (in_use || sum != one->seen || !one->since_ms) {
        one->seen = sum;
        one->since_ms = now_ms;
    } else if (!tallies_have_room(t) && now_ms - one->since_ms >= TALLY_IDLE_MS) {
        drop(t, one);
        return false;
    }
    return true;
}
