/*
 * What a command may do with the token of its node: add nodes below its node, and change its node,
 * the parents of that, and everything below. Whoever has the role `run` otherwise may do all of it.
 */
#include "dag/service.h"
#include "server/auth.h"

enum { LOOKS_MAX = 10000 }; /* edges that are followed; a graph may have many ways up */

static bool is_below(const struct dag_plan *p, uint32_t ref, uint32_t top, int *looks)
{
    bool below = ref == top;
    plan_each_parent(e, p, ref) {
        if (below || --*looks < 0)
            break;
        below = is_below(p, p->edges[e].parent, top, looks);
    }
    return below;
}

static bool is_parent(const struct dag_plan *p, uint32_t ref, uint32_t child)
{
    plan_each_parent(e, p, child)
        if (p->edges[e].parent == ref)
            return true;
    return false;
}

/* The node whose command sends the request; NULL: it is no command. */
static const struct dag_node *sender(const struct http_request *r)
{
    const struct dag *d = r->arg;
    return r->who && r->who->node ? graph_find(&d->graph, r->who->node) : NULL;
}

static bool forbid(struct http_request *r, const char *what)
{
    http_forbid_what(r, what);
    return false;
}

bool dag_may_change(struct http_request *r, const struct dag_node *n)
{
    const struct dag_plan *p = &((const struct dag *)r->arg)->graph.plan;
    const struct dag_node *own = sender(r);
    int looks = LOOKS_MAX;
    return !own || is_parent(p, n->ref, own->ref) || is_below(p, n->ref, own->ref, &looks) ||
           forbid(r, "change only its node, the parents of that, and what is below");
}

bool dag_may_change_runs(struct http_request *r)
{
    return !sender(r) || forbid(r, "not change runs");
}

bool dag_may_add(struct http_request *r, const struct draft *draft)
{
    const struct dag_plan *p = &((const struct dag *)r->arg)->graph.plan;
    const struct dag_node *own = sender(r);
    int looks = LOOKS_MAX;
    bool below = !draft->root_count;
    for (uint32_t i = 0; own && below && i < draft->parent_count; i++)
        below = is_below(p, draft->parents[i]->ref, own->ref, &looks);
    return !own || below || forbid(r, "add nodes only below its own");
}

bool dag_may_be_agent(struct http_request *r)
{
    return !sender(r) || forbid(r, "not act as an agent");
}

bool dag_runs(void *dag, uint64_t node, uint32_t attempt)
{
    const struct graph *g = &((const struct dag *)dag)->graph;
    const struct dag_node *n = graph_find(g, node);
    return n && n->attempts == attempt && n->agent && !node_state_is_terminal(graph_state(g, n));
}

const char *dag_password(const struct dag *d, const struct dag_node *n, struct arena *a)
{
    if (!d->context->auth)
        return NULL;
    char *password = arena_alloc(a, AUTH_NODE_TOKEN_SIZE);
    auth_node_token(d->context->auth, n->id, n->attempts, password);
    return password;
}
