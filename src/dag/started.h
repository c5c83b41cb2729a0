/*
 * started - which runs this machine's server has really started, for the server after it.
 *
 * A node is claimed, durably, some time before its command is started; a server that dies in between
 * leaves a claim of which nobody could say whether the command ran. So each start is written, just
 * before it happens, into a file that is mapped into memory: that costs nothing, and outlives the
 * process however it ends. It does not outlive the machine: after another boot nothing is known.
 *
 * In order: started_open() -> with what it says of before: started_is_sure(), started_find(),
 * started_keep() -> started_settle() -> started_mark() before each start, started_clear() when how the
 * run ended is durable -> started_close().
 *
 * The file, one page and 16 bytes a mark:
 *     "drover runs 1\n\0\0", the boot's id (40 bytes, 0: not to be believed), zeros to 4096;
 *     marks: node (8 bytes; 0: free), attempt (4), zeros (4); in the byte order of the machine.
 */
#ifndef DAG_STARTED_H
#define DAG_STARTED_H

#include <stdbool.h>
#include <stdint.h>

enum { STARTED_MAX = 4095 };

struct started;

/* NULL: it cannot be had, and nothing will be known. */
struct started *started_open(const char *dir);
void started_close(struct started *s);

/* Whether a run that is not marked was certainly not started. */
bool started_is_sure(const struct started *s);

/* The mark of a run, from 1, or 0. */
uint32_t started_find(const struct started *s, uint64_t node, uint32_t attempt);

/* A mark that stays when it is settled; made if there is none. */
uint32_t started_keep(struct started *s, uint64_t node, uint32_t attempt);

/* All other marks go, and from now on they are believed. */
void started_settle(struct started *s);

/* 0: there are too many; then nothing is believed until the next start of a server. */
uint32_t started_mark(struct started *s, uint64_t node, uint32_t attempt);
void started_clear(struct started *s, uint32_t mark);

#endif
