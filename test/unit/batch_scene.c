#include "batch_scene.h"

#include <unistd.h>

#include "keeper/zookeeper/zookeeper.h"

/* See test/conformance/main_zookeeper.c. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libzookeeper_mt";
}

static void changed(void *arg, const struct batch_event *e)
{
    struct scene *s = arg;
    size_t len = strlen(s->events);

    snprintf(s->events + len, sizeof s->events - len, "%s %s %s;", e->key, e->id, e->state);
}

bool scene_on_zookeeper(void)
{
    return getenv("DROVER_TEST_ZK") != NULL;
}

/* zk://h1:1,h2:2 becomes zk://h1:1/batch/PID/N. */
static void make_url(struct scene *s, const char *servers)
{
    static int count;
    int first = (int)strcspn(servers, ",");

    snprintf(s->url, sizeof s->url, "%.*s/batch/%d/%d", first, servers, (int)getpid(), count++);
}

struct keeper *scene_connect(struct scene *s)
{
    struct keeper_options o = {.timeout_ms = 0};
    struct keeper *k;

    if (s->url[0])
        assert_int_equal(zookeeper_connect(s->url, NULL, &o, &k, &s->why), 0);
    else
        assert_int_equal(local_connect(s->local, NULL, &k), 0);
    return k;
}

/* One second later at each call, so that two calls for one change show. */
static int64_t next_second(void *arg)
{
    static _Atomic int64_t now_ms = 1700000000000;

    (void)arg;
    return now_ms += 1000;
}

int scene_setup(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    struct local_options lo = {.mode = LOCAL_NONE};
    struct batch_store_options ro = {.changed = changed, .wall_ms = next_second, .arg = s};

    if (scene_on_zookeeper())
        make_url(s, getenv("DROVER_TEST_ZK"));
    else
        assert_int_equal(local_open(&lo, &s->local, &s->why), 0);
    s->k = scene_connect(s);
    s->other = scene_connect(s);
    s->store = batch_store_open(&ro);
    s->c = (struct batch_call){s->store, s->k, &s->arena, &s->why};
    s->c2 = (struct batch_call){s->store, s->other, &s->arena, &s->why};
    assert_int_equal(batch_store_init(&s->c), 0);
    assert_int_equal(batch_store_init(&s->c), 0);
    *state = s;
    return 0;
}

int scene_teardown(void **state)
{
    struct scene *s = *state;

    tree_check(s->k);
    batch_store_close(s->store);
    if (s->other)
        keeper_close(s->other);
    keeper_close(s->k);
    if (s->local)
        local_close(s->local);
    arena_release(&s->arena);
    free(s);
    return 0;
}

const struct json *parse(struct scene *s, const char *text)
{
    const struct json *v = json_parse(&s->arena, str_of(text), &s->why);

    assert_non_null(v);
    return v;
}

const char *new_batch(struct scene *s, const char *submission)
{
    char *bid = arena_alloc(&s->arena, BATCH_ID_LEN + 1);

    OK(s, batch_item_new(&s->c, BATCH_KIND_BATCH, parse(s, submission), bid));
    return bid;
}

const char *new_job(struct scene *s, const char *bid, const char *spec)
{
    char(*jid)[BATCH_ID_LEN + 1] = arena_alloc(&s->arena, BATCH_ID_LEN + 1);
    struct batch_job_spec js;

    OK(s, batch_job_read_spec(&s->c, parse(s, spec), &js));
    OK(s, batch_job_create(&s->c, str_of(bid), &js, 1, NULL, jid));
    return *jid;
}

void expect_tree(struct scene *s, const char *path, const char *wanted)
{
    char *text = tree_text(s->k, path);

    if (strcmp(text, wanted) != 0)
        fail_msg("%s is\n%swanted\n%s", path, text, wanted);
    free(text);
}

int state_no(struct scene *s, const char *name)
{
    return batch_machine_find(&s->store->machines.job, str_of(name));
}

int move(struct batch_call *c, const char *jid, const char *to, int64_t token)
{
    struct batch_move m = {.state = str_of(to), .priority = -1, .token = token};
    int state;

    return batch_item_move(c, BATCH_KIND_JOB, str_of(jid), &m, &state);
}

int batch_to(struct batch_call *c, const char *bid, const char *to, int64_t token)
{
    struct batch_move m = {.state = str_of(to), .token = token};
    int state;

    return batch_item_move(c, BATCH_KIND_BATCH, str_of(bid), &m, &state);
}

const char *batch_state(struct scene *s, const char *bid)
{
    struct batch_item b;

    OK(s, batch_item_get(&s->c, BATCH_KIND_BATCH, str_of(bid), &b));
    return s->store->machines.batch.states[b.status.state].name;
}

void all_the_way(struct scene *s, const char *jid)
{
    for (int i = 0; i < 7; i++)
        OK(s, move(&s->c, jid, "next", 0));
}

void node_set(struct scene *s, const char *path, const char *data)
{
    assert_int_equal(keeper_set(s->k, path, str_of(data), KEEPER_ANY_VERSION, NULL), 0);
}

void node_create(struct scene *s, const char *path)
{
    assert_int_equal(keeper_create(s->k, path, NO_BYTES, 0, NULL), 0);
}

void node_ensure(struct scene *s, const char *path)
{
    assert_int_equal(keeper_ensure(s->k, path, NO_BYTES), 0);
}
