/*
 * What a world reads from others: the data of the nodes in its lists, keys and paths from clients,
 * and regular expressions. The first byte selects: r and h for a record and a holder, x for an
 * expression, any other for a key. A record's key, and the name that an expression matches, end
 * with the first newline.
 *
 * For any input: what parses is written so that it parses to the same; a record belongs to its key;
 * a valid key becomes a valid path and the same key again; an expression ends within its limits.
 */
#include "fuzz.h"

#include "keeper/path.h"
#include "world/expression.h"
#include "world/record.h"

/* The text before the first newline, and after it. */
static struct str split(struct str text, struct str *ret_rest)
{
    const char *end = memchr(text.p, '\n', text.len);
    struct str first = {text.p, end ? (size_t)(end - text.p) : text.len};

    *ret_rest =
        end ? (struct str){end + 1, text.len - first.len - 1} : (struct str){text.p + text.len, 0};
    return first;
}

static void try_record(struct arena *a, struct str text)
{
    struct str data, key = split(text, &data);
    struct world_record r, again;

    if (world_record_read(a, data, key, &r))
        return;
    FUZZ_CHECK(r.name.len + 1 + r.type.len == world_key_last(key).len);
    FUZZ_CHECK(r.path.len > key.len && str_starts(r.path, STR(WORLD_ROOT_PREFIX)));
    FUZZ_CHECK(!world_record_read(a, world_record_write(a, &r), key, &again));
    FUZZ_CHECK(str_eq(r.name, again.name) && str_eq(r.path, again.path));
    FUZZ_CHECK(r.failures == again.failures);
}

static void try_holder(struct arena *a, struct str text)
{
    struct world_holder h, again;

    if (world_holder_read(a, text, &h))
        return;
    FUZZ_CHECK(!world_holder_read(a, world_holder_write(a, &h), &again));
    FUZZ_CHECK(h.session == again.session && h.czxid == again.czxid && h.version == again.version);
}

static void try_key(struct arena *a, struct str key)
{
    char *path;
    size_t at = 0;
    struct str name, type;

    if (world_check_key(key, NULL))
        return;
    path = world_path(a, "/zoott_w", key);
    FUZZ_CHECK(path_is_valid(str_of(path), false));
    FUZZ_CHECK(path_is_valid(str_of(world_list_path(a, WORLD_PENDING, key)), false));
    FUZZ_CHECK(str_eq(str_of(world_key(a, "/zoott_w", str_of(path))), key));
    FUZZ_CHECK(world_split_name(world_key_last(key), &at, &name, &type));
    FUZZ_CHECK(name.len && type.len);
}

static void try_expression(struct str text)
{
    struct str pattern, name = split(text, &pattern);
    struct expression *x;
    struct err_info e;
    int found;

    if (expression_new(pattern, "name", &x, &e))
        return;
    found = expression_match(x, name, &e);
    FUZZ_CHECK(found == 0 || found == 1 || found == DROVER_BAD_ARGUMENT);
    if (expression_plain(x).p)
        FUZZ_CHECK(found == str_eq(pattern, name));
    expression_free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = {0};
    struct str text;
    char *copy;

    if (size == 0)
        return 0;
    copy = fuzz_exact((struct str){(const char *)data + 1, size - 1});
    text = (struct str){copy, size - 1};
    if (data[0] == 'r')
        try_record(&a, text);
    else if (data[0] == 'h')
        try_holder(&a, text);
    else if (data[0] == 'x')
        try_expression(text);
    else
        try_key(&a, text);
    arena_release(&a);
    free(copy);
    return 0;
}
