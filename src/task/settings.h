/*
 * settings - how the tasks of a group are given out, retried and kept. Pure.
 *
 * Settings are stored for a pattern: the name of a group, or a prefix followed by "*". A group has
 * the settings of its exact name, else those of the longest prefix that it starts with, else the
 * defaults, which are what the document of the task store describes.
 */
#ifndef TASK_SETTINGS_H
#define TASK_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/str.h"

/* Uniform random numbers from a seed (splitmix64). */
struct store_random {
    uint64_t state;
};

uint64_t store_random_next(struct store_random *r);
size_t store_random_below(struct store_random *r, size_t limit);

struct task_settings {
    bool fifo; /* claims take the oldest task, not any */
    bool fair; /* claims go round the shares */
    bool paused;
    bool bury_expired; /* an expired task dies; else it is removed */

    int64_t attempts; /* after so many failures a task dies; 0: never */
    int64_t claims;   /* after so many claims without an answer it dies; 0: never */
    int64_t backoff_ms, backoff_max_ms;
    double backoff_factor, backoff_jitter; /* jitter: the share of a delay that is random, 0 to 1 */

    int64_t limit, limit_per_share;     /* claimed at once; 0: no limit */
    int64_t rate, rate_ms, rate_burst;  /* tasks in a span, and at once; 0: no limit */
    int64_t keep_done_ms, keep_dead_ms; /* 0: a result is not kept; the dead stay */
    int64_t remember_keys_ms;           /* keys stay taken after the end */
    int64_t max_tasks;                  /* 0: no limit */
    struct str dead;                    /* where dead tasks go; empty: GROUP/dead */
    int32_t version;                    /* of the node that holds them */
};

extern const struct task_settings TASK_SETTINGS_DEFAULT;

/* Whether tasks are given out by their share. */
static inline bool settings_use_shares(const struct task_settings *s)
{
    return s->fair || s->limit_per_share;
}

/* How long a task waits after its n-th failure, from 1 on. */
int64_t settings_delay_ms(const struct task_settings *s, uint32_t attempts, struct store_random *r);

/* The tokens of a rate: one every so many nanoseconds, at most rate_burst of them. */
int64_t settings_token_ns(const struct task_settings *s);

/* The patterns and their settings. Zero-initialise; release. */
struct settings_table {
    struct settings_entry **entries; /* by number, from 1 on; NULL: unused */
    uint32_t top, cap, count;
    struct map by_pattern;
    uint32_t prefixes; /* patterns with a "*" */
};

struct settings_entry {
    struct str pattern;
    struct task_settings settings;
};

void settings_table_release(struct settings_table *t);

/* Copies. NULL: removes the pattern. */
void settings_table_set(struct settings_table *t, struct str pattern,
                        const struct task_settings *settings);

const struct settings_entry *settings_table_find(const struct settings_table *t,
                                                 struct str pattern);

/* The settings of a group; never NULL. */
const struct task_settings *settings_table_of(const struct settings_table *t, struct str group);

/* The pattern of settings that are not the defaults. */
struct str settings_pattern(const struct task_settings *settings);

/* Whether a pattern is or matches the name. */
bool settings_match(struct str pattern, struct str group);

#endif
