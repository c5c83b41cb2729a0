/*
 * fixture - what a case stands on: its own root node, sessions, and small verbs that assert.
 *
 * A case gets a fixture with one open session (f->k) and a fresh root. Everything that the verbs
 * here hand out belongs to the fixture and goes after the case, also when an assertion jumped out
 * of it; so whatever a callback touches must come from keep() or from these verbs, never from a
 * case's stack. Assertions belong to the test's own thread: other threads return errors to it.
 *
 * Sessions may sit on different servers of an ensemble: before one session reads what another did,
 * it must catch_up().
 */
#ifndef CONFORMANCE_FIXTURE_H
#define CONFORMANCE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/mem.h"
#include "conformance.h"

/* A stat without the padding behind it, which holds anything. */
#define STAT_LEN (offsetof(struct keeper_stat, child_count) + sizeof(int32_t))

enum {
    LONG_TIMEOUT_MS = 30000, /* of sessions that must not end by themselves */
    PROMPT_MS = 20000,       /* sooner than LONG_TIMEOUT_MS: shows that no timeout was waited for */
    PATIENCE_MS = 60000,     /* when this is over, the keeper hangs */
};

struct fixture {
    const struct conformance_backend *backend;
    const void *arg; /* of the case */
    char root[160];
    bool rooted; /* the root was made, and is to be deleted */
    struct keeper *k;
    struct keeper *sessions[32]; /* k is the first */
    int sentinels;               /* see quiesce() */
    void **kept;
    size_t kept_count;
    pthread_mutex_t lock; /* of kept */
};

struct conformance_case {
    const char *name;
    void (*run)(struct fixture *f);
    const void *arg; /* a row of a table, when several cases share a function */
};

#define CASE(function)                                                                             \
    {                                                                                              \
#function, function, NULL                                                                  \
    }

/* Each file of cases has one list, which an empty row ends. */
extern const struct conformance_case commit_cases[], create_cases[], delete_cases[],
    dispatch_cases[], ephemeral_cases[], limits_cases[], multi_cases[], path_cases[], read_cases[],
    transaction_cases[], sequence_cases[], session_cases[], set_cases[], stat_cases[],
    thread_cases[], transaction_cases[], watch_callback_cases[], watch_cases[], watch_table_cases[];

int fixture_open(const struct conformance_backend *backend, const struct conformance_case *c,
                 struct fixture **ret_fixture);
void fixture_close(struct fixture *f);

/* How often a case may be run again because a connection broke under it, and where it begins. */
void fixture_allow_breaks(int count);
extern jmp_buf fixture_broken;

/* Frees p (from malloc) after the case. Returns it. From any thread. */
void *keep(struct fixture *f, void *p);

/* Errors by their names. */
#define expect_err(want, got) expect_err_at((want), (got), #got, __FILE__, __LINE__)
#define must(call) expect_err(0, call)
void expect_err_at(int want, int got, const char *what, const char *file, int line);

/* A path below the root; "" is the root itself. */
const char *at(struct fixture *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Makes a node and returns its path. rel is below the root. */
const char *mk(struct fixture *f, const char *rel, const char *data);
const char *mk_flags(struct fixture *f, struct keeper *k, const char *rel, int flags);

/* Reading with the session f->k. */
struct str must_get(struct fixture *f, const char *path);
struct keeper_names must_children(struct fixture *f, const char *path);
struct keeper_stat must_stat(struct keeper *k, const char *path);

#define expect_data(f, path, text) assert_string_equal(must_get((f), (path)).p, (text))
#define expect_stat_equal(a, b) assert_string_equal(stat_text(f, (a)), stat_text(f, (b)))
const char *stat_text(struct fixture *f, struct keeper_stat s);

/* Names separated by blanks. */
const char *children_text(struct fixture *f, const char *path);

/*
 * The whole tree below the root, a line a node. tree_dump has every detail a client can see;
 * tree_names only "path:version", separated by blanks, without the root.
 */
const char *tree_dump(struct fixture *f);
const char *tree_names(struct fixture *f);

/* Results of a multi that belong to the fixture. */
struct keeper_result *results_new(struct fixture *f, size_t count);
int multi(struct fixture *f, const struct keeper_op *ops, size_t count,
          struct keeper_result *results);

/*
 * Sessions beside f->k. They start caught up. Those still open after the case are closed then.
 * session_resume_err tells the error of trying.
 */
struct keeper *session_open(struct fixture *f, int32_t timeout_ms);
struct keeper *session_open_with(struct fixture *f, const struct keeper_options *o);
struct keeper *session_resume(struct fixture *f, const struct keeper_session *s);
int session_resume_err(struct fixture *f, const struct keeper_session *s);
struct keeper_session session_of(struct keeper *k);
void session_close(struct fixture *f, struct keeper *k);
void session_abandon(struct fixture *f, struct keeper *k);

/* Ends the session of k under its feet, as its server would. */
void session_expire(struct fixture *f, struct keeper *k);

/* k sees from here on what anybody did before. */
void catch_up(struct keeper *k);

/* Waits for a condition; fails the case when the time is over. */
typedef bool condition_fn(void *arg);
#define wait_until(condition, arg, ms) wait_until_at((condition), (arg), (ms), __FILE__, __LINE__)
void wait_until_at(condition_fn *condition, void *arg, int64_t ms, const char *file, int line);

#define wait_gone(k, path, ms) wait_until(path_is_gone, (&(struct place){(k), (path)}), (ms))
struct place {
    struct keeper *k;
    const char *path;
};
bool path_is_gone(void *place);

/* Conditions: the session of a struct keeper is over, and it knows. */
bool keeper_has_expired(void *keeper);

/* Runs fn(args + i * size) in `count` threads. Each returns NULL or what went wrong. */
void run_threads(struct fixture *f, size_t count, void *(*fn)(void *), void *args, size_t size);

#endif
