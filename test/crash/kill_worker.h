/*
 * kill_worker - the process that test_kill kills. It opens the store, lets every lane of the
 * workload write, takes snapshots without a pause, writes to a pipe after a while, and goes on
 * until it is killed.
 */
#ifndef CRASH_KILL_WORKER_H
#define CRASH_KILL_WORKER_H

#include "workload.h"

struct kill_order {
    enum local_mode mode;
    const char *dir;
    const char *board; /* a file that holds a struct board */
    int64_t span_ms;   /* from the first acknowledgement to "now" */
};

/* A fresh board in a new file of this name, or the one that is there. */
struct board *board_map(const char *path);
void board_unmap(struct board *b);

/* Starts this program again as a worker. Gives its pid and the end of the pipe to read from. */
int worker_start(const struct kill_order *order, int *ret_pipe);

/* What main does with the arguments that worker_start gave. Returns only when something fails. */
int worker_main(char **argv);

#endif
