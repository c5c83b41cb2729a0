/*
 * fuzz - what the fuzz targets have in common.
 *
 * An input is read with a struct reader, which gives zeros when it is at its end: every input is a
 * meaningful one, and a longer one goes further.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "keeper/acl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Ends the run with a line; NULL: all is well. */
static inline void fuzz_expect(const char *wrong)
{
    if (!wrong)
        return;
    fprintf(stderr, "fuzz: %s\n", wrong);
    abort();
}

#define FUZZ_CHECK(condition) fuzz_expect((condition) ? NULL : "not so: " #condition)

/*
 * An access list: none, the open one, one that keeps everybody out, and, where wanted, a bad one.
 */
static inline struct str fuzz_acl(uint8_t which, bool bad_too)
{
    static const struct str lists[] = {
        STR(""),
        STR("\0\0\0\1\0\0\0\37\0\0\0\5world\0\0\0\6anyone"),
        STR("\0\0\0\1\0\0\0\37\0\0\0\6digest\0\0\0\3a:b"),
        STR("\0\0\0\1\0\0\0\1\0\0\0\5world\0\0\0\6anyone"),
        STR("\0\0\0\2\0\0\0\1\0\0\0\5world\0\0\0\6anyone"),
    };

    return lists[which % (bad_too ? 5 : 4)];
}

/* As many of the bytes as there are, at most len. */
static inline struct str fuzz_bytes(struct reader *in, size_t len)
{
    return reader_bytes(in, len < in->left ? len : in->left);
}

/* A copy in memory of its exact size, so that one byte too far is seen. To be freed. */
static inline char *fuzz_exact(struct str bytes)
{
    char *copy = mem_alloc(bytes.len ? bytes.len : 1);

    if (bytes.len)
        memcpy(copy, bytes.p, bytes.len);
    return copy;
}

#endif
