/* /v1/nodes/<id>/data: the keys of a node's data, in pages. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dag/http_impl.h"

static void collect_keys(const struct dag_node *n, struct arena *a, struct str *keys, size_t *count)
{
    const struct json *data = node_spec_data(n, a);

    for (const struct json *m = data ? data->first : NULL; m; m = m->next)
        keys[(*count)++] = m->key;
    for (const struct node_datum *v = n->values; v; v = v->next)
        if (!json_get(data, v->key) && !(n->run && node_key_is_output(str_of(v->key))))
            keys[(*count)++] = str_of(v->key);
    for (int i = 0; i < RUN_STREAMS && n->run; i++)
        keys[(*count)++] = str_of(DAG_OUTPUTS[i]);
}

static int by_key(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    int order = memcmp(x->p, y->p, x->len < y->len ? x->len : y->len);

    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static size_t keys_max(const struct dag_node *n, struct arena *a)
{
    const struct json *data = node_spec_data(n, a);
    size_t count = 4 + (data ? data->count : 0);

    for (const struct node_datum *v = n->values; v; v = v->next)
        count++;
    return count;
}

void http_get_keys(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = http_dag(r);
    struct dag_node *n = d ? http_node(r, d) : NULL;
    uint64_t at = 0;
    struct buf b = {0};
    struct str *keys;
    size_t count = 0;
    char pid[64];

    if (!n)
        return;
    keys = arena_alloc(&r->arena, keys_max(n, &r->arena) * sizeof *keys);
    collect_keys(n, &r->arena, keys, &count);
    qsort(keys, count, sizeof *keys, by_key);
    snprintf(pid, sizeof pid, "%" PRIu64 "-%zu", n->id, count);
    if (!http_read_start(r, pid, pid, &at))
        return;
    size_t end =
        count - (at < count ? at : count) > (size_t)in->limit ? at + (size_t)in->limit : count;
    json_open(&b, '{');
    json_member_open(&b, "keys", '[');
    for (; at < end; at++)
        json_put_text(&b, keys[at]);
    json_close(&b, ']');
    if (end < count)
        http_put_pagination(&b, end, pid);
    json_close(&b, '}');
    http_reply_buf(r, &b);
}
