/* How answers look to people. */
#include "cli/batch_verb.h"
#include "cli/table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void put_line(struct str text)
{
    struct buf b = {0};

    term_put_safe(&b, text, SIZE_MAX);
    puts(buf_text(&b));
    buf_release(&b);
}

int print_word(struct client *c, const struct json *reply)
{
    const struct json *v = reply->first;

    (void)c;
    if (v && v->kind == JSON_LIST) {
        json_each(item, v)
            if (item->kind == JSON_TEXT)
                put_line(item->text);
    } else if (v && v->kind == JSON_TEXT) {
        put_line(v->text);
    } else if (v && v->kind == JSON_INT) {
        printf("%lld\n", (long long)v->number);
    }
    return CMD_OK;
}

int print_state(struct client *c, const struct json *reply)
{
    (void)c;
    put_line(json_text_of(reply, "state"));
    return CMD_OK;
}

int print_members(struct client *c, const struct json *reply)
{
    const struct json *v = reply->first;
    struct buf b = {0};

    (void)c;
    if (!v || v->kind != JSON_OBJECT)
        return CMD_OK;
    json_each(member, v) {
        b.len = 0;
        buf_printf(&b, "%.*s: ", (int)member->key.len, member->key.p);
        if (member->kind == JSON_TEXT)
            term_put_safe(&b, member->text, SIZE_MAX);
        else
            json_put(&b, member);
        puts(buf_text(&b));
    }
    buf_release(&b);
    return CMD_OK;
}

static enum term_colour colour_of(struct str state)
{
    if (str_eq(state, STR("Failed")))
        return TERM_RED;
    if (str_eq(state, STR("Completed")))
        return TERM_GREEN;
    if (str_eq(state, STR("Held")))
        return TERM_YELLOW;
    return TERM_PLAIN;
}

static void put_state(struct table *t, const struct json *v)
{
    struct str state = json_text_of(v, "state");

    table_text(t, colour_of(state), state);
}

static bool is_locked(const struct json *v)
{
    const struct json *locked = json_get(v, "locked");

    return locked && locked->kind == JSON_BOOL && locked->truth;
}

int print_batches(struct client *c, const struct json *reply)
{
    static const struct table_column columns[] = {
        {"BATCH"},         {"STATE"}, {"PROCESSING", true}, {"FAILED", true}, {"COMPLETED", true},
        {"DELETED", true}, {"LOCK"},  {"PROFILE"},
    };
    static const char *const lists[] = {"batch-processing", "batch-failed", "batch-completed",
                                        "batch-deleted"};
    struct table t;

    (void)c;
    table_init(&t, columns, COUNT(columns));
    if (json_get(reply, "batches"))
        json_each(v, json_get(reply, "batches")) {
            table_text(&t, TERM_PLAIN, json_text_of(v, "id"));
            put_state(&t, v);
            for (int i = 0; i < 4; i++)
                table_cell(&t, TERM_PLAIN, "%lld",
                           (long long)json_int_of(json_get(v, "states"), lists[i]));
            table_text(&t, TERM_DIM, is_locked(v) ? STR("locked") : STR(""));
            table_text(&t, TERM_PLAIN, json_text_of(json_get(v, "submission"), "profile_name"));
        }
    table_print(&t, stdout);
    table_release(&t);
    return CMD_OK;
}

int print_jobs(struct client *c, const struct json *reply)
{
    static const struct table_column columns[] = {
        {"JOB"},           {"STATE"}, {"PRIORITY", true}, {"BATCH"},
        {"RETRIES", true}, {"LOCK"},  {"PROFILE"},        {"MESSAGE"}};
    struct table t;

    (void)c;
    table_init(&t, columns, COUNT(columns));
    if (json_get(reply, "jobs"))
        json_each(v, json_get(reply, "jobs")) {
            table_text(&t, TERM_PLAIN, json_text_of(v, "id"));
            put_state(&t, v);
            table_cell(&t, TERM_PLAIN, "%02d", (int)json_int_of(v, "priority"));
            table_text(&t, TERM_PLAIN, json_text_of(v, "batch"));
            table_cell(&t, TERM_PLAIN, "%lld",
                       (long long)json_int_of(json_get(v, "status"), "retry_count"));
            table_text(&t, TERM_DIM, is_locked(v) ? STR("locked") : STR(""));
            table_text(&t, TERM_PLAIN, json_text_of(json_get(v, "configuration"), "profile_name"));
            table_text(&t, TERM_PLAIN, json_text_of(json_get(v, "status"), "message"));
        }
    table_print(&t, stdout);
    table_release(&t);
    return CMD_OK;
}

int print_locks(struct client *c, const struct json *reply)
{
    static const struct table_column columns[] = {
        {"KIND"}, {"NAME"}, {"WHO"}, {"AGE", true}, {"TOKEN", true}};
    struct table t;

    (void)c;
    table_init(&t, columns, COUNT(columns));
    if (json_get(reply, "locks"))
        json_each(v, json_get(reply, "locks")) {
            struct buf age = {0};

            term_put_span(&age, json_int_of(v, "age"));
            table_text(&t, TERM_PLAIN, json_text_of(v, "kind"));
            table_text(&t, TERM_PLAIN, json_text_of(v, "name"));
            table_text(&t, TERM_PLAIN, json_text_of(v, "who"));
            table_text(&t, TERM_PLAIN, (struct str){age.p, age.len});
            table_cell(&t, TERM_PLAIN, "%lld", (long long)json_int_of(v, "token"));
            buf_release(&age);
        }
    table_print(&t, stdout);
    table_release(&t);
    return CMD_OK;
}

int print_access(struct client *c, const struct json *reply)
{
    static const struct table_column columns[] = {{"ID"}, {"STATE"}, {"LOCK"}, {"TOKEN"}};
    struct table t;

    (void)c;
    table_init(&t, columns, COUNT(columns));
    if (json_get(reply, "access"))
        json_each(v, json_get(reply, "access")) {
            const struct json *token = json_get(v, "token");

            table_text(&t, TERM_PLAIN, json_text_of(v, "id"));
            put_state(&t, v);
            table_text(&t, TERM_DIM, is_locked(v) ? STR("locked") : STR(""));
            table_text(&t, TERM_PLAIN, token ? token->raw : STR(""));
        }
    table_print(&t, stdout);
    table_release(&t);
    return CMD_OK;
}

int print_legacy(struct client *c, const struct json *reply)
{
    static const struct table_column columns[] = {{"RECORD"},       {"STATUS"}, {"PRIORITY", true},
                                                  {"NUMBER", true}, {"TIME"},   {"PAYLOAD"},
                                                  {"IMPORTED"}};
    struct table t;

    (void)c;
    table_init(&t, columns, COUNT(columns));
    if (json_get(reply, "records"))
        json_each(v, json_get(reply, "records")) {
            table_text(&t, TERM_PLAIN, json_text_of(v, "name"));
            table_text(&t, TERM_PLAIN, json_text_of(v, "status"));
            table_cell(&t, TERM_PLAIN, "%lld", (long long)json_int_of(v, "priority"));
            table_cell(&t, TERM_PLAIN, "%lld", (long long)json_int_of(v, "number"));
            table_text(&t, TERM_PLAIN, json_text_of(v, "time"));
            table_text(&t, TERM_PLAIN, json_text_of(v, "payload"));
            table_text(&t, TERM_PLAIN, json_text_of(v, "imported"));
        }
    table_print(&t, stdout);
    table_release(&t);
    return CMD_OK;
}

int print_findings(struct client *c, const struct json *reply)
{
    static const struct table_column columns[] = {{"WHERE"}, {"PROBLEM"}, {"REPAIRED"}};
    int64_t left = 0;
    struct table t;

    (void)c;
    table_init(&t, columns, COUNT(columns));
    if (json_get(reply, "findings"))
        json_each(v, json_get(reply, "findings")) {
            const struct json *repaired = json_get(v, "repaired");
            bool good = repaired && repaired->kind == JSON_BOOL && repaired->truth;

            table_text(&t, TERM_PLAIN, json_text_of(v, "id"));
            table_text(&t, TERM_PLAIN, json_text_of(v, "problem"));
            table_text(&t, good ? TERM_GREEN : TERM_RED, good ? STR("yes") : STR("no"));
            left += !good;
        }
    table_print(&t, stdout);
    table_release(&t);
    fprintf(stderr, "%lld batches and %lld jobs looked at, %lld repaired, %lld left\n",
            (long long)json_int_of(reply, "batches"), (long long)json_int_of(reply, "jobs"),
            (long long)json_int_of(reply, "repaired"), (long long)left);
    return left ? CMD_FAILURE : CMD_OK;
}
