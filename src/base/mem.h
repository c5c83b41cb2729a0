/*
 * mem - allocation that does not fail, and cleanup at the end of a block.
 *
 * When memory runs out, the process prints a line on stderr and ends. The journal makes that safe,
 * and nobody tests code that goes on after a failed allocation.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdlib.h>

/*
 * Calls fn(&variable) when the block of the variable ends, however it ends:
 *
 *     CLEANUP(mem_free) char *copy = mem_dup(name, len);
 */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

static inline void mem_free(void *pointer)
{
    free(*(void **)pointer);
}

void *mem_alloc(size_t size);
void *mem_zalloc(size_t size);
void *mem_aligned_alloc(size_t alignment, size_t size);
void *mem_realloc(void *p, size_t size);
char *mem_dup(const char *text, size_t len); /* NUL-terminated */

/* Makes room for one more element: doubles the array when it is full. */
#define mem_grow(array, count, cap)                                                                \
    do {                                                                                           \
        if ((count) == (cap)) {                                                                    \
            (cap) = (cap) ? (cap)*2 : 16;                                                          \
            (array) = mem_realloc((array), (cap) * sizeof *(array));                               \
        }                                                                                          \
    } while (0)

#endif
