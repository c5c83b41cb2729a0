/*
 * The listening sockets, the check of who connects, and what is said about problems.
 *
 * Whose socket is at the other end? Of all descriptors of this process, one must have the address
 * from which the connection comes, and be connected to ours: the two addresses and ports belong to
 * one pair of sockets. A stranger could have aborted its connection, with bytes that can still be
 * read, and libzookeeper have got the same port since. So the connection must be up after that
 * socket was found.
 */
#include "keeper/zookeeper/zookeeper_relay.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "keeper/zookeeper/zookeeper_link.h"

enum {
    BACKLOG = 16,
    REST_MS = 200,  /* after accept() has failed for want of something */
    STOP_MS = 2000, /* for the rest of what libzookeeper has written */
    SHARE = 3,      /* of the session timeout, for connecting: libzookeeper's own */
};

struct relay_host {
    char *host, *port;
    int listener;
    struct sockaddr_in address; /* of the listener */
    struct err_info problem;    /* of the latest attempt; empty: none */
    bool refused;               /* likewise, by TLS */
};

struct zk_relay {
    struct relay_host hosts[ZK_RELAY_HOSTS_MAX];
    size_t count;
    struct buf local_hosts;
    char *ca, *cert, *key;
    struct tls_context *tls;
    void (*note)(void *arg, const char *line);
    void *note_arg;
    int64_t connect_ms;
    int stop_fd; /* readable: the thread shall end */
    pthread_t thread;
    bool thread_runs;

    /* Of the thread. */
    struct zk_link link;
    struct relay_host *linked; /* the host of the link; NULL: no result is expected any more */
    bool worked;               /* a server has answered before */
    int64_t rest_until_ms;     /* nothing is accepted until then */

    pthread_mutex_t lock;
    struct err_info last; /* under the lock, as is all_refused */
    bool all_refused;
};

/* Whose socket it is. */

static bool is_at(int fd, int (*name)(int, struct sockaddr *, socklen_t *),
                  const struct sockaddr_in *address)
{
    struct sockaddr_storage found = {0};
    socklen_t len = sizeof found;
    const struct sockaddr_in *in = (const struct sockaddr_in *)&found;
    return !name(fd, (struct sockaddr *)&found, &len) && found.ss_family == AF_INET &&
           in->sin_port == address->sin_port && in->sin_addr.s_addr == address->sin_addr.s_addr;
}

static bool has_socket(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
    DIR *dir = opendir("/proc/self/fd");
    bool found = false;
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        int fd = atoi(entry->d_name); /* 0 for "." and "..", which harms nobody */
        found = is_at(fd, getsockname, from) && is_at(fd, getpeername, to);
    }
    if (dir)
        closedir(dir);
    return found;
}

static bool is_up(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) &&
           info.tcpi_state == TCP_ESTABLISHED;
}

/* Problems. */

static void say(const struct zk_relay *r, const char *line)
{
    if (r->note && r->worked)
        r->note(r->note_arg, line);
}

static void set_last(struct zk_relay *r, const struct err_info *problem)
{
    size_t refused = 0;
    for (size_t i = 0; i < r->count; i++)
        refused += r->hosts[i].refused;
    LOCKED(&r->lock);
    r->last = *problem;
    r->all_refused = refused == r->count;
}

bool zk_relay_problem(struct zk_relay *r, struct err_info *ret_problem)
{
    LOCKED(&r->lock);
    *ret_problem = r->last;
    return r->all_refused;
}

/* The first success tells what was wrong with others before. */
static void set_works(struct zk_relay *r, struct relay_host *h)
{
    h->problem.text[0] = '\0';
    h->refused = false;
    set_last(r, &h->problem);
    for (size_t i = 0; i < r->count && !r->worked; i++)
        if (r->hosts[i].problem.text[0] && r->note)
            r->note(r->note_arg, r->hosts[i].problem.text);
    r->worked = true;
}

static void set_failed(struct zk_relay *r, struct relay_host *h, const struct zk_link *l)
{
    struct err_info line;
    err_set(&line, DROVER_IO, "%s:%s: %s", h->host, h->port, l->problem.text);
    h->refused = l->refused;
    set_last(r, &line);
    if (!strcmp(line.text, h->problem.text))
        return;
    h->problem = line;
    say(r, line.text);
}

/* The thread. */

/* Each link has one result: an answer, or a problem. */
static void take_result(struct zk_relay *r)
{
    struct relay_host *h = r->linked;
    if (!h || (!r->link.answered && r->link.state != ZK_LINK_CLOSED))
        return;
    r->linked = NULL;
    if (r->link.answered)
        set_works(r, h);
    else if (r->link.problem.text[0])
        set_failed(r, h, &r->link);
}

static void read_files_again(struct zk_relay *r)
{
    CLEANUP(buf_release) struct buf line = {0};
    struct err_info e;
    if (!tls_context_is_stale(r->tls) || !tls_context_reload(r->tls, &e))
        return;
    buf_printf(&line, "the old certificates stay in use: %s", e.text);
    say(r, buf_text(&line));
}

static void accept_one(struct zk_relay *r, struct relay_host *h)
{
    struct sockaddr_in from = {0};
    socklen_t len = sizeof from;
    int fd = accept4(h->listener, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
            r->rest_until_ms = clock_boot_ms() + REST_MS;
        return;
    }
    if (!has_socket(&from, &h->address) || !is_up(fd)) {
        close(fd);
        return;
    }
    zk_link_close(&r->link);
    read_files_again(r);
    r->linked = h;
    zk_link_begin(&r->link, fd, r->tls, h->host, h->port, r->connect_ms);
    take_result(r);
}

/* The sockets are: what tells to stop, both sides of the link, the listeners. */
enum { AT_STOP, AT_LINK, AT_LISTENERS = AT_LINK + 2 };

static int prepare_poll(const struct zk_relay *r, bool stopping, int64_t stop_ms,
                        struct pollfd *fds)
{
    int64_t now_ms = clock_boot_ms(), until_ms = stopping ? stop_ms : INT64_MAX;
    bool accepts = !stopping && now_ms >= r->rest_until_ms;
    fds[AT_STOP] = (struct pollfd){.fd = stopping ? -1 : r->stop_fd, .events = POLLIN};
    zk_link_poll(&r->link, fds + AT_LINK);
    for (size_t i = 0; i < r->count; i++)
        fds[AT_LISTENERS + i] =
            (struct pollfd){.fd = accepts ? r->hosts[i].listener : -1, .events = POLLIN};
    if (r->link.state != ZK_LINK_CLOSED && r->link.deadline_ms < until_ms)
        until_ms = r->link.deadline_ms;
    if (!accepts && !stopping && r->rest_until_ms < until_ms)
        until_ms = r->rest_until_ms;
    if (until_ms == INT64_MAX)
        return -1;
    return until_ms > now_ms ? (int)(until_ms - now_ms) : 0;
}

/* The link comes first: what libzookeeper wrote before it connected anew is not lost. */
static void *relay_main(void *arg)
{
    struct zk_relay *r = arg;
    struct pollfd fds[AT_LISTENERS + ZK_RELAY_HOSTS_MAX];
    bool stopping = false;
    int64_t stop_ms = 0;
    while (!stopping || (r->link.state != ZK_LINK_CLOSED && clock_boot_ms() < stop_ms)) {
        int timeout_ms = prepare_poll(r, stopping, stop_ms, fds);
        if (poll(fds, AT_LISTENERS + r->count, timeout_ms) < 0)
            continue; /* a signal: none of the results counts */
        zk_link_step(&r->link, fds + AT_LINK);
        take_result(r);
        for (size_t i = 0; i < r->count; i++)
            if (fds[AT_LISTENERS + i].revents)
                accept_one(r, &r->hosts[i]);
        if (fds[AT_STOP].revents) {
            stopping = true;
            stop_ms = clock_boot_ms() + STOP_MS;
        }
    }
    zk_link_close(&r->link);
    return NULL;
}

/* Life. */

static char *copy(const char *text)
{
    return text ? mem_dup(text, strlen(text)) : NULL;
}

static int listen_for(struct relay_host *h, struct err_info *e)
{
    socklen_t len = sizeof h->address;
    h->address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    h->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (h->listener < 0 || bind(h->listener, (struct sockaddr *)&h->address, len) ||
        listen(h->listener, BACKLOG) ||
        getsockname(h->listener, (struct sockaddr *)&h->address, &len))
        return err_set_errno(e, errno, "cannot listen on 127.0.0.1");
    return 0;
}

/* The last colon: an address of IPv6 has others. */
static int add_host(struct zk_relay *r, struct str text, struct err_info *e)
{
    if (r->count == ZK_RELAY_HOSTS_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "more than %d servers", ZK_RELAY_HOSTS_MAX);
    size_t at = text.len;
    while (text.p[at - 1] != ':')
        at--;
    struct relay_host *h = &r->hosts[r->count++];
    *h = (struct relay_host){.host = mem_dup(text.p, at - 1),
                             .port = mem_dup(text.p + at, text.len - at),
                             .listener = -1};
    TRY(listen_for(h, e));
    buf_printf(&r->local_hosts, "%s127.0.0.1:%d", r->local_hosts.len ? "," : "",
               ntohs(h->address.sin_port));
    return 0;
}

static int open_all(struct zk_relay *r, const char *hosts, struct err_info *e)
{
    struct zookeeper_tls tls = {.ca = r->ca, .cert = r->cert, .key = r->key};
    TRY(zookeeper_tls_open(&tls, &r->tls, e));
    for (struct str list = str_of(hosts); list.p;)
        TRY(add_host(r, str_cut(&list, ','), e));
    r->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (r->stop_fd < 0)
        return err_set_errno(e, errno, "cannot make an eventfd");
    TRY(thread_start(&r->thread, "zk-tls", relay_main, r, e));
    r->thread_runs = true;
    return 0;
}

int zk_relay_open(const char *hosts, const struct zookeeper_options *zo, int32_t timeout_ms,
                  struct zk_relay **ret_relay, struct err_info *ret_error)
{
    static const struct zookeeper_options none;
    struct zk_relay *r = mem_zalloc(sizeof *r);
    zo = zo ? zo : &none;
    r->ca = copy(zo->tls.ca);
    r->cert = copy(zo->tls.cert);
    r->key = copy(zo->tls.key);
    r->note = zo->note;
    r->note_arg = zo->note_arg;
    r->connect_ms = timeout_ms / SHARE;
    r->stop_fd = -1;
    pthread_mutex_init(&r->lock, NULL);
    int err = open_all(r, hosts, ret_error);
    if (err)
        zk_relay_close(r);
    else
        *ret_relay = r;
    return err;
}

void zk_relay_close(struct zk_relay *r)
{
    if (!r)
        return;
    if (r->thread_runs) {
        eventfd_write(r->stop_fd, 1);
        pthread_join(r->thread, NULL);
    }
    for (size_t i = 0; i < r->count; i++) {
        free(r->hosts[i].host);
        free(r->hosts[i].port);
        if (r->hosts[i].listener >= 0)
            close(r->hosts[i].listener);
    }
    if (r->stop_fd >= 0)
        close(r->stop_fd);
    tls_context_close(r->tls);
    pthread_mutex_destroy(&r->lock);
    buf_release(&r->local_hosts);
    free(r->ca);
    free(r->cert);
    free(r->key);
    free(r);
}

const char *zk_relay_hosts(struct zk_relay *r)
{
    return buf_text(&r->local_hosts);
}

int zookeeper_tls_open(const struct zookeeper_tls *tls, struct tls_context **ret_context,
                       struct err_info *ret_error)
{
    struct tls_options o = {
        .cert = tls->cert, .key = tls->key ? tls->key : tls->cert, .ca = tls->ca, .client = true};
    return tls_context_open(&o, ret_context, ret_error);
}
