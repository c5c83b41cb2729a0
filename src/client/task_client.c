/*
 * The calls of struct drover_client. A change carries a random requestid: after an error it is sent
 * again unchanged, and the server, which remembers ids, repeats its first reply.
 */
#include "client/task_client.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"

enum { BACK_OFF_MIN_MS = 50, BACK_OFF_MAX_MS = 1000 };

/* Below 2^53, which every language can represent. */
static int64_t draw_clientid(void)
{
    uint64_t number;
    do {
        random_fill(&number, sizeof number);
        number >>= 64 - 53;
    } while (!number);
    return (int64_t)number;
}

/* The clients of a process share an id. A child after fork() is another process. */
static int64_t process_clientid(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int64_t clientid;
    static pid_t drawn_by;
    LOCKED(&lock);
    if (drawn_by != getpid()) {
        drawn_by = getpid();
        clientid = draw_clientid();
    }
    return clientid;
}

/* Open and close. */

static char *copy_or(const char *given, const char *variable)
{
    const char *text = given ? given : getenv(variable);
    return text && *text ? mem_dup(text, strlen(text)) : NULL;
}

static int make_transport(struct drover_client *c, struct transport **ret_transport,
                          struct err_info *ret_error)
{
    struct transport_tls tls = {c->ca, c->cert, c->key};
    TRY(transport_open(c->server, c->token, &tls, ret_transport, ret_error));
    transport_set_stop(*ret_transport, c->stop_fd);
    return 0;
}

static void put_idle(struct drover_client *c, struct transport *t)
{
    LOCKED(&c->lock);
    mem_grow(c->idle, c->idle_count, c->idle_cap);
    c->idle[c->idle_count++] = t;
}

static struct transport *take_idle(struct drover_client *c)
{
    LOCKED(&c->lock);
    return c->idle_count ? c->idle[--c->idle_count] : NULL;
}

int drover_client_open(const struct drover_client_options *o, struct drover_client **ret_client,
                       struct drover_error *ret_error)
{
    static const struct drover_client_options defaults;
    struct drover_client *c = mem_alloc(sizeof *c);
    struct transport *first;
    o = o ? o : &defaults;
    *c = (struct drover_client){
        .server = copy_or(o->server, "DROVER_URL"),
        .token = copy_or(o->token, "DROVER_TOKEN"),
        .ca = copy_or(o->ca, "DROVER_CA"),
        .cert = copy_or(o->cert, "DROVER_CERT"),
        .key = copy_or(o->key, "DROVER_KEY"),
        .clientid = o->clientid ? o->clientid : process_clientid(),
        .retry_ms = o->retry_ms < 0 ? 0
                    : o->retry_ms   ? o->retry_ms
                                    : TASK_CLIENT_RETRY_MS,
        .stop_fd = o->stop_fd ? o->stop_fd : -1,
    };
    pthread_mutex_init(&c->lock, NULL);
    cond_init(&c->changed);
    int err = make_transport(c, &first, ret_error);
    if (err) {
        drover_client_close(c);
        return err;
    }
    put_idle(c, first);
    *ret_client = c;
    return 0;
}

void drover_client_close(struct drover_client *c)
{
    struct transport *t;
    task_hold_end(c);
    while ((t = take_idle(c)))
        transport_close(t);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->idle);
    free(c->server);
    free(c->token);
    free(c->ca);
    free(c->cert);
    free(c->key);
    free(c);
}

int64_t drover_client_id(const struct drover_client *c)
{
    return c->clientid;
}

/* Requests. */

int task_client_call(struct drover_client *c, const char *method, const char *path, struct str body,
                     int64_t timeout_ms, struct transport_answer *ret_answer,
                     struct err_info *ret_error)
{
    struct transport *t = take_idle(c);
    TRY(t ? 0 : make_transport(c, &t, ret_error));
    int err = transport_call(t, method, path, body, timeout_ms, ret_answer, ret_error);
    put_idle(c, t);
    return err;
}

/* Whether the server cannot be reached or is not ready, so that a retry may help. */
static bool is_away(int err, int status)
{
    if (err)
        return err == DROVER_UNREACHABLE || err == DROVER_UNKNOWN;
    return status == 502 || status == 503 || status == 504;
}

/* False: the caller was stopped. */
static bool pause_ms(const struct drover_client *c, int64_t ms)
{
    struct pollfd p = {.fd = c->stop_fd, .events = POLLIN};
    return poll(&p, 1, (int)ms) <= 0;
}

int task_client_insist(struct drover_client *c, const char *method, const char *path,
                       struct str body, int64_t timeout_ms, struct transport_answer *ret_answer,
                       struct err_info *ret_error)
{
    int64_t back_off_ms = BACK_OFF_MIN_MS, deadline_ms = 0;
    struct transport_answer answer = {0};
    bool maybe_done = false;

    for (;;) {
        int err = task_client_call(c, method, path, body, timeout_ms, &answer, ret_error);
        bool away = is_away(err, answer.status);
        maybe_done |= err != DROVER_UNREACHABLE;
        deadline_ms = deadline_ms ? deadline_ms : clock_boot_ms() + c->retry_ms;
        if (!away || clock_boot_ms() + back_off_ms > deadline_ms) {
            if (!err)
                *ret_answer = answer;
            /* An earlier try may have had an effect, even if the last one was not sent. */
            return err && away && maybe_done ? DROVER_UNKNOWN : err;
        }
        if (!err)
            buf_release(&answer.body);
        if (!pause_ms(c, back_off_ms))
            return err_set(ret_error, DROVER_CLOSED, "stopped while waiting for the server");
        back_off_ms = back_off_ms * 2 < BACK_OFF_MAX_MS ? back_off_ms * 2 : BACK_OFF_MAX_MS;
    }
}

static int error_of_status(int status)
{
    static const struct {
        int status, err;
    } rows[] = {
        {400, DROVER_BAD_ARGUMENT}, {401, DROVER_NO_AUTH},   {403, DROVER_NO_AUTH},
        {404, DROVER_NO_TASK},      {409, DROVER_REFUSED},   {413, DROVER_TOO_BIG},
        {429, DROVER_GROUP_FULL},   {502, DROVER_UNKNOWN},   {503, DROVER_UNKNOWN},
        {504, DROVER_UNKNOWN},      {507, DROVER_DISK_FULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].status == status)
            return rows[i].err;
    return DROVER_IO;
}

int task_client_read(struct transport_answer *answer, struct drover_result *ret_result,
                     struct err_info *ret_error)
{
    struct drover_result r = {0};
    int err = task_body_read(buf_str(&answer->body), &r, ret_error);
    if (answer->status != 200)
        err = err_set(ret_error, error_of_status(answer->status), "%s",
                      r.error_count ? r.errors[0] : "the server gave no reason");
    else if (!err && r.error_count)
        err = err_set(ret_error, DROVER_IO, "%s", r.errors[0]);
    if (err && err != DROVER_REFUSED)
        drover_result_release(&r);
    else
        *ret_result = r;
    buf_release(&answer->body);
    return err;
}

int task_client_parse(struct transport_answer *answer, struct arena *a,
                      const struct json **ret_json, struct err_info *ret_error)
{
    if (answer->status != 200) {
        CLEANUP(drover_result_release) struct drover_result reasons = {0};
        return task_client_read(answer, &reasons, ret_error);
    }
    const struct json *v = json_parse(a, arena_take(a, &answer->body), NULL);
    if (!v || v->kind != JSON_OBJECT)
        return task_body_unexpected(ret_error);
    *ret_json = v;
    return 0;
}

int task_client_ask(struct drover_client *c, const char *method, const char *path, struct str body,
                    int64_t timeout_ms, struct arena *a, const struct json **ret_json,
                    struct err_info *ret_error)
{
    struct transport_answer answer;
    TRY(task_client_insist(c, method, path, body, timeout_ms, &answer, ret_error));
    return task_client_parse(&answer, a, ret_json, ret_error);
}

void task_client_put_id(struct buf *path, int64_t id)
{
    if (task_body_is_first(id))
        buf_printf(path, "first:%" PRId64, id - INT64_MIN);
    else
        buf_printf(path, "%" PRId64, id);
}

void task_client_put_quoted(struct buf *path, const char *text)
{
    for (const char *at = text; *at; at++)
        buf_printf(path, "%%%02X", (unsigned char)*at);
}

void task_client_put_query(struct buf *path, const char *name, const char *text)
{
    if (!text)
        return;
    buf_printf(path, "%c%s=", memchr(path->p, '?', path->len) ? '&' : '?', name);
    task_client_put_quoted(path, text);
}

/* Sends a request, with retries, and reads the answer. Returns the number of its tasks. */
static int ask(struct drover_client *c, const char *method, const char *path, struct str body,
               int64_t timeout_ms, struct drover_result *ret_result, struct err_info *ret_error)
{
    struct transport_answer answer;
    TRY(task_client_insist(c, method, path, body, timeout_ms, &answer, ret_error));
    TRY(task_client_read(&answer, ret_result, ret_error));
    return (int)ret_result->task_count;
}

int drover_client_update(struct drover_client *c, const struct drover_update *u,
                         struct drover_result *ret_result, struct drover_error *ret_error)
{
    char requestid[TASK_CLIENT_REQUESTID_LEN + 1];
    CLEANUP(buf_release) struct buf body = {0};
    random_hex(requestid, TASK_CLIENT_REQUESTID_LEN);
    TRY(task_body_update(&body, u, c->clientid, requestid, ret_error));
    int count = ask(c, "POST", "/update", buf_str(&body), 0, ret_result, ret_error);
    return count < 0 ? count : 0;
}

/* A wait takes several requests, of at most TASK_CLIENT_WAIT_MS each. */
int drover_client_claim(struct drover_client *c, const struct drover_claim *claim,
                        struct drover_result *ret_result, struct drover_error *ret_error)
{
    int64_t end_ms = clock_boot_ms() + claim->wait_ms, left_ms = claim->wait_ms;
    struct drover_claim next = *claim;
    char requestid[TASK_CLIENT_REQUESTID_LEN + 1];
    for (;;) {
        int64_t wait_ms = left_ms < TASK_CLIENT_WAIT_MS ? left_ms : TASK_CLIENT_WAIT_MS;
        CLEANUP(buf_release) struct buf body = {0};
        random_hex(requestid, TASK_CLIENT_REQUESTID_LEN);
        TRY(task_body_claim(&body, &next, c->clientid, wait_ms, requestid, ret_error));
        int got = ask(c, "POST", "/claim", buf_str(&body), TRANSPORT_TIMEOUT_MS + wait_ms,
                      ret_result, ret_error);
        /* The first request did all this. */
        next.delete_count = next.fail_count = next.finish_count = next.release_count = 0;
        left_ms = end_ms - clock_boot_ms();
        if (got || left_ms <= 0)
            return got;
        drover_result_release(ret_result);
    }
}

int drover_client_get(struct drover_client *c, int64_t id, struct drover_result *ret_result,
                      struct drover_error *ret_error)
{
    CLEANUP(buf_release) struct buf path = {0};
    buf_printf(&path, "/tasks/");
    task_client_put_id(&path, id);
    return ask(c, "GET", buf_text(&path), (struct str){0}, 0, ret_result, ret_error);
}

int drover_client_list(struct drover_client *c, const char *group, size_t limit, int owned,
                       struct drover_result *ret_result, struct drover_error *ret_error)
{
    CLEANUP(buf_release) struct buf path = {0};
    buf_printf(&path, "/group/");
    task_client_put_quoted(&path, group);
    buf_printf(&path, "?owned=%d", owned != 0);
    if (limit)
        buf_printf(&path, "&limit=%zu", limit);
    return ask(c, "GET", buf_text(&path), (struct str){0}, 0, ret_result, ret_error);
}

int drover_client_groups(struct drover_client *c, struct drover_groups *ret_groups,
                         struct drover_error *ret_error)
{
    struct transport_answer answer;
    CLEANUP(drover_result_release) struct drover_result r = {0};
    TRY(task_client_insist(c, "GET", "/groups", (struct str){0}, 0, &answer, ret_error));
    if (answer.status != 200)
        return task_client_read(&answer, &r, ret_error);
    int err = task_body_read_groups(buf_str(&answer.body), ret_groups, ret_error);
    buf_release(&answer.body);
    return err;
}
