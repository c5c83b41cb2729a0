/*
 * Who sends a request, and whether they may send it.
 *
 * The server's owner recognises clients (http_options.identify). A connection remembers who its
 * last request came from, with the credential that it had: a client that repeats its token is not
 * looked up again, until rights change.
 *
 * A wrong token is answered after DENIED_MS, and ends the connection.
 */
#include <strings.h>

#include "base/address.h"
#include "base/clock.h"
#include "http/conn.h"

/* The part after "Bearer "; empty: none; of another scheme: what no token is. */
static struct str credential_of(const struct head *h)
{
    static const struct str scheme = STR("Bearer ");
    const struct str *value = head_field(h, "Authorization");
    if (!value || !value->len)
        return STR("");
    if (value->len <= scheme.len || strncasecmp(value->p, scheme.p, scheme.len) != 0)
        return STR(" ");
    struct str token = {value->p + scheme.len, value->len - scheme.len};
    while (token.len && *token.p == ' ')
        token = (struct str){token.p + 1, token.len - 1};
    return token;
}

/* Who is at the other end does not change, so it is asked for once. */
static void find_peer(struct conn *c)
{
    struct http_peer peer = {.is_unix = c->listener->is_unix, .user = (uid_t)-1};
    struct sockaddr_storage address = {0};
    struct ucred user;
    socklen_t user_len = sizeof user;
    int len = sizeof address;
    if (peer.is_unix) {
        if (!getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &user, &user_len)) {
            peer.user = user.uid;
            peer.pid = user.pid;
        }
        snprintf(peer.address, sizeof peer.address, "unix");
    } else if (!uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&address, &len)) {
        listener_put_address(peer.address, sizeof peer.address, &address);
        peer.is_loopback = address_is_loopback(&address);
        peer.certificate = c->tls ? c->tls->peer : NULL;
    }
    c->peer = peer;
    c->peer_known = true;
}

static bool is_fresh(const struct conn *c, struct str credential)
{
    const struct http_options *o = &c->server->options;
    return c->who && !c->who->node && c->who_generation == *o->generation &&
           str_eq(credential, buf_str(&c->credential)) &&
           (!c->who->expires_ms || clock_wall_ms() < c->who->expires_ms);
}

/* NULL: the token is wrong. The connection keeps the identity. */
static struct identity *identify(struct exchange *x)
{
    struct conn *c = x->conn;
    const struct http_options *o = &c->server->options;
    struct str credential = credential_of(&x->request.head);
    if (is_fresh(c, credential))
        return c->who;
    identity_drop(c->who);
    c->who = o->identify(o->access_arg, &c->peer, credential);
    c->who_generation = *o->generation;
    c->credential.len = 0;
    buf_put_str(&c->credential, credential);
    return c->who;
}

static void tell_refused(struct exchange *x, int status, enum http_refusal why)
{
    const struct http_options *o = &x->server->options;
    if (o->refused)
        o->refused(o->audit_arg, &x->request, status, why);
}

void access_answered(struct exchange *x, int status)
{
    const struct http_options *o = &x->server->options;
    if (x->request.audit && o->answered)
        o->answered(o->audit_arg, &x->request, status);
    x->request.audit = 0;
}

const char *http_action(const struct http_request *r)
{
    const struct router_row *row = ((const struct exchange *)r)->row;
    return row ? row->route->id : "";
}

bool http_may(const struct http_request *r, unsigned roles)
{
    return !r->who || identity_may(r->who, roles);
}

bool http_may_run(const struct http_request *r)
{
    return !r->who || identity_may_run(r->who);
}

bool http_reaches(const struct http_request *r, enum identity_scope scope, struct str name)
{
    return !r->who || identity_reaches(r->who, scope, name);
}

void http_forbid(struct http_request *r, unsigned roles)
{
    CLEANUP(buf_release) struct buf needed = {0}, has = {0};
    if (r->who->node && identity_may(r->who, roles)) {
        http_forbid_what(r, "have commands run only below its node");
        return;
    }
    roles_put(&needed, roles);
    roles_put(&has, r->who->roles);
    tell_refused((struct exchange *)r, 403, HTTP_REFUSED_ROLE);
    http_reply_errorf(r, 403, "this needs the role %s; %s has %s", buf_text(&needed), r->who->name,
                      buf_text(&has));
}

void http_forbid_name(struct http_request *r, struct str name)
{
    tell_refused((struct exchange *)r, 403, HTTP_REFUSED_LIMIT);
    http_reply_errorf(r, 403, "%s is limited, and may not use '%.*s'", r->who->name,
                      STR_ARGS(name));
}

void http_forbid_what(struct http_request *r, const char *may)
{
    tell_refused((struct exchange *)r, 403, HTTP_REFUSED_LIMIT);
    http_reply_errorf(r, 403, "%s may %s", r->who->name, may);
}

void access_deny(struct exchange *x)
{
    x->conn->denied = NULL;
    http_add_header(&x->request, "WWW-Authenticate", STR("Bearer"));
    exchange_refuse(x, 401, "the token is not valid: it is wrong, has expired or was revoked");
}

/* A wrong token: the connection reads nothing more, and is answered later. */
static void deny_later(struct exchange *x)
{
    x->conn->last_request = true;
    x->conn->denied = x;
    tell_refused(x, 401, HTTP_REFUSED_TOKEN);
}

/* The client is nobody known: a token could help. */
static void ask_for_token(struct exchange *x, unsigned roles)
{
    CLEANUP(buf_release) struct buf why = {0};
    if (x->request.who->roles) {
        buf_printf(&why, "this needs the role ");
        roles_put(&why, roles);
        buf_printf(&why, ", and without a token you have ");
        roles_put(&why, x->request.who->roles);
    } else {
        buf_printf(&why, "a token is needed");
    }
    buf_printf(&why, ": use the Unix socket of the server, or Authorization: Bearer TOKEN");
    tell_refused(x, 401, x->request.who->roles ? HTTP_REFUSED_ROLE : HTTP_REFUSED_TOKEN);
    http_add_header(&x->request, "WWW-Authenticate", STR("Bearer"));
    exchange_refuse(x, 401, buf_text(&why));
}

bool access_check(struct exchange *x)
{
    struct http_request *r = &x->request;
    unsigned roles = x->row ? x->row->route->flags & ROLE_ALL : 0;
    if (!x->server->options.identify || (x->row && x->row->route->flags & ROUTE_OPEN))
        return true;
    if (!x->conn->peer_known)
        find_peer(x->conn);
    r->peer = x->conn->peer;
    struct identity *who = identify(x);
    if (!who) {
        deny_later(x);
        return false;
    }
    r->who = identity_keep(who);
    if (roles ? identity_may(who, roles) : who->roles != 0)
        return true;
    if (who->anonymous) {
        ask_for_token(x, roles);
    } else {
        x->closes = x->conn->last_request = true; /* the body is not read */
        http_forbid(r, roles);
    }
    return false;
}

/* The limits of the sender. */

/* The first field that is a name, and whether it is within the limits. */
static bool name_is_reached(struct http_request *r, const struct route_field *f)
{
    const struct str *name = (const struct str *)((const char *)r->in + f->offset);
    for (int scope = 0; scope < SCOPE_COUNT; scope++)
        if (f->where & 16 << scope)
            return name->p && identity_reaches(r->who, (enum identity_scope)scope, *name);
    return false;
}

bool access_reaches(struct exchange *x)
{
    struct http_request *r = &x->request;
    const struct route_field *f = x->row->fields;
    if (!r->who || !r->who->limited || x->row->route->flags & ROUTE_LIMITS)
        return true;
    while (f->name.p && !(f->where & (NAMES_GROUP | NAMES_WORLD | NAMES_QUEUE)))
        f++;
    if (f->name.p && name_is_reached(r, f))
        return true;
    tell_refused(x, 403, HTTP_REFUSED_LIMIT);
    http_reply_errorf(r, 403, "%s is limited to some names, and this is beyond them", r->who->name);
    return false;
}
