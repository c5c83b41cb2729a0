/* Allocation that ends the process instead of failing. */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static void *checked(void *p, size_t size)
{
    if (!p && size)
        err_fatal("out of memory (%zu bytes)", size);
    return p;
}

void *mem_alloc(size_t size)
{
    return checked(malloc(size), size);
}

void *mem_zalloc(size_t size)
{
    return checked(calloc(1, size), size);
}

void *mem_aligned_alloc(size_t alignment, size_t size)
{
    return checked(aligned_alloc(alignment, size), size);
}

void *mem_realloc(void *p, size_t size)
{
    return checked(realloc(p, size), size);
}

char *mem_dup(const char *text, size_t len)
{
    char *copy = mem_alloc(len + 1);
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}
