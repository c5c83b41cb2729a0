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

#endif
