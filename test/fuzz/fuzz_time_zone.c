/*
 * Zone files, and what must hold of every zone that is accepted.
 *
 * Input: the file. Instants are taken around the changes that the zone then has, in the beginning,
 * where the rule takes over and far in the future, and from the bytes of the input.
 */
#include "base/time_zone.h"
#include "fuzz.h"

enum { CHANGES_WALKED = 6, STEPS_NAIVE = 3 };

/* The span at an instant agrees with its neighbours. */
static struct time_zone_span check_span(const struct time_zone *z, int64_t at)
{
    struct time_zone_span s = time_zone_at(z, at);

    FUZZ_CHECK(s.from <= at && at < s.until);
    FUZZ_CHECK(s.offset >= TIME_ZONE_OFFSET_MIN_S && s.offset <= TIME_ZONE_OFFSET_MAX_S);
    if (s.from != INT64_MIN) {
        struct time_zone_span before = time_zone_at(z, s.from - 1);
        FUZZ_CHECK(before.until == s.from && before.offset != s.offset);
    }
    if (s.until != INT64_MAX) {
        struct time_zone_span next = time_zone_at(z, s.until);
        FUZZ_CHECK(next.from == s.until && next.offset != s.offset);
    }
    return s;
}

/* The definition in time_zone.h, and: reach() is the first that has reached it. */
static void check_local(const struct time_zone *z, int64_t local, int64_t at)
{
    int64_t reached = time_zone_reach(z, local), passed = time_zone_passed(z, at);

    FUZZ_CHECK((reached <= at) == (local <= passed));
    FUZZ_CHECK(reached + time_zone_at(z, reached).offset >= local);
    FUZZ_CHECK(passed >= at + time_zone_at(z, at).offset);
    for (int64_t before = reached - STEPS_NAIVE; before < reached; before++)
        FUZZ_CHECK(before + time_zone_at(z, before).offset < local);
}

static void check_at(const struct time_zone *z, int64_t at)
{
    struct time_zone_span s = check_span(z, at);

    for (int hours = -27; hours <= 27; hours += 9) {
        check_local(z, at + s.offset + hours * 3600, at);
        check_local(z, at + s.offset, at + hours * 3600);
    }
    check_local(z, at + s.offset + 1, at);
    check_local(z, at + s.offset - 1, at);
}

static void check_from(const struct time_zone *z, int64_t at)
{
    for (int i = 0; i < CHANGES_WALKED; i++) {
        struct time_zone_span s = time_zone_at(z, at);
        check_at(z, at);
        if (s.until == INT64_MAX || s.until > TIME_ZONE_RANGE_S)
            return;
        check_at(z, s.until - 1);
        at = s.until;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    /* 1583, 1970, 2037, 2400, the year 30,000, and the ends of what milliseconds can express. */
    static const int64_t from[] = {-INT64_MAX / 1000, -12219292800,    0, 2114380800, 13569465600,
                                   884541340800,      INT64_MAX / 1000};
    char *exact = fuzz_exact((struct str){(const char *)data, len});
    struct err_info e = {""};
    struct time_zone *z = NULL;
    int err = time_zone_parse((struct str){exact, len}, &z, &e);

    free(exact);
    FUZZ_CHECK(err == (z ? 0 : DROVER_DAMAGED));
    FUZZ_CHECK(z || e.text[0]);
    if (!z)
        return 0;
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        check_from(z, from[i]);
    for (size_t i = 0; i + 8 <= len; i += 61)
        check_at(z, (int64_t)le_load64((const char *)data + i) % (INT64_MAX / 1000));
    time_zone_free(z);
    return 0;
}
