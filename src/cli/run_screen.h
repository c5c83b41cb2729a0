/*
 * run_screen - the progress of a run on a terminal: a bar with counts and the time left, and below
 * it the nodes that run, with the time they have run and the last line of their output. The block
 * is at the end of stderr and is overwritten; what stays is printed after run_screen_clear().
 *
 * At each poll: run_screen_running() for every node that runs, in the order of ids, then
 * run_screen_read() and run_screen_show(). Of many nodes that run the first RUN_TAILS are shown.
 */
#ifndef CLI_RUN_SCREEN_H
#define CLI_RUN_SCREEN_H

#include "cli/dag.h"
#include "cli/term.h"

enum { RUN_TAILS = 6 };

struct run_screen {
    bool on; /* stderr is a terminal that can be overwritten */
    bool coloured, utf8;
    size_t lines; /* that are shown */
    struct run_tail {
        uint64_t id; /* 0: free */
        struct str name;
        int64_t started_ms;
        bool seen; /* in this poll */
        char id_text[24];
        struct dag_output output;
        char line[400]; /* the last one */
    } tails[RUN_TAILS];
};

struct run_progress {
    size_t over, total;
    uint32_t running;
    int64_t left_ms; /* 0: unknown */
    int64_t now_ms;
};

void run_screen_init(struct run_screen *s);
void run_screen_running(struct run_screen *s, uint64_t id, struct str name, int64_t started_ms);
void run_screen_read(struct run_screen *s, struct client *c);
void run_screen_show(struct run_screen *s, const struct run_progress *p);
void run_screen_clear(struct run_screen *s);

/* The block for a width, a line for each node; pure. */
void run_screen_put(const struct run_screen *s, const struct run_progress *p, size_t columns,
                    struct buf *b);

#endif
