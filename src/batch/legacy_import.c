/* Listing and importing records of a tree. */
#include <stdio.h>

#include "batch/batch.h"
#include "batch/job.h"
#include "batch/legacy.h"
#include "keeper/path.h"

/* The mark of an imported record: its path, with "_" for the slashes. */
static const char *mark_path(struct batch_call *c, struct str path, const char *name)
{
    char *text = arena_printf(c->a, "%.*s_%s", (int)path.len - 1, path.p + 1, name);

    for (char *at = text; *at; at++)
        if (*at == '/')
            *at = '_';
    return arena_printf(c->a, "/drover/legacy/%s", text);
}

static int read_names(struct batch_call *c, struct str path, struct keeper_names *ret_names)
{
    if (path.len > 500 || path.len < 2 || !path_is_valid(path, false))
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "'path' is not the path of a node");
    int err = batch_node_children(c, ret_names, NULL, "%.*s", STR_ARGS(path));
    if (err == DROVER_NO_NODE)
        return BATCH_FAIL(c, err, "there is no node %.*s", STR_ARGS(path));
    return err ? batch_fail(c, err) : 0;
}

/* Returns 0 or an error of the keeper; ret_read is the result of batch_legacy_read(). */
static int read_record(struct batch_call *c, struct str path, const char *name,
                       struct batch_legacy *ret_record, struct str *ret_imported, int *ret_read)
{
    struct str data;

    if (strlen(name) > 300)
        return *ret_read = DROVER_BAD_ARGUMENT, 0;
    TRY(batch_node_get(c, &data, NULL, "%.*s/%s", STR_ARGS(path), name));
    *ret_read = batch_legacy_read(str_of(name), data, ret_record);
    if (*ret_read)
        return 0;
    int err = batch_node_get(c, ret_imported, NULL, "%s", mark_path(c, path, name));
    return batch_optional(err);
}

int batch_legacy_list(struct batch_call *c, struct str path, batch_legacy_fn *fn, void *arg)
{
    struct keeper_names names = {0};
    int err = read_names(c, path, &names);

    for (size_t i = 0; i < names.count && !err; i++) {
        struct batch_legacy r = {.name = str_of(names.names[i])};
        struct str imported = {0};
        int read;

        err = read_record(c, path, names.names[i], &r, &imported, &read);
        if (!err)
            fn(arg, &r, imported, read);
        else if (err == DROVER_NO_NODE)
            err = 0; /* deleted meanwhile */
        else
            return batch_fail(c, err);
    }
    return err;
}

static int import_one(struct batch_call *c, const struct batch_legacy_import *in, const char *bid,
                      const struct batch_legacy *r, char *ret_jid)
{
    struct batch_job_spec spec = {.priority = batch_legacy_priority(r)};
    struct batch_job_extra extra = {.mark = mark_path(c, in->path, r->name.p)};

    if (in->remove)
        extra.remove = arena_printf(c->a, "%.*s/%s", STR_ARGS(in->path), r->name.p);
    spec.configuration = json_parse(c->a, batch_legacy_configuration(c->a, r), c->why);
    if (!spec.configuration)
        return BATCH_FAIL(c, DROVER_DAMAGED, "the payload of %s cannot be imported", r->name.p);
    return batch_job_create(c, str_of(bid), &spec, 1, &extra, (char(*)[BATCH_ID_LEN + 1]) ret_jid);
}

/* Creates the batch for the first record. */
static int need_batch(struct batch_call *c, const struct batch_legacy_import *in, char *bid)
{
    if (bid[0])
        return 0;
    const char *submission = arena_printf(
        c->a, "{\"type\":\"legacy\",\"payload_filename\":\"%.*s\"}", STR_ARGS(in->path));
    return batch_create(c, json_parse(c->a, str_of(submission), c->why), bid);
}

int batch_legacy_import(struct batch_call *c, const struct batch_legacy_import *in,
                        void (*fn)(void *arg, const char *jid), void *arg)
{
    char bid[BATCH_ID_LEN + 1] = "", jid[BATCH_ID_LEN + 1];
    struct keeper_names names = {0};
    struct batch_item batch = {.id = ""};
    int err = in->batch.p ? batch_item_name(c, BATCH_KIND_BATCH, in->batch, &batch) : 0;

    memcpy(bid, batch.id, sizeof bid);
    if (!err)
        err = read_names(c, in->path, &names);
    for (size_t i = 0; i < names.count && !err; i++) {
        struct batch_legacy r;
        struct str imported = {0};
        int read;

        err = read_record(c, in->path, names.names[i], &r, &imported, &read);
        if (err)
            return batch_fail(c, err);
        if (read || imported.p || (r.status != 0 && !in->all))
            continue;
        err = need_batch(c, in, bid);
        if (!err)
            err = import_one(c, in, bid, &r, jid);
        if (!err)
            fn(arg, jid);
        else if (err == DROVER_EXISTS)
            err = 0; /* another import did it */
    }
    return err;
}
