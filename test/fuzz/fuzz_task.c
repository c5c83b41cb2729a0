/*
 * Bodies of /update and /claim, one a line, carried out on a store one after the other.
 *
 * The first byte of a line decides: u and c are bodies, U and C bodies whose transactions are
 * undone, s a slot's bytes, r a remembered request's, i the ids of a path, g a pattern and the
 * settings of its groups, b an action in bulk, t time that passes. Whatever comes, the store
 * answers with JSON that can be read, what was undone has left nothing, a slot that can be read is
 * written the same again, everything that the answer gave is there, and no two living tasks of a
 * group have the same key.
 */
#include "fuzz.h"

#include "drover.h"
#include "task/body.h"
#include "task/request_log.h"
#include "task/settings_json.h"
#include "task/task_tree.h"

enum { NOW_MS = 1000000, TASKS_MAX = 200 };

static struct store *store;
static struct task_txn txn;
static struct store_random numbers;
static int64_t now_ms;

static void check_answer(int err, struct arena *a)
{
    struct buf b = {0};
    struct err_info e;

    if (!err) {
        body_put_tasks(&b, txn.tasks, txn.task_count);
        FUZZ_CHECK(json_parse(a, (struct str){b.p, b.len}, &e));
    }
    FUZZ_CHECK(!err || txn.error_count);
    for (size_t i = 0; !err && i < txn.task_count; i++) {
        char *bytes = mem_alloc(task_node_len(&txn.tasks[i]));
        struct task_extra extra;
        struct str payload;
        struct task t;
        bool has_tail;

        FUZZ_CHECK(!store_get(store, txn.tasks[i].id, a, &t));
        FUZZ_CHECK(str_eq(t.data, txn.tasks[i].data) && str_eq(t.group, txn.tasks[i].group));
        task_node_encode(&t, bytes);
        FUZZ_CHECK(
            !task_node_decode((struct str){bytes, task_node_len(&t)}, &t, &payload, &has_tail));
        FUZZ_CHECK(!task_payload_decode(payload, has_tail, &extra, &t.data));
        FUZZ_CHECK(t.id == txn.tasks[i].id && str_eq(t.data, txn.tasks[i].data));
        free(bytes);
    }
    buf_release(&b);
}

static void carry_out(struct str text, bool update, bool undo)
{
    struct arena a = {0};
    struct err_info e = {""};
    struct task_in in = {0};
    struct route_field_error wrong = {0};
    const struct json *v = json_parse(&a, text, &e);
    size_t before = store_count(store);
    int err =
        v && v->kind == JSON_OBJECT
            ? field_read_body(update ? TASK_UPDATE_FIELDS : TASK_CLAIM_FIELDS, v, &a, &in, &wrong)
            : err_set(&wrong.why, DROVER_BAD_ARGUMENT, "no object");

    FUZZ_CHECK(!err == !wrong.why.text[0]);
    const char *field;
    if (!err && !body_finish(&in, update ? TASK_UPDATE : TASK_CLAIM, v, &a, &field)) {
        err = update ? store_update(store, &in.request.update, now_ms, &numbers, &txn)
                     : store_claim(store, &in.request.claim, now_ms, &numbers, &txn);
        FUZZ_CHECK(!err || err == DROVER_REFUSED || err == DROVER_GROUP_FULL);
        check_answer(err, &a);
        FUZZ_CHECK(!err || store_count(store) == before);
        if (undo) {
            store_undo(store, &txn);
            FUZZ_CHECK(store_count(store) == before);
        }
        store_settle(store, &txn);
    }
    arena_release(&a);
}

static void change_settings(struct str text)
{
    struct str pattern = str_cut(&text, ' ');
    struct task_settings settings = TASK_SETTINGS_DEFAULT;
    struct err_info e = {""};
    struct arena a = {0};
    const char *field;
    const struct json *v = text.p ? json_parse(&a, text, &e) : NULL;

    if (settings_pattern_wrong(pattern)) {
        arena_release(&a);
        return;
    }
    int err = v && v->kind == JSON_OBJECT ? settings_read(v, &settings, &field, &e) : 0;
    FUZZ_CHECK(!err == !e.text[0] || !v);
    store_set_settings(store, pattern, !err && v ? &settings : NULL);
    arena_release(&a);
}

static void find_all(struct arena *a, struct store_list *list)
{
    struct store_filter all = {.internal = true};
    struct store_cursor cursor = {0};

    FUZZ_CHECK(!store_find_tasks(store, &all, now_ms, &cursor, TASKS_MAX, a, list));
}

/* The first byte is the action, the rest where a move goes. */
static void act_in_bulk(struct str text)
{
    static const enum task_edit_kind kinds[] = {EDIT_RETRY, EDIT_MOVE, EDIT_RELEASE, EDIT_PRIORITY,
                                                EDIT_DELETE};
    struct arena a = {0};
    struct store_list list;
    struct task_edit edits[TASKS_MAX];
    size_t count = 0;

    if (text.len < 2 || text.len > TASK_GROUP_LEN_MAX)
        return;
    enum task_edit_kind kind = kinds[(unsigned char)text.p[0] % 5];
    find_all(&a, &list);
    for (size_t i = 0; i < list.count; i++)
        if (!list.tasks[i].done)
            edits[count++] = (struct task_edit){
                kind, list.tasks[i].id, {text.p + 1, text.len - 1}, text.p[1], false};
    struct task_update u = {
        .edits = edits, .edit_count = count, .operate = true, .skips = true, .clientid = 1};
    FUZZ_CHECK(!store_update(store, &u, now_ms, &numbers, &txn));
    store_settle(store, &txn);
    arena_release(&a);
}

/* As the sweep does. */
static void pass_time(struct str text)
{
    struct task_edit edits[TASKS_MAX];

    now_ms += text.len ? (int64_t)(unsigned char)text.p[0] * 1000 : 1;
    struct task_update u = {.edits = edits,
                            .edit_count = store_expired(store, now_ms, edits, TASKS_MAX),
                            .operate = true};
    FUZZ_CHECK(!store_update(store, &u, now_ms, &numbers, &txn));
    store_settle(store, &txn);
}

static bool share_a_key(const struct task *a, const struct task *b)
{
    return !a->dead && !b->dead && !a->done && !b->done && a->extra && b->extra &&
           a->extra->key.len && str_eq(a->extra->key, b->extra->key) && str_eq(a->group, b->group);
}

static void check_store(void)
{
    struct arena a = {0};
    struct store_list list;

    find_all(&a, &list);
    for (size_t i = 0; i < list.count; i++)
        for (size_t j = 0; j < i; j++)
            FUZZ_CHECK(!share_a_key(&list.tasks[i], &list.tasks[j]));
    arena_release(&a);
}

static void read_slot(struct str bytes)
{
    struct task_extra extra;
    struct str payload;
    struct task t;
    bool has_tail;
    char *again;

    if (task_node_decode(bytes, &t, &payload, &has_tail) ||
        task_payload_decode(payload, has_tail, &extra, &t.data))
        return;
    t.extra = has_tail ? &extra : NULL;
    FUZZ_CHECK(task_node_len(&t) == bytes.len);
    again = mem_alloc(bytes.len);
    task_node_encode(&t, again);
    FUZZ_CHECK(!memcmp(again, bytes.p, bytes.len));
    free(again);
}

static void read_request(struct str bytes)
{
    struct request_log *m = mem_zalloc(sizeof *m);

    if (bytes.len > 9)
        request_log_restore(m, (uint32_t)(le_load64(bytes.p + 1) % REQUEST_LOG_MAX), bytes);
    request_log_release(m);
    free(m);
}

static void read_ids(struct str text)
{
    struct arena a = {0};
    struct ids {
        const int64_t *ids;
        size_t count;
        bool truth;
    } in = {0};
    static const struct route_field fields[] = {
        FIELD_INTS(IN_PATH, struct ids, ids, count, "ids", 1, 10, ""),
        FIELD_BOOL(IN_QUERY, struct ids, truth, "truth", "")};
    struct route_field_error wrong = {0};

    if (!field_read_text(&fields[0], text, &a, &in, &wrong))
        FUZZ_CHECK(in.count >= 1 && in.count <= 10 && in.ids[in.count - 1] >= INT64_MIN);
    FUZZ_CHECK(!field_read_text(&fields[1], text, &a, &in, &wrong) || wrong.why.text[0]);
    arena_release(&a);
}

static void line(char kind, struct str text)
{
    switch (kind) {
    case 'u':
    case 'U':
        carry_out(text, true, kind == 'U');
        break;
    case 'c':
    case 'C':
        carry_out(text, false, kind == 'C');
        break;
    case 's':
        read_slot(text);
        break;
    case 'r':
        read_request(text);
        break;
    case 'i':
        read_ids(text);
        break;
    case 'g':
        change_settings(text);
        break;
    case 'b':
        act_in_bulk(text);
        break;
    case 't':
        pass_time(text);
        break;
    }
    check_store();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *p = (const char *)data, *end = p + len;

    store = store_new(NULL, NULL);
    numbers.state = 1;
    now_ms = NOW_MS;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t line_len = (size_t)((stop ? stop : end) - p);

        if (line_len) {
            char *copy = fuzz_exact((struct str){p + 1, line_len - 1});

            line(p[0], (struct str){copy, line_len - 1});
            free(copy);
        }
        p += line_len + 1;
    }
    task_txn_release(&txn);
    store_free(store);
    return 0;
}
