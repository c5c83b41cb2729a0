/*
 * The SSE4.2 instruction, eight bytes at a time, where available; else a table of 256 entries that
 * is filled on first use.
 */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

static uint32_t table[256];

static void table_make(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
        table[i] = crc;
    }
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const unsigned char *p = data;
    pthread_once(&once, table_make);
    crc = ~crc;
    while (len--)
        crc = crc >> 8 ^ table[(crc ^ *p++) & 0xff];
    return ~crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *data,
                                                               size_t len)
{
    const unsigned char *p = data;
    uint64_t wide = ~crc;
    for (; len >= 8; len -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    while (len--)
        crc = __builtin_ia32_crc32qi(crc, *p++);
    return ~crc;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_sse42(crc, data, len);
#endif
    return crc32c_portable(crc, data, len);
}
