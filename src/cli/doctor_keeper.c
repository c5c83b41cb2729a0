/* The servers of an ensemble: each is asked for the four-letter word srvr. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/tls.h"
#include "cli/doctor.h"
#include "keeper/zookeeper/zookeeper.h"

enum { ANSWER_S = 5, ANSWER_LEN_MAX = 4096, SERVERS_MAX = 32, WORD_SIZE = 64 };

struct ensemble {
    struct tls_context *tls; /* NULL: without TLS */
    size_t servers, known;   /* known: it answered srvr */
    bool leads;              /* one of them */
    char version[WORD_SIZE];
    bool mixed; /* of several versions */
};

/* A socket, or -1. */
static int connect_to(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct timeval patience = {.tv_sec = ANSWER_S};
    int fd = -1;
    if (getaddrinfo(host, port, &hints, &found))
        return -1;
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* of connect, too */
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (connect(fd, a->ai_addr, a->ai_addrlen)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

/* A conversation with a server. */
struct asked {
    int fd;
    struct tls *tls; /* NULL: without TLS */
    char chunk[TLS_READ_SIZE];
};

/* Sends what TLS has to send, and reads once. */
static bool exchange(struct asked *a)
{
    struct buf *out = &a->tls->out;
    if (out->len && send(a->fd, out->p, out->len, MSG_NOSIGNAL) != (ssize_t)out->len)
        return false;
    out->len = 0;
    ssize_t len = recv(a->fd, a->chunk, sizeof a->chunk, 0);
    if (len > 0)
        tls_feed(a->tls, (struct str){a->chunk, (size_t)len});
    return len > 0;
}

static bool say(struct asked *a, struct str text)
{
    char unused;
    if (!a->tls)
        return send(a->fd, text.p, text.len, MSG_NOSIGNAL) == (ssize_t)text.len;
    while (tls_read(a->tls, &unused, 1) == 0 && !a->tls->ready)
        if (!exchange(a))
            return false;
    if (a->tls->failed)
        return false;
    tls_write(a->tls, text);
    return true;
}

static ssize_t hear(struct asked *a, char *to, size_t size)
{
    ssize_t len;
    if (!a->tls)
        return recv(a->fd, to, size, 0);
    while ((len = tls_read(a->tls, to, size)) == 0)
        if (!exchange(a))
            return -1;
    return len;
}

/* False: there is no answer, and ret_why says why; NULL: not known. */
static bool ask(struct tls_context *tls, const char *host, const char *port,
                char answer[ANSWER_LEN_MAX], const char **ret_why)
{
    size_t len = 0;
    ssize_t more = 1;
    struct asked a = {.fd = connect_to(host, port)};
    if (a.fd >= 0 && tls)
        a.tls = tls_new_client(tls, host);
    if (a.fd >= 0 && say(&a, STR("srvr")))
        while (more > 0 && len < ANSWER_LEN_MAX - 1) {
            more = hear(&a, answer + len, ANSWER_LEN_MAX - 1 - len);
            len += more > 0 ? (size_t)more : 0;
        }
    *ret_why = a.tls ? a.tls->problem : NULL;
    tls_free(a.tls);
    if (a.fd >= 0)
        close(a.fd);
    answer[len] = '\0';
    return len;
}

/* "host:port" or "[::1]:port"; without a port it is ZooKeeper's. */
static void split(char *server, bool tls, const char **ret_host, const char **ret_port)
{
    char *colon = strrchr(server, ':'), *bracket = strrchr(server, ']');
    bool has_port = colon && colon > bracket;
    *ret_port = has_port ? colon + 1 : tls ? "2281" : "2181";
    if (has_port)
        *colon = '\0';
    if (bracket)
        *bracket = '\0';
    *ret_host = *server == '[' ? server + 1 : server;
}

/* What follows a word in the answer, up to one of these characters. */
static void find_word(const char *answer, const char *word, const char *end, char ret[WORD_SIZE])
{
    const char *p = strstr(answer, word);
    size_t len = p ? strcspn(p + strlen(word), end) : 0;
    snprintf(ret, WORD_SIZE, "%.*s", (int)(len < WORD_SIZE ? len : 0), p ? p + strlen(word) : "");
}

static void check_one(struct doctor *d, struct ensemble *e, const char *name, char *server)
{
    char answer[ANSWER_LEN_MAX], version[WORD_SIZE], mode[WORD_SIZE];
    const char *host, *port, *why;
    split(server, e->tls, &host, &port);
    e->servers++;
    if (!ask(e->tls, host, port, answer, &why)) {
        doctor_say(d, DOCTOR_ERROR, "keeper",
                   e->tls
                       ? "start it, look at --zk-ca, --zk-cert and its own certificate, or take it "
                         "out of the URL"
                       : "start it, or take it out of the URL",
                   why ? "%s: %s" : "%s does not answer%s", name, why ? why : "");
        return;
    }
    find_word(answer, "Zookeeper version: ", "-, \n", version);
    find_word(answer, "Mode: ", "\n", mode);
    if (!version[0]) {
        doctor_say(d, DOCTOR_WARNING, "keeper", "let it answer srvr: 4lw.commands.whitelist=srvr",
                   "%s answers, but not srvr", name);
        return;
    }
    e->leads |= !strcmp(mode, "leader") || !strcmp(mode, "standalone");
    e->known++;
    e->mixed |= e->version[0] && strcmp(e->version, version) != 0;
    memcpy(e->version, version, sizeof version);
    doctor_say(d, DOCTOR_OK, "keeper", NULL, "%s is %s, version %s", name,
               mode[0] ? mode : "not in an ensemble", version);
}

void doctor_check_keeper(struct doctor *d)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct ensemble e = {0};
    struct err_info why;
    if (!d->keeper)
        return;
    if (zookeeper_check_url(d->keeper, &d->zk_tls, &why)) {
        doctor_say(d, DOCTOR_ERROR, "keeper", "give zk://HOST:PORT,HOST:PORT/CHROOT, or zks://",
                   "%s", why.text);
        return;
    }
    if (str_starts(str_of(d->keeper), STR("zks://")) &&
        zookeeper_tls_open(&d->zk_tls, &e.tls, &why)) {
        doctor_say(d, DOCTOR_ERROR, "keeper", "a server does not start with it", "%s", why.text);
        return;
    }
    const char *servers = strstr(d->keeper, "://") + 3;
    struct str list = {servers, strcspn(servers, "/")};
    while (list.p && e.servers < SERVERS_MAX) {
        struct str one = str_cut(&list, ',');
        check_one(d, &e, arena_text(&a, one), arena_text(&a, one));
    }
    if (e.known == e.servers && !e.leads)
        doctor_say(d, DOCTOR_ERROR, "ensemble", "a majority of the servers has to run",
                   "no server leads: changes are refused");
    if (e.mixed)
        doctor_say(d, DOCTOR_WARNING, "ensemble", "finish the upgrade", "versions differ");
    tls_context_close(e.tls);
}
