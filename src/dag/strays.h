/*
 * strays - the processes that belong to a run, wherever they have gone.
 *
 * A process belongs to a run when it is in the group or the session of the run's leader, or when its
 * environment holds the run's token, which children inherit. Found by reading /proc, so it is for
 * killing, not for every run.
 */
#ifndef DAG_STRAYS_H
#define DAG_STRAYS_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Sends a signal to all that belong to the run (0: to none) and returns how many are alive. leader 0:
 * by the token alone.
 */
uint32_t strays_signal(pid_t leader, const char *token, int signal_number);

/* Who was asked to end. Zero-initialise; release when done. */
struct strays {
    pid_t *asked;
    size_t count;
};

/*
 * Asks all that belong to the run to end (TERM), each of them once however often this is called: one
 * that was born while others were being asked is found the next time. Returns how many are alive.
 */
uint32_t strays_ask(struct strays *s, pid_t leader, const char *token);
void strays_release(struct strays *s);

#endif
