/*
 * Writes JSON. The byte before tells whether a comma is needed, so there is no state but the
 * buffer.
 */
#include "base/json.h"

/*
 * Makes room for a comma and so many bytes, and puts the comma: none at the beginning, or after a
 * bracket, a colon or a space. Returns where the bytes go; put_end() takes what follows them.
 */
static char *put_begin(struct buf *b, size_t len)
{
    buf_reserve(b, len + 1);
    char last = b->len ? b->p[b->len - 1] : ' ', *at = b->p + b->len;
    if (last != '{' && last != '[' && last != ':' && last != ',' && last != ' ' && last != '\n')
        *at++ = ',';
    return at;
}

static void put_end(struct buf *b, const char *end)
{
    b->len = (size_t)(end - b->p);
}

void json_open(struct buf *b, char bracket)
{
    char *at = put_begin(b, 1);
    *at++ = bracket;
    put_end(b, at);
}

void json_close(struct buf *b, char bracket)
{
    buf_put(b, &bracket, 1);
}

void json_key_str(struct buf *b, struct str name)
{
    json_put_text(b, name);
    buf_put(b, ":", 1);
}

void json_key(struct buf *b, const char *name)
{
    json_key_str(b, str_of(name));
}

void json_put_int(struct buf *b, int64_t number)
{
    char digits[24], *p = digits + sizeof digits;
    uint64_t v = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        *--p = (char)('0' + v % 10);
    while (v /= 10);
    if (number < 0)
        *--p = '-';
    size_t len = (size_t)(digits + sizeof digits - p);
    put_end(b, (char *)memcpy(put_begin(b, len), p, len) + len);
}

void json_put_bool(struct buf *b, bool truth)
{
    json_put_raw(b, truth ? STR("true") : STR("false"));
}

void json_put_null(struct buf *b)
{
    json_put_raw(b, STR("null"));
}

void json_put_raw(struct buf *b, struct str json)
{
    char *at = put_begin(b, json.len);
    if (json.len)
        memcpy(at, json.p, json.len);
    put_end(b, at + json.len);
}

static void put_escape(struct buf *b, unsigned char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", into[] = "\"\\bfnrt";
    const char *known = c ? strchr(from, c) : NULL;
    if (known) {
        char pair[2] = {'\\', into[known - from]};
        buf_put(b, pair, 2);
    } else {
        buf_printf(b, "\\u%04x", c);
    }
}

/* Half a surrogate pair, as the reader stores it. */
static bool is_half_pair(const char *p, const char *end)
{
    return end - p >= 3 && (unsigned char)p[0] == 0xed && (unsigned char)p[1] >= 0xa0 &&
           (unsigned char)p[1] <= 0xbf && ((unsigned char)p[2] & 0xc0) == 0x80;
}

/* Two halves side by side: the reader would make one character of them. */
static bool is_split_pair(const char *p, const char *end)
{
    return is_half_pair(p, end) && (unsigned char)p[1] < 0xb0 && is_half_pair(p + 3, end) &&
           (unsigned char)p[4] >= 0xb0;
}

/* Writes one character that must be escaped. Returns its length in the input. */
static size_t put_special(struct buf *b, const char *p, const char *end)
{
    unsigned char c = (unsigned char)*p;
    if (c < 0x80) {
        put_escape(b, c);
        return 1;
    }
    if (is_half_pair(p, end)) {
        buf_printf(b, "\\u%04x", 0xd000u | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu));
        return 3;
    }
    buf_put(b, "\xef\xbf\xbd", 3);
    return 1;
}

/* Text with bytes that need a look, from the first of them on. */
static void put_rest(struct buf *b, const char *p, const char *end)
{
    const char *plain = p;
    for (; p < end; p = json_skip_plain(p, end)) {
        size_t len = (unsigned char)*p >= 0x80 ? utf8_len(p, end) : 0;
        if (len) {
            p += len;
            continue;
        }
        buf_put(b, plain, (size_t)(p - plain));
        p += put_special(b, p, end);
        plain = p;
    }
    buf_put(b, plain, (size_t)(p - plain));
}

void json_put_text(struct buf *b, struct str text)
{
    const char *p = text.len ? text.p : "", *end = p + text.len, *special = json_skip_plain(p, end);
    size_t len = (size_t)(special - p);
    char *at = put_begin(b, text.len + 2);
    *at++ = '"';
    memcpy(at, p, len);
    put_end(b, at + len);
    if (special < end)
        put_rest(b, special, end);
    buf_put(b, "\"", 1);
}

bool json_is_text(struct str text)
{
    const char *end = text.p + text.len;
    size_t len;
    for (const char *p = text.p; p < end; p += len) {
        len = utf8_len(p, end);
        if (!len && is_half_pair(p, end) && !is_split_pair(p, end))
            len = 3;
        if (!len)
            return false;
    }
    return true;
}

static void put_members(struct buf *b, const struct json *v)
{
    bool is_object = v->kind == JSON_OBJECT;
    json_open(b, is_object ? '{' : '[');
    json_each(m, v) {
        if (is_object)
            json_key_str(b, m->key);
        json_put(b, m);
    }
    json_close(b, is_object ? '}' : ']');
}

void json_put(struct buf *b, const struct json *v)
{
    if (v->kind == JSON_LIST || v->kind == JSON_OBJECT)
        put_members(b, v);
    else if (v->kind == JSON_TEXT)
        json_put_text(b, v->text);
    else if (v->kind == JSON_INT) /* not as it was read: -0 becomes 0 */
        json_put_int(b, v->number);
    else
        json_put_raw(b, v->raw);
}

void json_member_text(struct buf *b, const char *name, struct str text)
{
    json_key(b, name);
    if (text.p)
        json_put_text(b, text);
    else
        json_put_null(b);
}

void json_member_int(struct buf *b, const char *name, int64_t number)
{
    json_key(b, name);
    json_put_int(b, number);
}

void json_member_bool(struct buf *b, const char *name, bool truth)
{
    json_key(b, name);
    json_put_bool(b, truth);
}

void json_member_raw(struct buf *b, const char *name, struct str json)
{
    json_key(b, name);
    json_put_raw(b, json);
}

void json_member_texts(struct buf *b, const char *name, const char *const *texts, size_t count)
{
    json_member_open(b, name, '[');
    for (size_t i = 0; i < count; i++)
        json_put_text(b, str_of(texts[i]));
    json_close(b, ']');
}

void json_member_open(struct buf *b, const char *name, char bracket)
{
    json_key(b, name);
    json_open(b, bracket);
}
