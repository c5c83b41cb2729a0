/* Seeds, errors, waiting. */
#include "support.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* splitmix64: any state is valid. */
uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint32_t rng_below(struct rng *r, uint32_t limit)
{
    return (uint32_t)(rng_next(r) % limit);
}

uint64_t seed_or(uint64_t usual)
{
    const char *seed = getenv("DROVER_SEED");

    return seed && *seed ? strtoull(seed, NULL, 0) : usual;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value && strcmp(value, "0") != 0;
}

bool soaking(void)
{
    return is_set("DROVER_SOAK");
}

bool is_short_run(void)
{
#ifdef __SANITIZE_THREAD__
    return true;
#else
    return is_set("DROVER_CHECK");
#endif
}

size_t short_run_stride(size_t stride)
{
    return is_short_run() ? stride : 1;
}

static char context[600];

void doing(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
}

void done(void)
{
    context[0] = '\0';
}

static int tell_context(void **state)
{
    (void)state;
    if (*context)
        print_error("while: %s\n", context);
    done();
    return 0;
}

int run_group_of(struct CMUnitTest *tests, size_t count)
{
    int failed;

    for (size_t i = 0; i < count; i++)
        tests[i].teardown_func = tell_context;
    failed = _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
    if (!failed)
        return 0;
    if (!getenv("DROVER_KEEP"))
        dirs_remove();
    fflush(NULL);
    _exit(1);
}

void expect_err_at(int want, int got, const char *what, const char *file, int line)
{
    if (want == got)
        return;
    print_error("%s: %s instead of %s\n", what, drover_err_name(got), drover_err_name(want));
    _fail(file, line);
}

void wait_until_at(condition_fn *condition, void *arg, const char *file, int line)
{
    int64_t deadline_ms = clock_boot_ms() + PATIENCE_MS;

    while (!condition(arg)) {
        if (clock_boot_ms() > deadline_ms) {
            print_error("waited in vain\n");
            _fail(file, line);
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}
