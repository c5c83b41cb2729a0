/*
 * own_journal - a journal that the user of the library brings: struct drover_journal.
 *
 * What it is handed are records: the nodes of the keeper's tree that a transaction leaves behind or takes
 * away. A record can be replayed twice, or over a snapshot that was taken later than it, and the result
 * is the same; so a snapshot is the nodes one after the other while work goes on, and replaying what was
 * appended since its beginning makes it exact.
 *
 * A record, version 1, numbers little-endian: u8 version, then nodes up to the end, each
 *   u8 1 (is) or 2 (is no more), u16 length of the path, path; where it is: u32 length of the data, data
 */
#ifndef TASK_OWN_JOURNAL_H
#define TASK_OWN_JOURNAL_H

#include "base/err.h"
#include "keeper/local/local.h"

struct own_journal;

/* Replays into the keeper, which is empty and in memory. */
int own_journal_open(const struct drover_journal *j, bool later, int64_t snapshot_every,
                     struct local *l, struct own_journal **ret_journal, struct err_info *e);

/* Appends what is left. Nothing may be appended any more. */
void own_journal_close(struct own_journal *j);

/* One transaction; for service_options.journal. Under the service's lock, so one at a time. */
int own_journal_append(void *arg, const struct keeper_op *ops, size_t count);

/*
 * passed is called after a snapshot's beginning was told: it returns when every transaction that was
 * appended before is in the keeper, so that the snapshot has it.
 */
void own_journal_set_barrier(struct own_journal *j, void (*passed)(void *arg), void *arg);

int own_journal_snapshot(struct own_journal *j);
int own_journal_snapshotting(struct own_journal *j);

#endif
