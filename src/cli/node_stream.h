/*
 * node_stream - reads the output of a node from the server as chunks (dag/output_format.h), and
 * passes on what it gets, piece by piece, as it comes. When the connection breaks, it connects
 * again and goes on where it was.
 */
#ifndef CLI_NODE_STREAM_H
#define CLI_NODE_STREAM_H

#include "cli/http_client.h"
#include "dag/output_format.h"

enum { NODE_STREAM_PATIENCE_MS = 30 * 1000 }; /* for the server to come back */

/* Reads records as their bytes come, without waiting for all of one. */
struct chunk_parser {
    char head[OUTPUT_HEAD_LEN + OUTPUT_NUMBERS_LEN];
    size_t have; /* of the head, and of numbers */
    struct output_record now;
    size_t left; /* of its data */
    uint32_t crc;
};

/*
 * data: a part of what the command printed. gap: so many bytes were not kept. at: where the next
 * byte stands in the stream; another run begins if the number of the run is another. What a
 * function returns other than 0 ends the reading.
 */
struct chunk_sink {
    int (*data)(void *arg, enum run_stream s, int64_t time_ms, struct str bytes);
    int (*gap)(void *arg, uint64_t bytes);
    int (*at)(void *arg, uint64_t offset, uint64_t run); /* NULL: not called */
    void *arg;
};

/* 0, what the sink returned, or DAMAGED. */
int chunk_parse(struct chunk_parser *p, struct str bytes, const struct chunk_sink *sink);

struct node_stream {
    struct client *c;
    const char *id; /* of the node */
    enum run_stream stream;
    bool follow, attach;
    int64_t from; /* negative: from the end */
    const struct chunk_sink *sink;

    /* Private. */
    uint64_t next, run;
    bool begun;
    int sink_err;
    struct chunk_parser parser;
};

/* Exit status; *ret_err: what the sink returned, which is no failure. */
int node_stream_read(struct node_stream *o, int *ret_err);

/* The id of a node, by its id or its name: the newest of that name. In the client's arena. */
int node_stream_find(struct client *c, const char *name, const char **ret_id);

#endif
