/*
 * serve - the server: a keeper, the rooms on it, HTTP and ZooKeeper's protocol in front.
 */
#ifndef SERVER_SERVE_H
#define SERVER_SERVE_H

#include "cli/cmd.h"
#include "keeper/local/local.h"

struct serve_options {
    const char *data;             /* NULL: the usual place */
    const char *keeper, *zk_auth; /* of an ensemble; NULL: the embedded keeper */
    int journal;                  /* enum local_mode */
    struct cmd_address http, zk;  /* where to listen */
    const char *token_file;       /* NULL: no token */
    struct cmd_list http_hosts;   /* further names of this server */
    const char *log_dir;          /* of what commands print; NULL: none */
    const char *pipeline;         /* the states of batches and jobs; NULL: the built-in ones */
    const char *on_batch_done;    /* a command or a URL; NULL: none */
    const char *queue_ns;         /* of queues and their workers; NULL: as in the document */
    int64_t world_retention_ms;   /* 0: completed tasks are kept */
    int64_t queue_retention_ms, queue_error_retention_ms; /* 0: as usual */
    int64_t jobs; /* commands at a time; -1: as many as there are cores */
    int64_t snapshot_every, http_timeout_ms, connections_max, zk_timeout_ms; /* 0: as usual */
};

/* Runs until TERM or INT. Returns the exit status. */
int serve(const struct serve_options *o);

#endif
