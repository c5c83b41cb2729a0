/* Sessions over HTTP. */
#include "server/sessions.h"

#include "server/context.h"

static void reply_refusal(struct http_request *r, int err)
{
    if (err == DROVER_TOO_MANY)
        http_reply_busy(r, HTTP_LIMIT_SESSIONS, "there are too many sessions: try again");
    else
        http_reply_err(r, err,
                       err == DROVER_SESSION_EXPIRED ? "no such session, or it has ended"
                       : err == DROVER_CLOSED        ? "the keeper is away: try again"
                                                     : NULL);
}

struct keeper *session_of_request(struct context *h, struct http_request *r, struct str id)
{
    int err = 0;
    struct keeper *k = sessions_use(h->sessions, id, &err);
    if (!k)
        reply_refusal(r, err);
    return k;
}

/* While a request waits: which session it keeps alive. */
struct session_wait {
    struct session_table *sessions;
    struct str id;
};

static uint64_t session_key(struct str id)
{
    return http_key("session", id, (struct str){0});
}

struct http_watch session_watch(struct context *h, struct http_request *r, struct str id,
                                const uint64_t *keys, size_t count)
{
    uint64_t *all = arena_alloc(&r->arena, (count + 1) * sizeof *all);
    memcpy(all, keys, count * sizeof *keys);
    all[count] = session_key(id);
    return http_watch(r, &h->topic, all, count + 1);
}

static void on_unparked(struct http_request *r)
{
    const struct session_wait *w = r->handler_data;
    sessions_unwait(w->sessions, w->id);
}

bool session_park(struct context *h, struct http_request *r, struct str id,
                  const struct http_watch *w, int64_t wait_ms)
{
    struct session_wait *wait = arena_zalloc(&r->arena, sizeof *wait);
    struct http_watch watch = *w;
    *wait = (struct session_wait){h->sessions, id};
    r->handler_data = wait;
    if (sessions_wait(h->sessions, id))
        r->unparked = on_unparked;
    else
        watch.seen--; /* it has just ended: the handler runs again at once, and says so */
    if (http_park(r, &watch, wait_ms))
        return true;
    if (r->unparked)
        on_unparked(r);
    r->unparked = NULL;
    return false;
}

struct session_in {
    struct str id;
    int64_t timeout_ms;
};

static void reply_session(struct http_request *r, int err, const struct session_info *info,
                          bool silent)
{
    CLEANUP(buf_release) struct buf b = {0};
    if (err) {
        reply_refusal(r, err);
        return;
    }
    json_open(&b, '{');
    json_member_text(&b, "session", str_of(info->id));
    json_member_int(&b, "timeout", info->timeout_ms);
    if (silent)
        json_member_int(&b, "silent", info->silent_ms);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

static void post_session(struct http_request *r)
{
    const struct session_in *in = r->in;
    struct session_info info;
    reply_session(r, sessions_create(r->arg, (int32_t)in->timeout_ms, &info), &info, false);
}

static void get_session(struct http_request *r)
{
    const struct session_in *in = r->in;
    struct session_info info;
    reply_session(r, sessions_get(r->arg, in->id, false, &info), &info, true);
}

static void put_session(struct http_request *r)
{
    const struct session_in *in = r->in;
    struct session_info info;
    reply_session(r, sessions_get(r->arg, in->id, true, &info), &info, false);
}

static void delete_session(struct http_request *r)
{
    const struct session_in *in = r->in;
    int err = sessions_end(r->arg, in->id);
    if (err)
        reply_refusal(r, err);
    else
        http_reply(r, 200, STR("{}"));
}

#define SESSION_ID                                                                                 \
    ROUTE_IN(struct session_in,                                                                    \
             FIELD_TEXT(IN_PATH, struct session_in, id, "id", 1, INT64_MAX, "The session"))
#define SESSION_ERRORS "410 The session has ended, and what it held is free\n503"

static const struct route ROUTES[] = {
    {METHOD_POST, "/v1/sessions", post_session, ROLE_WORK | ROUTE_WORKER | ROUTE_LIMITS,
     "Open a session", "openSession", .reply = "session:text timeout:int",
     .errors = "503 There are too many sessions, or the keeper is away",
     .example = "{\"timeout\": 10000}",
     ROUTE_IN(struct session_in,
              FIELD_INT(IN_BODY, struct session_in, timeout_ms, "timeout", KEEPER_TIMEOUT_MIN_MS,
                        KEEPER_TIMEOUT_MAX_MS, "Ends after so many milliseconds of silence",
                        .preset = KEEPER_TIMEOUT_DEFAULT_MS))},
    {METHOD_GET, "/v1/sessions/{id}", get_session, ROLE_WORK | ROUTE_WORKER | ROUTE_LIMITS,
     "Show a session, without keeping it alive", "getSession",
     .reply = "session:text timeout:int silent:int", .errors = SESSION_ERRORS, SESSION_ID},
    {METHOD_PUT, "/v1/sessions/{id}", put_session, ROLE_WORK | ROUTE_WORKER | ROUTE_LIMITS,
     "Keep a session alive", "keepSession", .reply = "session:text timeout:int",
     .errors = SESSION_ERRORS, SESSION_ID},
    {METHOD_DELETE, "/v1/sessions/{id}", delete_session, ROLE_WORK | ROUTE_WORKER | ROUTE_LIMITS,
     "End a session", "endSession", .reply = "()", .errors = SESSION_ERRORS, SESSION_ID},
};

static struct keeper *host(void *arg)
{
    return context_keeper(arg);
}

static void unhost(void *arg, struct keeper *k)
{
    context_return(arg, k);
}

static void on_server_session(void *arg, struct keeper *k)
{
    struct context *h = arg;
    if (!k && h->sessions)
        sessions_evict(h->sessions);
}

static void on_ended(void *arg, struct str id)
{
    struct context *h = arg;
    http_topic_wake(&h->topic, session_key(id), HTTP_TOPIC_ALL);
}

static int module_open(struct context *h, void **ret_module, struct err_info *ret_error)
{
    struct sessions_options o = {.local = h->local,
                                 .max = h->sessions_max,
                                 .host = host,
                                 .unhost = unhost,
                                 .ended = on_ended,
                                 .arg = h};
    (void)ret_error;
    h->sessions = sessions_open(&o);
    context_listen(h, on_server_session, h);
    *ret_module = h;
    return 0;
}

static struct route_table module_routes(void *module)
{
    struct context *h = module;
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, h->sessions,
                                .tag = "Sessions"};
}

static void module_close(void *module)
{
    struct context *h = module;
    sessions_close(h->sessions);
    h->sessions = NULL;
}

const struct module session_module = {
    .name = "sessions", .open = module_open, .routes = module_routes, .close = module_close};
