/* Changes with known outcomes. */
#include "scene.h"

#include <stdio.h>

#include "keeper/journal/recover.h"

enum { DATA_MAX = 12 * 1024 };

static struct str data_of(int step)
{
    static char text[DATA_MAX + 64];

    if (!text[0])
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (char)('a' + i * 31 % 64 % 26);
    return (struct str){text + step % 64, (size_t)step * 977 % DATA_MAX};
}

static bool is_part_of_snapshot(enum fs_op op, const char *name)
{
    if (op == FS_UNLINK)
        return true;
    return op != FS_OPEN && op != FS_CLOSE && strncmp(name, "snapshot", 8) == 0;
}

static void step_if_eager(void *arg, enum fs_op op, const char *name)
{
    struct scene *sc = arg;

    if (atomic_load(&sc->eager) && is_part_of_snapshot(op, name))
        scene_step(sc);
}

struct scene *scene_open(const char *dir, enum local_mode mode)
{
    return scene_open_with(dir, mode, NULL);
}

struct scene *scene_open_with(const char *dir, enum local_mode mode, const struct fs_fault *fault)
{
    struct scene *sc = mem_zalloc(sizeof *sc);
    struct local_options o;

    sc->dir = mem_dup(dir, strlen(dir));
    sc->s = store_new();
    sc->f = fs_faulty_new();
    sc->f->recording = true;
    sc->f->before = step_if_eager;
    sc->f->before_arg = sc;
    fs_faulty_arm(sc->f, fault);
    image_read(&sc->before, dir);
    o = store_options(sc->s, sc->dir, &sc->f->fs);
    o.mode = mode;
    must(store_open_with(sc->s, &o));
    history_note(&sc->past, sc->s);
    fs_faulty_note(sc->f, store_zxid(sc->s));
    must(store_connect(sc->s));
    history_note(&sc->past, sc->s);
    fs_faulty_note(sc->f, store_zxid(sc->s));
    return sc;
}

void scene_close(struct scene *sc)
{
    store_leave(sc->s);
}

void scene_free(struct scene *sc)
{
    for (int i = 0; i < sc->node_count; i++)
        free(sc->node[i]);
    fs_faulty_free(sc->f);
    history_release(&sc->past);
    image_release(&sc->before);
    store_free(sc->s);
    free(sc->dir);
    free(sc);
}

static int add(struct scene *sc, int flags)
{
    char name[32];
    char *path;
    int err;

    snprintf(name, sizeof name, "/n%d-", sc->steps);
    err = keeper_create(sc->s->k, name, data_of(sc->steps), flags, &path);
    if (!err)
        sc->node[sc->node_count++] = path;
    return err;
}

/* An access list that lets everybody read and do nothing else, as acl.h has it. */
static const struct str READ_ONLY = STR("\0\0\0\1\0\0\0\1\0\0\0\5world\0\0\0\6anyone");

/* Past keeper.c, which lets no keeper of our own send access lists: the wire does it so too. */
static int apply(struct scene *sc, const struct keeper_op *ops, size_t count)
{
    struct keeper_result results[4] = {{0}};
    int err = sc->s->k->ops->multi(sc->s->k, ops, count, results);

    keeper_results_release(results, count);
    return err;
}

static int guard(struct scene *sc, int at)
{
    struct keeper_op op = {.kind = KEEPER_SET_ACL,
                           .version = KEEPER_ANY_VERSION,
                           .path = str_of(sc->node[at]),
                           .acl = sc->steps % 2 ? READ_ONLY : STR("")};

    return apply(sc, &op, 1);
}

/* Takes the place of one that is there with a new one, which gets a child, all at once. */
static int replace(struct scene *sc, int at)
{
    struct keeper_op ops[4];
    char parent[32], child[48];
    int err;

    snprintf(parent, sizeof parent, "/r%d", sc->steps);
    snprintf(child, sizeof child, "%s/c", parent);
    ops[0] = keeper_op_delete(sc->node[at], KEEPER_ANY_VERSION);
    ops[1] = keeper_op_create(parent, data_of(sc->steps), 0);
    ops[1].acl = READ_ONLY;
    ops[2] = keeper_op_create(child, STR("small"), 0);
    ops[3] = keeper_op_set(parent, STR("set"), 0);
    err = apply(sc, ops, 4);
    if (!err) {
        free(sc->node[at]);
        sc->node[at] = mem_dup(child, strlen(child));
    }
    return err;
}

static int take(struct scene *sc, int at)
{
    int err = keeper_delete(sc->s->k, sc->node[at], KEEPER_ANY_VERSION);

    if (!err) {
        free(sc->node[at]);
        sc->node[at] = sc->node[--sc->node_count];
    }
    return err;
}

void scene_step(struct scene *sc)
{
    int step = ++sc->steps, at = sc->node_count ? step * 7 % sc->node_count : 0;
    int kind = sc->node_count < 8 ? 0 : sc->node_count > 28 ? 7 : step % 8;
    int err;

    atomic_fetch_add(&sc->s->wall_ms, 1);
    if (kind < 2)
        err = add(sc, step % 3 == 0 ? KEEPER_SEQUENTIAL : step % 5 == 0 ? KEEPER_EPHEMERAL : 0);
    else if (kind < 4)
        err = keeper_set(sc->s->k, sc->node[at], data_of(step), KEEPER_ANY_VERSION, NULL);
    else if (kind < 5)
        err = replace(sc, at);
    else if (kind < 6)
        err = guard(sc, at);
    else
        err = take(sc, at);
    if (err) {
        atomic_store(&sc->failed, err);
        return;
    }
    history_note(&sc->past, sc->s);
    fs_faulty_note(sc->f, store_zxid(sc->s));
}

int64_t scene_acknowledged(const struct scene *sc, size_t count)
{
    int64_t zxid = 0;

    for (size_t i = 0; i < count; i++)
        if (sc->f->events[i].op == FS_NOTE && sc->f->events[i].at > zxid)
            zxid = sc->f->events[i].at;
    return zxid;
}

/* The tree is in one of its past states, and no later state was acknowledged. */
static void check_state(const struct expectation *e, int64_t zxid, const char *text)
{
    const char *want = history_at(e->past, zxid);

    if (zxid < e->at_least)
        fail_msg("%s: ends at transaction %lld, but %lld was acknowledged", e->label,
                 (long long)zxid, (long long)e->at_least);
    if (!want)
        fail_msg("%s: transaction %lld was never there", e->label, (long long)zxid);
    expect_text(e->label, want, text);
}

/*
 * What a start does to the directory before it writes anything new changes nothing in what it
 * holds.
 */
static void check_trim(const char *dir, const struct expectation *e)
{
    static const struct recover_hooks silent;
    struct fs_faulty *quick = fs_faulty_new();
    struct err_info error;

    for (int start = 0, again = 1; start <= again; start++) {
        struct recovery r;
        char *text;

        if (recover_read(dir, &silent, &r, &error))
            fail_msg("%s: start %d is refused: %s", e->label, start + 1, error.text);
        text = tree_text(&r.tree);
        check_state(e, r.tree.zxid, text);
        free(text);
        if (recover_trim(&quick->fs, dir, &r, &error) ||
            (recovery_last(&r) && recover_cut(&quick->fs, dir, recovery_last(&r), &error)))
            fail_msg("%s: %s", e->label, error.text);
        recovery_release(&r);
        again = quick->calls[FS_FTRUNCATE] > 0;
    }
    fs_faulty_free(quick);
}

/* A store that was opened after a crash must work normally. */
static char *work_on(struct store *s, const char *label)
{
    int err = store_connect(s);

    if (!err)
        err = keeper_create(s->k, "/after", STR("the crash"), 0, NULL);
    if (err)
        fail_msg("%s: a change after the start got %s", label, drover_err_name(err));
    return store_text(s);
}

static void check_work(const char *dir, const struct expectation *e)
{
    struct fs_faulty *quick = fs_faulty_new();
    struct store *s = store_new();
    struct err_info error;
    char *text, *later = NULL, *again = NULL;
    int64_t zxid;

    if (store_open(s, dir, &quick->fs))
        fail_msg("%s: the start is refused: %s", e->label, s->error.text);
    text = store_text(s);
    check_state(e, store_zxid(s), text);
    later = work_on(s, e->label);
    store_leave(s);
    if (dir_text(dir, &again, &zxid, &error))
        fail_msg("%s: the second start is refused: %s", e->label, error.text);
    expect_text(e->label, later, again);
    free(text);
    free(later);
    free(again);
    store_free(s);
    fs_faulty_free(quick);
}

void scene_check(const char *dir, const struct image *im, const struct expectation *e)
{
    image_write(im, dir);
    if (e->work_on)
        check_work(dir, e);
    else
        check_trim(dir, e);
}
