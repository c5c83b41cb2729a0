/* export - where the nodes of an export come from: shared by the files of drover export. */
#ifndef CLI_EXPORT_H
#define CLI_EXPORT_H

#include <stdio.h>

#include "cli/export_line.h"

/* Gets the lines, one after the other, and counts and sums them. */
struct zookeeper_tls;

struct export_output {
    FILE *to;
    struct buf line;
    int64_t nodes;
    uint32_t sum;
};

int export_begin(struct export_output *o, const struct export_head *h, struct err_info *ret_error);
int export_node(struct export_output *o, const struct transfer_node *n, struct err_info *ret_error);

/*
 * All nodes of an ensemble as of one transaction. REFUSED if the tree has changed meanwhile. auth:
 * "user:password", or NULL.
 */
int export_ensemble(const char *url, const char *auth, const struct zookeeper_tls *tls,
                    struct export_output *o, struct err_info *ret_error);

#endif
