/* http_impl - what the routes of the DAG share. Private to this directory. */
#ifndef DAG_HTTP_IMPL_H
#define DAG_HTTP_IMPL_H

#include "dag/service.h"
#include "server/modules.h"

/* The fields of all routes (http_routes.c). */
struct dag_in {
    struct str id, key, node;
    const int64_t *ids;
    const struct str *types, *states, *metadata;
    size_t id_count, type_count, state_count, metadata_count;
    struct str new_id, start, pid, reason, outputs[RUN_STREAMS];
    int64_t limit, wait, timeout, clientid, task, attempt, after, status;
    const struct json *value, *nodes;
    int how; /* enum run_how */
    bool chain;
};

struct route_table dag_routes(void *dag);

/* A request that is answered later. It outlives its client. */
struct dag_call {
    struct dag *dag;
    struct http_request *r; /* NULL: the client has left */
    struct arena arena;
    const int64_t *ids;
    size_t count, pending;
    int err;
    struct buf out;
};

struct dag_call *dag_call_new(struct http_request *r);
void dag_call_free(struct dag_call *c); /* the request was answered, or its client has left */

/* A dag_done_fn: answers a call with an error or with `out`, and frees it. */
void dag_call_done(void *call, int err);

/* The argument of a request is the DAG. False after the answer that it is not available here. */
bool http_is_ready(struct http_request *r);

/* The node with this id, or NULL after an answer. */
struct dag_node *http_find_node(struct http_request *r, struct str id);
struct dag_node *http_node(struct http_request *r); /* of the path */

/*
 * Checks `start` and `pid` of a page. False after an answer: 400, or 410 when the pid is neither of
 * these two. Without `start` the page is the first, and *ret_start is not set.
 */
bool http_read_start(struct http_request *r, const char *pid, const char *other_pid,
                     uint64_t *ret_start);
void http_put_pagination(struct buf *b, uint64_t next, const char *pid);

void http_put_id(struct buf *b, uint64_t id);
void http_member_id(struct buf *b, const char *name, uint64_t id);
void http_reply_buf(struct http_request *r, struct buf *b); /* 200; releases b */

/* Metadata as JSON, of the fields in the set; ~0u: all. */
void node_put_metadata(struct buf *b, struct dag *d, const struct dag_node *n, unsigned fields);

/* The output of a run in this process, or NULL. */
const struct run_output *node_live(const struct dag_node *n, struct str key);

/* Handlers, by file. */
route_fn http_get_nodes, http_post_nodes, http_get_node, http_delete_node;
route_fn http_get_keys, http_get_value, http_put_value;
route_fn http_get_scheduler, http_put_kill, http_put_retry, http_get_wait;
route_fn http_post_start, http_get_kills, http_post_done;

#endif
