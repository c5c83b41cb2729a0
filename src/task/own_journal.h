/*
 * own_journal - a journal implemented by the user of the library: struct drover_journal.
 *
 * It gets records: the nodes of the keeper's tree that a transaction has set or deleted. Replaying
 * a record is idempotent, also onto a later snapshot. So a snapshot is all nodes, written while
 * changes go on, and replaying the records appended since its beginning makes it exact.
 *
 * A record, version 1, numbers little-endian: u8 version, then nodes up to the end, each
 *   u8 1 (set) or 2 (deleted), u16 length of the path, path; if set: u32 length of the data, data
 */
#ifndef TASK_OWN_JOURNAL_H
#define TASK_OWN_JOURNAL_H

#include "base/err.h"
#include "keeper/local/local.h"

struct own_journal;

/* Replays into the keeper, which is empty and in memory. */
int own_journal_open(const struct drover_journal *j, bool later, int64_t snapshot_every,
                     struct local *l, struct own_journal **ret_journal, struct err_info *e);

/* Appends the queued records. No further append may follow. */
void own_journal_close(struct own_journal *j);

/* Appends a transaction, for service_options.journal: under the service's lock, one at a time. */
int own_journal_append(void *arg, const struct keeper_op *ops, size_t count);

/* Appends before it returns, also in opportunistic mode: before the first own_journal_append(). */
int own_journal_append_now(void *arg, const struct keeper_op *ops, size_t count);

/*
 * passed is called after the beginning of a snapshot. It returns when every transaction appended
 * before is in the keeper, so that the snapshot includes it.
 */
void own_journal_set_barrier(struct own_journal *j, void (*passed)(void *arg), void *arg);

int own_journal_snapshot(struct own_journal *j);
int own_journal_snapshotting(struct own_journal *j);

#endif
