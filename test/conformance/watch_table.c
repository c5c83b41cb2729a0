/*
 * A table of what fires which watch: a kind of watch on a node, one change, and the event it must
 * tell, or none. Every row is run with the change made in each way there is: by the watching
 * session, by another, among other operations of a multi, and by a commit.
 *
 * The node watched is "w". A row starts without it, with it alone, with a child c of it, or with a
 * child g of that too.
 */
#include "callbacks.h"

enum { NONE = -1, ANY = KEEPER_ANY_VERSION };

enum start { MISSING, LEAF, PARENT, GRANDPARENT };

struct row {
    enum keeper_watch_kind kind;
    enum start start;
    enum keeper_op_kind change;
    const char *rel; /* the node that is changed */
    int flags;
    int event;
};

static void begin(struct fixture *f, enum start start)
{
    mk(f, "sibling", "");
    if (start >= LEAF)
        mk(f, "w", "data");
    if (start >= PARENT)
        mk(f, "w/c", "");
    if (start >= GRANDPARENT)
        mk(f, "w/c/g", "");
}

static struct keeper_op change_of(struct fixture *f, const struct row *row)
{
    return (struct keeper_op){
        .kind = row->change,
        .path = str_of(at(f, "%s", row->rel)),
        .data = row->change == KEEPER_DELETE ? STR("") : STR("data"),
        .flags = row->flags,
        .version = ANY,
    };
}

static void by_self(struct fixture *f, struct keeper_op op)
{
    must(keeper_multi(f->k, &op, 1, NULL));
}

static void by_other(struct fixture *f, struct keeper_op op)
{
    must(keeper_multi(session_open(f, LONG_TIMEOUT_MS), &op, 1, NULL));
}

static void by_multi(struct fixture *f, struct keeper_op op)
{
    const struct keeper_op ops[] = {
        keeper_op_check(f->root, ANY),
        keeper_op_create(at(f, "bystander"), STR(""), 0),
        op,
        keeper_op_delete(at(f, "bystander"), 0),
    };

    must(keeper_multi(f->k, ops, 4, NULL));
}

static void by_commit(struct fixture *f, struct keeper_op op)
{
    struct done_log *log = done_log_new(f, 1);

    must(log_commit(log, f->k, &op, 1));
    expect_done_in_order(log);
    expect_err(0, log->done[0].err);
}

static void run_row(struct fixture *f, void (*by)(struct fixture *f, struct keeper_op op))
{
    const struct row *row = f->arg;
    struct recorder *r;

    begin(f, row->start);
    r = watch(f, f->k, at(f, "w"), row->kind);
    by(f, change_of(f, row));
    quiesce(f, f->k, f->k);
    if (row->event == NONE)
        expect_count(r, 0);
    else
        expect_event(r, (enum keeper_event)row->event);
}

static void change_by_self(struct fixture *f)
{
    run_row(f, by_self);
}

static void change_by_other(struct fixture *f)
{
    run_row(f, by_other);
}

static void change_by_multi(struct fixture *f)
{
    run_row(f, by_multi);
}

static void change_by_commit(struct fixture *f)
{
    run_row(f, by_commit);
}

/* None of these happened, so no watch fires. */
static void watch_tells_nothing_of_failures(struct fixture *f)
{
    const char *w = mk(f, "w", "");
    const struct keeper_op undone[] = {
        keeper_op_set(w, STR("x"), 0),
        keeper_op_create(at(f, "w/n"), STR(""), 0),
        keeper_op_delete(at(f, "w/n"), 0),
        keeper_op_delete(w, ANY),
        keeper_op_create(at(f, "later"), STR(""), 0),
        keeper_op_check(at(f, "missing"), 0),
    };
    struct recorder *r[] = {
        watch(f, f->k, w, KEEPER_WATCH_DATA),
        watch(f, f->k, w, KEEPER_WATCH_EXISTS),
        watch(f, f->k, w, KEEPER_WATCH_CHILDREN),
        watch(f, f->k, at(f, "later"), KEEPER_WATCH_EXISTS),
    };

    expect_err(DROVER_NO_NODE, keeper_multi(f->k, undone, 6, NULL));
    expect_err(DROVER_BAD_VERSION, keeper_set(f->k, w, STR("x"), 7, NULL));
    expect_err(DROVER_BAD_VERSION, keeper_delete(f->k, w, 7));
    expect_err(DROVER_EXISTS, keeper_create(f->k, w, STR(""), 0, NULL));
    quiesce(f, f->k, f->k);
    for (size_t i = 0; i < sizeof r / sizeof *r; i++)
        expect_count(r[i], 0);
}

#define ROW(name, ...)                                                                             \
    {"watch_" name "_by_self", change_by_self, &(const struct row){__VA_ARGS__}},                  \
        {"watch_" name "_by_other", change_by_other, &(const struct row){__VA_ARGS__}},            \
        {"watch_" name "_by_multi", change_by_multi, &(const struct row){__VA_ARGS__}},            \
    {                                                                                              \
        "watch_" name "_by_commit", change_by_commit, &(const struct row)                          \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

#define DATA(name, ...) ROW("data_" name, KEEPER_WATCH_DATA, __VA_ARGS__)
#define EXISTS(name, ...) ROW("exists_" name, KEEPER_WATCH_EXISTS, __VA_ARGS__)
#define CHILDREN(name, ...) ROW("children_" name, KEEPER_WATCH_CHILDREN, __VA_ARGS__)

const struct conformance_case watch_table_cases[] = {
    DATA("created", MISSING, KEEPER_CREATE, "w", 0, KEEPER_EVENT_CREATED),
    DATA("set", LEAF, KEEPER_SET, "w", 0, KEEPER_EVENT_CHANGED),
    DATA("deleted", LEAF, KEEPER_DELETE, "w", 0, KEEPER_EVENT_DELETED),
    DATA("child_created", LEAF, KEEPER_CREATE, "w/n", 0, NONE),
    DATA("child_deleted", PARENT, KEEPER_DELETE, "w/c", 0, NONE),
    DATA("child_set", PARENT, KEEPER_SET, "w/c", 0, NONE),
    DATA("sibling_set", LEAF, KEEPER_SET, "sibling", 0, NONE),

    EXISTS("created", MISSING, KEEPER_CREATE, "w", KEEPER_EPHEMERAL, KEEPER_EVENT_CREATED),
    EXISTS("deleted", LEAF, KEEPER_DELETE, "w", 0, KEEPER_EVENT_DELETED),
    EXISTS("set", LEAF, KEEPER_SET, "w", 0, NONE),
    EXISTS("child_created", LEAF, KEEPER_CREATE, "w/n", 0, NONE),
    EXISTS("child_deleted", PARENT, KEEPER_DELETE, "w/c", 0, NONE),
    EXISTS("longer_name_created", MISSING, KEEPER_CREATE, "w", KEEPER_SEQUENTIAL, NONE),

    CHILDREN("child_created", PARENT, KEEPER_CREATE, "w/n", 0, KEEPER_EVENT_CHILDREN),
    CHILDREN("child_deleted", PARENT, KEEPER_DELETE, "w/c", 0, KEEPER_EVENT_CHILDREN),
    CHILDREN("first_child_created", LEAF, KEEPER_CREATE, "w/n", KEEPER_SEQUENTIAL,
             KEEPER_EVENT_CHILDREN),
    CHILDREN("created", MISSING, KEEPER_CREATE, "w", 0, KEEPER_EVENT_CREATED),
    CHILDREN("deleted", LEAF, KEEPER_DELETE, "w", 0, KEEPER_EVENT_DELETED),
    CHILDREN("set", PARENT, KEEPER_SET, "w", 0, NONE),
    CHILDREN("child_set", PARENT, KEEPER_SET, "w/c", 0, NONE),
    CHILDREN("grandchild_created", PARENT, KEEPER_CREATE, "w/c/n", 0, NONE),
    CHILDREN("grandchild_deleted", GRANDPARENT, KEEPER_DELETE, "w/c/g", 0, NONE),
    CHILDREN("sibling_deleted", LEAF, KEEPER_DELETE, "sibling", 0, NONE),
    CASE(watch_tells_nothing_of_failures),
    {0},
};
