/*
 * Random operations on a store and on a simple model, while snapshots are taken all the time; every
 * answer is compared, and after every start the whole tree. DROVER_SEED runs one seed, DROVER_SOAK
 * many.
 */
#include <stdio.h>

#include "player.h"

enum { STEPS = 3000, NODES_WANTED = 110, SEEDS = 10, SOAK_SEEDS = 400, DATA_MAX = 12 * 1024 };

/* Data is a piece of this. */
static char pool[64 * 1024];

static void fill_pool(void)
{
    struct rng rng = {1};

    for (size_t i = 0; i < sizeof pool; i++)
        pool[i] = (char)rng_next(&rng);
}

static struct str pick_data(struct rng *rng)
{
    static const uint32_t limits[] = {1, 64, 64, 64, 2048, 2048, 2048, DATA_MAX, DATA_MAX};
    uint32_t limit = limits[rng_below(rng, sizeof limits / sizeof *limits)];

    return (struct str){pool + rng_below(rng, sizeof pool - DATA_MAX), rng_below(rng, limit)};
}

static const struct model_node *pick_node(struct player *p)
{
    return &p->model.nodes[rng_below(&p->rng, (uint32_t)p->model.count)];
}

/* One that is there, mostly; else one that may be, or that cannot. */
static void pick_path(struct player *p, char *path)
{
    static const char *const odd[] = {"/", "/zookeeper", "/zookeeper/quota", "a", "/a//b"};
    uint32_t choice = rng_below(&p->rng, 100);
    size_t len = 0;

    if (choice < 2) {
        snprintf(path, MODEL_PATH_MAX, "%s", odd[rng_below(&p->rng, sizeof odd / sizeof *odd)]);
    } else if (choice < 75) {
        snprintf(path, MODEL_PATH_MAX, "%s", pick_node(p)->path);
    } else {
        for (uint32_t depth = 1 + rng_below(&p->rng, 3); depth; depth--)
            len += (size_t)snprintf(path + len, MODEL_PATH_MAX - len, "/%c",
                                    'a' + (char)rng_below(&p->rng, 5));
    }
}

/* Below a node that is there, but not too far. */
static void pick_child(struct player *p, char *path)
{
    const char *parent = pick_node(p)->path;

    if (strlen(parent) > MODEL_PATH_MAX / 2 || rng_below(&p->rng, 4) == 0)
        parent = "/";
    snprintf(path, MODEL_PATH_MAX, "%s/%c", strcmp(parent, "/") == 0 ? "" : parent,
             'a' + (char)rng_below(&p->rng, 8));
}

static int32_t pick_version(struct player *p, const char *path)
{
    const struct model_node *n = model_find(&p->model, path);
    uint32_t choice = rng_below(&p->rng, 10);

    if (choice < 6)
        return KEEPER_ANY_VERSION;
    return n && choice < 9 ? n->stat.version : (int32_t)rng_below(&p->rng, 5);
}

static int pick_flags(struct player *p)
{
    uint32_t choice = rng_below(&p->rng, 10);

    return (choice < 3 ? KEEPER_SEQUENTIAL : 0) | (choice % 4 == 1 ? KEEPER_EPHEMERAL : 0);
}

/* path is where its path may be written. Many nodes make deleting more likely than creating. */
static struct keeper_op pick_op(struct player *p, char *path)
{
    uint32_t choice = rng_below(&p->rng, 100);
    uint32_t creates = p->model.count < NODES_WANTED ? 45 : 20;

    if (choice < creates) {
        pick_child(p, path);
        return keeper_op_create(path, pick_data(&p->rng), pick_flags(p));
    }
    pick_path(p, path);
    if (choice < 70)
        return keeper_op_set(path, pick_data(&p->rng), pick_version(p, path));
    if (choice < 92)
        return keeper_op_delete(path, pick_version(p, path));
    return keeper_op_check(path, pick_version(p, path));
}

static struct player_session *pick_session(struct player *p)
{
    struct player_session *s;

    do
        s = &p->sessions[rng_below(&p->rng, PLAYER_SESSIONS_MAX)];
    while (!s->k);
    return s;
}

static void step_transaction(struct player *p)
{
    char paths[PLAYER_OPS_MAX][MODEL_PATH_MAX];
    struct keeper_op ops[PLAYER_OPS_MAX];
    size_t count = rng_below(&p->rng, 2) ? 1 : 1 + rng_below(&p->rng, PLAYER_OPS_MAX);

    for (size_t i = 0; i < count; i++)
        ops[i] = pick_op(p, paths[i]);
    player_multi(p, pick_session(p), ops, count, rng_below(&p->rng, 8) == 0);
}

static void step_look(struct player *p)
{
    char path[MODEL_PATH_MAX];

    snprintf(path, sizeof path, "%s", pick_node(p)->path);
    if (rng_below(&p->rng, 5) == 0)
        snprintf(path, sizeof path, "/not/there");
    player_look(p, pick_session(p)->k, path);
}

/* The first session is always there. */
static void step_session(struct player *p)
{
    struct player_session *s = &p->sessions[1 + rng_below(&p->rng, PLAYER_SESSIONS_MAX - 1)];

    if (!s->id)
        player_session_open(p, s);
    else if (!s->k)
        player_session_resume(p, s);
    else if (rng_below(&p->rng, 2))
        player_session_close(p, s);
    else
        player_session_leave(p, s);
}

static void step(struct player *p)
{
    uint32_t choice = rng_below(&p->rng, 1000);

    if (choice < 830)
        step_transaction(p);
    else if (choice < 940)
        step_look(p);
    else if (choice < 980)
        step_session(p);
    else if (choice < 984)
        player_look_at_all(p, p->sessions[0].k);
    else if (choice < 992)
        player_restart(p);
    else
        player_kill(p);
    snapper_step(&p->snapper);
}

/* Not on the stack: when it fails, its threads go on for a moment. */
static void play(uint64_t seed)
{
    enum local_mode mode = seed % 2 ? LOCAL_STRICT : LOCAL_OPPORTUNISTIC;
    struct player *p = mem_zalloc(sizeof *p);

    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    player_open(p, mode, seed);
    for (int i = 0; i < STEPS; i++) {
        doing("seed %llu, step %d, transaction %lld", (unsigned long long)seed, i,
              (long long)p->model.zxid);
        step(p);
    }
    player_look_at_all(p, p->sessions[0].k);
    assert_true(p->snapshots > 3);
    player_close(p);
    free(p);
    done();
}

static void model_and_store_agree(void **state)
{
    uint64_t first = seed_or(1), count = is_short_run() ? SEEDS / 4 : SEEDS;

    (void)state;
    if (getenv("DROVER_SEED"))
        count = 1;
    else if (soaking())
        count = SOAK_SEEDS;
    fill_pool();
    for (uint64_t seed = first; seed < first + count; seed++)
        play(seed);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(model_and_store_agree),
    };

    return run_group(tests);
}
