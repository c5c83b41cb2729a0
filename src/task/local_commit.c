/*
 * Committing to the embedded keeper: one transaction, decided at once.
 *
 * Nobody else writes below /drover/tasks and /drover/requests, so only an extra operation, a full
 * disk or a transaction that is too big can be refused; then the tree is unchanged, and memory is
 * undone before the next request runs.
 */
#include "task/service_impl.h"

void local_commit(struct service *s, struct task_request *r)
{
    const struct task_txn *const txn = r->own.txn;
    int64_t zxid;
    int err = 0;

    service_put(s, r);
    task_tree_put_ceiling(s->tree, &s->commit, store_last_id(s->store));
    if (s->commit.bytes > KEEPER_REQUEST_MAX / 2 && /* an estimate: now exactly */
        keeper_request_size(s->commit.ops, s->commit.count) > KEEPER_REQUEST_MAX)
        err = DROVER_TOO_BIG;
    if (!err && s->o.journal)
        err = s->o.journal(s->o.journal_arg, s->commit.ops, s->commit.count);
    if (!err)
        err = keeper_apply(s->keeper, s->commit.ops, s->commit.count, &zxid);
    if (err) {
        service_undo(s, r);
        task_tree_undo(s->tree, &s->commit, &txn, 1);
        r->own.err = err;
        r->own.park = false;
        service_answer(s, r);
        return;
    }
    s->zxid = zxid;
    s->stats.commits++;
    task_tree_settle(s->tree, &s->commit);
    service_settle(s, r);
}
