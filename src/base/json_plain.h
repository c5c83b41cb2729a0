/*
 * json_plain - how much of a text stands in JSON as it is: ASCII without control characters, quotes and
 * backslashes. Eight bytes at a time, as almost all text is that from end to end.
 */
#ifndef BASE_JSON_PLAIN_H
#define BASE_JSON_PLAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Every byte of a word. */
#define JSON_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/*
 * Whether all bytes of a word are plain. A byte below n shows as a borrow in the top bit of
 * byte - n; a byte that equals n is 0, and so below 1, once n is taken out of it.
 */
static inline bool json_word_is_plain(uint64_t word)
{
    uint64_t quote = word ^ JSON_EACH('"'), backslash = word ^ JSON_EACH('\\');
    uint64_t seen =
        word | (word - JSON_EACH(0x20)) | (quote - JSON_EACH(1)) | (backslash - JSON_EACH(1));

    return !(seen & JSON_EACH(0x80));
}

static inline const char *json_skip_plain(const char *p, const char *end)
{
    uint64_t word;

    while (end - p >= 8) {
        memcpy(&word, p, sizeof word);
        if (!json_word_is_plain(word))
            break;
        p += 8;
    }
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\')
        p++;
    return p;
}

#endif
