#include <assert.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/mem.h"
#include "http/head.h"

struct cached_head {
    const struct router_row *row;
    struct str params[ROUTE_PARAMS_MAX];
    char *text; /* behind the fields of the head */
    size_t len;
    struct head head;
};

void head_cache_release(struct head_cache *s)
{
    for (size_t i = 0; i < HEAD_CACHE_MAX; i++)
        free(s->places[i]);
    *s = (struct head_cache){0};
}

/* The length of the head; 0: it is incomplete, or too long to be cached. */
static size_t find_end(const char *p, size_t len)
{
    const char *end = p + (len < HEAD_CACHE_LEN_MAX ? len : HEAD_CACHE_LEN_MAX), *at = p;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        if (end - at >= 2 && at[0] == '\r' && at[1] == '\n')
            return (size_t)(at - p) + 2;
    }
    return 0;
}

static size_t place_of(const char *p, size_t len)
{
    return XXH3_64bits(p, len) % HEAD_CACHE_MAX;
}

const struct cached_head *head_cache_find(const struct head_cache *s, const char *p, size_t len,
                                          size_t *ret_len)
{
    size_t head_len = find_end(p, len);
    if (!head_len)
        return NULL;
    const struct cached_head *k = s->places[place_of(p, head_len)];
    if (!k || k->len != head_len || memcmp(k->text, p, head_len))
        return NULL;
    *ret_len = head_len;
    return k;
}

/* The same part of another copy of the text. */
static struct str moved(struct str s, const char *from, const char *to)
{
    return s.len ? (struct str){to + (s.p - from), s.len} : STR("");
}

/* Copies k to h, with its parts moved from one copy of the text to another; and the parameters. */
static void move(struct head *h, struct str *params, const struct head *k,
                 const struct str *k_params, const char *from, const char *to)
{
    memcpy(h, k, offsetof(struct head, fields));
    h->path = moved(k->path, from, to);
    h->query = moved(k->query, from, to);
    h->host = moved(k->host, from, to);
    for (size_t i = 0; i < k->field_count; i++)
        h->fields[i] = (struct head_field){moved(k->fields[i].name, from, to),
                                           moved(k->fields[i].value, from, to)};
    for (size_t i = 0; i < ROUTE_PARAMS_MAX; i++)
        params[i] = moved(k_params[i], from, to);
}

const struct router_row *head_cache_use(const struct cached_head *k, const char *text,
                                        struct head *h, struct str params[ROUTE_PARAMS_MAX])
{
    move(h, params, &k->head, k->params, k->text, text);
    return k->row;
}

void head_cache_add(struct head_cache *s, struct str text, const struct head *h,
                    const struct router_row *row, const struct str params[ROUTE_PARAMS_MAX])
{
    size_t size = offsetof(struct cached_head, head.fields) + h->field_count * sizeof *h->fields;
    if (text.len > HEAD_CACHE_LEN_MAX)
        return;
    for (size_t i = 0; i < ROUTE_PARAMS_MAX; i++)
        assert(!params[i].len ||
               (params[i].p >= text.p && params[i].p + params[i].len <= text.p + text.len));
    struct cached_head **place = &s->places[place_of(text.p, text.len)], *k;
    free(*place);
    *place = k = mem_alloc(size + text.len);
    k->row = row;
    k->text = (char *)k + size;
    k->len = text.len;
    memcpy(k->text, text.p, text.len);
    move(&k->head, k->params, h, params, text.p, k->text);
}
