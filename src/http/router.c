/*
 * Pattern and path are walked part by part. The table is searched from the top: with the dozens of
 * routes that a server has, that costs less than the hash of one path.
 */
#include "http/router.h"

/* Takes the part up to the next slash off the front of *rest, and the slash. */
static struct str next_part(struct str *rest)
{
    const char *slash = rest->len ? memchr(rest->p, '/', rest->len) : NULL;
    struct str part = {rest->p, slash ? (size_t)(slash - rest->p) : rest->len};
    size_t used = part.len + (slash ? 1 : 0);

    rest->p += used;
    rest->len -= used;
    return part;
}

static size_t count_slashes(struct str s)
{
    size_t count = 0;

    for (size_t i = 0; i < s.len; i++)
        count += s.p[i] == '/';
    return count;
}

static bool pattern_matches(struct str pattern, struct str path,
                            struct str params[ROUTE_PARAMS_MAX])
{
    size_t parts = count_slashes(pattern), used = 0;

    if (parts != count_slashes(path))
        return false;
    for (size_t i = 0; i <= parts; i++) {
        struct str want = next_part(&pattern), part = next_part(&path);

        if (!str_starts(want, STR("{"))) {
            if (!str_eq(want, part))
                return false;
        } else if (!part.len || used == ROUTE_PARAMS_MAX) {
            return false;
        } else {
            params[used++] = part;
        }
    }
    return true;
}

const struct route *route_find(const struct route_table *t, enum method method, struct str path,
                               struct str params[ROUTE_PARAMS_MAX], unsigned *ret_allow)
{
    unsigned allow = 0;

    for (size_t i = 0; i < t->count; i++) {
        const struct route *route = &t->routes[i];

        if (!pattern_matches(str_of(route->pattern), path, params))
            continue;
        if (route->method == method)
            return route;
        allow |= 1u << route->method;
    }
    *ret_allow = allow;
    return NULL;
}

void route_put_allow(struct buf *b, unsigned allow)
{
    static const char *const names[] = {
        [METHOD_GET] = "GET, HEAD",
        [METHOD_POST] = "POST",
        [METHOD_PUT] = "PUT",
        [METHOD_DELETE] = "DELETE",
    };
    const char *before = "";

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!(allow & 1u << i))
            continue;
        buf_printf(b, "%s%s", before, names[i]);
        before = ", ";
    }
}
