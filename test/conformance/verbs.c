/*
 * The verbs of fixture.h that read and write the tree and assert.
 */
#include <inttypes.h>
#include <stdio.h>

#include "fixture.h"

const char *at(struct fixture *f, const char *fmt, ...)
{
    char *rel, *path;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&rel, fmt, ap) < 0 ||
        asprintf(&path, "%s%s%s", f->root, *rel ? "/" : "", rel) < 0)
        abort();
    va_end(ap);
    free(rel);
    return keep(f, path);
}

const char *mk(struct fixture *f, const char *rel, const char *data)
{
    const char *path = at(f, "%s", rel);

    must(keeper_create(f->k, path, str_of(data), 0, NULL));
    return path;
}

const char *mk_flags(struct fixture *f, struct keeper *k, const char *rel, int flags)
{
    char *path = NULL;

    must(keeper_create(k, at(f, "%s", rel), STR("x"), flags, &path));
    assert_non_null(path);
    return keep(f, path);
}

struct str must_get(struct fixture *f, const char *path)
{
    struct buf data = {0};
    struct keeper_stat stat;

    must(keeper_get(f->k, path, &data, &stat));
    assert_int_equal(data.len, stat.data_len);
    buf_text(&data);
    keep(f, data.p);
    return (struct str){data.p, data.len};
}

struct keeper_names must_children(struct fixture *f, const char *path)
{
    struct keeper_names names = {0};
    struct keeper_stat stat;

    must(keeper_children(f->k, path, &names, &stat));
    keep(f, names.names);
    keep(f, names.text);
    assert_int_equal(names.count, stat.child_count);
    return names;
}

struct keeper_stat must_stat(struct keeper *k, const char *path)
{
    struct keeper_stat stat;

    must(keeper_exists(k, path, &stat));
    return stat;
}

static void stat_print(struct buf *b, const struct keeper_stat *s)
{
    buf_printf(b, "czxid %" PRId64 " mzxid %" PRId64 " pzxid %" PRId64, s->czxid, s->mzxid,
               s->pzxid);
    buf_printf(b, " ctime %" PRId64 " mtime %" PRId64 " owner %" PRIx64, s->ctime_ms, s->mtime_ms,
               (uint64_t)s->ephemeral_owner);
    buf_printf(b, " version %d cversion %d aversion %d len %d children %d", s->version, s->cversion,
               s->aversion, s->data_len, s->child_count);
}

const char *stat_text(struct fixture *f, struct keeper_stat s)
{
    struct buf b = {0};

    stat_print(&b, &s);
    buf_text(&b);
    return keep(f, b.p);
}

const char *children_text(struct fixture *f, const char *path)
{
    struct keeper_names names = must_children(f, path);
    struct buf b = {0};

    for (size_t i = 0; i < names.count; i++)
        buf_printf(&b, "%s%s", i ? " " : "", names.names[i]);
    buf_text(&b);
    return keep(f, b.p);
}

typedef void print_node_fn(struct fixture *f, const char *path, struct buf *out);

static void walk(struct fixture *f, const char *path, print_node_fn *print, struct buf *out)
{
    struct keeper_names names = must_children(f, path);
    char *child;

    print(f, path, out);
    for (size_t i = 0; i < names.count; i++) {
        if (asprintf(&child, "%s/%s", path, names.names[i]) < 0)
            abort();
        walk(f, keep(f, child), print, out);
    }
}

static const char *walk_text(struct fixture *f, print_node_fn *print)
{
    struct buf out = {0};

    walk(f, f->root, print, &out);
    buf_text(&out);
    return keep(f, out.p);
}

static void print_all(struct fixture *f, const char *path, struct buf *out)
{
    struct keeper_stat stat = must_stat(f->k, path);

    buf_printf(out, "%s = \"%s\" ", path, must_get(f, path).p);
    stat_print(out, &stat);
    buf_printf(out, "\n");
}

static void print_name(struct fixture *f, const char *path, struct buf *out)
{
    if (path[strlen(f->root)] == '/')
        buf_printf(out, "%s%s:%d", out->len ? " " : "", path + strlen(f->root) + 1,
                   must_stat(f->k, path).version);
}

const char *tree_dump(struct fixture *f)
{
    return walk_text(f, print_all);
}

const char *tree_names(struct fixture *f)
{
    return walk_text(f, print_name);
}

struct keeper_result *results_new(struct fixture *f, size_t count)
{
    return keep(f, mem_zalloc((count + 1) * sizeof(struct keeper_result)));
}

int multi(struct fixture *f, const struct keeper_op *ops, size_t count,
          struct keeper_result *results)
{
    int err = keeper_multi(f->k, ops, count, results);

    for (size_t i = 0; i < count; i++) {
        if (results[i].path)
            keep(f, results[i].path);
    }
    return err;
}
