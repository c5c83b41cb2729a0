/*
 * Listing and counting items.
 *
 * A state that the machine does not know has no view. Its jobs are in a list of its name below
 * /jobs/states, as those of other states; batches and access items in it are found by reading all.
 */
#include <stdlib.h>
#include <strings.h>

#include "batch/item.h"

struct batch_listing {
    enum batch_kind_id kind;
    const struct batch_filter *f;
    struct batch_item *items;
    size_t count, skipped, cap;
    size_t len, len_before; /* of the items; of all but the last one */
};

size_t batch_item_len(const struct batch_item *item)
{
    size_t len = 0;
    for (int n = 0; item->kind->nodes[n]; n++)
        len += item->nodes[n].len;
    return len;
}

static bool is_full(const struct batch_listing *l)
{
    return l->count >= l->f->limit || (l->f->len && l->len_before >= l->f->len);
}

static bool has_profile(struct batch_call *c, const struct batch_item *j, struct str profile)
{
    struct str configuration = j->nodes[0], name = {0};
    const struct json *v = configuration.p ? json_parse(c->a, configuration, NULL) : NULL;
    json_get_text(v, "profile_name", &name, NULL);
    return str_eq(name, profile);
}

static bool is_unknown_state(const struct batch_status *s, struct str name)
{
    return s->state == BATCH_NO_STATE && s->name.len == name.len &&
           strncasecmp(s->name.p, name.p, name.len) == 0;
}

static int list_one(struct batch_call *c, struct batch_listing *l, struct str id)
{
    const struct batch_filter *f = l->f;
    struct batch_item i;
    int err = batch_item_read(c, l->kind, id, &i);
    if (err) /* deleted meanwhile, or fsck reports it */
        return err == DROVER_NO_NODE || err == DROVER_DAMAGED ? 0 : err;
    if ((f->state != BATCH_NO_STATE && i.status.state != f->state) ||
        (f->unknown.p && !is_unknown_state(&i.status, f->unknown)) ||
        (f->bid.p && !str_eq(f->bid, str_of(i.bid))))
        return 0;
    TRY(batch_item_read_rest(c, &i));
    if (f->profile.p && !has_profile(c, &i, f->profile))
        return 0;
    if (l->skipped < f->start) {
        l->skipped++;
        return 0;
    }
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        struct batch_item *more = arena_alloc(c->a, l->cap * sizeof *more);
        if (l->count)
            memcpy(more, l->items, l->count * sizeof *more);
        l->items = more;
    }
    l->len_before = l->len;
    l->len += batch_item_len(&i);
    l->items[l->count++] = i;
    return 0;
}

/* Lists items. Entries that match by name alone are skipped unread. */
static int list_names(struct batch_call *c, struct batch_listing *l,
                      const struct keeper_names *names, size_t prefix)
{
    const struct batch_filter *f = l->f;
    bool any_state = f->state == BATCH_NO_STATE && !f->unknown.p,
         all_match = !f->profile.p && (!f->bid.p || any_state);
    for (size_t i = 0; i < names->count && !is_full(l); i++) {
        struct str id = {names->names[i] + prefix, strlen(names->names[i]) - prefix};
        if (strlen(names->names[i]) != prefix + BATCH_ID_LEN ||
            batch_id_number(c->store->kinds[l->kind].prefix, id) < l->f->from)
            continue;
        if (all_match && l->skipped < l->f->start)
            l->skipped++;
        else
            TRY(list_one(c, l, id));
    }
    return 0;
}

static int list_dir(struct batch_call *c, struct batch_listing *l, const char *dir, size_t prefix)
{
    struct keeper_names names;
    if (is_full(l))
        return 0;
    TRY(batch_node_children(c, &names, NULL, "%s", dir));
    return list_names(c, l, &names, prefix);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the batches of another list that are in that state: a foreign client has just moved them. */
static int find_moved(struct batch_call *c, int state, const struct keeper_names *list,
                      struct keeper_names *all)
{
    const struct batch_kind *k = &c->store->kinds[BATCH_KIND_BATCH];
    char **names = arena_alloc(c->a, (list->count + 1) * sizeof *names);
    CLEANUP(list_nodes_release) struct list_nodes n = {0};
    CLEANUP(arena_release) struct arena a = {0};
    struct batch_status s;
    struct err_info why;
    for (size_t i = 0; i < list->count; i++)
        names[i] = arena_printf(c->a, "%s/status", list->names[i]);
    TRY(batch_fail(c, list_nodes_read(&n, c->k, k->dir, names, list->count)));
    for (size_t i = 0; i < list->count; i++, arena_reset(&a))
        if (!n.nodes[i].err &&
            batch_status_read(k->machine, &a, buf_str(&n.nodes[i].data), &s, &why) == 0 &&
            s.state == state)
            all->names[all->count++] = list->names[i];
    return 0;
}

/* Lists batches of a state that is not final, by their status: the lists may be behind it. */
static int list_open_batches(struct batch_call *c, struct batch_listing *l)
{
    const struct batch_kind *k = &c->store->kinds[BATCH_KIND_BATCH];
    struct keeper_names lists[BATCH_STATES_MAX] = {{0}}, all = {0};
    size_t total = 0;
    TRY(batch_index_refresh(c, BATCH_KIND_BATCH, true));
    for (int i = 0; i < k->machine->count; i++)
        if (!batch_machine_is_final(k->machine, i)) {
            TRY(batch_node_children(c, &lists[i], NULL, "%s", k->views[i].dir));
            total += lists[i].count;
        }
    all.names = arena_alloc(c->a, (total + 1) * sizeof *all.names);
    for (int i = 0; i < k->machine->count; i++)
        if (i != l->f->state)
            TRY(find_moved(c, l->f->state, &lists[i], &all));
    for (size_t n = 0; n < lists[l->f->state].count; n++)
        all.names[all.count++] = lists[l->f->state].names[n];
    qsort(all.names, all.count, sizeof *all.names, by_name);
    total = 0;
    for (size_t i = 0; i < all.count; i++) /* one that moves meanwhile can be in two */
        if (!total || strcmp(all.names[total - 1], all.names[i]) != 0)
            all.names[total++] = all.names[i];
    all.count = total;
    return list_names(c, l, &all, 0);
}

static int list_batch_jobs(struct batch_call *c, struct batch_listing *l)
{
    struct batch_item b;
    TRY(batch_item_read(c, BATCH_KIND_BATCH, l->f->bid, &b));
    for (int i = 0; i < BATCH_LIST_COUNT; i++)
        TRY(batch_optional(
            list_dir(c, l, arena_printf(c->a, "%s/states/%s", b.path, BATCH_LISTS[i]), 0)));
    return 0;
}

/* The lists of jobs in states that the machine does not know: names of children of /jobs/states. */
static int unknown_lists(struct batch_call *c, struct keeper_names *ret_names)
{
    const struct batch_kind *jobs = &c->store->kinds[BATCH_KIND_JOB];
    size_t count = 0;
    TRY(batch_node_children(c, ret_names, NULL, "%s", jobs->lists));
    for (size_t i = 0; i < ret_names->count; i++)
        if (batch_machine_find(jobs->machine, str_of(ret_names->names[i])) == BATCH_NO_STATE)
            ret_names->names[count++] = ret_names->names[i];
    ret_names->count = count;
    return 0;
}

static int list_jobs(struct batch_call *c, struct batch_listing *l)
{
    const struct batch_kind *k = &c->store->kinds[BATCH_KIND_JOB];
    const struct batch_filter *f = l->f;
    size_t prefix = BATCH_ENTRY_LEN - BATCH_ID_LEN;
    struct keeper_names unknown = {0};
    if (f->bid.p)
        return list_batch_jobs(c, l);
    for (int i = 0; i < k->machine->count && !f->unknown.p; i++)
        if (f->state == BATCH_NO_STATE || f->state == i)
            TRY(list_dir(c, l, k->views[i].dir, prefix));
    if (f->state == BATCH_NO_STATE)
        TRY(unknown_lists(c, &unknown));
    for (size_t i = 0; i < unknown.count; i++)
        if (!f->unknown.p || strcasecmp(unknown.names[i], f->unknown.p) == 0)
            TRY(batch_optional(
                list_dir(c, l, arena_printf(c->a, "%s/%s", k->lists, unknown.names[i]), prefix)));
    return 0;
}

int batch_item_list(struct batch_call *c, enum batch_kind_id kind, const struct batch_filter *f,
                    struct batch_item **ret_items, size_t *ret_count)
{
    const struct batch_kind *k = &c->store->kinds[kind];
    struct batch_listing l = {.kind = kind, .f = f};
    bool indexed = kind == BATCH_KIND_BATCH && f->state != BATCH_NO_STATE &&
                   !batch_machine_is_final(k->machine, f->state);
    TRY(kind == BATCH_KIND_JOB ? list_jobs(c, &l)
        : indexed              ? list_open_batches(c, &l)
                               : list_dir(c, &l, k->dir, 0));
    if (f->unknown.p && kind != BATCH_KIND_JOB && l.count == 0 && f->from == 0)
        return batch_machine_named(k->machine, f->unknown, c->why);
    *ret_items = l.items;
    *ret_count = l.count;
    return 0;
}

int batch_filter_state(struct batch_call *c, enum batch_kind_id kind, struct str name,
                       struct batch_filter *f)
{
    const struct batch_kind *k = &c->store->kinds[kind];
    f->state = batch_machine_find(k->machine, name);
    if (f->state != BATCH_NO_STATE)
        return 0;
    int err = batch_name_check("a state", name, NULL);
    if (!err && kind == BATCH_KIND_JOB)
        err = batch_node_exists(c, NULL, "%s/%s", k->lists, batch_name_lower(c->a, name));
    if (err == DROVER_BAD_ARGUMENT || err == DROVER_NO_NODE)
        return batch_machine_named(k->machine, name, c->why);
    TRY(err);
    f->unknown = (struct str){arena_text(c->a, name), name.len};
    return 0;
}

/* Counting. */

static void count_unknown(struct batch_call *c, struct batch_counts *counts, struct str name,
                          int64_t count)
{
    struct batch_unknown_count **at = &counts->unknown;
    while (*at && !str_eq((*at)->name, name))
        at = &(*at)->next;
    if (!*at) {
        *at = arena_zalloc(c->a, sizeof **at);
        (*at)->name = (struct str){arena_text(c->a, name), name.len};
    }
    (*at)->count += count;
    counts->total += count;
}

/* The list has the name in lower case; the status of its first job has it as it is written. */
static int count_unknown_list(struct batch_call *c, struct batch_counts *counts, const char *list)
{
    const struct batch_kind *jobs = &c->store->kinds[BATCH_KIND_JOB];
    struct str name = str_of(list);
    struct keeper_names entries = {0};
    struct keeper_stat stat;
    struct batch_item j;
    TRY(batch_node_stat(c, &stat, "%s/%s", jobs->lists, list));
    if (stat.child_count == 0)
        return 0;
    int err = batch_node_children(c, &entries, NULL, "%s/%s", jobs->lists, list);
    if (err && err != DROVER_TOO_BIG) /* from an ensemble; the name in lower case has to do */
        return err;
    const char *dash = entries.count ? strchr(entries.names[0], '-') : NULL;
    if (dash && batch_item_read(c, BATCH_KIND_JOB, str_of(dash + 1), &j) == 0 &&
        is_unknown_state(&j.status, name))
        name = j.status.name;
    count_unknown(c, counts, name, stat.child_count);
    return 0;
}

static int count_jobs(struct batch_call *c, struct batch_counts *ret)
{
    const struct batch_kind *k = &c->store->kinds[BATCH_KIND_JOB];
    struct keeper_names unknown;
    struct keeper_stat stat;
    for (int i = 0; i < k->machine->count; i++) {
        TRY(batch_node_stat(c, &stat, "%s", k->views[i].dir));
        ret->known[i] = stat.child_count;
        ret->total += stat.child_count;
    }
    TRY(unknown_lists(c, &unknown));
    for (size_t i = 0; i < unknown.count; i++)
        TRY(batch_optional(count_unknown_list(c, ret, unknown.names[i])));
    return 0;
}

int batch_item_count(struct batch_call *c, enum batch_kind_id kind, struct batch_counts *ret_counts)
{
    const struct batch_kind *k = &c->store->kinds[kind];
    CLEANUP(arena_release) struct arena a = {0};
    struct batch_call own = {c->store, c->k, &a, c->why};
    struct keeper_names names;
    *ret_counts = (struct batch_counts){.total = 0};
    if (kind == BATCH_KIND_JOB)
        return count_jobs(c, ret_counts);
    TRY(batch_node_children(c, &names, NULL, "%s", k->dir));
    for (size_t i = 0; i < names.count; i++, arena_reset(&a)) {
        struct batch_item item;
        int err = batch_item_read(&own, kind, str_of(names.names[i]), &item);
        if (err && err != DROVER_NO_NODE && err != DROVER_DAMAGED)
            return err;
        if (!err && item.status.state == BATCH_NO_STATE)
            count_unknown(c, ret_counts, item.status.name, 1);
        else if (!err)
            ret_counts->known[item.status.state]++, ret_counts->total++;
    }
    return 0;
}
