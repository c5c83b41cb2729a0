/*
 * libcurl's multi interface can watch a descriptor of ours while it waits, so a signal ends a long
 * poll at once.
 *
 * Redirects are followed here and not by libcurl, which would not send the token to another port of
 * the same host. A token that was named is sent because a Drover server named the leader. Proxies
 * are not used: the server is on this machine or this network.
 */
#include "http/transport.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "http/curl.h"
#include "http/transport_own.h"

enum { REDIRECTS_MAX = 5, WAIT_SLICE_MS = 60 * 1000, STOP_GRACE_MS = 1000, TOKEN_SIZE = 1025 };

#define UNIX "unix:"

struct transport {
    char *servers[TRANSPORT_SERVERS_MAX]; /* as configured */
    size_t server_count, at;              /* at: the one to ask */
    char *leader;                         /* where the last redirect led; NULL: nowhere */
    char *token_line;                     /* "Authorization: Bearer ..."; NULL: no token */
    bool token_found;                     /* nobody named it: only the own server gets it */
    char *location;                       /* of the present answer */
    int64_t date_ms;                      /* likewise; 0: it has none */
    const struct curl *curl;
    CURLM *multi;
    CURL *easy;
    struct buf *body;                  /* of the present answer */
    const struct transport_sink *sink; /* gets the body instead, with status 200; NULL: none */
    int sink_err;
    struct err_info sink_error;
    int stop_fd;
    char why[CURL_ERROR_SIZE]; /* the last request failed; empty: libcurl does not say */
};

/* Receiving. */

static bool goes_to_sink(const struct transport *t)
{
    long status = 0;
    if (t->sink)
        t->curl->curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    return status == 200;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct transport *t = arg;
    if (goes_to_sink(t)) {
        struct str bytes = {data, size * count};
        t->sink_err = t->sink->take(t->sink->arg, bytes, &t->sink_error);
        return t->sink_err ? 0 : bytes.len;
    }
    if (t->body->len + size * count > TRANSPORT_ANSWER_LEN_MAX)
        return 0;
    buf_put(t->body, data, size * count);
    return size * count;
}

/* "Location: http://host:port/path": only scheme and authority are used. */
/* The value of a header line, if it has this name, which ends with its colon. */
static bool header_value(struct str line, const char *name, struct str *ret_value)
{
    size_t at = strlen(name), len = line.len;
    if (len <= at || strncasecmp(line.p, name, at) != 0)
        return false;
    while (at < len && isspace((unsigned char)line.p[at]))
        at++;
    while (len > at && isspace((unsigned char)line.p[len - 1]))
        len--;
    *ret_value = (struct str){line.p + at, len - at};
    return true;
}

static int64_t read_date(struct str value)
{
    char text[64];
    struct tm tm = {0};
    snprintf(text, sizeof text, "%.*s", STR_ARGS(value));
    return strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm) ? (int64_t)timegm(&tm) * 1000 : 0;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    struct transport *t = arg;
    struct str value;
    if (header_value((struct str){data, size * count}, "location:", &value)) {
        free(t->location);
        t->location = mem_dup(value.p, value.len);
    } else if (header_value((struct str){data, size * count}, "date:", &value)) {
        t->date_ms = read_date(value);
    }
    return size * count;
}

/* Open and close. */

/* Scheme and authority of a URL, "http://host:port"; NULL when it has none. */
static char *origin_of(const char *url)
{
    const char *authority = strstr(url, "://");
    if (!strncmp(url, UNIX, strlen(UNIX)) && url[strlen(UNIX)] == '/')
        return mem_dup(url, strlen(url));
    if (!authority || authority == url ||
        (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0))
        return NULL;
    authority += 3;
    size_t len = strcspn(authority, "/?#");
    return len ? mem_dup(url, (size_t)(authority - url) + len) : NULL;
}

/* The origin of a server: text is a URL without a path, or "host:port". NULL: it is not valid. */
static char *server_origin(struct str text)
{
    CLEANUP(buf_release) struct buf url = {0};
    bool whole = memmem(text.p, text.len, "://", 3) || str_starts(text, STR(UNIX));
    buf_printf(&url, "%s%.*s", whole ? "" : "http://", STR_ARGS(text));
    char *origin = origin_of(buf_text(&url));
    if (origin && strspn(url.p + strlen(origin), "/") != url.len - strlen(origin)) {
        free(origin);
        origin = NULL;
    }
    return origin;
}

static void set_options(struct transport *t)
{
    t->curl->curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, on_header);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS,
                              (long)TRANSPORT_CONNECT_TIMEOUT_MS);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_PROXY, "");
    t->curl->curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    t->curl->curl_easy_setopt(t->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_TCP_NODELAY, 1L);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->why);
}

/* Adds each of the comma-separated URLs. False: one is not valid, or there are too many. */
static bool add_servers(struct transport *t, struct str list)
{
    while (list.p) {
        char *origin =
            t->server_count < TRANSPORT_SERVERS_MAX ? server_origin(str_cut(&list, ',')) : NULL;
        if (!origin)
            return false;
        t->servers[t->server_count++] = origin;
    }
    return true;
}

int transport_open(const char *server, const char *token, const struct transport_tls *tls,
                   struct transport **ret_transport, struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf servers = {0};
    char own[TOKEN_SIZE];
    bool finds = !server && !token;
    token = finds ? transport_own_token(own, sizeof own) : token;
    server = server ? server : transport_own_servers(&servers);
    const struct curl *curl = curl_load(ret_error);
    if (!curl)
        return DROVER_IO;
    struct transport *t = mem_alloc(sizeof *t);
    *t = (struct transport){.curl = curl, .stop_fd = -1, .token_found = finds};
    if (!add_servers(t, str_of(server))) {
        transport_close(t);
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "'%s' is not the URL of a server, such as " TRANSPORT_SERVER_DEFAULT,
                       server);
    }
    if (token) {
        CLEANUP(buf_release) struct buf line = {0};
        buf_printf(&line, "Authorization: Bearer %s", token);
        t->token_line = mem_dup(line.p, line.len);
    }
    t->multi = curl->curl_multi_init();
    t->easy = curl->curl_easy_init();
    if (!t->multi || !t->easy)
        err_fatal("out of memory (libcurl)");
    set_options(t);
    transport_tls_set(curl, t->easy, tls);
    *ret_transport = t;
    return 0;
}

void transport_close(struct transport *t)
{
    t->curl->curl_easy_cleanup(t->easy);
    t->curl->curl_multi_cleanup(t->multi);
    for (size_t i = 0; i < t->server_count; i++)
        free(t->servers[i]);
    free(t->leader);
    free(t->token_line);
    free(t->location);
    free(t);
}

void transport_set_stop(struct transport *t, int fd)
{
    t->stop_fd = fd;
}

const char *transport_server(const struct transport *t)
{
    return t->servers[t->at];
}

/* A request. */

struct transport_request {
    const char *method, *path;
    struct str body;
    int64_t timeout_ms;
    int64_t deadline_ms; /* by clock_boot_ms(); 0: none */
    int64_t idle_ms;     /* the most between two pieces of the answer; 0: any */
    size_t tried;        /* of the servers that were named */
    char *dead;          /* a leader that could not be reached; NULL: none */
    int redirects;
};

static struct curl_slist *make_headers(const struct transport *t, const char *origin,
                                       const struct transport_request *r)
{
    struct curl_slist *headers = t->curl->curl_slist_append(NULL, "Expect:");
    if (strcmp(r->method, "GET") != 0)
        headers = t->curl->curl_slist_append(headers, "Content-Type: application/json");
    if (t->token_line && (!t->token_found || !strcmp(origin, TRANSPORT_SERVER_DEFAULT)))
        headers = t->curl->curl_slist_append(headers, t->token_line);
    return headers;
}

static void set_request(struct transport *t, const struct transport_request *r, const char *url,
                        struct curl_slist *headers)
{
    bool has_body = r->body.p || !strcmp(r->method, "POST") || !strcmp(r->method, "PUT");
    int64_t left_ms = r->deadline_ms ? r->deadline_ms - clock_boot_ms() : 0;
    t->curl->curl_easy_setopt(t->easy, CURLOPT_HTTPGET, 1L);
    if (has_body) {
        t->curl->curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len);
        t->curl->curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, r->body.p ? r->body.p : "");
    }
    t->curl->curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, r->method);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_URL, url);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, headers);
    if (r->deadline_ms && left_ms < 1)
        left_ms = 1; /* 0 would be no limit */
    t->curl->curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)left_ms);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_LOW_SPEED_LIMIT, r->idle_ms ? 1L : 0L);
    t->curl->curl_easy_setopt(t->easy, CURLOPT_LOW_SPEED_TIME, (long)(r->idle_ms / 1000));
}

/*
 * Shuts down the sending side: the server drops a parked request and closes. An answer that is
 * already under way still arrives.
 */
static void say_no_more(struct transport *t)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    t->curl->curl_easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &fd);
    if (fd != CURL_SOCKET_BAD)
        shutdown(fd, SHUT_WR);
}

/* Runs the transfer to its end. 0, or CLOSED: it was stopped. */
static int perform(struct transport *t, CURLcode *ret_code)
{
    struct curl_waitfd stop = {.fd = t->stop_fd, .events = CURL_WAIT_POLLIN};
    int64_t give_up_ms = 0; /* set when it was stopped */
    int running = 1, left;
    CURLMsg *message;

    t->curl->curl_multi_add_handle(t->multi, t->easy);
    *ret_code = CURLE_FAILED_INIT;
    while (!t->curl->curl_multi_perform(t->multi, &running) && running) {
        stop.revents = 0;
        t->curl->curl_multi_poll(t->multi, &stop, t->stop_fd >= 0 && !give_up_ms,
                                 give_up_ms ? STOP_GRACE_MS : WAIT_SLICE_MS, NULL);
        if (stop.revents) {
            give_up_ms = clock_boot_ms() + STOP_GRACE_MS;
            say_no_more(t);
        } else if (give_up_ms && clock_boot_ms() >= give_up_ms) {
            break;
        }
    }
    while ((message = t->curl->curl_multi_info_read(t->multi, &left)))
        if (message->msg == CURLMSG_DONE)
            *ret_code = message->data.result;
    t->curl->curl_multi_remove_handle(t->multi, t->easy);
    return give_up_ms && *ret_code != CURLE_OK ? DROVER_CLOSED : 0;
}

static int say_unreachable(const char *origin, const char *why, struct err_info *ret_error)
{
    return err_set(ret_error, DROVER_UNREACHABLE, "cannot reach %s: %c%s; is drover serve running?",
                   origin, tolower((unsigned char)why[0]), why + 1);
}

/* The error for what libcurl reports. */
static int translate(struct transport *t, CURLcode code, const char *origin,
                     const struct transport_request *r, struct err_info *ret_error)
{
    const char *text = t->curl->curl_easy_strerror(code);
    double connected = 0;
    long errnum = 0;

    t->curl->curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME, &connected);
    t->curl->curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &errnum);
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return say_unreachable(origin, "no such host", ret_error);
    case CURLE_COULDNT_CONNECT:
        return say_unreachable(origin, errnum ? strerror((int)errnum) : text, ret_error);
    case CURLE_SSL_CONNECT_ERROR:
        return say_unreachable(origin, t->why[0] ? t->why : text, ret_error);
    case CURLE_PEER_FAILED_VERIFICATION:
        return err_set(ret_error, DROVER_UNREACHABLE,
                       "the certificate of %s is not accepted: %s (--ca names its authority)",
                       origin, t->why[0] ? t->why : text);
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s: cannot use %s: %s", origin,
                       code == CURLE_SSL_CERTPROBLEM ? "the certificate of --cert or its key"
                                                     : "the authorities of --ca",
                       t->why[0] ? t->why : text);
    case CURLE_URL_MALFORMAT:
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "'%s%s' is not a URL", origin, r->path);
    case CURLE_OPERATION_TIMEDOUT:
        if (connected == 0)
            return say_unreachable(origin, "no connection in time", ret_error);
        return err_set(ret_error, DROVER_UNKNOWN, "%s gave no answer within %lld s", origin,
                       (long long)(r->timeout_ms + 999) / 1000);
    default:
        return err_set(ret_error, DROVER_UNKNOWN,
                       "the connection to %s broke before the answer: %s", origin,
                       t->why[0] ? t->why : text);
    }
}

/* One request to one server. */
static int call_one(struct transport *t, const char *origin, const struct transport_request *r,
                    struct transport_answer *answer, struct err_info *ret_error)
{
    struct curl_slist *headers = make_headers(t, origin, r);
    CLEANUP(buf_release) struct buf url = {0};
    bool local = !strncmp(origin, UNIX, strlen(UNIX));
    long status = 0;
    CURLcode code;
    int err;
    t->curl->curl_easy_setopt(t->easy, CURLOPT_UNIX_SOCKET_PATH,
                              local ? origin + strlen(UNIX) : NULL);
    buf_printf(&url, "%s%s", local ? "http://localhost" : origin, r->path);
    set_request(t, r, buf_text(&url), headers);
    t->body = &answer->body;
    t->sink_err = 0;
    answer->body.len = 0;
    t->date_ms = 0;
    err = perform(t, &code);
    if (err)
        err_set(ret_error, err, "stopped while waiting for %s", origin);
    else if (t->sink_err)
        err = err_set(ret_error, t->sink_err, "%s", t->sink_error.text);
    else if (code)
        err = translate(t, code, origin, r, ret_error);
    t->curl->curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    answer->status = (int)status;
    answer->date_ms = t->date_ms;
    t->curl->curl_slist_free_all(headers);
    return err;
}

/* Takes the server that a 307 names as the leader. False: it names none. */
static bool take_leader(struct transport *t)
{
    char *origin = t->location ? origin_of(t->location) : NULL;
    if (!origin ||
        (!strncmp(t->servers[t->at], "https:", 6) && strncmp(origin, "https:", 6) != 0)) {
        free(origin);
        return false;
    }
    free(t->leader);
    t->leader = origin;
    return true;
}

/* Moves on to the next server. False: all have been tried. */
static bool turn(struct transport *t, struct transport_request *r)
{
    if (t->leader) {
        free(r->dead);
        r->dead = t->leader;
        t->leader = NULL;
        return true;
    }
    t->at = (t->at + 1) % t->server_count;
    return ++r->tried < t->server_count;
}

/*
 * Whether to follow a redirect. Not to a leader that could not be reached before in this call: the
 * other servers take a while to notice, and until then no server can answer.
 */
static bool follow(struct transport *t, struct transport_request *r, int status, int *ret_err,
                   struct err_info *ret_error)
{
    if ((status != 307 && status != 308) || ++r->redirects > REDIRECTS_MAX || !take_leader(t))
        return false;
    if (!r->dead || strcmp(t->leader, r->dead) != 0)
        return true;
    *ret_err = say_unreachable(r->dead, "it leads, and does not answer", ret_error);
    free(t->leader);
    t->leader = NULL;
    return false;
}

/* Whether to ask again without the token that was found: it is of another server of this user. */
static bool forget_token(struct transport *t, int status)
{
    if (status != 401 || !t->token_found || !t->token_line)
        return false;
    free(t->token_line);
    t->token_line = NULL;
    return true;
}

/* Asks one server after the other until one answers. */
static int call_any(struct transport *t, struct transport_request *r,
                    struct transport_answer *ret_answer, struct err_info *ret_error)
{
    struct transport_answer answer = {0};
    bool more = true;
    int err = 0;
    while (more) {
        free(t->location);
        t->location = NULL;
        err = call_one(t, t->leader ? t->leader : t->servers[t->at], r, &answer, ret_error);
        if (err)
            more = err == DROVER_UNREACHABLE && turn(t, r);
        else
            more = follow(t, r, answer.status, &err, ret_error) || forget_token(t, answer.status);
    }
    free(r->dead);
    if (err) {
        buf_release(&answer.body);
        return err;
    }
    *ret_answer = answer;
    return 0;
}

int transport_call(struct transport *t, const char *method, const char *path, struct str body,
                   int64_t timeout_ms, struct transport_answer *ret_answer,
                   struct err_info *ret_error)
{
    struct transport_request r = {.method = method, .path = path, .body = body};
    r.timeout_ms = timeout_ms ? timeout_ms : TRANSPORT_TIMEOUT_MS;
    r.deadline_ms = clock_boot_ms() + r.timeout_ms;
    return call_any(t, &r, ret_answer, ret_error);
}

int transport_fetch(struct transport *t, const char *path, int64_t idle_ms,
                    const struct transport_sink *sink, struct transport_answer *ret_answer,
                    struct err_info *ret_error)
{
    struct transport_request r = {
        .method = "GET", .path = path, .idle_ms = idle_ms, .timeout_ms = idle_ms};
    t->sink = sink;
    int err = call_any(t, &r, ret_answer, ret_error);
    t->sink = NULL;
    return err;
}
