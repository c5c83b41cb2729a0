/* Groups: their tasks by state, and their settings. */
#include "server/audit.h"
#include "task/group_list.h"
#include "task/http_v1.h"
#include "task/settings_change.h"
#include "task/settings_json.h"
#include "task/tally.h"

enum {
    HOLDERS_MAX = 100,
    OLDEST_MAX = 100, /* tasks of a group that are looked at for its oldest one */
};

static void put_counts(struct buf *b, const struct store_group *g)
{
    for (int state = 0; state < TASK_STATES; state++)
        json_member_int(b, task_state_name((enum task_state)state), (int64_t)g->states[state]);
}

/* How old the oldest available task is, and what happened in the last minute. */
static void put_pace(struct buf *b, struct task_tallies *tallies, struct store *s, struct str group,
                     int64_t now_ms)
{
    static const struct {
        const char *name;
        enum tally_kind kind;
    } rates[] = {{"added", TALLY_ADDED},
                 {"claimed", TALLY_CLAIMED},
                 {"finished", TALLY_FINISHED},
                 {"failed", TALLY_FAILED},
                 {"dead", TALLY_DEAD}};
    struct task_tally unnamed = {.name = group}, *tally = tallies_find(tallies, group);
    bool named = str_eq(tally->name, group);
    struct store_depth depth = {0};
    if (s) /* else this server has just stopped leading */
        store_depth(s, named ? tally : &unnamed, now_ms, OLDEST_MAX, &depth);
    json_member_int(b, "oldest", depth.age_ms);
    if (!named)
        return;
    json_member_open(b, "per_minute", '{');
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        json_member_int(b, rates[i].name, tally_per_minute(tally, rates[i].kind, now_ms));
    json_close(b, '}');
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

static void put_groups(void *arg, struct task_tallies *tallies, struct store *s, int64_t now_ms)
{
    struct v1_call *c = arg;
    struct group_list *l = c->data;
    const struct v1_group_in *in = c->in;
    const struct store_group *g = NULL;
    json_open(&c->out, '{');
    json_member_open(&c->out, "groups", '[');
    for (int64_t shown = 0; shown < in->limit && l->count; shown++) {
        g = group_list_next(l);
        json_open(&c->out, '{');
        json_member_text(&c->out, "group", g->name);
        put_counts(&c->out, g);
        put_pace(&c->out, tallies, s, g->name, now_ms);
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
        service_look_at_tallies(c->v1->service, put_groups, c);
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
    put_pace(&c->out, service_tallies(c->v1->service), s, in->group, now_ms);
    put_holders(&c->out, &holders);
    json_close(&c->out, '}');
}

void v1_get_group(struct http_request *r)
{
    v1_read(v1_begin(r), read_group);
}

/* Changing settings. */

static int prepare(void *arg, struct store *s, int64_t now_ms, struct task_update *u)
{
    struct v1_call *c = arg;
    struct settings_change *w = c->data;
    (void)now_ms, (void)u;
    w->arena = c->arena;
    return settings_change_prepare(w, s);
}

static void on_settled(void *arg, struct store *s)
{
    struct v1_call *c = arg;
    settings_change_settle(c->data, s);
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
    if (reply->err == DROVER_NO_NODE && !w->members) {
        http_reply_error(c->r, 404, "there are no settings of this name");
        return;
    }
    json_open(&c->out, '{');
    json_member_text(&c->out, "group", in->group);
    if (w->members) {
        json_key(&c->out, "settings");
        settings_put(&c->out, &w->settings);
    }
    json_close(&c->out, '}');
    v1_finish(c, reply);
}

static void change(struct http_request *r, bool removes)
{
    const struct v1_group_in *in = r->in;
    static const struct json nothing = {.kind = JSON_OBJECT};
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
    w->pattern = in->group;
    w->members = removes ? NULL : in->settings ? in->settings : &nothing;
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
