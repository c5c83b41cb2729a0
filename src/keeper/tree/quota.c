/*
 * The nodes below /zookeeper/quota are the index: the quota of a path is found by walking down
 * there along the path, until a node is missing.
 */
#include "keeper/tree/quota.h"

#include <inttypes.h>

#include "keeper/path.h"

static const struct str ROOT = STR("/zookeeper/quota"), LIMITS = STR("/zookeeper_limits"),
                        STATS = STR("/zookeeper_stats");

/* The numbers in the data of either node; -1: none. */
struct quota {
    int64_t count, bytes, count_hard, bytes_hard;
};

static const struct {
    struct str name;
    size_t at;
} KEYS[] = {
    {STR("count"), offsetof(struct quota, count)},
    {STR("bytes"), offsetof(struct quota, bytes)},
    {STR("countHardLimit"), offsetof(struct quota, count_hard)},
    {STR("byteHardLimit"), offsetof(struct quota, bytes_hard)},
};

/* A decimal number with an optional sign. */
static bool parse_number(struct str text, int64_t *ret_number)
{
    bool negative = text.len && text.p[0] == '-', sign = negative || (text.len && *text.p == '+');
    int64_t number = 0;
    for (size_t i = sign; i < text.len; i++) {
        int digit = text.p[i] - '0';
        if (digit < 0 || digit > 9 || number > (INT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *ret_number = negative ? -number : number;
    return text.len > sign;
}

/* key=number, separated by , or ; with anything after a second =. Other keys are ignored. */
static bool parse(struct str text, struct quota *ret_quota)
{
    struct quota q = {-1, -1, -1, -1};
    for (size_t i = 0, start = 0; i <= text.len; i++) {
        if (i < text.len && text.p[i] != ',' && text.p[i] != ';')
            continue;
        struct str value = {text.p + start, i - start}, key = str_cut(&value, '=');
        int64_t number;
        start = i + 1;
        if (!key.len && !value.p)
            continue;
        if (!parse_number(str_cut(&value, '='), &number))
            return false;
        for (size_t k = 0; k < sizeof KEYS / sizeof *KEYS; k++)
            if (str_eq(KEYS[k].name, key))
                memcpy((char *)&q + KEYS[k].at, &number, sizeof number);
    }
    *ret_quota = q;
    return true;
}

/* The node `name` below the first len bytes of the path in t->quota_path. */
static uint32_t find_below(struct tree *t, size_t len, struct str name)
{
    char saved[32], *at = t->quota_path.p + len;
    memcpy(saved, at, name.len);
    memcpy(at, name.p, name.len);
    uint32_t ref = nodes_find(&t->nodes, (struct str){t->quota_path.p, len + name.len});
    memcpy(at, saved, name.len);
    return ref;
}

/*
 * The limits of the deepest quota that the path counts for, 0: none. Sets *ret_len to the length of
 * its path in t->quota_path, which begins with ROOT.
 */
static uint32_t find_limits(struct tree *t, struct str path, size_t *ret_len)
{
    struct buf *b = &t->quota_path;
    uint32_t limits = 0;
    b->len = 0;
    buf_put_str(b, ROOT);
    buf_put_str(b, path);
    buf_reserve(b, LIMITS.len);
    for (size_t len = ROOT.len + 1; len <= b->len && path.len > 1; len++) {
        if (len < b->len && b->p[len] != '/')
            continue;
        if (!nodes_find(&t->nodes, (struct str){b->p, len}))
            break;
        uint32_t found = find_below(t, len, LIMITS);
        if (found) {
            limits = found;
            *ret_len = len;
        }
    }
    return limits;
}

static void put_stats(struct tree *t, uint32_t stats, int64_t count, int64_t bytes)
{
    CLEANUP(buf_release) struct buf text = {0};
    buf_printf(&text, "count=%" PRId64 ",bytes=%" PRId64, count, bytes);
    node_set_data(&t->nodes, node_at(&t->nodes, stats), buf_str(&text));
}

/* Wraps around, as in ZooKeeper: a client may have written any number into the counts. */
static int64_t sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Counts that a client has overwritten with something else stay as they are. */
static void add(struct tree *t, struct str path, int64_t nodes, int64_t bytes)
{
    struct quota is;
    size_t len;
    uint32_t stats = find_limits(t, path, &len) ? find_below(t, len, STATS) : 0;
    if (stats && parse(node_data(node_at(&t->nodes, stats)), &is))
        put_stats(t, stats, sum(is.count, nodes), sum(is.bytes, bytes));
}

/* Counts what a node of the name `name` below ROOT says. The paths in between are not empty. */
static void count_for(struct tree *t, struct str path, struct str name)
{
    int64_t count = 0, bytes = 0;
    struct buf *b = &t->quota_path;
    size_t len = path.len - name.len;
    b->len = 0;
    buf_put(b, path.p, len);
    buf_reserve(b, LIMITS.len);
    uint32_t stats = find_below(t, len, STATS);
    if (!stats)
        return;
    uint32_t top = nodes_find(&t->nodes, (struct str){b->p + ROOT.len, len - ROOT.len});
    for (uint32_t ref = top; ref; ref = nodes_next(&t->nodes, top, ref), count++)
        bytes += (int64_t)node_data(node_at(&t->nodes, ref)).len;
    put_stats(t, stats, count, bytes);
}

/* Whether the path is that of a node of this name in the tree of quotas. */
static bool is_for_quota(struct str path, struct str name)
{
    return path.len > ROOT.len + name.len && str_starts(path, ROOT) && path.p[ROOT.len] == '/' &&
           str_eq((struct str){path.p + path.len - name.len, name.len}, name);
}

static void count_change(struct tree *t, const struct tree_change *c)
{
    switch (c->kind) {
    case CHANGE_CREATE:
        add(t, c->path, 1, (int64_t)c->data.len);
        break;
    case CHANGE_SET:
        add(t, c->path, 0, (int64_t)c->data.len - c->undo.data_len);
        break;
    case CHANGE_DELETE:
        add(t, c->path, -1, -(int64_t)node_data(node_at(&t->nodes, c->undo.ref)).len);
        break;
    default:
        break;
    }
}

/* A new node for counts, unless the transaction has deleted it again. */
static bool has_new_stats(const struct tree *t, const struct tree_change *c)
{
    return c->kind == CHANGE_CREATE && is_for_quota(c->path, STATS) &&
           nodes_find(&t->nodes, c->path) == c->undo.ref;
}

/* The new counts come last: they include the other changes of the transaction. */
void quota_count(struct tree *t, const struct tree_changes *c)
{
    bool created = false;
    for (size_t i = 0; i < c->count; i++) {
        const struct tree_change *change = &c->list[i];
        bool create = change->kind == CHANGE_CREATE, delete = change->kind == CHANGE_DELETE;
        if ((create || delete) && is_for_quota(change->path, LIMITS))
            t->quotas += create ? 1 : (uint32_t)-1;
        created |= create && is_for_quota(change->path, STATS);
    }
    for (size_t i = 0; t->quotas && i < c->count; i++)
        count_change(t, &c->list[i]);
    for (size_t i = 0; created && i < c->count; i++)
        if (has_new_stats(t, &c->list[i]))
            count_for(t, c->list[i].path, STATS);
}

void quota_count_all(struct tree *t)
{
    CLEANUP(buf_release) struct buf path = {0};
    uint32_t top = nodes_find(&t->nodes, ROOT);
    t->quotas = 0;
    for (uint32_t ref = top; ref; ref = nodes_next(&t->nodes, top, ref)) {
        if (!str_eq(node_name(node_at(&t->nodes, ref)), (struct str){LIMITS.p + 1, LIMITS.len - 1}))
            continue;
        path.len = 0;
        nodes_put_path(&t->nodes, ref, &path);
        if (!is_for_quota(buf_str(&path), LIMITS))
            continue;
        t->quotas++;
        count_for(t, buf_str(&path), LIMITS);
    }
}

/* Compares one number with its limits. The line has ZooKeeper's words. */
static int compare(struct tree *t, struct str path, const char *what, int64_t now, int64_t soft,
                   int64_t hard)
{
    bool is_hard = hard > -1;
    int64_t limit = is_hard ? hard : soft;
    if (limit <= -1 || now <= limit)
        return 0;
    t->quota_note.len = 0;
    buf_printf(&t->quota_note,
               "Quota exceeded: %.*s [current %s=%" PRId64 ", %s%sLimit=%" PRId64 "]",
               STR_ARGS(path), what, now, is_hard ? "hard" : "soft",
               what[0] == 'c' ? "Count" : "Byte", limit);
    return is_hard ? DROVER_QUOTA_EXCEEDED : 0;
}

int quota_check(struct tree *t, struct str path, int64_t nodes, int64_t bytes)
{
    struct quota limit, is;
    size_t len;
    uint32_t limits = find_limits(t, path, &len), stats = limits ? find_below(t, len, STATS) : 0;
    if (limits && !parse(node_data(node_at(&t->nodes, limits)), &limit))
        return DROVER_DAMAGED;
    if (!stats)
        return 0;
    if (!parse(node_data(node_at(&t->nodes, stats)), &is))
        return DROVER_DAMAGED;
    struct str prefix = {t->quota_path.p + ROOT.len, len - ROOT.len};
    if (nodes)
        TRY(compare(t, prefix, "count", sum(is.count, nodes), limit.count, limit.count_hard));
    return bytes ? compare(t, prefix, "bytes", sum(is.bytes, bytes), limit.bytes, limit.bytes_hard)
                 : 0;
}
