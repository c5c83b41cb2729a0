/*
 * fsck - checks a data directory and reports its content; on request cuts the journal at the first
 * damage.
 *
 * Checking changes nothing. Salvaging loses every transaction from the damage on, so it asks first.
 * Before it cuts, it saves what it cuts off in files whose names begin with "salvaged-":
 *
 *   1. the rest of the damaged segment is copied (a segment without a readable header is renamed)
 *   2. the segments after it are renamed, last one first, and so are snapshots that show later
 *      transactions than are left
 *   3. the damaged segment is cut
 *
 * A crash before the last step leaves the damage where it was: salvage again.
 */
#ifndef KEEPER_LOCAL_FSCK_H
#define KEEPER_LOCAL_FSCK_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

struct fsck_options {
    const char *dir;
    bool dump;    /* print every transaction of the journal */
    bool salvage; /* cut at the first damage, after `confirm` has agreed */
    bool (*confirm)(void *arg, const char *question);
    void *arg;
    FILE *out;
};

/* 0: valid, or salvaged. Otherwise the error; the reason was printed to out. */
int fsck_run(const struct fsck_options *o, struct err_info *ret_error);

#endif
