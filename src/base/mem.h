/*
 * mem - allocation that does not fail.
 *
 * The process ends when memory is out: the journal makes that safe, and code that limps on half
 * allocated is code that nobody has ever tested.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size);
void *mem_zalloc(size_t size);
void *mem_aligned_alloc(size_t alignment, size_t size);
void *mem_realloc(void *p, size_t size);
char *mem_dup(const char *text, size_t len); /* NUL-terminated */

#endif
