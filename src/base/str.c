/*
 * UTF-8, by the table of well-formed sequences in the Unicode standard: ranges of the second byte.
 */
#include "base/str.h"

size_t utf8_len(const char *text, const char *end)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t left = (size_t)(end - text);
    unsigned char low = 0x80, high = 0xbf;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (left < len)
        return 0;
    if (p[0] == 0xe0)
        low = 0xa0;
    else if (p[0] == 0xed)
        high = 0x9f;
    else if (p[0] == 0xf0)
        low = 0x90;
    else if (p[0] == 0xf4)
        high = 0x8f;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    return len;
}

char *utf8_put(char *to, uint32_t c)
{
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    int len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = len - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(first[len] | c);
    return to + len;
}
