/*
 * identity - who asks for something, and what they may do.
 *
 * A role is the right to use a part of the system. Every route names the roles of which one is
 * needed, and so does every request of the ZooKeeper port. ROLE_ADMIN includes all others.
 *
 * An identity may be limited to groups, worlds and queues by patterns. It then reaches what they
 * match and nothing else: with a pattern for groups only, no world and no queue.
 *
 * Whoever recognises a client makes its identity, with one reference; whoever keeps it takes
 * another, on any thread. It does not change once a second one is taken.
 */
#ifndef BASE_IDENTITY_H
#define BASE_IDENTITY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum role {
    ROLE_READ = 1,   /* see everything */
    ROLE_WORK = 2,   /* claim, finish and change what is there: tasks, queues, jobs, locks */
    ROLE_SUBMIT = 4, /* add tasks, messages, batches, worlds and queues */
    ROLE_RUN = 8, /* add nodes, which are commands that the server runs; kill them; be an agent */
    ROLE_ADMIN = 16, /* change rights, and what the server itself stands on */
    ROLE_ALL = 31,
};

/* "read,work", "all" or "none". */
int roles_parse(struct str text, unsigned *ret_roles, struct err_info *ret_error);
void roles_put(struct buf *b, unsigned roles); /* "read, work" */

/* The name of one role. */
const char *role_name(enum role role);

/* What an identity may be limited to. */
enum identity_scope { SCOPE_GROUP, SCOPE_WORLD, SCOPE_QUEUE, SCOPE_COUNT };

enum {
    IDENTITY_NAME_SIZE = 96,
    SCOPE_PATTERNS_MAX = 32,
    SCOPE_PATTERN_LEN_MAX = 1025, /* the longest name, of a group, and a "*" */
};

struct identity {
    atomic_int references;
    unsigned roles;
    bool anonymous;                /* anybody: a token could help */
    char name[IDENTITY_NAME_SIZE]; /* for logs: "token 5f3a09c1 (mail)", "user ben", "loopback" */
    int64_t expires_ms;            /* wall time; 0: never */
    uint64_t node;                 /* a command of this node, which may change only what is below
                                      it; 0: none */
    bool limited;
    char *patterns[SCOPE_COUNT][SCOPE_PATTERNS_MAX]; /* owned; a name, or a prefix and "*" */
    size_t pattern_count[SCOPE_COUNT];
};

/* A new one, with a reference, without limits. */
struct identity *identity_new(unsigned roles, const char *name);

/* Limits it, to this pattern too. False: there are too many patterns of that kind. */
bool identity_limit(struct identity *who, enum identity_scope scope, struct str pattern);

struct identity *identity_keep(struct identity *who);
void identity_drop(struct identity *who); /* NULL is allowed */

/* Whether it has one of the roles. */
static inline bool identity_may(const struct identity *who, unsigned roles)
{
    return who->roles & (roles | ROLE_ADMIN);
}

/* Whether it may have commands run as it likes: a command may do so below its own node only. */
static inline bool identity_may_run(const struct identity *who)
{
    return identity_may(who, ROLE_RUN) && !who->node;
}

/* Whether a pattern, which is a name, or a prefix and "*", stands for a name. */
bool identity_matches(struct str pattern, struct str name);

/* Whether the limits allow a group, a world or a queue of this name. */
bool identity_reaches(const struct identity *who, enum identity_scope scope, struct str name);

#endif
