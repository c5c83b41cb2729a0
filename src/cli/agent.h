/*
 * agent - runs nodes of a DAG on this machine for a server elsewhere, over HTTP.
 *
 * Three threads talk to the server, so that none blocks another (agent_calls.c): the claimer claims
 * tasks in the task store with a long poll, whenever a job is free, and asks to start their nodes;
 * the renewer renews the claims and waits for kills; the sender sends output and the ends of runs,
 * in order. The main thread runs the loop with the commands (agent.c, runner.h). doc/protocol.md
 * describes the protocol.
 *
 * Invariants: the claim of a run is renewed until the server has its end; the end is sent until the
 * server has accepted it or has answered that the run no longer belongs to this agent.
 */
#ifndef CLI_AGENT_H
#define CLI_AGENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/http_client.h"
#include "dag/runner.h"

enum {
    AGENT_LEASE_MS = 15 * 1000,
    AGENT_WAIT_MS = 20 * 1000,    /* of a claim */
    AGENT_FLUSH_MS = 500,         /* how often output is sent */
    AGENT_PAUSE_MS = 500,         /* before a failed call is repeated */
    AGENT_PATIENCE_MS = 5000,     /* for the last calls, after a signal */
    AGENT_INLINE_LEN = 64 * 1024, /* shorter outputs are sent with the end */
    AGENT_GROUPS_MAX = 100,
};

/* One run. */
struct agent_run {
    struct agent_run *next;
    struct agent *agent;
    struct arena arena;
    const char *node, *task_data;
    int64_t attempt;
    int64_t task;            /* changes with each renewal */
    const struct json *spec; /* the answer to the start */
    struct run *run;
    size_t queued[RUN_STREAMS]; /* bytes that were passed to the sender */
    bool stopped;
    bool lost, killed, over; /* with the lock: the claim is over; the server wants it killed; the
                                server has its end */
    struct {
        char next[24], pid[24]; /* where the value goes on; empty: at its beginning */
    } sent[RUN_STREAMS];        /* the sender's */
};

/* To the sender. */
struct agent_message {
    struct agent_message *next;
    struct agent_run *run;
    int stream; /* a piece of this output; -1: the end of the run */
    struct buf text;
};

struct agent {
    const char *groups[AGENT_GROUPS_MAX];
    uint32_t group_count, jobs_max;
    int64_t lease_ms, grace_ms;
    struct option_list labels; /* NAME=VALUE */
    const char *log_dir;       /* NULL: none */
    struct policy policy;

    struct client_config config;
    int64_t client; /* its id in the task store */
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t flush;
    uv_signal_t signals[2];
    struct runner *runner;
    pthread_t claimer, renewer, sender;
    struct client claims, renews, sends; /* of the threads */
    int stop_fd;                         /* readable: the claimer and the renewer must stop */
    bool closing;
    atomic_bool is_down; /* the last call failed */
    uint64_t renewals;   /* the renewer's: names its requests */

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t cond;
    bool stopping, finishing; /* finishing: all runs are over, the sender must stop */
    bool draining;            /* takes no more nodes, because the server says so */
    int64_t give_up_at;
    uint32_t busy;           /* runs, from the claim to the end */
    struct agent_run *runs;  /* the loop changes the list, with the lock */
    struct agent_run *fresh; /* to be started by the loop */
    struct agent_message *first_message, *last_message;
};

extern const char *const AGENT_OUTPUTS[RUN_STREAMS]; /* the data keys of the outputs */

/* The threads. */
void *agent_claim_main(void *arg);
void *agent_renew_main(void *arg);
void *agent_send_main(void *arg);

void agent_send(struct agent_run *r, int stream, struct buf *text); /* takes text */

#endif
