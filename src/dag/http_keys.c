/* /v1/nodes/<id>/data: the keys of a node's data, in pages. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dag/http_impl.h"

enum { KEYS_LIMIT_MAX = 100000 };

static void collect_keys(const struct dag_node *n, struct arena *a, struct str *keys, size_t *count)
{
    static const char *const live[] = {"stdout", "stderr", "mixedout"};
    const struct json *data = n->data.len ? json_parse(a, n->data, NULL) : NULL;

    for (const struct json *m = data ? data->first : NULL; m; m = m->next)
        keys[(*count)++] = m->key;
    for (const struct node_datum *v = n->values; v; v = v->next)
        if (!json_get(data, v->key) && !(n->run && node_key_is_output(str_of(v->key))))
            keys[(*count)++] = str_of(v->key);
    for (int i = 0; i < 3 && n->run; i++)
        keys[(*count)++] = str_of(live[i]);
}

static int by_key(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    int order = memcmp(x->p, y->p, x->len < y->len ? x->len : y->len);

    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static size_t keys_max(const struct dag_node *n, struct arena *a)
{
    const struct json *data = n->data.len ? json_parse(a, n->data, NULL) : NULL;
    size_t count = 4 + (data ? data->count : 0);

    for (const struct node_datum *v = n->values; v; v = v->next)
        count++;
    return count;
}

/* The page of keys that is asked for. False after an answer. */
static bool keys_page(struct http_request *r, const char *pid, size_t count, int64_t *limit,
                      int64_t *start)
{
    struct str given;
    int got = http_query_number(r, "limit", limit), from = http_query_number(r, "start", start);

    if (got < 0 || from < 0)
        return false;
    if (got && (*limit < 1 || *limit > KEYS_LIMIT_MAX)) {
        http_reply_errorf(r, 400, "limit is 1 to %d", KEYS_LIMIT_MAX);
        return false;
    }
    if (from && !http_query(r, "pid", &given)) {
        http_reply_error(r, 400, "start needs the pid of the page before");
        return false;
    }
    if (from && (!str_eq(given, str_of(pid)) || (size_t)*start > count)) {
        http_reply_error(r, 410, "this listing is no longer valid: begin again");
        return false;
    }
    return true;
}

void http_get_keys(struct http_request *r)
{
    struct dag *d = http_dag(r);
    struct dag_node *n = d ? http_node(r, d) : NULL;
    int64_t limit = INT64_MAX, start = 0;
    struct buf b = {0};
    struct str *keys;
    size_t count = 0, at;
    char pid[64];

    if (!n)
        return;
    keys = arena_alloc(&r->arena, keys_max(n, &r->arena) * sizeof *keys);
    collect_keys(n, &r->arena, keys, &count);
    qsort(keys, count, sizeof *keys, by_key);
    snprintf(pid, sizeof pid, "%" PRIu64 "-%zu", n->id, count);
    if (!keys_page(r, pid, count, &limit, &start))
        return;
    json_open(&b, '{');
    json_key(&b, "keys");
    json_open(&b, '[');
    for (at = (size_t)start; at < count && limit; at++, limit--)
        json_put_text(&b, keys[at]);
    json_close(&b, ']');
    if (at < count) {
        json_key(&b, "pagination");
        json_open(&b, '{');
        json_key(&b, "next");
        json_put_text(&b, str_of(arena_printf(&r->arena, "%zu", at)));
        json_key(&b, "pid");
        json_put_text(&b, str_of(pid));
        json_close(&b, '}');
    }
    json_close(&b, '}');
    http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
}
