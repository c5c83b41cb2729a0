/*
 * start_fault - fails the nth call of a kind, in a program that is linked with --wrap for each of
 * the calls (meson.build has the list).
 *
 * Calls are counted from fault_arm() on, in all threads. The counts are in memory that a parent
 * shares with the children it forks.
 */
#ifndef CRASH_START_FAULT_H
#define CRASH_START_FAULT_H

#include <stdbool.h>

enum fault_kind { FAULT_MEMORY, FAULT_THREAD, FAULT_HANDLE, FAULT_FILE, FAULT_KEEPER, FAULT_NONE };

struct fault {
    enum fault_kind kind;
    long nth; /* the call that fails */
    _Atomic long calls;
    _Atomic bool hit;
    char name[32]; /* of the call that failed */
};

void fault_arm(struct fault *shared);
void fault_disarm(void);

#endif
