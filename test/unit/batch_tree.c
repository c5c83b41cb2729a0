#include "batch_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

#define FOREIGN "storing" /* of other clients: the list need not exist */

static const char *const STATES[] = {"pending",     "held",       "estimating", "provisioning",
                                     "downloading", "processing", "recording",  "notify",
                                     "failed",      "completed",  "deleted",    FOREIGN};
static const char *const LISTS[] = {"batch-processing", "batch-failed", "batch-completed",
                                    "batch-deleted"};

/* 2026-01-31T23:59:59.123Z becomes T. */
static void put_data(struct buf *b, const char *p, size_t len)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";
    size_t form_len = sizeof form - 1;

    for (size_t i = 0; i < len;) {
        size_t n = 0;

        while (n < form_len && i + n < len &&
               (form[n] == 'd' ? isdigit((unsigned char)p[i + n]) != 0 : p[i + n] == form[n]))
            n++;
        if (n == form_len) {
            buf_put(b, "T", 1);
            i += n;
        } else {
            buf_put(b, &p[i++], 1);
        }
    }
}

static void put_tree(struct keeper *k, const char *path, struct buf *b)
{
    struct keeper_names names = {0};
    struct keeper_stat stat;
    struct buf data = {0};

    assert_int_equal(keeper_get(k, path, &data, &stat), 0);
    buf_printf(b, "%s%s", path, data.len ? " " : "");
    put_data(b, data.p, data.len);
    buf_printf(b, "%s\n", stat.ephemeral_owner ? " (ephemeral)" : "");
    buf_release(&data);
    assert_int_equal(keeper_children(k, path, &names, NULL), 0);
    for (size_t i = 0; i < names.count; i++) {
        char child[512];

        snprintf(child, sizeof child, "%s/%s", strcmp(path, "/") ? path : "", names.names[i]);
        put_tree(k, child, b);
    }
    keeper_names_release(&names);
}

char *tree_text(struct keeper *k, const char *path)
{
    struct buf b = {0};

    put_tree(k, path, &b);
    buf_text(&b);
    return b.p;
}

int tree_count(struct keeper *k, const char *path)
{
    struct keeper_stat stat;

    assert_int_equal(keeper_exists(k, path, &stat), 0);
    return stat.child_count;
}

__attribute__((format(printf, 2, 3))) static bool exists(struct keeper *k, const char *fmt, ...)
{
    char path[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(path, sizeof path, fmt, args);
    va_end(args);
    return keeper_exists(k, path, NULL) == 0;
}

/* The value of "status" in a status node. */
static void status_of(struct keeper *k, const char *what, const char *id, char ret[40])
{
    struct buf data = {0};
    char path[512];
    const char *at;
    size_t n = 0;

    snprintf(path, sizeof path, "/%s/%s/status", what, id);
    if (keeper_get(k, path, &data, NULL))
        fail_msg("%s is not there", path);
    at = strstr(buf_text(&data), "\"status\":\"");
    assert_non_null(at);
    for (at += 10; *at != '"' && n < 39; at++)
        ret[n++] = (char)tolower((unsigned char)*at);
    ret[n] = '\0';
    buf_release(&data);
}

/* The state list of each job, by job. */
struct batch_placement {
    char jid[24];
    const char *state;
};

struct standings {
    struct batch_placement *list;
    size_t count;
};

static int by_jid(const void *a, const void *b)
{
    return strcmp(((const struct batch_placement *)a)->jid,
                  ((const struct batch_placement *)b)->jid);
}

static void read_standings(struct keeper *k, struct standings *ret)
{
    for (size_t s = 0; s < sizeof STATES / sizeof *STATES; s++) {
        struct keeper_names names = {0};
        char path[512];

        snprintf(path, sizeof path, "/jobs/states/%s", STATES[s]);
        int err = keeper_children(k, path, &names, NULL);
        if (err == DROVER_NO_NODE && strcmp(STATES[s], FOREIGN) == 0)
            continue;
        assert_int_equal(err, 0);
        ret->list = mem_realloc(ret->list, (ret->count + names.count + 1) * sizeof *ret->list);
        for (size_t i = 0; i < names.count; i++) {
            struct batch_placement *at = &ret->list[ret->count++];

            if (strlen(names.names[i]) != 16 || names.names[i][2] != '-')
                fail_msg("%s/%s is no entry", path, names.names[i]);
            snprintf(at->jid, sizeof at->jid, "%s", names.names[i] + 3);
            at->state = STATES[s];
        }
        keeper_names_release(&names);
    }
    qsort(ret->list, ret->count, sizeof *ret->list, by_jid);
}

static void check_job(struct keeper *k, const struct standings *all, const char *jid)
{
    const struct batch_placement *end = all->list + all->count, *at;
    struct batch_placement wanted_at = {.state = NULL};
    char status[40];
    const char *list = NULL, *wanted;
    struct buf bid = {0};
    char path[512];

    status_of(k, "jobs", jid, status);
    snprintf(wanted_at.jid, sizeof wanted_at.jid, "%s", jid);
    at = bsearch(&wanted_at, all->list, all->count, sizeof *all->list, by_jid);
    if (!at || strcmp(at->state, status) != 0)
        fail_msg("%s is '%s' but is in '%s'", jid, status, at ? at->state : "no list");
    if ((at > all->list && !by_jid(at - 1, at)) || (at + 1 < end && !by_jid(at + 1, at)))
        fail_msg("%s is in more than one list, one of them %s", jid, at->state);
    snprintf(path, sizeof path, "/jobs/%s/bid", jid);
    assert_int_equal(keeper_get(k, path, &bid, NULL), 0);
    for (int i = 0; i < 4; i++) {
        if (!exists(k, "/batches/%s/states/%s/%s", buf_text(&bid), LISTS[i], jid))
            continue;
        if (list)
            fail_msg("%s is in %s and in %s", jid, list, LISTS[i]);
        list = LISTS[i];
    }
    wanted = !strcmp(status, "failed")      ? "batch-failed"
             : !strcmp(status, "completed") ? "batch-completed"
             : !strcmp(status, "deleted")   ? "batch-deleted"
                                            : "batch-processing";
    if (!list || strcmp(list, wanted) != 0)
        fail_msg("%s is %s but is in '%s' of its batch", jid, status, list ? list : "no list");
    buf_release(&bid);
}

static int check_batch(struct keeper *k, const char *bid)
{
    char status[40], path[512];
    int counts[4], entries = 0;

    status_of(k, "batches", bid, status);
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "/batches/%s/states/%s", bid, LISTS[i]);
        counts[i] = keeper_exists(k, path, NULL) == 0 ? tree_count(k, path) : 0;
        entries += counts[i];
    }
    if (strcmp(status, "pending") && !exists(k, "/batches/%s/states", bid))
        fail_msg("%s is %s but would be taken as pending", bid, status);
    if (!strcmp(status, "processing") && !counts[0] && entries)
        fail_msg("%s is processing and all its jobs have ended", bid);
    if (strcmp(status, "completed") && strcmp(status, "deleted") &&
        !exists(k, "/drover/batch/%s/%s", status, bid))
        fail_msg("%s is %s but is not in that list", bid, status);
    return entries;
}

void tree_check(struct keeper *k)
{
    struct keeper_names names = {0};
    struct standings all = {0};
    int jobs = 0, in_batches = 0, indexed = 0, open = 0;
    char path[512], status[40];

    read_standings(k, &all);
    assert_int_equal(keeper_children(k, "/jobs", &names, NULL), 0);
    for (size_t i = 0; i < names.count; i++) {
        if (strcmp(names.names[i], "states") == 0)
            continue;
        check_job(k, &all, names.names[i]);
        jobs++;
    }
    keeper_names_release(&names);
    assert_int_equal(all.count, jobs);
    free(all.list);
    assert_int_equal(keeper_children(k, "/batches", &names, NULL), 0);
    for (size_t i = 0; i < names.count; i++) {
        in_batches += check_batch(k, names.names[i]);
        status_of(k, "batches", names.names[i], status);
        open += strcmp(status, "completed") && strcmp(status, "deleted");
    }
    keeper_names_release(&names);
    assert_int_equal(in_batches, jobs);
    assert_int_equal(keeper_children(k, "/drover/batch", &names, NULL), 0);
    for (size_t i = 0; i < names.count; i++) {
        snprintf(path, sizeof path, "/drover/batch/%s", names.names[i]);
        indexed += tree_count(k, path);
    }
    keeper_names_release(&names);
    assert_int_equal(indexed, open);
}

int acquire_batch(struct batch_call *c, int state, char ret_bid[BATCH_ID_LEN + 1],
                  int64_t *ret_token)
{
    struct batch_item b;
    int got = batch_item_acquire(c, BATCH_KIND_BATCH, state, &b);

    if (got == 1) {
        memcpy(ret_bid, b.id, sizeof b.id);
        *ret_token = b.token;
    }
    return got;
}
