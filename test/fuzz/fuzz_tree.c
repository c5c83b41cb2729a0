/*
 * Random transactions on a tree that is kept three times.
 *
 * The live tree is changed. Each of its transactions becomes a record, is read back and restored
 * into the second tree, which must then be the same; after a transaction that failed the two must
 * still be the same, so nothing may be left of it. Meanwhile a snapshot is taken in slices, as
 * engine.c does, into a third tree: it is fuzzy, and the records since its beginning must make
 * it exact.
 *
 * Input: steps. The first byte of each chooses from STEPS, the next ones are its arguments.
 */
#include "check.h"
#include "fuzz.h"
#include "keeper/journal/record.h"
#include "keeper/path.h"

enum { SALT = 0x5a17 };

enum { OPS_MAX = 5, STEPS_MAX = 400, CHECK_EVERY = 8 };

/* A byte that no mutation favours: long paths are slow. */
enum { LONG_PART = 0xd3, LONG_FROM = PATH_MAX_LEN - 20 };

struct world {
    struct reader in;
    struct tree live, restored;
    struct tree_changes changes;
    struct buf journal;
    int64_t time_ms;

    bool walking; /* a snapshot is under way */
    struct tree fuzzy;
    size_t from; /* in the journal */
    int64_t from_zxid;
    uint32_t session_cursor, node_cursor;
};

static void restore(struct tree *t, struct str bytes)
{
    struct tree_changes c = {0};
    struct err_info why;
    struct record record;

    while (bytes.len) {
        FUZZ_CHECK(record_read(bytes.p, bytes.len, SALT, &record));
        FUZZ_CHECK(record.lsn == t->zxid + 1);
        FUZZ_CHECK(record_changes(&record, &c) == 0);
        FUZZ_CHECK(tree_restore_changes(t, &c, &why) == 0);
        bytes.p += record.whole_len;
        bytes.len -= record.whole_len;
    }
    changes_release(&c);
}

static void check(const struct world *w)
{
    fuzz_expect(check_tree(&w->live));
    fuzz_expect(check_same(&w->live, &w->restored));
}

/* The live tree has changed. Looking at all of it each time would take most of the time. */
static void publish(struct world *w)
{
    size_t at = w->journal.len;

    if (w->changes.count) {
        record_put_changes(&w->journal, SALT, &w->changes, 1);
        restore(&w->restored, (struct str){w->journal.p + at, w->journal.len - at});
    }
    if (w->live.zxid % CHECK_EVERY == 0)
        check(w);
}

/* Few names, so that operations meet; one is the end of another, one is a special node. */
static char *read_path(struct reader *in)
{
    static const char *const parts[] = {"/a", "/b", "/ab", "/b/a", "/\xc3\xa9", "/", "/zookeeper"};
    struct buf path = {0};
    int depth = 1 + reader_u8(in) % 3;
    uint8_t part = 0;

    for (int i = 0; i < depth; i++) {
        part = reader_u8(in);
        buf_put_str(&path, str_of(parts[part % (sizeof parts / sizeof *parts)]));
    }
    if (part == LONG_PART) { /* so long that a sequence number may be too much */
        size_t len = LONG_FROM + reader_u8(in) % 24;

        buf_reserve(&path, len);
        memset(path.p + path.len, 'x', len - path.len);
        path.len = len;
    }
    buf_text(&path);
    return path.p;
}

/* One operation as keeper.c would let it pass, or none: its checks come first. */
static bool read_op(struct reader *in, char **paths, struct keeper_op *ret_op)
{
    static const char data[] = "0123456789abcdef";
    uint8_t kind = reader_u8(in), more = reader_u8(in);
    struct keeper_op op = {.kind = kind % 5, .version = KEEPER_ANY_VERSION};

    *paths = read_path(in);
    op.path = str_of(*paths);
    if (op.kind == KEEPER_CREATE)
        op.flags = more & 3;
    else if (more & 1)
        op.version = more >> 1 & 3;
    if (op.kind == KEEPER_CREATE || op.kind == KEEPER_SET)
        op.data = (struct str){data, more >> 4};
    if (op.kind == KEEPER_SET_ACL)
        op.acl = fuzz_acl(more >> 4 & 3, false);
    if (op.kind == KEEPER_CREATE && kind & 0x80)
        op.acl = fuzz_acl(more >> 2 & 3, false);
    *ret_op = op;
    return path_is_valid(op.path, op.flags & KEEPER_SEQUENTIAL) &&
           !(op.kind == KEEPER_DELETE && path_is_special(op.path));
}

/* Any of the sessions, or none. */
static struct tree_session *read_session(struct world *w)
{
    uint32_t at = reader_u8(&w->in) % (w->live.sessions.len + 1);

    return at ? w->live.sessions.list[at - 1] : NULL;
}

static void check_results(const struct keeper_result *results, size_t count, int err)
{
    size_t passed = 0;

    while (passed < count && results[passed].err == 0)
        passed++;
    FUZZ_CHECK(err ? passed < count && results[passed].err == err : passed == count);
    for (size_t i = passed + 1; i < count; i++)
        FUZZ_CHECK(results[i].err == DROVER_NOT_TRIED);
}

static void step_apply(struct world *w)
{
    struct keeper_result results[OPS_MAX] = {0};
    struct keeper_op ops[OPS_MAX];
    char *paths[OPS_MAX];
    const struct acl_who anybody = {0};
    uint8_t wanted = reader_u8(&w->in);
    struct tree_user user = {read_session(w), wanted & 0x80 ? &anybody : NULL};
    size_t count = 0;
    int64_t zxid = w->live.zxid;
    int err;

    for (int i = 0; i <= wanted % OPS_MAX; i++) {
        if (read_op(&w->in, &paths[count], &ops[count]))
            count++;
        else
            free(paths[count]);
    }
    if (count) {
        err = tree_apply(&w->live, &user, ++w->time_ms, ops, count, results, &w->changes);
        check_results(results, count, err);
        FUZZ_CHECK(err ? !w->changes.count : true);
        FUZZ_CHECK(w->live.zxid == zxid + (w->changes.count > 0));
        publish(w);
        if (err) /* nothing may be left of it */
            check(w);
    }
    keeper_results_release(results, count);
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
}

static void step_open(struct world *w)
{
    char password[KEEPER_PASSWORD_LEN];

    memset(password, 'p', sizeof password);
    password[0] = (char)reader_u8(&w->in);
    tree_session_open(&w->live, ++w->time_ms, 1000 + password[0], password, &w->changes);
    publish(w);
}

static void step_close(struct world *w)
{
    struct tree_session *s = read_session(w);
    size_t max_bytes = 1 + reader_u8(&w->in);

    if (!s)
        return;
    tree_session_close(&w->live, s, ++w->time_ms, max_bytes, &w->changes);
    publish(w);
}

/* A slice of the snapshot: sessions first, then nodes. False: it is complete. */
static bool walk_one(struct world *w, struct buf *scratch)
{
    const struct tree_sessions *s = &w->live.sessions;
    struct tree_node_state state;
    struct err_info why;

    if (w->session_cursor < s->len) {
        const struct tree_session *session = s->list[w->session_cursor++];

        if (session)
            sessions_put(&w->fuzzy.sessions, session->id, session->timeout_ms, session->password);
        return true;
    }
    if (!tree_walk(&w->live, &w->node_cursor, scratch, &state))
        return false;
    FUZZ_CHECK(tree_restore_node(&w->fuzzy, &state, &why) == 0);
    return true;
}

static void step_walk(struct world *w)
{
    struct buf scratch = {0};
    int count = 1 + reader_u8(&w->in) % 8;

    if (!w->walking) {
        tree_init(&w->fuzzy);
        w->from = w->journal.len;
        w->from_zxid = w->live.zxid;
        w->session_cursor = w->node_cursor = 0;
        w->walking = true;
    }
    while (count-- && walk_one(w, &scratch))
        ;
    buf_release(&scratch);
}

static void step_finish_walk(struct world *w)
{
    struct buf scratch = {0};
    struct err_info why;

    if (!w->walking)
        return;
    while (walk_one(w, &scratch))
        ;
    w->fuzzy.zxid = w->from_zxid;
    restore(&w->fuzzy, (struct str){w->journal.p + w->from, w->journal.len - w->from});
    if (tree_seal(&w->fuzzy, &why))
        fuzz_expect(why.text);
    fuzz_expect(check_tree(&w->fuzzy));
    fuzz_expect(check_same(&w->live, &w->fuzzy));
    tree_release(&w->fuzzy);
    w->walking = false;
    buf_release(&scratch);
}

static void (*const STEPS[])(struct world *) = {
    step_apply, step_apply, step_walk,        step_open,
    step_apply, step_close, step_finish_walk, step_apply,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct world w = {.in = {(const char *)data, len, false}};
    struct err_info why;

    tree_init(&w.live);
    tree_init(&w.restored);
    buf_reserve(&w.journal, 1); /* a snapshot may begin before the first record */
    for (int i = 0; i < STEPS_MAX && w.in.left; i++)
        STEPS[reader_u8(&w.in) % (sizeof STEPS / sizeof *STEPS)](&w);
    step_finish_walk(&w);
    check(&w);
    if (tree_seal(&w.restored, &why))
        fuzz_expect(why.text);
    fuzz_expect(check_tree(&w.restored));
    changes_release(&w.changes);
    buf_release(&w.journal);
    tree_release(&w.live);
    tree_release(&w.restored);
    return 0;
}
