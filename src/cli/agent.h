/*
 * agent - runs nodes of a DAG on this machine for a server elsewhere, over HTTP.
 *
 * Three threads speak to the server, so that none waits for another: one claims, with a long poll,
 * whenever there is room; one renews what is claimed, and hears of kills; one sends what commands
 * print and how they ended, in order. The main thread has the loop on which the commands run
 * (runner.h). They hand each other messages.
 *
 * What always holds: a run's claim is renewed until its end has been told; an end is told until the
 * server has taken it or said that the run is no longer ours.
 */
#ifndef CLI_AGENT_H
#define CLI_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "dag/runner.h"
#include "http/transport.h"

enum {
    AGENT_LEASE_MS = 15 * 1000,
    AGENT_WAIT_MS = 20 * 1000,    /* of a claim */
    AGENT_FLUSH_MS = 500,         /* what is printed is sent this often */
    AGENT_PAUSE_MS = 500,         /* after a call that failed */
    AGENT_INLINE_LEN = 64 * 1024, /* outputs up to this go with the end */
};

struct agent;

/* One run. The loop's, but for `sent`, which is the sender's. */
struct agent_run {
    struct agent_run *next, *prev;
    struct agent *agent;
    struct arena arena; /* what it was claimed with */
    const char *node;
    int64_t task;
    struct run *run;
    size_t queued[RUN_STREAMS]; /* bytes that were handed to the sender */
    bool stopped;
    struct str claim; /* as the server gave it */
    struct agent_run *told_next;
    struct {
        bool begun;
        char next[24], pid[24]; /* where the value goes on, as the server said */
    } sent[RUN_STREAMS];
};

/* To the sender. */
struct agent_message {
    struct agent_message *next;
    struct agent_run *run;
    int stream; /* a piece of it, or -1: this is the end */
    struct buf text;
};

struct agent_options {
    const char *server, *token; /* as for a transport */
    const char *const *groups;
    uint32_t group_count;
    uint32_t jobs;
    int64_t lease_ms, grace_ms;
    const char *log_dir;
};

/* Runs until it is told to end by TERM or INT. The exit status. */
int agent_main(const struct agent_options *o);

/* For the sender (agent_send.c). */
struct agent_sender;

struct agent_sender *agent_sender_start(struct agent *a, const struct agent_options *o,
                                        int64_t client);
void agent_sender_put(struct agent_sender *s, struct agent_message *m); /* takes m */

/* Ends when all has been sent, or at once when the server cannot be reached for a while. */
void agent_sender_stop(struct agent_sender *s);

/* The sender has told the end of a run. From its thread. */
void agent_told(struct agent *a, struct agent_run *r);

#endif
