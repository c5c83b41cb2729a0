#include "base/escape.h"

#include <stdint.h>
#include <stdio.h>

/* Besides the control characters: marks, embeddings, overrides, isolates; separators. */
static const struct {
    uint32_t first, last;
} HIDDEN[] = {{0x7f, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};

/* Of a well-formed sequence. */
static uint32_t decode(const char *p, size_t len)
{
    uint32_t c = (unsigned char)p[0];
    if (len > 1)
        c &= 0x7fu >> len;
    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)p[i] & 0x3f);
    return c;
}

size_t escape_shown_len(struct str text)
{
    unsigned char first = (unsigned char)text.p[0];
    if (first >= ' ' && first < 0x7f)
        return 1;
    size_t len = utf8_len(text.p, text.p + text.len);
    uint32_t c = len ? decode(text.p, len) : 0;
    for (size_t i = 0; i < sizeof HIDDEN / sizeof *HIDDEN; i++)
        if (c < ' ' || (c >= HIDDEN[i].first && c <= HIDDEN[i].last))
            return 0;
    return len;
}

struct escaped_byte escape_byte(char byte)
{
    static const char bytes[] = "\n\t\r\\", letters[] = "ntr\\";
    const char *named = byte ? strchr(bytes, byte) : NULL;
    struct escaped_byte e;
    if (named)
        snprintf(e.text, sizeof e.text, "\\%c", letters[named - bytes]);
    else
        snprintf(e.text, sizeof e.text, "\\x%02x", (unsigned char)byte);
    return e;
}

/* Returns how many bytes it has escaped. */
static size_t put_escaped(struct buf *b, struct str text, enum escape_style style)
{
    size_t len = utf8_len(text.p, text.p + text.len);
    if (style == ESCAPE_JSON) {
        buf_printf(b, "\\u%04x", len ? decode(text.p, len) : 0xfffd);
        return len ? len : 1;
    }
    len = len ? len : 1;
    for (size_t i = 0; i < len; i++)
        buf_printf(b, "%s", escape_byte(text.p[i]).text);
    return len;
}

void escape_put(struct buf *b, struct str text, enum escape_style style)
{
    while (text.len) {
        size_t len = escape_shown_len(text);
        if (!len && style != ESCAPE_LINE && (text.p[0] == '\n' || text.p[0] == '\t'))
            len = 1;
        if (len)
            buf_put(b, text.p, len);
        else
            len = put_escaped(b, text, style);
        text.p += len;
        text.len -= len;
    }
}
