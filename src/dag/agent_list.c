/*
 * Agents, as they announce themselves: who they are, which groups they serve, how many commands
 * they run at a time. In memory only, because each agent says it again within a third of its lease.
 * One that has not been heard of for its lease is gone.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "dag/service.h"

enum { AGENTS_MAX = 10000 };

struct dag_agent {
    int64_t client;
    char *host, *labels; /* labels: a JSON object, or NULL */
    char **groups;
    size_t group_count;
    int64_t jobs, lease_ms, heard_ms;
    bool drain;
};

struct dag_agents {
    struct dag_agent *items;
    size_t count, cap;
};

static void forget(struct dag_agent *a)
{
    for (size_t i = 0; i < a->group_count; i++)
        free(a->groups[i]);
    free(a->groups);
    free(a->host);
    free(a->labels);
}

void dag_agents_free(struct dag_agents *all)
{
    for (size_t i = 0; all && i < all->count; i++)
        forget(&all->items[i]);
    if (all)
        free(all->items);
    free(all);
}

/* Removes those that are gone. Of the others, the one with this client id, or NULL. */
static struct dag_agent *find_agent(struct dag *d, int64_t client)
{
    struct dag_agents *all = d->agents;
    int64_t now = dag_now_ms(d);
    struct dag_agent *found = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        struct dag_agent *a = &all->items[i];
        if (now - a->heard_ms > a->lease_ms) {
            forget(a);
            continue;
        }
        all->items[kept] = *a;
        if (a->client == client)
            found = &all->items[kept];
        kept++;
    }
    all->count = kept;
    return found;
}

bool dag_agent_drains(struct dag *d, int64_t client)
{
    const struct dag_agent *a = find_agent(d, client);
    return a && a->drain;
}

/* Announcing. */

/* A server that has just begun to lead learns from the agent whether it drains. */
static struct dag_agent *add_agent(struct dag *d, int64_t client, bool draining)
{
    struct dag_agents *all = d->agents;
    if (all->count == AGENTS_MAX)
        return NULL;
    mem_grow(all->items, all->count, all->cap);
    all->items[all->count] = (struct dag_agent){.client = client, .drain = draining};
    return &all->items[all->count++];
}

static void describe(struct dag_agent *a, const struct dag_in *in, int64_t now_ms)
{
    bool drain = a->drain;
    int64_t client = a->client;
    forget(a);
    *a = (struct dag_agent){
        .client = client,
        .host = mem_dup(in->host.p ? in->host.p : "", in->host.len),
        .labels = in->labels ? mem_dup(in->labels->raw.p, in->labels->raw.len) : NULL,
        .groups = mem_zalloc((in->group_count + 1) * sizeof *a->groups),
        .group_count = in->group_count,
        .jobs = in->jobs,
        .lease_ms = in->lease,
        .heard_ms = now_ms,
        .drain = drain,
    };
    for (size_t i = 0; i < in->group_count; i++)
        a->groups[i] = mem_dup(in->groups[i].p, in->groups[i].len);
}

static void reply_drain(struct http_request *r, bool drain)
{
    http_reply(r, 200, drain ? STR("{\"drain\":true}") : STR("{\"drain\":false}"));
}

void http_put_agent(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    if (!http_is_ready(r) || !dag_may_be_agent(r))
        return;
    if (in->labels && in->labels->kind != JSON_OBJECT) {
        http_reply_field(r, "labels", "labels must be an object of names to texts");
        return;
    }
    struct dag_agent *a = find_agent(d, in->clientid);
    if (!a)
        a = add_agent(d, in->clientid, in->draining);
    if (!a) {
        http_reply_errorf(r, 409, "there are %d agents already", AGENTS_MAX);
        return;
    }
    describe(a, in, dag_now_ms(d));
    reply_drain(r, a->drain);
}

void http_put_drain(struct http_request *r)
{
    const struct dag_in *in = r->in;
    if (!http_is_ready(r) || !dag_may_be_agent(r))
        return;
    struct dag_agent *a = find_agent(r->arg, in->clientid);
    if (!a) {
        http_reply_errorf(r, 404, "there is no agent %" PRId64, in->clientid);
        return;
    }
    a->drain = in->drain;
    reply_drain(r, a->drain);
}

/* Listing. */

static bool serves(const struct dag_agent *a, struct str group)
{
    for (size_t i = 0; i < a->group_count; i++)
        if (!group.p || str_eq(str_of(a->groups[i]), group))
            return true;
    return false;
}

static void put_running(struct buf *b, const struct dag *d, int64_t client)
{
    json_member_open(b, "running", '[');
    for (uint32_t i = 0; i < d->running.count; i++)
        if (d->running.nodes[i]->agent == client && !d->running.nodes[i]->ahead)
            http_put_id(b, d->running.nodes[i]->id);
    json_close(b, ']');
}

static void put_agent(struct buf *b, const struct dag *d, const struct dag_agent *a)
{
    json_open(b, '{');
    if (a->client == AGENT_SERVE)
        json_member_text(b, "id", STR("serve"));
    else
        http_member_id(b, "id", (uint64_t)a->client);
    json_member_text(b, "host", str_of(a->host));
    json_member_open(b, "groups", '[');
    for (size_t i = 0; i < a->group_count; i++)
        json_put_text(b, str_of(a->groups[i]));
    json_close(b, ']');
    json_member_int(b, "jobs", a->jobs);
    put_running(b, d, a->client);
    json_member_int(b, "heard", a->heard_ms);
    json_member_bool(b, "drain", a->drain);
    json_member_raw(b, "labels", a->labels ? str_of(a->labels) : STR("{}"));
    json_close(b, '}');
}

/* The built-in agent, as one of them. */
static void put_own(struct buf *b, const struct dag *d, struct str group)
{
    static char name[] = NODE_GROUP_DEFAULT, *groups[] = {name};
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    struct dag_agent own = {.client = AGENT_SERVE,
                            .host = host,
                            .groups = groups,
                            .group_count = 1,
                            .jobs = d->jobs,
                            .heard_ms = dag_now_ms(d)};
    if (d->jobs && serves(&own, group))
        put_agent(b, d, &own);
}

void http_get_agents(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    CLEANUP(buf_release) struct buf b = {0};
    if (!http_is_ready(r))
        return;
    find_agent(d, 0);
    json_open(&b, '{');
    json_member_open(&b, "agents", '[');
    put_own(&b, d, in->group);
    for (size_t i = 0; i < d->agents->count; i++)
        if (serves(&d->agents->items[i], in->group))
            put_agent(&b, d, &d->agents->items[i]);
    json_close(&b, ']');
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

struct dag_agents *dag_agents_new(void)
{
    return mem_zalloc(sizeof(struct dag_agents));
}
