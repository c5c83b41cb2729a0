/* The session of a connection, from its connect request. */
#include "keeper/wire/wire_impl.h"

/* Closes other connections of the session: the client has reconnected. */
static void close_others(struct wire_conn *c)
{
    struct wire_conn *other;
    TAILQ_FOREACH(other, &c->w->conns, link)
        if (other != c && other->session == c->session)
            wire_conn_close(other);
}

static int32_t granted_timeout(const struct wire_options *o, int32_t wanted_ms)
{
    int64_t max_ms = wanted_ms < o->timeout_max_ms ? wanted_ms : o->timeout_max_ms;
    return (int32_t)(max_ms > o->timeout_min_ms ? max_ms : o->timeout_min_ms);
}

/* The session that the client resumes, or a new one; NULL: it has expired. */
static struct tree_session *enter(struct wire_conn *c, int64_t id, struct str password,
                                  int32_t timeout_ms)
{
    struct local *l = c->w->l;
    struct tree_session *s = NULL;
    timeout_ms = granted_timeout(&c->w->o, timeout_ms);
    if (!id) {
        if (l->tree.sessions.count >= (uint64_t)c->w->o.sessions_max) {
            wire_session_refused(c->w);
            return NULL;
        }
        if (engine_session_open(l, timeout_ms, &s))
            return NULL;
    } else {
        s = sessions_find(&l->tree.sessions, id);
        if (!s || password.len != KEEPER_PASSWORD_LEN ||
            memcmp(s->password, password.p, KEEPER_PASSWORD_LEN) != 0)
            return NULL;
        s->timeout_ms = timeout_ms;
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
    wire_count_sent(c, 1);
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
    c->w->totals.hellos++;
    {
        LOCKED(&l->lock);
        if (l->o.mode == LOCAL_STRICT && seen > l->tree.zxid)
            return false; /* it has seen transactions of another store */
        struct tree_session *s = enter(c, id, password, timeout_ms);
        if (!s && !id)
            return false; /* too many, or a full disk: it may retry, nothing has expired */
        put_welcome(c, s, tells_read_only);
        if (s && !id)
            wire_conn_answered(c, "SESS", 0, s->id, WIRE_UPDATE);
    }
    if (!c->session) {
        wire_conn_finish(c);
        return true;
    }
    uv_timer_stop(&c->patience);
    if (id) {
        c->w->totals.resumed++;
        close_others(c);
    }
    return true;
}
