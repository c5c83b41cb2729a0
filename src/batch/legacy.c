/* Reading records. Pure. Records are input: invalid ones are reported as such. */
#include "batch/tools.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/str.h"

const char *const BATCH_LEGACY_PAYLOADS[] = {"properties", "json", "xml"};

int batch_legacy_read(struct str name, struct str data, struct batch_legacy *ret_record)
{
    struct batch_legacy r = {.name = name};
    struct str prefix = STR("mrtQ-");
    size_t digits = name.len - prefix.len;
    uint64_t time = 0;

    if (!str_starts(name, prefix) || digits < BATCH_ID_DIGITS)
        return DROVER_BAD_ARGUMENT;
    for (size_t i = prefix.len; i < name.len; i++)
        if (!isdigit((unsigned char)name.p[i]))
            return DROVER_BAD_ARGUMENT;
    if (digits > BATCH_ID_DIGITS + 9 || data.len < 9)
        return DROVER_DAMAGED;
    /* The first two digits, because records were sorted by their digits as text. */
    for (size_t i = 0; i < digits - BATCH_ID_DIGITS && i < 2; i++)
        r.priority = r.priority * 10 + (name.p[prefix.len + i] - '0');
    for (size_t i = name.len - BATCH_ID_DIGITS; i < name.len; i++)
        r.number = r.number * 10 + (name.p[i] - '0');
    r.status = (unsigned char)data.p[0];
    for (int i = 1; i <= 8; i++)
        time = time << 8 | (unsigned char)data.p[i];
    if (time > INT64_MAX)
        return DROVER_DAMAGED;
    r.time_ms = (int64_t)time;
    if (r.time_ms < INT64_C(100000000000)) /* as milliseconds this would be before March 1973 */
        r.time_ms *= 1000;
    r.payload = (struct str){data.p + 9, data.len - 9};
    const char *first = r.payload.p, *end = data.p + data.len;
    while (first < end && isspace((unsigned char)*first))
        first++;
    if (first < end)
        r.kind = *first == '{' ? LEGACY_JSON : *first == '<' ? LEGACY_XML : LEGACY_PROPERTIES;
    *ret_record = r;
    return 0;
}

const char *batch_legacy_status(struct arena *a, int status)
{
    static const char *const names[] = {"pending", "consumed",  "deleted",
                                        "failed",  "completed", "held"};

    if (status < (int)(sizeof names / sizeof *names))
        return names[status];
    return arena_printf(a, "status %d", status);
}

/* Java properties. */

struct batch_properties {
    const char *p, *end;
};

static void put_utf8(struct buf *b, uint32_t code)
{
    char out[4];
    buf_put(b, out, (size_t)(utf8_put(out, code) - out));
}

static bool read_hex(struct batch_properties *s, uint32_t *ret_code)
{
    char digits[5] = "";
    if (s->end - s->p < 4)
        return false;
    memcpy(digits, s->p, 4);
    if (strspn(digits, "0123456789abcdefABCDEF") < 4)
        return false;
    s->p += 4;
    *ret_code = (uint32_t)strtoul(digits, NULL, 16);
    return true;
}

/* After a backslash: an escape, or the end of a line that continues on the next one. */
static void read_escape(struct batch_properties *s, struct buf *b)
{
    static const char from[] = "tnrf", to[] = "\t\n\r\f";
    uint32_t code;
    if (s->p == s->end)
        return;
    char c = *s->p++;
    const char *at = c ? strchr(from, c) : NULL;
    if (c == '\n' || c == '\r') {
        if (c == '\r' && s->p < s->end && *s->p == '\n')
            s->p++;
        while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\f'))
            s->p++;
    } else if (c == 'u' && read_hex(s, &code)) {
        put_utf8(b, code);
    } else {
        put_utf8(b, (unsigned char)(at ? to[at - from] : c));
    }
}

/* Reads up to one of the stops that is not escaped. Bytes are Latin-1, as Java writes them. */
static void read_text(struct batch_properties *s, const char *stops, struct buf *b)
{
    while (s->p < s->end && !(*s->p && strchr(stops, *s->p))) {
        char c = *s->p++;
        if (c == '\\')
            read_escape(s, b);
        else
            put_utf8(b, (unsigned char)c);
    }
}

static void skip(struct batch_properties *s, const char *what)
{
    while (s->p < s->end && *s->p && strchr(what, *s->p))
        s->p++;
}

/* A name that occurs twice keeps its place and gets the last value, as in Java. */
struct batch_property {
    struct str key, value;
    struct batch_property *next;
};

static struct str keep(struct arena *a, struct buf *b)
{
    struct str text = {arena_text(a, buf_str(b)), b->len};
    b->len = 0;
    return text;
}

static struct batch_property *read_pairs(struct arena *a, struct str text)
{
    struct batch_properties s = {text.p, text.p + text.len};
    struct batch_property *pairs = NULL, **last = &pairs, *p;
    CLEANUP(buf_release) struct buf b = {0};
    struct str key;

    for (skip(&s, " \t\f\r\n"); s.p < s.end; skip(&s, " \t\f\r\n")) {
        if (*s.p == '#' || *s.p == '!') {
            while (s.p < s.end && *s.p != '\n' && *s.p != '\r')
                s.p++;
            continue;
        }
        read_text(&s, "=: \t\f\r\n", &b);
        key = keep(a, &b);
        skip(&s, " \t\f");
        if (s.p < s.end && (*s.p == '=' || *s.p == ':'))
            s.p++;
        skip(&s, " \t\f");
        read_text(&s, "\r\n", &b);
        for (p = pairs; p && !str_eq(p->key, key); p = p->next)
            ;
        if (!p) {
            p = arena_zalloc(a, sizeof *p);
            p->key = key;
            *last = p;
            last = &p->next;
        }
        p->value = keep(a, &b);
        if (s.p < s.end && !*s.p)
            s.p++; /* skip a NUL, which ends no text */
    }
    return pairs;
}

struct str batch_legacy_configuration(struct arena *a, const struct batch_legacy *r)
{
    const struct json *v = r->kind == LEGACY_JSON ? json_parse(a, r->payload, NULL) : NULL;
    struct buf b = {0};
    json_open(&b, '{');
    if (v && v->kind == JSON_OBJECT) {
        json_each(member, v) {
            json_key_str(&b, member->key);
            json_put(&b, member);
        }
    } else if (r->kind == LEGACY_PROPERTIES) {
        for (const struct batch_property *p = read_pairs(a, r->payload); p; p = p->next) {
            json_key_str(&b, p->key);
            json_put_text(&b, p->value);
        }
    } else {
        json_member_text(&b, "payload", r->payload);
    }
    json_close(&b, '}');
    return arena_take(a, &b);
}
