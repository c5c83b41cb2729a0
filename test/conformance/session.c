/*
 * Cases about sessions: their names, going on with one, and how one ends. A session that is left
 * alone ends only by its timeout, so these are the cases that take seconds; they run last.
 */
#include "callbacks.h"

static void session_has_a_name(struct fixture *f)
{
    struct keeper_session mine = session_of(f->k);
    struct keeper_session theirs = session_of(session_open(f, LONG_TIMEOUT_MS));

    assert_int_not_equal(mine.id, 0);
    assert_int_not_equal(mine.id, theirs.id);
    assert_memory_not_equal(mine.password, theirs.password, KEEPER_PASSWORD_LEN);
    assert_true(mine.timeout_ms >= KEEPER_TIMEOUT_MIN_MS);
}

static void session_without_options(struct fixture *f)
{
    struct keeper *k = session_open_with(f, &(struct keeper_options){0});

    assert_in_range(session_of(k).timeout_ms, KEEPER_TIMEOUT_MIN_MS, KEEPER_TIMEOUT_MAX_MS);
    must(keeper_exists(k, "/", NULL));
}

static void session_timeout_has_limits(struct fixture *f)
{
    struct keeper *shortest = session_open(f, 1), *longest = session_open(f, INT32_MAX);

    assert_true(session_of(shortest).timeout_ms >= KEEPER_TIMEOUT_MIN_MS);
    assert_true(session_of(longest).timeout_ms <= KEEPER_TIMEOUT_MAX_MS);
    assert_true(session_of(longest).timeout_ms > session_of(shortest).timeout_ms);
}

static void session_goes_on_after_being_left(struct fixture *f)
{
    struct keeper *first = session_open(f, LONG_TIMEOUT_MS), *second;
    struct keeper_session s = session_of(first);

    mk_flags(f, first, "e", KEEPER_EPHEMERAL);
    session_abandon(f, first);
    second = session_resume(f, &s);
    assert_int_equal(session_of(second).id, s.id);
    assert_memory_equal(session_of(second).password, s.password, KEEPER_PASSWORD_LEN);
    catch_up(second);
    assert_int_equal(must_stat(second, at(f, "e")).ephemeral_owner, s.id);
    mk_flags(f, second, "e2", KEEPER_EPHEMERAL);
    session_close(f, second);
    wait_gone(f->k, at(f, "e2"), PROMPT_MS);
    assert_string_equal(tree_names(f), "");
}

static void session_goes_on_more_than_once(struct fixture *f)
{
    struct keeper *k = session_open(f, LONG_TIMEOUT_MS);
    struct keeper_session s = session_of(k);

    mk_flags(f, k, "e", KEEPER_EPHEMERAL);
    for (int i = 0; i < 3; i++) {
        session_abandon(f, k);
        k = session_resume(f, &s);
        catch_up(k);
        must(keeper_set(k, at(f, "e"), STR("x"), i, NULL));
    }
}

static void session_needs_its_password(struct fixture *f)
{
    struct keeper *first = session_open(f, LONG_TIMEOUT_MS);
    struct keeper_session s = session_of(first), wrong = s;

    mk_flags(f, first, "e", KEEPER_EPHEMERAL);
    session_abandon(f, first);
    wrong.password[KEEPER_PASSWORD_LEN - 1] ^= 1;
    expect_err(DROVER_SESSION_EXPIRED, session_resume_err(f, &wrong));
    memset(wrong.password, 0, KEEPER_PASSWORD_LEN);
    expect_err(DROVER_SESSION_EXPIRED, session_resume_err(f, &wrong));
    catch_up(f->k);
    must(keeper_exists(f->k, at(f, "e"), NULL));
    must(keeper_exists(session_resume(f, &s), at(f, "e"), NULL));
}

static bool is_alive(void *keeper)
{
    return keeper_exists(keeper, "/", NULL) == 0;
}

/* Whoever guesses wrong does the holder of the session no lasting harm. */
static void session_survives_a_wrong_password(struct fixture *f)
{
    struct keeper_session wrong = session_of(f->k);

    mk_flags(f, f->k, "e", KEEPER_EPHEMERAL);
    wrong.password[0] ^= 1;
    expect_err(DROVER_SESSION_EXPIRED, session_resume_err(f, &wrong));
    wait_until(is_alive, f->k, PROMPT_MS);
    must(keeper_set(f->k, at(f, "e"), STR("x"), 0, NULL));
}

static void session_that_never_was(struct fixture *f)
{
    struct keeper_session s = session_of(f->k);

    s.id ^= 0x5555555;
    expect_err(DROVER_SESSION_EXPIRED, session_resume_err(f, &s));
}

static void session_that_was_closed(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    struct keeper_session s = session_of(other);

    session_close(f, other);
    expect_err(DROVER_SESSION_EXPIRED, session_resume_err(f, &s));
}

static void session_is_taken_over(struct fixture *f)
{
    struct keeper *first = session_open(f, LONG_TIMEOUT_MS);

    mk_flags(f, first, "e", KEEPER_EPHEMERAL);
    session_expire(f, first);
    wait_until(keeper_has_expired, first, PATIENCE_MS);
    wait_gone(f->k, at(f, "e"), PROMPT_MS);
}

static void session_that_expired_refuses_every_call(struct fixture *f)
{
    struct keeper *k = session_open(f, LONG_TIMEOUT_MS);
    const struct keeper_op op = keeper_op_check("/", KEEPER_ANY_VERSION);
    const char *before, *a = mk(f, "a", "");
    struct keeper_names names = {0};
    struct buf data = {0};

    session_expire(f, k);
    wait_until(keeper_has_expired, k, PATIENCE_MS);
    before = tree_dump(f);
    expect_err(DROVER_SESSION_EXPIRED, keeper_get(k, a, &data, NULL));
    expect_err(DROVER_SESSION_EXPIRED, keeper_exists(k, a, NULL));
    expect_err(DROVER_SESSION_EXPIRED, keeper_children(k, a, &names, NULL));
    expect_err(DROVER_SESSION_EXPIRED, keeper_create(k, at(f, "b"), STR(""), 0, NULL));
    expect_err(DROVER_SESSION_EXPIRED, keeper_set(k, a, STR(""), 0, NULL));
    expect_err(DROVER_SESSION_EXPIRED, keeper_delete(k, a, 0));
    expect_err(DROVER_SESSION_EXPIRED, keeper_multi(k, &op, 1, NULL));
    expect_err(DROVER_SESSION_EXPIRED, keeper_sync(k, a));
    expect_err(DROVER_SESSION_EXPIRED, recorder_watch(recorder_new(f, a), k, KEEPER_WATCH_DATA));
    catch_up(f->k);
    assert_string_equal(tree_dump(f), before);
}

static void session_that_expired_tells_its_watches(struct fixture *f)
{
    struct keeper *k = session_open(f, LONG_TIMEOUT_MS);
    const char *a = mk(f, "a", "");
    struct recorder *r[3];

    catch_up(k);
    r[0] = watch(f, k, a, KEEPER_WATCH_DATA);
    r[1] = watch(f, k, at(f, "missing"), KEEPER_WATCH_EXISTS);
    r[2] = watch(f, k, a, KEEPER_WATCH_CHILDREN);
    session_expire(f, k);
    for (int i = 0; i < 3; i++)
        expect_event(r[i], KEEPER_EVENT_EXPIRED);
    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    mk(f, "missing", "");
    quiesce(f, f->k, f->k);
    for (int i = 0; i < 3; i++)
        expect_event(r[i], KEEPER_EVENT_EXPIRED);
    unwatch(r[0]);
}

static void session_that_expired_may_be_abandoned(struct fixture *f)
{
    struct keeper *k = session_open(f, LONG_TIMEOUT_MS);

    watch(f, k, f->root, KEEPER_WATCH_DATA);
    session_expire(f, k);
    session_abandon(f, k);
    must(keeper_exists(f->k, f->root, NULL));
}

static int64_t ending_ms(const struct keeper_session *s)
{
    return 3 * (int64_t)s->timeout_ms + PROMPT_MS;
}

static void session_left_alone_ends(struct fixture *f)
{
    struct keeper *k = session_open(f, f->backend->short_timeout_ms);
    struct keeper_session s = session_of(k);
    const char *e = mk_flags(f, k, "e", KEEPER_EPHEMERAL);
    struct recorder *r;

    catch_up(f->k);
    r = watch(f, f->k, e, KEEPER_WATCH_EXISTS);
    session_abandon(f, k);
    wait_gone(f->k, e, ending_ms(&s));
    expect_event(r, KEEPER_EVENT_DELETED);
    expect_err(DROVER_SESSION_EXPIRED, session_resume_err(f, &s));
}

/* Another session serves as the clock: it is left, and seen to end. */
static void short_timeout_passes(struct fixture *f)
{
    struct keeper *clock = session_open(f, f->backend->short_timeout_ms);
    struct keeper_session s = session_of(clock);
    const char *tick = mk_flags(f, clock, "tick", KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL);

    session_abandon(f, clock);
    wait_gone(f->k, tick, ending_ms(&s));
}

/*
 * One session is held all the time, another was left and resumed. Both would end if they were left:
 * their timeout is over before the second of two short ones. They share the wait for it.
 */
static void session_that_is_held_or_goes_on_does_not_end(struct fixture *f)
{
    int32_t timeout_ms = f->backend->short_timeout_ms * 3 / 2;
    struct keeper *held = session_open(f, timeout_ms), *left = session_open(f, timeout_ms);
    struct keeper_session s = session_of(left);

    mk_flags(f, held, "of_held", KEEPER_EPHEMERAL);
    mk_flags(f, left, "of_left", KEEPER_EPHEMERAL);
    session_abandon(f, left);
    left = session_resume(f, &s);
    short_timeout_passes(f);
    short_timeout_passes(f);
    must(keeper_set(held, at(f, "of_held"), STR("x"), 0, NULL));
    must(keeper_set(left, at(f, "of_left"), STR("x"), 0, NULL));
}

const struct conformance_case session_cases[] = {
    CASE(session_has_a_name),
    CASE(session_without_options),
    CASE(session_timeout_has_limits),
    CASE(session_goes_on_after_being_left),
    CASE(session_goes_on_more_than_once),
    CASE(session_needs_its_password),
    CASE(session_survives_a_wrong_password),
    CASE(session_that_never_was),
    CASE(session_that_was_closed),
    CASE(session_is_taken_over),
    CASE(session_that_expired_refuses_every_call),
    CASE(session_that_expired_tells_its_watches),
    CASE(session_that_expired_may_be_abandoned),
    CASE(session_left_alone_ends),
    CASE(session_that_is_held_or_goes_on_does_not_end),
    {0},
};
