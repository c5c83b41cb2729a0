/*
 * json_plain - skips text that needs no escape in JSON: ASCII without control characters, quotes
 * and backslashes. Almost all text is plain from end to end, so it goes eight bytes at a time.
 */
#ifndef BASE_JSON_PLAIN_H
#define BASE_JSON_PLAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A word of eight such bytes. */
#define JSON_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/*
 * Whether all bytes of a word are plain. A byte below n sets the top bit of byte - n. A byte that
 * equals n becomes 0 by byte ^ n, and then 0 - 1 sets the top bit.
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
