/*
 * The session of a connection, from its connect request; and its identities for access lists, from
 * its address and its auth requests.
 */
#include "base/mem.h"
#include "base/sha1.h"
#include "keeper/wire/wire_impl.h"

/* Closes other connections of the session: the client has reconnected. */
static void close_others(struct wire_conn *c)
{
    struct wire_conn *other;
    TAILQ_FOREACH(other, &c->w->conns, link)
        if (other != c && other->session == c->session)
            wire_conn_close(other);
}

/* The session that the client resumes, or a new one; NULL: it has expired. */
static struct tree_session *enter(struct wire_conn *c, int64_t id, struct str password,
                                  int32_t timeout_ms)
{
    struct local *l = c->w->l;
    struct tree_session *s = NULL;
    if (!id) {
        if (engine_session_open(l, timeout_ms, &s))
            return NULL;
    } else {
        s = sessions_find(&l->tree.sessions, id);
        if (!s || password.len != KEEPER_PASSWORD_LEN ||
            memcmp(s->password, password.p, KEEPER_PASSWORD_LEN) != 0)
            return NULL;
        s->timeout_ms = keeper_granted_timeout(timeout_ms);
        session_touch(s, c->w->now_ms);
        pthread_cond_broadcast(&l->tick);
    }
    c->session = s->id;
    return s;
}

static void put_welcome(struct wire_conn *c, const struct tree_session *s, bool tells_read_only)
{
    static const char no_password[KEEPER_PASSWORD_LEN];
    CLEANUP(buf_release) struct buf out = {0};
    jute_put_i32(&out, tells_read_only ? 37 : 36);
    jute_put_i32(&out, 0);
    jute_put_i32(&out, s ? s->timeout_ms : 0);
    jute_put_i64(&out, s ? s->id : 0);
    jute_put_bytes(&out, (struct str){s ? s->password : no_password, KEEPER_PASSWORD_LEN});
    if (tells_read_only)
        jute_put_bool(&out, false);
    wire_conn_put(c, buf_str(&out), c->w->l->tree.zxid);
}

bool wire_hello(struct wire_conn *c, struct str packet)
{
    struct reader r = {packet.p, packet.len, false};
    struct local *l = c->w->l;

    jute_i32(&r); /* the protocol version: there is only one */
    int64_t seen = jute_i64(&r);
    int32_t timeout_ms = jute_i32(&r);
    int64_t id = jute_i64(&r);
    struct str password = jute_bytes(&r);
    bool tells_read_only = r.left > 0; /* since 3.4: whether a read-only server is accepted */
    if (r.bad)
        return false;
    {
        LOCKED(&l->lock);
        if (l->o.mode == LOCAL_STRICT && seen > l->tree.zxid)
            return false; /* it has seen transactions of another store */
        struct tree_session *s = enter(c, id, password, timeout_ms);
        if (!s && !id)
            return false; /* the disk is full: the client may retry, nothing has expired */
        put_welcome(c, s, tells_read_only);
    }
    if (!c->session) {
        wire_conn_finish(c);
        return true;
    }
    uv_timer_stop(&c->patience);
    if (id)
        close_others(c);
    return true;
}

/*
 * "user:password" becomes "user:" and the base64 of its SHA-1, which is the form in access lists.
 * Without a colon all of it is the user.
 */
static bool digest_id(struct str credential, struct buf *id)
{
    const char *colon = credential.len ? memchr(credential.p, ':', credential.len) : NULL;
    unsigned char sum[SHA1_LEN];
    if (credential.len > WIRE_CREDENTIAL_MAX)
        return false;
    sha1(credential, sum);
    buf_put(id, credential.p, colon ? (size_t)(colon - credential.p) : credential.len);
    buf_put_u8(id, ':');
    base64_put(id, sum, sizeof sum);
    return true;
}

/* Adds an identity. False: the connection has too many. */
static bool add_digest(struct wire_conn *c, struct str id)
{
    for (size_t i = 0; i < c->who.count; i++)
        if (str_eq(c->ids[i].scheme, STR("digest")) && str_eq(c->ids[i].id, id))
            return true;
    if (c->who.count == WIRE_IDS_MAX)
        return false;
    c->ids[c->who.count++] = (struct acl_id){STR("digest"), {mem_dup(id.p, id.len), id.len}};
    return true;
}

/* The address is known already: ip always succeeds. */
void wire_auth(struct wire_conn *c, struct wire_request *q)
{
    jute_i32(&q->r); /* the type, which nobody uses */
    struct str scheme = jute_bytes(&q->r), credential = jute_bytes(&q->r);
    CLEANUP(buf_release) struct buf id = {0};
    bool known = str_eq(scheme, STR("ip"));
    if (str_eq(scheme, STR("digest")) && digest_id(credential, &id))
        known = add_digest(c, buf_str(&id));
    if (known || q->r.bad)
        return;
    q->error = WIRE_AUTH_FAILED;
    wire_conn_finish(c);
}

void wire_who_am_i(struct wire_conn *c, struct wire_request *q)
{
    (void)q;
    jute_put_i32(&c->w->body, (int32_t)c->who.count);
    for (size_t i = 0; i < c->who.count; i++) {
        struct str scheme = c->ids[i].scheme, user = c->ids[i].id;
        const char *colon = memchr(user.p, ':', user.len);
        if (str_eq(scheme, STR("digest")) && colon)
            user.len = (size_t)(colon - user.p);
        jute_put_bytes(&c->w->body, scheme);
        jute_put_bytes(&c->w->body, user);
    }
}
