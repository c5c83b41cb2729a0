/*
 * backup - GET /v1/backup: the state of the embedded keeper as a stream (keeper/local/backup.h).
 *
 * Files are read on a thread of libuv's pool, a piece at a time; the next piece is read when the
 * client has read the last one. So a slow client costs one piece of memory, one segment, and the
 * disk space of the files that it is being sent, and is disconnected when it does not read a piece
 * within HTTP_WRITE_TIMEOUT_MS. One backup is sent at a time.
 *
 * A failure before the first byte is an answer like any other. After that the connection is closed
 * in the middle of the stream, so that nobody takes a part for the whole.
 */
#ifndef SERVER_BACKUP_H
#define SERVER_BACKUP_H

#include "server/context.h"

struct route_table backup_routes(struct context *h);

#endif
