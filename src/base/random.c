#include "base/random.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"

void random_fill(void *to, size_t len)
{
    assert(len <= 256);
    while (getrandom(to, len, 0) != (ssize_t)len)
        if (errno != EINTR)
            err_fatal("no random bytes: %s", strerror(errno));
}

void random_hex(char *text, size_t digits)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char byte;
    for (size_t i = 0; i < digits; i += 2) {
        random_fill(&byte, 1);
        text[i] = hex[byte >> 4];
        text[i + 1] = hex[byte & 15];
    }
    text[digits] = '\0';
}
