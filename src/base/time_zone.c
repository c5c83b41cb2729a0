/*
 * Finding the zone of a name, and lookups in its table.
 *
 * Lookups that go from local time to UTC walk the few spans around it: offsets are limited, so an
 * instant at which clocks show a local time is at most a day or so away from it.
 */
#include "base/time_zone.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/civil.h"
#include "base/time_zone_impl.h"

#define ERA_S ((int64_t)CIVIL_ERA_DAYS * CIVIL_DAY_S)

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '+' || c == '-';
}

/* Names become paths. Without dots and empty parts they stay below their directory. */
static bool is_name(struct str name)
{
    if (!name.len || name.len > TIME_ZONE_NAME_MAX)
        return false;
    bool in_part = false;
    for (size_t i = 0; i < name.len; i++) {
        if (name.p[i] != '/' ? !is_letter(name.p[i]) : !in_part)
            return false;
        in_part = name.p[i] != '/';
    }
    return in_part;
}

/* Appends up to max bytes of a file, and one more if it is longer. An errno, or 0. */
static int read_regular(const char *path, size_t max, struct buf *b)
{
    /* Whatever lies there, opening it must not wait. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno;
    struct stat st;
    int errnum = fstat(fd, &st) ? errno : S_ISREG(st.st_mode) ? 0 : ENOENT;
    ssize_t n = errnum ? 0 : 1;
    buf_reserve(b, max + 1);
    while (n && b->len <= max) {
        n = read(fd, b->p + b->len, max + 1 - b->len);
        if (n < 0 && errno != EINTR) {
            errnum = errno;
            break;
        }
        b->len += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    return errnum;
}

static int no_zone(const char *dir, struct str name, struct err_info *e)
{
    struct stat st;
    if (stat(dir, &st))
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "the time zone %.*s cannot be looked up: there is no directory %s with zone "
                       "files; install tzdata",
                       STR_ARGS(name), dir);
    return err_set(e, DROVER_BAD_ARGUMENT, "there is no time zone %.*s in %s", STR_ARGS(name), dir);
}

static int load_file(const char *dir, struct str name, struct time_zone **ret_zone,
                     struct err_info *e)
{
    CLEANUP(buf_release) struct buf path = {0}, bytes = {0};
    buf_printf(&path, "%s/%.*s", dir, STR_ARGS(name));
    int errnum = read_regular(buf_text(&path), TIME_ZONE_FILE_MAX, &bytes);
    if (errnum == ENOENT || errnum == ENOTDIR)
        return no_zone(dir, name, e);
    if (errnum)
        return err_set_errno(e, errnum, "cannot read %s", buf_text(&path));
    struct err_info why = {""};
    int err = time_zone_parse(buf_str(&bytes), ret_zone, &why);
    return err ? err_set(e, err, "%s: %s", buf_text(&path), why.text) : 0;
}

int time_zone_load(const char *dir, struct str name, struct time_zone **ret_zone,
                   struct err_info *ret_error)
{
    if (!is_name(name))
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "this is not the name of a time zone, such as Europe/Berlin or UTC");
    if (str_eq(name, STR("UTC"))) {
        struct time_zone *z = mem_zalloc(sizeof *z);
        time_zone_add(z, INT64_MIN, 0);
        *ret_zone = z;
        return 0;
    }
    if (!dir)
        dir = getenv("TZDIR");
    return load_file(dir && *dir ? dir : "/usr/share/zoneinfo", name, ret_zone, ret_error);
}

void time_zone_free(struct time_zone *z)
{
    if (!z)
        return;
    free(z->changes);
    free(z);
}

void time_zone_add(struct time_zone *z, int64_t at, int32_t offset)
{
    if (z->count && z->changes[z->count - 1].at == at)
        z->count--;
    if (z->count && z->changes[z->count - 1].offset == offset)
        return;
    mem_grow(z->changes, z->count, z->cap);
    z->changes[z->count++] = (struct time_zone_change){at, offset};
}

static size_t find(const struct time_zone *z, int64_t utc_s)
{
    size_t low = 0, high = z->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (z->changes[middle].at <= utc_s)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct time_zone_span time_zone_at(const struct time_zone *z, int64_t utc_s)
{
    const struct time_zone_change *last = &z->changes[z->count - 1];
    int64_t shift = 0;
    if (z->repeats && utc_s >= last->at)
        shift = ((utc_s - last->at) / ERA_S + 1) * ERA_S;
    const struct time_zone_change *c = &z->changes[find(z, utc_s - shift)];
    struct time_zone_span s = {c->at, INT64_MAX, c->offset};
    if (c->at != INT64_MIN)
        s.from += shift;
    if (c < last)
        s.until = c[1].at + shift;
    return s;
}

int64_t time_zone_reach(const struct time_zone *z, int64_t local_s)
{
    struct time_zone_span s = time_zone_at(z, local_s - TIME_ZONE_OFFSET_MAX_S);
    while (s.until != INT64_MAX && s.until + s.offset <= local_s)
        s = time_zone_at(z, s.until);
    int64_t utc_s = local_s - s.offset;
    return utc_s > s.from ? utc_s : s.from;
}

int64_t time_zone_passed(const struct time_zone *z, int64_t utc_s)
{
    struct time_zone_span s = time_zone_at(z, utc_s);
    int64_t latest = utc_s + s.offset;
    while (s.from > utc_s - (TIME_ZONE_OFFSET_MAX_S - TIME_ZONE_OFFSET_MIN_S)) {
        int64_t end = s.from;
        s = time_zone_at(z, end - 1);
        if (end - 1 + s.offset > latest)
            latest = end - 1 + s.offset;
    }
    return latest;
}
