/* http_impl - what the files of the DAG's routes share. For the files of this folder only. */
#ifndef DAG_HTTP_IMPL_H
#define DAG_HTTP_IMPL_H

#include "dag/dag_impl.h"
#include "server/context.h"
#include "server/modules.h"

struct dag_http {
    struct context *context;
    struct dag *dag;
    struct http_topic added;   /* nodes were added */
    struct http_topic printed; /* a command printed, or a node ended */
    uv_timer_t again;          /* reads what is kept once more, after a failure */
    uv_timer_t printer;
    bool printing;
    uv_work_t reading;
    int read_err;
    bool closing;
    uv_async_t news; /* from the leader's thread, with the lock: */
    uv_mutex_t lock;
    struct dag_saved *saved;
    bool stopped;
    struct err_info read_why;
    int handles;
};

/* A request that is answered later. It outlives its client. */
struct dag_call {
    struct dag_http *h;
    struct http_request *r; /* NULL: the client has left */
    struct arena arena;
    struct dag_node **nodes;
    uint64_t *ids;
    size_t count, pending;
    int err;
    struct buf out;
};

struct dag_call *dag_call_new(struct http_request *r);
void dag_call_take(struct dag_call *c,
                   struct http_request *r); /* the same for a call made before */
void dag_call_free(struct dag_call *c);     /* the request must have been answered, or be gone */

/* The DAG, or NULL after it was answered that there is none here and now. */
struct dag *http_dag(struct http_request *r);

/* The node that the path or a field names, or NULL after a 404. */
struct dag_node *http_node(struct http_request *r, struct dag *d);
struct dag_node *http_find_node(struct http_request *r, struct dag *d, struct str id);

void http_put_id(struct buf *b, uint64_t id);

/* The nodes of ?id=1,2,3 in the call. False after an answer. */
bool http_nodes(struct dag_call *c, struct dag *d);

/* Metadata as JSON, of the fields in the set; ~0u: all. */
void node_put_metadata(struct buf *b, struct dag *d, const struct dag_node *n, unsigned fields);
int node_metadata_field(struct str name); /* its bit's number, or -1 */

/* Whether the node's outputs are in this process, still growing. */
const struct run_output *node_live(const struct dag_node *n, struct str key);

/* Routes, by file. */
route_fn http_get_nodes, http_post_nodes, http_get_node, http_delete_node;
route_fn http_get_keys, http_get_value, http_put_value;
route_fn http_get_scheduler, http_put_kill, http_put_retry, http_get_wait;
route_fn http_post_start, http_get_kills, http_post_done;

/* Waits of /v1/scheduler/wait. */
void node_waits_notify(struct dag_node *n);
void node_waits_end(struct graph *g);

#endif
