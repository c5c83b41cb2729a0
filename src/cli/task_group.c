/*
 * drover groups, group, pause, resume: groups of tasks, their counts and settings.
 *
 * A setting is written NAME=VALUE, with times such as 30s and rates such as 10/s; "group show"
 * prints them so. The server knows which settings there are and what they may be: a row here says
 * only how the value is written. A value of "default" takes a setting back.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/task_share.h"

/* groups */

static bool names_only, wide;

static int print_groups(const struct json *reply)
{
    struct verb_column columns[] = {
        {{"GROUP"}, "group"},
        {{"AVAILABLE", true}, "available", VERB_NUMBER, .colour = TERM_GREEN},
        {{"DELAYED", true}, "delayed", VERB_NUMBER},
        {{"RETRYING", true}, "retrying", VERB_NUMBER},
        {{"CLAIMED", true}, "claimed", VERB_NUMBER, .colour = TERM_YELLOW},
        {{"DEAD", true}, "dead", VERB_FAILURES},
        {{"DONE", true}, "done", VERB_NUMBER, .colour = TERM_DIM},
        {{wide ? "OLDEST" : NULL, true}, "oldest", VERB_SPAN},
        {{"IN/MIN", true}, "per_minute.added", VERB_NUMBER},
        {{"OUT/MIN", true}, "per_minute.finished", VERB_NUMBER},
        {{0}},
    };
    const struct json *groups = json_get(reply, "groups");
    if (!names_only)
        verb_print_columns(groups, columns);
    json_each(group, json_list(names_only ? groups : NULL)) {
        CLEANUP(buf_release) struct buf name = {0};
        term_put_safe(&name, json_text_of(group, "group"), SIZE_MAX);
        puts(buf_text(&name));
    }
    return CMD_OK;
}

const struct cmd cmd_groups = VERB_INIT(
    "groups", "list the groups that have tasks", NULL,
    "Lists the groups that have tasks, with the number of their tasks in each state.",
    CMD_OPTIONS({"names", NULL, "Only the names, one per line.", option_flag, &names_only,
                 .flags = VERB_LOCAL},
                {"wide", NULL,
                 "Also how long the oldest available task has waited, and how many were added and "
                 "finished in a minute.",
                 option_flag, &wide, .flags = VERB_LOCAL},
                {"limit", "N", "At most N; 0: all. Default: 0.", option_number, NULL, 0, INT32_MAX},
                {"after", "GROUP", "Only names behind this one.", option_text},
                {"internal", NULL, "Also groups of messages of queues and of nodes.", option_flag}),
    "GET", "/v1/groups", .list = "groups", .print = print_groups, .page = {"after", 10000, 0});

/* Settings. */

enum group_setting_kind { SETTING_WORD, SETTING_NUMBER, SETTING_TRUTH, SETTING_SPAN, SETTING_RATE };

static const struct group_setting {
    const char *name; /* "backoff.first": a member of an object */
    enum group_setting_kind kind;
} SETTINGS[] = {
    {"order", SETTING_WORD},         {"attempts", SETTING_NUMBER},
    {"backoff.first", SETTING_SPAN}, {"backoff.factor", SETTING_NUMBER},
    {"backoff.max", SETTING_SPAN},   {"backoff.jitter", SETTING_NUMBER},
    {"claims", SETTING_NUMBER},      {"dead", SETTING_WORD},
    {"keep_dead", SETTING_SPAN},     {"expired", SETTING_WORD},
    {"limit", SETTING_NUMBER},       {"limit_per_share", SETTING_NUMBER},
    {"fair", SETTING_TRUTH},         {"rate", SETTING_RATE},
    {"rate.burst", SETTING_NUMBER},  {"paused", SETTING_TRUTH},
    {"keep_done", SETTING_SPAN},     {"remember_keys", SETTING_SPAN},
    {"max_tasks", SETTING_NUMBER},
};

enum { SETTINGS_COUNT = sizeof SETTINGS / sizeof *SETTINGS };

static const char *value_wrong(const struct group_setting *row)
{
    static const char *const wanted[] = {
        [SETTING_WORD] = "UTF-8 text",
        [SETTING_NUMBER] = "a number",
        [SETTING_TRUTH] = "true or false",
        [SETTING_SPAN] = "a time such as 500ms, 30s, 2h or 7d, or 0",
        [SETTING_RATE] = "a rate such as 10/s, 100/m or 5/30s, or none",
    };
    return wanted[row->kind];
}

static bool read_span(const char *text, int64_t *ret_ms)
{
    const struct option o = {.target = ret_ms, .max = INT64_MAX};
    struct err_info e;
    if (strcmp(text, "0") != 0)
        return !option_span(&o, text, &e);
    *ret_ms = 0;
    return true;
}

/* "10/s" or "5/2m30s". */
static bool put_rate(struct buf *b, const char *text)
{
    const char *slash = strchr(text, '/');
    char count[24], span[32];
    int64_t number = 0, per_ms = 0;
    if (strcmp(text, "none") != 0) {
        if (!slash || slash - text >= (int)sizeof count || strlen(slash) >= sizeof span - 1)
            return false;
        snprintf(count, sizeof count, "%.*s", (int)(slash - text), text);
        snprintf(span, sizeof span, "%s%s", slash[1] >= '0' && slash[1] <= '9' ? "" : "1",
                 slash + 1);
        if (!option_digits(count, 1, INT64_MAX, &number) || !read_span(span, &per_ms) || !per_ms)
            return false;
    }
    json_member_int(b, "count", number);
    json_member_int(b, "per", per_ms);
    return true;
}

/* It is sent as it was written: the server judges it. */
static bool put_number(struct buf *b, const char *name, const char *text)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct json *v = json_parse(&a, str_of(text), NULL);
    if (!v || (v->kind != JSON_INT && v->kind != JSON_REAL))
        return false;
    json_member_raw(b, name, v->raw);
    return true;
}

static bool put_truth(struct buf *b, const char *name, const char *text)
{
    bool yes = !strcmp(text, "true") || !strcmp(text, "yes");
    json_member_bool(b, name, yes);
    return yes || !strcmp(text, "false") || !strcmp(text, "no");
}

/* Writes the member, without the object that it is in. False: the value is wrong. */
static bool put_value(struct buf *b, const struct group_setting *row, const char *name,
                      const char *text)
{
    int64_t ms;
    if (!strcmp(text, "default") && row->kind != SETTING_RATE) {
        json_member_raw(b, name, STR("null"));
        return true;
    }
    switch (row->kind) {
    case SETTING_WORD:
        json_member_text(b, name, str_of(text));
        return json_is_text(str_of(text));
    case SETTING_NUMBER:
        return put_number(b, name, text);
    case SETTING_TRUTH:
        return put_truth(b, name, text);
    case SETTING_SPAN:
        if (!read_span(text, &ms))
            return false;
        json_member_int(b, name, ms);
        return true;
    case SETTING_RATE:
        return put_rate(b, strcmp(text, "default") ? text : "none");
    }
    return false;
}

/* The object that a setting is in, "" for none, and its name there. */
static const char *split_name(const struct group_setting *row, char object[static 16])
{
    size_t len = strcspn(row->name, ".");
    bool nested = row->name[len] || row->kind == SETTING_RATE;
    snprintf(object, 16, "%.*s", nested ? (int)len : 0, row->name);
    return row->name[len] ? row->name + len + 1 : row->name;
}

/* The values by row: what was given last. NULL: not given. */
struct given_settings {
    const char *values[SETTINGS_COUNT];
};

static int note_setting(const struct cmd_call *call, struct given_settings *g, const char *text)
{
    const char *names[SETTINGS_COUNT];
    size_t len = strcspn(text, "=");
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)len, text);
    if (!strcmp(name, "backoff"))
        snprintf(name, sizeof name, "backoff.first");
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        names[i] = SETTINGS[i].name;
        if (strcmp(name, names[i]) != 0)
            continue;
        g->values[i] = text[len] ? text + len + 1 : "default";
        if (SETTINGS[i].kind == SETTING_RATE && !g->values[i + 1])
            g->values[i + 1] = "default"; /* the burst that goes with the rate */
        return CMD_OK;
    }
    const char *nearest = cmd_nearest(name, names, SETTINGS_COUNT);
    return cmd_usage_error(call->cmd, "unknown setting '%s'%s%s%s", name,
                           nearest ? ": did you mean '" : "", nearest ? nearest : "",
                           nearest ? "'?" : "");
}

static int put_settings(const struct cmd_call *call, struct buf *b, const struct given_settings *g)
{
    char open[16] = "", object[16];
    json_open(b, '{');
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const struct group_setting *row = &SETTINGS[i];
        if (!g->values[i])
            continue;
        const char *name = split_name(row, object);
        if (*open && strcmp(open, object) != 0)
            json_close(b, '}');
        if (*object && strcmp(open, object) != 0)
            json_member_open(b, object, '{');
        memcpy(open, object, sizeof open);
        if (!put_value(b, row, name, g->values[i]))
            return cmd_usage_error(call->cmd, "%s must be %s, not '%s'", row->name,
                                   value_wrong(row), g->values[i]);
    }
    if (*open)
        json_close(b, '}');
    json_close(b, '}');
    return CMD_OK;
}

/* group set, unset, pause, resume */

static int send_settings(struct client *c, const struct cmd_call *call, const char *group,
                         const struct given_settings *g, struct client_reply *ret_reply)
{
    CLEANUP(buf_release) struct buf body = {0};
    TRY(put_settings(call, &body, g));
    return client_call(c, ret_reply, buf_text(&body), "PUT /v1/groups/%s",
                       client_quote(c, str_of(group)));
}

static int run_set(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    struct given_settings g = {0};
    struct client_reply reply;
    for (int i = 1; i < call->count; i++) {
        if (!strchr(call->operands[i], '='))
            return cmd_usage_error(call->cmd, "'%s' is not NAME=VALUE", call->operands[i]);
        TRY(note_setting(call, &g, call->operands[i]));
    }
    TRY(client_open(&c, &call->client));
    TRY(send_settings(&c, call, call->operands[0], &g, &reply));
    return verb_print(call, &reply, NULL);
}

static int run_unset(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    struct given_settings g = {0};
    struct client_reply reply;
    for (int i = 1; i < call->count; i++) {
        if (strchr(call->operands[i], '='))
            return cmd_usage_error(call->cmd, "'%s' is not the name of a setting",
                                   call->operands[i]);
        TRY(note_setting(call, &g, call->operands[i]));
    }
    TRY(client_open(&c, &call->client));
    if (call->count > 1)
        TRY(send_settings(&c, call, call->operands[0], &g, &reply));
    else
        TRY(client_call(&c, &reply, NULL, "DELETE /v1/groups/%s",
                        client_quote(&c, str_of(call->operands[0]))));
    return verb_print(call, &reply, NULL);
}

static int set_paused(const struct cmd_call *call, const char *paused)
{
    CLEANUP(client_close) struct client c = {0};
    struct given_settings g = {0};
    TRY(note_setting(call, &g, paused));
    TRY(client_open(&c, &call->client));
    for (int i = 0; i < call->count; i++) {
        struct client_reply reply;
        TRY(send_settings(&c, call, call->operands[i], &g, &reply));
        TRY(verb_print(call, &reply, NULL));
    }
    return CMD_OK;
}

static int run_pause(const struct cmd_call *call)
{
    return set_paused(call, "paused=true");
}

static int run_resume(const struct cmd_call *call)
{
    return set_paused(call, "paused=false");
}

/* group show */

/* Exactly, as option_span() reads it. */
static void put_span(struct buf *b, int64_t ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"d", 86400 * 1000}, {"h", 3600 * 1000}, {"m", 60 * 1000}, {"s", 1000}, {"ms", 1}};
    if (!ms)
        buf_put_str(b, STR("0"));
    for (size_t i = 0; i < sizeof units / sizeof *units; ms %= units[i++].ms)
        if (ms >= units[i].ms)
            buf_printf(b, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
}

/* "1m", which is "m" in a rate; not "1m30s". */
static bool is_unit(const char *span)
{
    return span[0] == '1' && !strpbrk(span + 1, "0123456789");
}

static void put_shown_rate(struct buf *b, const struct json *rate)
{
    CLEANUP(buf_release) struct buf span = {0};
    int64_t count = json_int_of(rate, "count");
    put_span(&span, json_int_of(rate, "per"));
    const char *text = buf_text(&span);
    if (count)
        buf_printf(b, "%" PRId64 "/%s", count, text + is_unit(text));
    else
        buf_put_str(b, STR("none"));
}

static void print_setting(const struct json *settings, const struct group_setting *row)
{
    CLEANUP(buf_release) struct buf b = {0};
    char object[16];
    const char *name = split_name(row, object);
    const struct json *in = *object ? json_get(settings, object) : settings,
                      *v = json_get(in, name);
    buf_printf(&b, "%s=", row->name);
    if (row->kind == SETTING_RATE)
        put_shown_rate(&b, in);
    else if (row->kind == SETTING_SPAN && v)
        put_span(&b, v->number);
    else if (v && v->kind == JSON_TEXT)
        term_put_safe(&b, v->text, SIZE_MAX);
    else if (v)
        escape_put(&b, v->raw, ESCAPE_JSON);
    puts(buf_text(&b));
}

static int print_group(const struct json *reply)
{
    static const struct verb_column counts[] = {
        {{"AVAILABLE", true}, "counts.available", VERB_NUMBER, .colour = TERM_GREEN},
        {{"DELAYED", true}, "counts.delayed", VERB_NUMBER},
        {{"RETRYING", true}, "counts.retrying", VERB_NUMBER},
        {{"CLAIMED", true}, "counts.claimed", VERB_NUMBER, .colour = TERM_YELLOW},
        {{"DEAD", true}, "counts.dead", VERB_FAILURES},
        {{"DONE", true}, "counts.done", VERB_NUMBER, .colour = TERM_DIM},
        {{0}},
    };
    static const struct verb_column claims[] = {
        {{"CLAIMED", true}, "id", VERB_NUMBER},
        {{"FIRST", true}, "first", VERB_NUMBER, .colour = TERM_DIM},
        {{"UNTIL"}, "until", VERB_TIME, .colour = TERM_DIM},
        {{"OWNER", true}, "ownerid", VERB_NUMBER, .colour = TERM_DIM},
        {{0}},
    };
    CLEANUP(buf_release) struct buf from = {0};
    const struct json *claimed = json_get(reply, "claimed");
    const struct json one = {.kind = JSON_LIST, .first = (struct json *)reply};
    struct str pattern = json_text_of(reply, "pattern");
    verb_print_columns(&one, counts);
    term_put_safe(&from, pattern, SIZE_MAX);
    printf("\nsettings%s%s:\n", pattern.len ? " of " : ", all by default",
           pattern.len ? buf_text(&from) : "");
    for (size_t i = 0; i < SETTINGS_COUNT; i++)
        print_setting(json_get(reply, "settings"), &SETTINGS[i]);
    if (wide && claimed && claimed->count) {
        putchar('\n');
        verb_print_columns(claimed, claims);
    }
    return CMD_OK;
}

static const struct cmd *const COMMANDS[] = {
    VERB_CMD(
        "group show", "show a group", "GROUP",
        "Shows how many tasks of a group are in each state, and its settings, as 'drover group\n"
        "set' takes them. GROUP may end in '*': settings of all groups that begin so.",
        CMD_OPTIONS({"wide", NULL, "Also who has the tasks that are claimed.", option_flag, &wide,
                     .flags = VERB_LOCAL}),
        "GET", "/v1/groups/{1}", .print = print_group),
    CMD("group set", "change settings of a group", "GROUP NAME=VALUE...",
        "Changes settings of a group, or with 'GROUP*' of all groups that begin so and have none\n"
        "of their own; others stay as they are. Times are written 30s or 7d, rates 10/s or 100/m.\n"
        "\n"
        "order=random|fifo, fair=true|false, paused=true|false, expired=remove|dead,\n"
        "attempts=N, claims=N, limit=N, limit_per_share=N, max_tasks=N, rate=N/TIME|none,\n"
        "rate.burst=N, backoff=TIME, backoff.factor=N, backoff.max=TIME, backoff.jitter=N,\n"
        "keep_done=TIME, keep_dead=TIME, remember_keys=TIME, dead=GROUP. 0 is no limit.\n"
        "drover-task(1) explains them.",
        NULL, CMD_JSON, run_set),
    CMD("group unset", "take settings of a group back", "GROUP [NAME...]",
        "Gives settings of a group their defaults again. Without NAME the group has none of its\n"
        "own any more: those of a prefix, if there are any, apply to it. Its tasks stay.",
        NULL, CMD_JSON, run_unset),
    NULL,
};

const struct cmd cmd_group = CMD_GROUP(
    "group", "the settings of groups",
    "Settings of groups of tasks: how tasks are given out, tried again and kept.", COMMANDS);

const struct cmd cmd_pause = CMD_INIT(
    "pause", "give out no tasks of groups", "GROUP...",
    "Pauses groups: no task of theirs can be claimed until 'drover resume'. What is claimed\n"
    "goes on.",
    NULL, CMD_JSON, run_pause);

const struct cmd cmd_resume = CMD_INIT("resume", "give out tasks of groups again", "GROUP...",
                                       "Ends the pause of groups.", NULL, CMD_JSON, run_resume);
