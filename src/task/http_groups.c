/* Groups: their tasks by state, and their settings. */
#include "server/audit.h"
#include "task/group_list.h"
#include "task/http_v1.h"
#include "task/settings_json.h"

enum { HOLDERS_MAX = 100 };

static void put_counts(struct buf *b, const struct store_group *g)
{
    for (int state = 0; state < TASK_STATES; state++)
        json_member_int(b, task_state_name((enum task_state)state), (int64_t)g->states[state]);
}

static void look(void *arg, struct store *s, int64_t now_ms)
{
    struct v1_call *c = arg;
    group_list_look(c->data, s, now_ms);
}

static void look_again(struct http_request *r)
{
    v1_read(r->handler_data, look);
}

static void put_groups(struct v1_call *c, struct group_list *l)
{
    const struct v1_group_in *in = c->in;
    const struct store_group *g = NULL;
    json_open(&c->out, '{');
    json_member_open(&c->out, "groups", '[');
    for (int64_t shown = 0; shown < in->limit && l->count; shown++) {
        g = group_list_next(l);
        json_open(&c->out, '{');
        json_member_text(&c->out, "group", g->name);
        put_counts(&c->out, g);
        json_close(&c->out, '}');
    }
    json_close(&c->out, ']');
    json_key(&c->out, "next");
    if (l->count)
        json_put_text(&c->out, g->name);
    else
        json_put_null(&c->out);
    json_close(&c->out, '}');
}

static void finish_look(struct v1_call *c, const struct task_reply *reply)
{
    struct group_list *l = c->data;
    if (!reply->err && !http_take_room(c->r, l->fresh_len)) {
        http_reply_short(c->r);
        return;
    }
    if (!reply->err && group_list_keep(l)) {
        http_later(c->r, look_again);
        return;
    }
    if (!reply->err)
        put_groups(c, l);
    v1_finish(c, reply);
}

void v1_list_groups(struct http_request *r)
{
    const struct v1_group_in *in = r->in;
    struct v1_call *c = v1_begin(r);
    struct group_list *l = arena_zalloc(&r->arena, sizeof *l);
    *l = (struct group_list){.arena = &r->arena,
                             .who = r->who,
                             .after = in->after,
                             .limit = (size_t)in->limit + 1,
                             .internal = in->internal};
    c->data = l;
    c->finish = finish_look;
    v1_read(c, look);
}

static void put_holders(struct buf *b, const struct store_list *list)
{
    json_member_open(b, "claimed", '[');
    for (size_t i = 0; i < list->count; i++) {
        json_open(b, '{');
        json_member_int(b, "id", list->tasks[i].id);
        json_member_int(b, "first", list->tasks[i].first);
        json_member_int(b, "ownerid", list->tasks[i].ownerid);
        json_member_int(b, "until", list->tasks[i].timespec);
        json_close(b, '}');
    }
    json_close(b, ']');
}

static void read_group(void *arg, struct store *s, int64_t now_ms)
{
    struct v1_call *c = arg;
    const struct v1_group_in *in = c->in;
    const struct settings_table *table = store_settings(s);
    const struct settings_entry *entry = settings_table_find(table, in->group);
    const struct task_settings *settings =
        entry ? &entry->settings : settings_table_of(table, in->group);
    struct store_group counts = {0};
    struct store_list holders;
    store_count_group(s, in->group, now_ms, c->arena, &counts);
    store_holders(s, in->group, HOLDERS_MAX, now_ms, c->arena, &holders);
    c->out.len = 0;
    json_open(&c->out, '{');
    json_member_text(&c->out, "group", in->group);
    json_key(&c->out, "pattern");
    if (settings == &TASK_SETTINGS_DEFAULT)
        json_put_null(&c->out);
    else
        json_put_text(&c->out, settings_pattern(settings));
    json_key(&c->out, "settings");
    settings_put(&c->out, settings);
    json_member_open(&c->out, "counts", '{');
    put_counts(&c->out, &counts);
    json_close(&c->out, '}');
    put_holders(&c->out, &holders);
    json_close(&c->out, '}');
}

void v1_get_group(struct http_request *r)
{
    v1_read(v1_begin(r), read_group);
}

/*
 * Changing settings: the node and the store in one step. The new settings are made from the present
 * ones under the service's lock, and are in effect when the node is certain.
 */
struct settings_change {
    struct task_settings settings;
    bool removes;
    struct keeper_op op;
    const char *wrong_field;
    struct err_info wrong;
};

static int make_op(struct v1_call *c, struct settings_change *w, bool exists)
{
    const struct v1_group_in *in = c->in;
    CLEANUP(buf_release) struct buf data = {0};
    char path[SETTINGS_PATH_SIZE];
    settings_path(in->group, path);
    if (w->removes && !exists)
        return DROVER_NO_NODE;
    settings_put_node(&data, in->group, &w->settings);
    w->op = (struct keeper_op){
        .kind = w->removes ? KEEPER_DELETE
                : exists   ? KEEPER_SET
                           : KEEPER_CREATE,
        .version = KEEPER_ANY_VERSION,
        .path = {arena_text(c->arena, str_of(path)), strlen(path)},
        .data = w->removes ? (struct str){0}
                           : (struct str){arena_text(c->arena, buf_str(&data)), data.len}};
    return 0;
}

static int prepare(void *arg, struct store *s, int64_t now_ms, struct task_update *u)
{
    struct v1_call *c = arg;
    struct settings_change *w = c->data;
    const struct v1_group_in *in = c->in;
    const struct settings_table *table = store_settings(s);
    const struct settings_entry *entry = settings_table_find(table, in->group);
    (void)now_ms;
    (void)u;
    w->settings = entry ? entry->settings : *settings_table_of(table, in->group);
    if (in->settings)
        TRY(settings_read(in->settings, &w->settings, &w->wrong_field, &w->wrong));
    w->settings.dead.p = arena_text(c->arena, w->settings.dead); /* it outlives the old entry */
    if (w->settings.dead.len && settings_match(in->group, w->settings.dead)) {
        w->wrong_field = "dead";
        return err_set(&w->wrong, DROVER_BAD_ARGUMENT,
                       "dead: the dead tasks of a group cannot go to itself");
    }
    return make_op(c, w, entry != NULL);
}

static void on_settled(void *arg, struct store *s)
{
    struct v1_call *c = arg;
    struct settings_change *w = c->data;
    const struct v1_group_in *in = c->in;
    store_set_settings(s, in->group, w->removes ? NULL : &w->settings);
    service_look_again(c->v1->service);
}

static void finish_change(struct v1_call *c, const struct task_reply *reply)
{
    const struct settings_change *w = c->data;
    const struct v1_group_in *in = c->in;
    if (reply->err == DROVER_BAD_ARGUMENT && w->wrong.text[0]) {
        struct str text = str_of(w->wrong.text); /* an unknown member is its first word */
        const char *field =
            w->wrong_field ? w->wrong_field : arena_text(c->arena, str_cut(&text, ' '));
        http_reply_field(c->r, field, "%s", w->wrong.text);
        return;
    }
    if (reply->err == DROVER_NO_NODE && w->removes) {
        http_reply_error(c->r, 404, "there are no settings of this name");
        return;
    }
    json_open(&c->out, '{');
    json_member_text(&c->out, "group", in->group);
    if (!w->removes) {
        json_key(&c->out, "settings");
        settings_put(&c->out, &w->settings);
    }
    json_close(&c->out, '}');
    v1_finish(c, reply);
}

static void change(struct http_request *r, bool removes)
{
    const struct v1_group_in *in = r->in;
    struct task_v1 *v = r->arg;
    const char *wrong = settings_pattern_wrong(in->group);
    if (wrong) {
        http_reply_field(r, "group", "group: %s", wrong);
        return;
    }
    if (!audit_begin(v->context->audit, r, NULL))
        return;
    struct v1_call *c = v1_begin(r);
    struct settings_change *w = arena_zalloc(&r->arena, sizeof *w);
    w->removes = removes;
    c->data = w;
    c->finish = finish_change;
    c->request = (struct task_request){.kind = TASK_UPDATE,
                                       .prepare = prepare,
                                       .settled = on_settled,
                                       .extra = &w->op,
                                       .extra_count = 1};
    v1_submit(c);
}

void v1_put_group(struct http_request *r)
{
    change(r, false);
}

void v1_delete_group(struct http_request *r)
{
    change(r, true);
}
