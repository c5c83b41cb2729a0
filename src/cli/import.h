/* import - an export that was read and checked: shared by the files of drover import. */
#ifndef CLI_IMPORT_H
#define CLI_IMPORT_H

#include "cli/export_line.h"

struct zookeeper_tls;

struct import_line {
    uint64_t at; /* in the text */
    uint32_t len;
};

/* The whole file, in memory. */
struct import_file {
    struct str text;
    struct export_head head;
    struct import_line *nodes;
    size_t count, cap;
    uint32_t sum; /* with the length, what tells it from other files */
};

/* Reads the line of a node again. It was checked before. */
void import_node(const struct import_file *f, size_t i, struct arena *a,
                 struct transfer_node *ret_node);

/*
 * Writes all nodes to an ensemble. If it is interrupted, the same call goes on where it was; until
 * then no server uses the tree (LEADER_IMPORT in election.h). auth: "user:password", or NULL.
 */
int import_ensemble(const char *url, const char *auth, const struct zookeeper_tls *tls,
                    const struct import_file *f, struct err_info *ret_error);

#endif
