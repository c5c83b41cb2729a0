/*
 * What comes over HTTP before anybody is asked: heads, chunks, queries.
 *
 * Input: one byte that chooses, one that says where the rest is cut in two, then the bytes. Heads
 * and chunks are given whole and in pieces, and have to be understood the same way; what was
 * understood has to be free of everything that another program could read differently.
 */
#include "fuzz.h"
#include "http/head.h"

enum { BODY_MAX = 4096 };

static void check_text(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        FUZZ_CHECK(s.p[i] != '\r' && s.p[i] != '\n' && s.p[i] != '\0');
}

static bool is_inside(struct str s, const char *p, size_t len)
{
    return !s.len || (s.p >= p && s.p + s.len <= p + len);
}

static void check_head(const struct head *h, const char *p, size_t len)
{
    FUZZ_CHECK(len <= HEAD_LEN_MAX && h->field_count <= HEAD_FIELDS_MAX);
    FUZZ_CHECK(h->path.len && h->path.p[0] == '/' && is_inside(h->path, p, len));
    FUZZ_CHECK(!memchr(h->path.p, '?', h->path.len) && !memchr(h->path.p, '#', h->path.len));
    FUZZ_CHECK(is_inside(h->query, p, len) && is_inside(h->host, p, len));
    FUZZ_CHECK(!(h->chunked && h->content_len));
    FUZZ_CHECK(!(h->chunked && h->http_1_0));
    FUZZ_CHECK(h->host.len || h->http_1_0);
    check_text(h->path);
    check_text(h->query);
    for (size_t i = 0; i < h->field_count; i++) {
        check_text(h->fields[i].name);
        check_text(h->fields[i].value);
        FUZZ_CHECK(h->fields[i].name.len && is_inside(h->fields[i].name, p, len));
        FUZZ_CHECK(!memchr(h->fields[i].name.p, ' ', h->fields[i].name.len));
        FUZZ_CHECK(is_inside(h->fields[i].value, p, len));
    }
}

static void fuzz_head(struct str in, size_t cut)
{
    char *exact = fuzz_exact(in);
    size_t whole = 0, pieces = 0;
    ssize_t len = head_scan(exact, in.len, &whole), again;

    again = head_scan(exact, cut, &pieces);
    if (!again)
        again = head_scan(exact, in.len, &pieces);
    FUZZ_CHECK(len == again && len <= (ssize_t)in.len);
    if (len > 0) {
        char *head = fuzz_exact((struct str){exact, (size_t)len});
        const char *reason = NULL;
        struct head h;
        int status = head_parse(&h, head, (size_t)len, &reason);

        FUZZ_CHECK((status != 0) == (reason != NULL));
        if (!status)
            check_head(&h, head, (size_t)len);
        free(head);
    }
    free(exact);
}

/* Feeds up to the end or the error; says how much was used, or the error. */
static ssize_t feed(struct str in, size_t cut, struct chunk *c, struct buf *body)
{
    ssize_t first = chunk_feed(c, in.p, cut, body, BODY_MAX), second;

    if (first < 0 || c->done)
        return first;
    second = chunk_feed(c, in.p + cut, in.len - cut, body, BODY_MAX);
    return second < 0 ? second : first + second;
}

static void fuzz_chunk(struct str in, size_t cut)
{
    char *exact = fuzz_exact(in);
    struct chunk whole = {0}, pieces = {0};
    struct buf a = {0}, b = {0};
    ssize_t used = feed((struct str){exact, in.len}, in.len, &whole, &a);

    FUZZ_CHECK(feed((struct str){exact, in.len}, cut, &pieces, &b) == used);
    FUZZ_CHECK(used < 0 || (whole.done ? used <= (ssize_t)in.len : used == (ssize_t)in.len));
    FUZZ_CHECK(a.len <= BODY_MAX);
    if (used >= 0) {
        FUZZ_CHECK(whole.done == pieces.done && a.len == b.len);
        FUZZ_CHECK(!a.len || memcmp(a.p, b.p, a.len) == 0);
    }
    free(exact);
    buf_release(&a);
    buf_release(&b);
}

static void put_escaped(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        buf_printf(b, "%%%02x", (unsigned char)s.p[i]);
}

/* What was understood, written with every byte escaped, is understood as the same. */
static void fuzz_query(struct str in)
{
    char *exact = fuzz_exact(in);
    struct arena a = {0};
    struct buf b = {0};
    struct query q, again;

    if (!query_parse(&a, (struct str){exact, in.len}, &q)) {
        FUZZ_CHECK(q.count <= QUERY_MAX);
        for (size_t i = 0; i < q.count; i++) {
            put_escaped(&b, q.params[i].name);
            buf_put_str(&b, STR("="));
            put_escaped(&b, q.params[i].value);
            buf_put_str(&b, STR("&"));
        }
        FUZZ_CHECK(!query_parse(&a, (struct str){b.p, b.len}, &again) && again.count == q.count);
        for (size_t i = 0; i < q.count; i++) {
            FUZZ_CHECK(str_eq(q.params[i].name, again.params[i].name));
            FUZZ_CHECK(str_eq(q.params[i].value, again.params[i].value));
        }
    }
    buf_release(&b);
    arena_release(&a);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct reader in = {(const char *)data, len, false};
    int which = reader_u8(&in) % 3;
    size_t cut = reader_u8(&in);
    struct str rest = {in.p, in.left};

    cut = cut < rest.len ? cut : rest.len;
    if (which == 0)
        fuzz_head(rest, cut);
    else if (which == 1)
        fuzz_chunk(rest, cut);
    else
        fuzz_query(rest);
    return 0;
}
