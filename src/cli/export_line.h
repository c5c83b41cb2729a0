/*
 * export_line - the lines of an export: JSON, one object a line. Pure.
 *
 *   {"drover":"export","version":1,"from":"embedded","zxid":4711,"time":1700000000123}
 *   {"path":"/a","data":"text","czxid":3,"ctime":1700000000000,"mzxid":5,...}
 *   ...
 *   {"end":2,"crc32c":"0a1b2c3d"}
 *
 * The first line says where the nodes come from: "embedded" or "ensemble", the last transaction,
 * and when. Then each node has a line, in the order of their creation, parents first:
 *
 *   path                 required
 *   data, base64         its data, as text or, if it is none, in base64; neither: no data
 *   czxid, ctime         required: the transaction that created it, and when (ms since the epoch)
 *   mzxid, mtime         of the last set; default: those of the creation
 *   pzxid                of the last change of its children; default: czxid
 *   version, aversion    how often data and access list were set; default: 0
 *   created              how many children it ever had: the next sequence number; default: 0
 *   acl                  [{"scheme":"digest","id":"u:h","permissions":31}]; default: open to all,
 *                        or to the one who imports it
 *   container, ttl       true; time to live in ms
 *
 * The last line has the number of nodes and the CRC32C of all lines before it, with their ends. A
 * file that was changed by hand may leave the sum out. Without the last line a file is incomplete.
 *
 * To change the format, raise EXPORT_VERSION and keep reading the old one.
 */
#ifndef CLI_EXPORT_LINE_H
#define CLI_EXPORT_LINE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "keeper/local/transfer.h"

enum { EXPORT_VERSION = 1 };

struct export_head {
    bool from_ensemble;
    int64_t zxid, time_ms;
};

struct export_end {
    int64_t nodes;
    bool has_sum;
    uint32_t sum;
};

/* Each appends a line with its end. */
void export_put_head(struct buf *b, const struct export_head *h);
int export_put_node(struct buf *b, const struct transfer_node *n, struct err_info *ret_error);
void export_put_end(struct buf *b, const struct export_end *e);

enum export_line_kind { EXPORT_HEAD, EXPORT_NODE, EXPORT_END };

struct export_line {
    enum export_line_kind kind;
    struct export_head head;
    struct transfer_node node;
    struct export_end end;
};

/* Reads a line without its end. What it gives points into the arena and the line. */
int export_read(struct arena *a, struct str line, struct export_line *ret_line,
                struct err_info *ret_error);

#endif
