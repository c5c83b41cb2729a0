/*
 * bench/http - requests a second of the HTTP server, beside nginx.
 *
 *   bench_http DROVER                 starts drover serve, in memory, and one process of nginx that
 *                                     answers the same from its configuration, and asks in turn
 *   bench_http --url HOST:PORT PATH   asks a server that runs already
 *
 * One thread with epoll, so many connections, each with so many requests under way. The same bytes
 * are sent each time; answers are counted by their length, which is that of the first, so that the
 * client costs as little as possible beside the server.
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
    pid_t pid; /* 0: somebody else's */
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

static bool is_listening(const struct target *t)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is = !connect(fd, (const struct sockaddr *)&t->address, sizeof t->address);

    close(fd);
    return is;
}

static void send_requests(const struct target *t, struct connection *c, size_t count)
{
    size_t len = count * t->request.len;

    if (write(c->fd, t->request.p, len) != (ssize_t)len)
        die("cannot send");
    c->waiting += count;
}

/* Asks once, to see how long an answer is. */
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

/* The request is repeated in its buffer, for pipelining. */
static void target_open(struct target *t, const char *where, const char *path)
{
    char host[64];
    size_t one;
    int port;

    t->address.sin_family = AF_INET;
    if (sscanf(where, "%63[^:]:%d", host, &port) != 2 ||
        inet_pton(AF_INET, host, &t->address.sin_addr) != 1)
        die("not HOST:PORT");
    t->address.sin_port = htons((uint16_t)port);
    buf_printf(&t->request, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, where);
    learn_answer(t);
    one = t->request.len;
    buf_reserve(&t->request, one * DEPTH_MAX);
    for (size_t i = 1; i < DEPTH_MAX; i++)
        memcpy(t->request.p + i * one, t->request.p, one);
}

static void target_close(struct target *t)
{
    buf_release(&t->request);
    if (t->pid) {
        kill(t->pid, SIGTERM);
        waitpid(t->pid, NULL, 0);
    }
}

/* Starts the server and reads from what it says where it listens. */
static void start_drover(struct target *t, const char *drover)
{
    char line[256], *url = NULL;
    int said[2];
    FILE *in;

    if (pipe(said))
        die("pipe");
    t->pid = fork();
    if (!t->pid) {
        dup2(said[1], STDERR_FILENO);
        execl(drover, drover, "serve", "--journal", "none", "--http", "127.0.0.1:0", "--zk", "none",
              (char *)NULL);
        _exit(127);
    }
    close(said[1]);
    in = fdopen(said[0], "r"); /* stays open as long as we run */
    while (!url && fgets(line, sizeof line, in))
        url = strstr(line, "http://");
    if (!url)
        die("the server did not start");
    url[strcspn(url, "\n")] = '\0';
    target_open(t, url + 7, "/healthz");
}

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) ||
        getsockname(fd, (struct sockaddr *)&a, &len))
        die("no port");
    close(fd);
    return ntohs(a.sin_port);
}

static void write_nginx_conf(const char *path, int port)
{
    FILE *f = fopen(path, "w");

    if (!f)
        die(path);
    fprintf(f,
            "daemon off; master_process off; pid nginx.pid; error_log stderr;\n"
            "events { worker_connections 1024; }\n"
            "http {\n"
            "    access_log off; keepalive_requests 1000000000;\n"
            "    server { listen 127.0.0.1:%d; location / {\n"
            "        default_type application/json; return 200 '{\"status\":\"ok\"}\\n'; } }\n"
            "}\n",
            port);
    fclose(f);
}

/* False when there is none to be measured beside. It has a directory of its own, which goes. */
static bool start_nginx(struct target *t, char *dir)
{
    char conf[64], where[64];
    int port = free_port(), status;

    if (!mkdtemp(dir))
        die(dir);
    snprintf(conf, sizeof conf, "%s/nginx.conf", dir);
    snprintf(where, sizeof where, "127.0.0.1:%d", port);
    write_nginx_conf(conf, port);
    t->pid = fork();
    if (!t->pid) {
        execlp("nginx", "nginx", "-p", dir, "-c", conf, "-e", "stderr", (char *)NULL);
        _exit(127);
    }
    t->address = (struct sockaddr_in){.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                      .sin_port = htons((uint16_t)port)};
    while (!is_listening(t)) {
        if (waitpid(t->pid, &status, WNOHANG) == t->pid) {
            t->pid = 0;
            return false;
        }
        usleep(10000);
    }
    target_open(t, where, "/");
    return true;
}

static void remove_dir(const char *dir)
{
    static const char *const names[] = {"nginx.conf", "nginx.pid"};
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void run(struct target *t, struct target *peer)
{
    static const size_t depths[] = {1, 16}, connections[] = {1, 16, 64, 256};

    printf("%12s %12s %14s%s\n", "connections", "pipelined", "requests/s",
           peer ? "          nginx    ratio" : "");
    for (size_t d = 0; d < 2; d++)
        for (size_t c = 0; c < 4; c++) {
            double ours = measure(t, connections[c], depths[d]), theirs;

            printf("%12zu %12zu %14.0f", connections[c], depths[d], ours);
            if (peer) {
                theirs = measure(peer, connections[c], depths[d]);
                printf(" %14.0f %8.2f", theirs, ours / theirs);
            }
            printf("\n");
            fflush(stdout);
        }
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/drover-bench-XXXXXX";
    struct target t = {0}, nginx = {0};
    bool beside = false;

    signal(SIGPIPE, SIG_IGN);
    if (argc == 4 && !strcmp(argv[1], "--url")) {
        target_open(&t, argv[2], argv[3]);
    } else if (argc == 2) {
        start_drover(&t, argv[1]);
        beside = start_nginx(&nginx, dir);
    } else {
        fprintf(stderr, "usage: bench_http DROVER | --url HOST:PORT PATH\n");
        return 2;
    }
    run(&t, beside ? &nginx : NULL);
    target_close(&t);
    target_close(&nginx);
    remove_dir(dir);
    return 0;
}
