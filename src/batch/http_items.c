/* Batches, jobs and access items over HTTP. */
#include "batch/server.h"
#include "server/sessions.h"

/* A list ends behind the item that makes it this long. */
enum { LIST_LEN_MAX = 1024 * 1024 };

/* Data of a node that is not JSON is written as a string. */
static void put_node(struct buf *b, struct batch_call *c, const char *name, struct str data)
{
    const struct json *v = data.p ? json_parse(c->a, data, NULL) : NULL;
    json_key(b, name);
    if (v)
        json_put(b, v);
    else if (data.p)
        json_put_text(b, data);
    else
        json_put_null(b);
}

static void put_item_json(struct buf *b, struct batch_call *c, const struct batch_item *i)
{
    enum batch_kind_id kind = i->kind->id;

    json_open(b, '{');
    json_member_text(b, "id", str_of(i->id));
    json_member_text(b, "state", batch_status_name(i->kind->machine, &i->status));
    json_key(b, "status");
    json_put(b, i->status.json);
    if (kind == BATCH_KIND_JOB) {
        json_member_text(b, "batch", str_of(i->bid));
        json_member_int(b, "priority", i->priority);
    } else if (kind != BATCH_KIND_BATCH) {
        json_member_text(b, "queue", kind == BATCH_KIND_SMALL ? STR("small") : STR("large"));
    }
    json_member_bool(b, "locked", i->token != 0);
    for (int n = 0; i->kind->nodes[n]; n++)
        put_node(b, c, i->kind->nodes[n], i->nodes[n]);
    if (kind == BATCH_KIND_BATCH) {
        json_member_open(b, "states", '{');
        for (int l = 0; l < BATCH_LIST_COUNT; l++)
            json_member_int(b, BATCH_LISTS[l], i->counts[l]);
        json_close(b, '}');
    }
    json_close(b, '}');
}

/* {"KEY": item}, and the token if it is not 0. */
static int put_item(struct batch_request *d, struct str id, int64_t token)
{
    struct batch_item item;
    TRY(batch_item_get(&d->call, d->kind, id, &item));
    json_open(&d->out, '{');
    json_key(&d->out, item.kind->key);
    put_item_json(&d->out, &d->call, &item);
    if (token)
        json_member_int(&d->out, "token", token);
    json_close(&d->out, '}');
    return 0;
}

/* {"KEY": "ID"} */
static int put_id(struct batch_request *d, enum batch_kind_id kind, const char *id)
{
    buf_printf(&d->out, "{\"%s\":\"%s\"}", d->call.store->kinds[kind].key, id);
    return 0;
}

/* With one more item than f asks for, there is a next page, and the list says where it begins. */
static int put_list(struct batch_request *d, const struct batch_filter *f,
                    const struct batch_item *items, size_t count)
{
    size_t shown = 0;
    batch_request_open_list(d, d->call.store->kinds[d->kind].plural);
    for (size_t len = 0; shown < count && shown < f->limit && len < f->len; shown++) {
        put_item_json(&d->out, &d->call, &items[shown]);
        len += batch_item_len(&items[shown]);
    }
    json_close(&d->out, ']');
    if (shown < count && d->kind == BATCH_KIND_JOB)
        json_member_int(&d->out, "next", (int64_t)(f->start + shown));
    else if (shown < count)
        json_member_text(&d->out, "next", str_of(items[shown - 1].id));
    json_close(&d->out, '}');
    return 0;
}

BATCH_HANDLER(list_items)
{
    const struct batch_in *in = d->in;
    struct batch_filter f = {.state = BATCH_NO_STATE,
                             .bid = in->batch,
                             .profile = in->profile,
                             .start = (size_t)in->start,
                             .limit = d->kind >= BATCH_KIND_SMALL && !in->limit ? SIZE_MAX - 1
                                      : !in->limit || in->limit > BATCH_LIST_MAX
                                          ? BATCH_LIST_MAX
                                          : (size_t)in->limit,
                             .len = LIST_LEN_MAX},
                        one_more;
    struct batch_item one, *items;
    char bid[BATCH_ID_LEN + 1];
    size_t count;

    if (in->uuid.p) { /* a list of one */
        TRY(batch_find(&d->call, in->uuid, bid));
        TRY(batch_item_get(&d->call, BATCH_KIND_BATCH, str_of(bid), &one));
        return put_list(d, &f, &one, 1);
    }
    if (in->state.p)
        TRY(batch_filter_state(&d->call, d->kind, in->state, &f));
    if (in->after.p) {
        f.from = batch_id_number(d->call.store->kinds[d->kind].prefix, in->after) + 1;
        if (!f.from)
            return err_set(&d->why, DROVER_BAD_ARGUMENT, "'after' is no id of this list");
    }
    one_more = f;
    one_more.limit++;
    TRY(batch_item_list(&d->call, d->kind, &one_more, &items, &count));
    return put_list(d, &f, items, count);
}

BATCH_HANDLER(get_item)
{
    return put_item(d, d->in->id, 0);
}

BATCH_HANDLER(delete_item)
{
    return batch_item_delete(&d->call, d->kind, d->in->id);
}

static void put_count(struct buf *b, struct str state, int64_t count)
{
    json_key_str(b, state);
    json_put_int(b, count);
}

BATCH_HANDLER(count_items)
{
    const struct batch_machine *m = d->call.store->kinds[d->kind].machine;
    struct batch_counts counts;
    TRY(batch_item_count(&d->call, d->kind, &counts));
    json_open(&d->out, '{');
    json_member_open(&d->out, "counts", '{');
    for (int i = 0; i < m->count; i++)
        put_count(&d->out, str_of(m->states[i].name), counts.known[i]);
    for (const struct batch_unknown_count *u = counts.unknown; u; u = u->next)
        put_count(&d->out, u->name, u->count);
    json_close(&d->out, '}');
    json_member_int(&d->out, "total", counts.total);
    json_close(&d->out, '}');
    return 0;
}

/* The last part of the path: a field or a verb. */
static struct str last_part(const struct http_request *r)
{
    struct str path = r->head.path;
    size_t at = path.len;
    while (path.p[at - 1] != '/')
        at--;
    return (struct str){path.p + at, path.len - at};
}

/* PUT .../state, and for batches POST .../hold and .../release. */
BATCH_HANDLER(move_item)
{
    const struct batch_in *in = d->in;
    const struct batch_kind *kind = &d->call.store->kinds[d->kind];
    struct batch_move m = {.state = in->state,
                           .message = in->message,
                           .token = in->token,
                           .keep = in->keep,
                           .priority = in->priority};
    int to;
    if (str_eq(last_part(d->r), STR("hold"))) {
        m.state = STR("Held");
    } else if (str_eq(last_part(d->r), STR("release"))) {
        m.state = STR("Pending");
        m.from = STR("Held");
    }
    TRY(batch_item_move(&d->call, d->kind, in->id, &m, &to));
    json_open(&d->out, '{');
    json_member_text(&d->out, kind->key, in->id);
    json_member_text(&d->out, "state", str_of(kind->machine->states[to].name));
    json_close(&d->out, '}');
    return 0;
}

/* Acquiring. */

/* The state to acquire from. Batches are acquired for pending unless the request says otherwise. */
static int acquired_state(struct batch_request *d)
{
    const struct batch_machine *m = d->call.store->kinds[d->kind].machine;
    struct str name = d->in->state;
    if (d->kind == BATCH_KIND_JOB)
        return batch_machine_named(m, name, &d->why);
    if (str_eq(name, STR("update-reporting")))
        name = STR("UpdateReporting");
    int state = name.p ? batch_machine_find(m, name) : d->call.store->batch.pending;
    return state >= 0 ? state
                      : err_set(&d->why, DROVER_BAD_ARGUMENT,
                                "a batch is acquired for pending, reporting or updatereporting");
}

/* The lists that an acquire looks in, and their keys. */
static size_t find_lists(const struct batch_request *d, int state, struct batch_view **ret_lists,
                         uint64_t *ret_keys)
{
    struct batch_kind *kind = &d->call.store->kinds[d->kind];
    size_t count = 0;
    for (int i = 0; i < kind->machine->count; i++)
        if (state == BATCH_NO_STATE ? batch_item_is_acquired(kind, i) : state == i) {
            ret_lists[count] = &kind->views[i];
            ret_keys[count++] = batch_list_key(&kind->views[i]);
        }
    return count;
}

void acquire_item(struct http_request *r)
{
    struct batch_server *h = r->arg;
    const struct batch_in *in = r->in;
    struct batch_view *lists[BATCH_STATES_MAX];
    uint64_t keys[BATCH_STATES_MAX];
    struct batch_item item;
    struct batch_request d;
    int state = BATCH_NO_STATE;

    if (!batch_request_open(&d, r))
        return;
    if (d.kind < BATCH_KIND_SMALL && (state = acquired_state(&d)) < 0) {
        batch_request_close(&d, state);
        return;
    }
    size_t count = find_lists(&d, state, lists, keys);
    struct http_watch watch = session_watch(h->context, r, in->session, keys, count);
    int got = batch_item_acquire(&d.call, d.kind, state, &item);
    for (size_t i = 0; i < count; i++) /* if this one waits, or others do */
        if ((!got && in->wait_ms > 0) || http_topic_parked(&h->context->topic, keys[i]))
            batch_watcher_want(h->watcher, lists[i]);
    if (got) {
        batch_request_close(&d, got < 0 ? got : put_item(&d, str_of(item.id), item.token));
        return;
    }
    batch_request_leave(&d);
    if (!session_park(h->context, r, in->session, &watch,
                      in->wait_ms < BATCH_WAIT_MAX_MS ? in->wait_ms : BATCH_WAIT_MAX_MS)) {
        buf_printf(&d.out, "{\"%s\":null}", h->store->kinds[d.kind].key);
        http_reply(r, 200, buf_str(&d.out));
        buf_release(&d.out);
    }
}

/* Creating. */

/* A batch or an access item. */
BATCH_HANDLER(post_item)
{
    const struct json *data = d->in->submission;
    char id[BATCH_ID_LEN + 1];
    if (!data)
        data = json_get(d->in->body, "token");
    if (!data || data->kind != JSON_OBJECT)
        data = d->in->body; /* the fields of the specification, of which "token" is one */
    TRY(batch_item_new(&d->call, d->kind, data, id));
    return put_id(d, d->kind, id);
}

BATCH_HANDLER(post_batch_jobs)
{
    const struct json *body = d->in->body,
                      *list = body->kind == JSON_LIST ? body : json_get(body, "jobs");
    size_t count = list ? list->count : 1, n = 0;
    struct batch_job_spec *specs = arena_alloc(d->call.a, (count + 1) * sizeof *specs);
    char(*jids)[BATCH_ID_LEN + 1] = arena_alloc(d->call.a, (count + 1) * sizeof *jids);

    if (list && (list->kind != JSON_LIST || list->count == 0))
        return err_set(&d->why, DROVER_BAD_ARGUMENT, "'jobs' must be a list that is not empty");
    for (const struct json *v = list ? list->first : body; n < count; v = v->next)
        TRY(batch_job_read_spec(&d->call, v, &specs[n++]));
    TRY(batch_job_create(&d->call, d->in->id, specs, count, NULL, jids));
    if (!list)
        return put_id(d, BATCH_KIND_JOB, jids[0]);
    batch_request_open_list(d, "jobs");
    for (size_t i = 0; i < count; i++)
        json_put_text(&d->out, str_of(jids[i]));
    return batch_request_close_list(d);
}

/* Jobs. */

/*
 * The value of a field: the member with that name, or "value", or the body itself. The token and
 * the session of a lock are no part of it.
 */
static int field_value(struct batch_request *d, const char *name, const char *field,
                       const struct json **ret_value)
{
    const struct batch_in *in = d->in;
    const char *names[] = {name, field, "value"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct json *v = json_get(in->body, names[i]);
        if (v) {
            *ret_value = v;
            return 0;
        }
    }
    if (in->token || in->session.p)
        return err_set(&d->why, DROVER_BAD_ARGUMENT,
                       "'value' is missing; it goes with a token or a session");
    *ret_value = in->body;
    return 0;
}

static int set_field(struct batch_request *d)
{
    const struct batch_in *in = d->in;
    const char *name = arena_text(d->call.a, last_part(d->r)),
               *field = strcmp(name, "space") == 0 ? "space_needed" : name;
    const struct json *v;
    TRY(field_value(d, name, field, &v));
    bool priority = strcmp(field, "priority") == 0,
         number = priority || strcmp(field, "space_needed") == 0;
    if (v->kind != (number ? JSON_INT : JSON_OBJECT))
        return err_set(&d->why, DROVER_BAD_ARGUMENT, "'%s' must be %s", field,
                       number ? "a whole number" : "an object");
    if (priority)
        return batch_job_set_priority(&d->call, in->id, v->number, in->token);
    if (number && v->number < 0)
        return err_set(&d->why, DROVER_BAD_ARGUMENT, "'%s' is negative", field);
    if (strcmp(field, "store") == 0 && !d->call.store->kinds[d->kind].nodes[BATCH_NODE_STORE])
        return err_set(&d->why, DROVER_BAD_ARGUMENT,
                       "jobs of this pipeline have no 'store'; it belongs to the state Storing");
    struct str text = strcmp(field, "identifiers") == 0 ? batch_identifiers_text(&d->call, v)
                                                        : batch_json_text(&d->call, v, NO_BYTES);
    return batch_job_set_field(&d->call, in->id, field, text, in->token);
}

/* The fields may also be in a member "token"; that with the number of a lock has none. */
static int set_token(struct batch_request *d)
{
    const struct batch_in *in = d->in;
    const struct json *v = json_get(in->body, "token");
    if (!v || v->kind != JSON_OBJECT)
        TRY(field_value(d, "value", "value", &v));
    if (v->kind != JSON_OBJECT)
        return err_set(&d->why, DROVER_BAD_ARGUMENT, "'value' must be an object");
    return batch_access_set(&d->call, d->kind, in->id, v, in->token);
}

/*
 * Of a job or an access item. The body may be the value itself, so its token and session are read
 * here; a token that is not a number is that of an access item.
 */
void put_field(struct http_request *r)
{
    struct batch_in *in = r->in;
    const char *member = "token";
    struct batch_request d;
    struct err_info why;
    int err = 0;
    const struct json *token = json_get(in->body, member);
    bool access = str_eq(last_part(r), STR("token"));
    if (token && (!access || token->kind == JSON_INT))
        err = json_get_int(in->body, member, &in->token, &why);
    if (err >= 0)
        err = json_get_text(in->body, member = "session", &in->session, &why);
    if (err < 0)
        http_reply_field(r, member, "%s", why.text);
    if (err < 0 || !batch_request_open(&d, r))
        return;
    err = access ? set_token(&d) : set_field(&d);
    batch_request_close(&d, err ? err : put_item(&d, in->id, 0));
}

BATCH_HANDLER(post_job_verb)
{
    struct str verb = last_part(d->r), id = d->in->id;
    int err = str_eq(verb, STR("hold")) ? batch_job_hold(&d->call, id, d->in->message)
              : str_eq(verb, STR("release"))
                  ? batch_job_release(&d->call, id)
                  : batch_job_requeue(&d->call, id, d->in->state, d->in->message);
    return err ? err : put_item(d, id, 0);
}

BATCH_HANDLER(release_jobs)
{
    int64_t count;
    TRY(batch_job_release_profile(&d->call, d->in->profile, &count));
    buf_printf(&d->out, "{\"released\":%lld}", (long long)count);
    return 0;
}
