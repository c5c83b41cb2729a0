/* Listing and importing records of a tree. */
#include "batch/tools.h"
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

/* Returns 0 or an error of the keeper; ret_read is the result of batch_legacy_read(). */
static int read_record(struct batch_call *c, struct str path, const char *name,
                       struct batch_legacy *ret_record, struct str *ret_imported, int *ret_read)
{
    struct str data;
    if (strlen(name) > 300)
        return *ret_read = DROVER_BAD_ARGUMENT, 0;
    TRY(batch_node_get(c, &data, NULL, "%.*s/%s", STR_ARGS(path), name));
    *ret_read = batch_legacy_read(str_of(name), data, ret_record);
    return *ret_read ? 0
                     : batch_optional(
                           batch_node_get(c, ret_imported, NULL, "%s", mark_path(c, path, name)));
}

int batch_legacy_list(struct batch_call *c, struct str path, batch_legacy_fn *fn, void *arg)
{
    struct keeper_names names;
    if (path.len > 500 || path.len < 2 || !path_is_valid(path, false))
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "'path' is not the path of a node");
    int err = batch_node_children(c, &names, NULL, "%.*s", STR_ARGS(path));
    if (err == DROVER_NO_NODE)
        return BATCH_FAIL(c, err, "there is no node %.*s", STR_ARGS(path));
    for (size_t i = 0; !err && i < names.count; i++) {
        struct batch_legacy r = {.name = str_of(names.names[i])};
        struct str imported = {0};
        int read;
        err = read_record(c, path, names.names[i], &r, &imported, &read);
        err = err ? batch_optional(err) /* deleted meanwhile */ : fn(arg, &r, imported, read);
    }
    return err;
}

/* Importing. */

struct batch_importing {
    struct batch_call *c;
    const struct batch_legacy_import *in;
    char bid[BATCH_ID_LEN + 1]; /* "": there is no batch yet */
    void (*fn)(void *arg, const char *jid);
    void *arg;
};

/* Creates the batch for the first record. */
static int need_batch(struct batch_importing *m)
{
    struct batch_call *c = m->c;
    if (m->bid[0])
        return 0;
    const char *submission = arena_printf(
        c->a, "{\"type\":\"legacy\",\"payload_filename\":\"%.*s\"}", STR_ARGS(m->in->path));
    return batch_item_new(c, BATCH_KIND_BATCH, json_parse(c->a, str_of(submission), c->why),
                          m->bid);
}

/* The payload, with the profile also under the name that jobs have for it. */
static const struct json *read_configuration(struct batch_call *c, const struct batch_legacy *r)
{
    struct str text = batch_legacy_configuration(c->a, r), profile;
    const struct json *v = json_parse(c->a, text, c->why);
    struct buf b = {0};
    if (!v || json_get(v, "profile_name") || json_get_text(v, "profile", &profile, NULL) <= 0)
        return v;
    buf_put(&b, text.p, text.len - 1);
    json_member_text(&b, "profile_name", profile);
    json_close(&b, '}');
    return json_parse(c->a, arena_take(c->a, &b), c->why);
}

static int import_one(void *arg, const struct batch_legacy *r, struct str imported, int read)
{
    struct batch_importing *m = arg;
    struct batch_call *c = m->c;
    char jid[1][BATCH_ID_LEN + 1];
    if (read || imported.p || (r->status != 0 && !m->in->all))
        return 0;
    TRY(need_batch(m));
    struct batch_job_spec spec = {.priority = r->priority};
    struct batch_job_extra extra = {.mark = mark_path(c, m->in->path, r->name.p)};
    if (m->in->remove)
        extra.remove = arena_printf(c->a, "%.*s/%s", STR_ARGS(m->in->path), r->name.p);
    spec.configuration = read_configuration(c, r);
    if (!spec.configuration)
        return BATCH_FAIL(c, DROVER_DAMAGED, "the payload of %s cannot be imported", r->name.p);
    int err = batch_job_create(c, str_of(m->bid), &spec, 1, &extra, jid);
    if (!err)
        m->fn(m->arg, jid[0]);
    return err == DROVER_EXISTS ? 0 : err; /* another import did it */
}

int batch_legacy_import(struct batch_call *c, const struct batch_legacy_import *in,
                        void (*fn)(void *arg, const char *jid), void *arg)
{
    struct batch_importing m = {.c = c, .in = in, .fn = fn, .arg = arg};
    struct batch_item batch;
    if (in->batch.p) {
        TRY(batch_item_name(c, BATCH_KIND_BATCH, in->batch, &batch));
        memcpy(m.bid, batch.id, sizeof m.bid);
    }
    return batch_legacy_list(c, in->path, import_one, &m);
}
