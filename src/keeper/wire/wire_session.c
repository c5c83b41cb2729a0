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
    for (struct wire_conn *other = c->w->conns, *next; other; other = next) {
        next = other->next;
        if (other != c && other->session == c->session)
            wire_conn_close(other);
    }
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
        s->timeout_ms = engine_granted_timeout(timeout_ms);
        session_touch(s, c->w->now_ms);
        pthread_cond_broadcast(&l->tick);
    }
    c->session = s->id;
    return s;
}

bool wire_hello(struct wire_conn *c, struct str packet)
{
    static const char no_password[KEEPER_PASSWORD_LEN];
    struct reader r = {packet.p, packet.len, false};
    struct local *l = c->w->l;
    struct buf out = {0};
    int64_t seen, id;
    int32_t timeout_ms;
    struct tree_session *s;
    struct str password;
    bool tells_read_only;

    jute_i32(&r); /* the protocol version: there is only one */
    seen = jute_i64(&r);
    timeout_ms = jute_i32(&r);
    id = jute_i64(&r);
    password = jute_bytes(&r);
    tells_read_only =
        r.left > 0; /* clients since 3.4 send whether they accept a read-only server */
    if (r.bad)
        return false;
    pthread_mutex_lock(&l->lock);
    if (l->o.mode == LOCAL_STRICT &&
        seen > l->tree.zxid) { /* it has seen transactions of another store */
        pthread_mutex_unlock(&l->lock);
        return false;
    }
    s = enter(c, id, password, timeout_ms);
    if (!s && !id) { /* the disk is full: the client may retry, nothing has expired */
        pthread_mutex_unlock(&l->lock);
        return false;
    }
    jute_put_i32(&out, tells_read_only ? 37 : 36);
    jute_put_i32(&out, 0);
    jute_put_i32(&out, s ? s->timeout_ms : 0);
    jute_put_i64(&out, s ? s->id : 0);
    jute_put_bytes(&out, (struct str){s ? s->password : no_password, KEEPER_PASSWORD_LEN});
    if (tells_read_only)
        jute_put_bool(&out, false);
    wire_conn_put(c, buf_str(&out), l->tree.zxid);
    pthread_mutex_unlock(&l->lock);
    buf_release(&out);
    if (s) {
        uv_timer_stop(&c->patience);
        if (id)
            close_others(c);
    } else {
        wire_conn_finish(c);
    }
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
    for (size_t i = 0; i < c->id_count; i++)
        if (str_eq(c->ids[i].scheme, STR("digest")) && str_eq(c->ids[i].id, id))
            return true;
    if (c->id_count == WIRE_IDS_MAX)
        return false;
    c->ids[c->id_count++] = (struct acl_id){STR("digest"), {mem_dup(id.p, id.len), id.len}};
    return true;
}

/* The address is known already: ip always succeeds. */
void wire_auth(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    int32_t auth_type = jute_i32(r);
    struct str scheme = jute_bytes(r), credential = jute_bytes(r);
    struct buf id = {0};
    bool known = str_eq(scheme, STR("ip"));

    (void)type, (void)auth_type;
    if (str_eq(scheme, STR("digest")) && digest_id(credential, &id))
        known = add_digest(c, buf_str(&id));
    buf_release(&id);
    if (known || r->bad)
        return;
    a->error = WIRE_AUTH_FAILED;
    wire_conn_finish(c);
}

void wire_who_am_i(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    (void)type, (void)r, (void)a;
    jute_put_i32(&c->w->body, (int32_t)c->id_count);
    for (size_t i = 0; i < c->id_count; i++) {
        const char *colon = memchr(c->ids[i].id.p, ':', c->ids[i].id.len);
        struct str user = c->ids[i].id;

        if (str_eq(c->ids[i].scheme, STR("digest")) && colon)
            user.len = (size_t)(colon - user.p);
        jute_put_bytes(&c->w->body, c->ids[i].scheme);
        jute_put_bytes(&c->w->body, user);
    }
}
