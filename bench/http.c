/*
 * bench/http - requests a second of an HTTP server.
 *
 *   bench_http DROVER                 starts drover serve, in memory, and asks it
 *   bench_http --url HOST:PORT PATH   asks a server that runs already, such as nginx
 *
 * One thread with epoll, so many connections, each with so many requests under way. The same bytes are
 * sent each time; answers are counted by their length, which is that of the first, so that the client
 * costs as little as possible beside the server.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <netinet/tcp.h>

#include "base/buf.h"
#include "base/mem.h"

enum { DEPTH_MAX = 64, RUN_MS = 2000 };

struct target {
    struct sockaddr_in address;
    struct buf request;
    size_t answer_len;
};

struct connection {
    int fd;
    size_t waiting; /* requests without an answer */
    size_t part;    /* bytes of an answer that is not complete */
};

static void die(const char *what)
{
    fprintf(stderr, "bench_http: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int open_connection(const struct target *t)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (const struct sockaddr *)&t->address, sizeof t->address))
        die("cannot connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

static void send_requests(const struct target *t, struct connection *c, size_t count)
{
    size_t len = count * t->request.len;

    if (write(c->fd, t->request.p, len) != (ssize_t)len)
        die("cannot send");
    c->waiting += count;
}

/* Asks once, to see how long an answer is. The request is then repeated, for pipelining. */
static void learn_answer(struct target *t)
{
    struct connection c = {.fd = open_connection(t)};
    char answer[65536];
    ssize_t len;

    send_requests(t, &c, 1);
    len = read(c.fd, answer, sizeof answer);
    if (len < 12 || memcmp(answer + 9, "200", 3) != 0)
        die("the answer is not 200");
    t->answer_len = (size_t)len;
    close(c.fd);
}

/* How many answers came. */
static size_t read_answers(const struct target *t, struct connection *c)
{
    static char space[1 << 20];
    ssize_t len = read(c->fd, space, sizeof space);
    size_t count;

    if (len <= 0)
        die("the server closed");
    count = (c->part + (size_t)len) / t->answer_len;
    c->part = (c->part + (size_t)len) % t->answer_len;
    c->waiting -= count;
    return count;
}

static double measure(const struct target *t, size_t connections, size_t depth)
{
    struct connection *all = mem_zalloc(sizeof *all * connections);
    struct epoll_event events[256];
    int64_t began, now;
    size_t done = 0;
    int poll = epoll_create1(EPOLL_CLOEXEC);

    for (size_t i = 0; i < connections; i++) {
        all[i].fd = open_connection(t);
        epoll_ctl(poll, EPOLL_CTL_ADD, all[i].fd,
                  &(struct epoll_event){.events = EPOLLIN, .data.ptr = &all[i]});
    }
    began = now = now_ns();
    for (size_t i = 0; i < connections; i++)
        send_requests(t, &all[i], depth);
    while (now - began < RUN_MS * 1000000LL) {
        int ready = epoll_wait(poll, events, 256, 100);

        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;

            done += read_answers(t, c);
            if (!c->waiting)
                send_requests(t, c, depth);
        }
        now = now_ns();
    }
    for (size_t i = 0; i < connections; i++)
        close(all[i].fd);
    close(poll);
    free(all);
    return (double)done * 1e9 / (double)(now - began);
}

static void run(struct target *t)
{
    static const size_t depths[] = {1, 16}, connections[] = {1, 16, 64, 256};
    size_t one = t->request.len;

    learn_answer(t);
    buf_reserve(&t->request, one * DEPTH_MAX);
    for (size_t i = 1; i < DEPTH_MAX; i++)
        memcpy(t->request.p + i * one, t->request.p, one);
    printf("%12s %12s %14s\n", "connections", "pipelined", "requests/s");
    for (size_t d = 0; d < 2; d++)
        for (size_t c = 0; c < 4; c++)
            printf("%12zu %12zu %14.0f\n", connections[c], depths[d],
                   measure(t, connections[c], depths[d]));
}

/* Starts the server and reads from what it says where it listens. */
static pid_t start_server(const char *drover, char *where, size_t size)
{
    char line[256], *url = NULL;
    int said[2];
    pid_t pid;
    FILE *in;

    if (pipe(said))
        die("pipe");
    pid = fork();
    if (!pid) {
        dup2(said[1], STDERR_FILENO);
        execl(drover, drover, "serve", "--journal", "none", "--http", "127.0.0.1:0", "--zk", "none",
              (char *)NULL);
        _exit(127);
    }
    close(said[1]);
    in = fdopen(said[0], "r");
    while (!url && fgets(line, sizeof line, in))
        url = strstr(line, "http://");
    if (!url)
        die("the server did not start");
    snprintf(where, size, "%.*s", (int)strcspn(url + 7, "\n"), url + 7);
    return pid; /* its pipe stays open as long as we run */
}

int main(int argc, char **argv)
{
    bool given = argc == 4 && !strcmp(argv[1], "--url");
    struct target t = {.address.sin_family = AF_INET};
    char where[128], host[64];
    pid_t pid = 0;
    int port;

    if (!given && argc != 2) {
        fprintf(stderr, "usage: bench_http DROVER | --url HOST:PORT PATH\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if (given)
        snprintf(where, sizeof where, "%s", argv[2]);
    else
        pid = start_server(argv[1], where, sizeof where);
    if (sscanf(where, "%63[^:]:%d", host, &port) != 2 ||
        inet_pton(AF_INET, host, &t.address.sin_addr) != 1)
        die("not HOST:PORT");
    t.address.sin_port = htons((uint16_t)port);
    buf_printf(&t.request, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", given ? argv[3] : "/healthz",
               where);
    run(&t);
    buf_release(&t.request);
    if (pid) {
        kill(pid, SIGTERM);
        waitpid(pid, NULL, 0);
    }
    return 0;
}
