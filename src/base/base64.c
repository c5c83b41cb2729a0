#include "base/base64.h"

static const char DIGITS[] = BASE64_DIGITS;

void base64_put(struct buf *b, const unsigned char *bytes, size_t len)
{
    for (size_t at = 0; at < len; at += 3) {
        size_t rest = len - at < 3 ? len - at : 3;
        uint32_t three = (uint32_t)bytes[at] << 16;
        if (rest > 1)
            three |= (uint32_t)bytes[at + 1] << 8;
        if (rest > 2)
            three |= bytes[at + 2];
        for (size_t i = 0; i < 4; i++)
            buf_put_u8(b, i <= rest ? (uint8_t)DIGITS[three >> (18 - 6 * i) & 63] : '=');
    }
}

/* Up to three bytes from four characters. -1: they are none. */
static int read_four(const char *p, bool is_last, char bytes[3])
{
    int count = is_last && p[3] == '=' ? p[2] == '=' ? 1 : 2 : 3;
    uint32_t three = 0;
    for (int i = 0; i < 4; i++) {
        const char *digit = i > count ? DIGITS : p[i] ? strchr(DIGITS, p[i]) : NULL;
        if (!digit)
            return -1;
        three = three << 6 | (uint32_t)(digit - DIGITS);
    }
    if (three & (count == 1 ? 0xffffu : count == 2 ? 0xffu : 0)) /* bits that no byte has */
        return -1;
    for (int i = 0; i < 3; i++)
        bytes[i] = (char)(three >> (16 - 8 * i));
    return count;
}

bool base64_read(struct str text, struct buf *b)
{
    if (text.len % 4)
        return false;
    for (size_t at = 0; at < text.len; at += 4) {
        char bytes[3];
        int count = read_four(text.p + at, at + 4 == text.len, bytes);
        if (count < 0)
            return false;
        buf_put(b, bytes, (size_t)count);
    }
    return true;
}
