/*
 * started - records which claimed runs were really started, for the next server process.
 *
 * A node is claimed durably some time before its command is started. When the server dies in
 * between, the claim alone does not say whether the command ran. Therefore each start is marked,
 * just before it happens, in a memory-mapped file: that costs no system call, and survives the
 * process however it ends. It does not survive a reboot: then nothing is known.
 *
 * In order: started_open() -> reading the marks of the previous process: started_is_reliable(),
 * started_find(), started_keep() -> started_settle() -> started_mark() before each start,
 * started_clear() when the end of the run is durable -> started_close().
 *
 * The file, one page and 16 bytes per mark:
 *     "drover runs 1\n\0\0", the boot id (40 bytes; 0: the marks are unreliable), zeros to 4096;
 *     marks: node (8 bytes; 0: free), attempt (4), zeros (4); in native byte order.
 */
#ifndef DAG_STARTED_H
#define DAG_STARTED_H

#include <stdbool.h>
#include <stdint.h>

enum { STARTED_MAX = 4095 };

struct started;

/* NULL: the file cannot be used. */
struct started *started_open(const char *dir);
void started_close(struct started *s);

/* Whether a run without a mark was certainly not started. */
bool started_is_reliable(const struct started *s);

/* The mark of a run, from 1; 0: none. */
uint32_t started_find(const struct started *s, uint64_t node, uint32_t attempt);

/* Finds or creates a mark that started_settle() does not clear. */
uint32_t started_keep(struct started *s, uint64_t node, uint32_t attempt);

/* Clears all marks that were not kept. From now on the marks are reliable. */
void started_settle(struct started *s);

/* 0: too many marks; then they are unreliable until the next start of the server. */
uint32_t started_mark(struct started *s, uint64_t node, uint32_t attempt);
void started_clear(struct started *s, uint32_t mark);

#endif
