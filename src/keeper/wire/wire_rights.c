/*
 * What a connection may do, beside the access lists of nodes.
 *
 * /drover is what the server itself trusts: its tasks, the commands that it runs, its tokens. Only
 * an administrator reads or changes anything there. The rest of the tree is for the clients that
 * share it with the modules: to read it takes the role `read`, to change it `work` or `submit`.
 *
 * A connection has the roles of a request over HTTP without a token, by its certificate if it has
 * one; and, after `addauth digest NAME:TOKEN`, those of the token, until it ends. The superuser has
 * every role. A token with limits has none here: they name groups, worlds and queues, not nodes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/wire/wire_impl.h"

static bool is_trusted(struct str path)
{
    static const struct str root = STR("/drover");
    return str_starts(path, root) && (path.len == root.len || path.p[root.len] == '/');
}

bool wire_may(const struct wire_conn *c, struct str path, unsigned roles)
{
    return c->roles & (is_trusted(path) ? ROLE_ADMIN : roles | ROLE_ADMIN);
}

/* Once for each request: one with many paths must not fill the audit log. */
void wire_note_refusal(struct wire_conn *c, const char *verb, struct str path)
{
    const struct wire_rights *r = &c->w->o.rights;
    struct wire_change change = {c->name, c->peer, verb, path, true};
    if (r->audit && !c->refusal_noted)
        r->audit(r->audit_arg, &change);
    c->refusal_noted = true;
}

bool wire_may_read(struct wire_conn *c, struct str path)
{
    bool may = wire_may(c, path, ROLE_READ);
    if (!may)
        wire_note_refusal(c, "read", path);
    return may;
}

int wire_audit(struct wire_conn *c, const struct keeper_op *op)
{
    static const char *const verbs[] = {[KEEPER_CREATE] = "create",
                                        [KEEPER_SET] = "set",
                                        [KEEPER_DELETE] = "delete",
                                        [KEEPER_CHECK] = "check",
                                        [KEEPER_SET_ACL] = "setAcl"};
    const struct wire_rights *r = &c->w->o.rights;
    if (op->refused == DROVER_NO_AUTH)
        wire_note_refusal(c, verbs[op->kind], op->path);
    if (op->refused == DROVER_NO_AUTH || op->kind == KEEPER_CHECK || !r->audit ||
        !is_trusted(op->path))
        return 0;
    struct wire_change change = {c->name, c->peer, verbs[op->kind], op->path, false};
    return r->audit(r->audit_arg, &change) ? 0 : DROVER_NO_AUTH;
}

/* ret_name is set if there are any. */
static unsigned roles_of(const struct wire_conn *c, struct str token,
                         char ret_name[IDENTITY_NAME_SIZE])
{
    const struct wire_rights *r = &c->w->o.rights;
    struct identity *who = r->identify(r->arg, c->is_loopback, c->tls ? c->tls->peer : NULL, token);
    unsigned roles = who && !who->limited && !who->node ? who->roles : 0;
    if (roles)
        memcpy(ret_name, who->name, IDENTITY_NAME_SIZE);
    identity_drop(who);
    return roles;
}

static void find_roles(struct wire_conn *c)
{
    const struct wire_rights *r = &c->w->o.rights;
    c->rights_generation = *r->generation;
    c->roles = roles_of(c, STR(""), c->name);
    if (c->token)
        c->roles |= roles_of(c, str_of(c->token), c->name);
    if (c->is_super) {
        c->roles = ROLE_ALL;
        snprintf(c->name, sizeof c->name, "the superuser");
    }
}

void wire_refresh_rights(struct wire_conn *c)
{
    const struct wire_rights *r = &c->w->o.rights;
    if (!r->identify)
        c->roles = ROLE_ALL;
    else if (!c->roles_known || c->rights_generation != *r->generation)
        find_roles(c);
    c->roles_known = true;
}

void wire_take_token(struct wire_conn *c, struct str credential)
{
    const char *colon = memchr(credential.p, ':', credential.len);
    if (!colon || !c->w->o.rights.identify)
        return;
    char name[IDENTITY_NAME_SIZE];
    struct str token = {colon + 1, credential.len - (size_t)(colon + 1 - credential.p)};
    if (!token.len || !roles_of(c, token, name))
        return;
    free(c->token);
    c->token = mem_dup(token.p, token.len);
    c->roles_known = false;
}
