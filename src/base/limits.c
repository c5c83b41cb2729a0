#include "base/limits.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/human.h"

const char *const LIMIT_NAMES[LIMIT_KINDS] = {"cpu", "memory", "files", "processes"};

const char *limit_text(char *out, enum limit_kind kind, int64_t value)
{
    if (kind == LIMIT_CPU)
        return human_span(out, value);
    if (kind == LIMIT_MEMORY)
        return human_size(out, (uint64_t)value);
    snprintf(out, HUMAN_SIZE, "%" PRId64, value);
    return out;
}

bool limits_any(const struct limits *l)
{
    for (enum limit_kind i = 0; i < LIMIT_KINDS; i++)
        if (l->of[i])
            return true;
    return false;
}
