/*
 * task_load - cycles of a task on a server: added, claimed, deleted; many connections, one thread.
 *
 *   task_load PROTOCOL PORT CONNECTIONS LANES SECONDS
 *
 * PROTOCOL is drover (three requests a cycle), drover-two (the delete goes with the next claim),
 * drover-many (a hundred cycles in two requests), drover-policy (each task has a priority and a
 * key), drover-fifo (another group), drover-retry (each task fails once and is finished),
 * beanstalkd, or redis. A lane is one cycle after the other; with several lanes on a connection
 * their requests are pipelined. Prints cycles a second.
 *
 * A protocol is a table of two functions: the next request of a lane, and the end of an answer.
 * The steps of a cycle are letters: add, claim, fail, end (finish), delete.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

enum { DATA_LEN = 64, MANY = 100, EVENTS = 256, LANES_MAX = 64 };

struct protocol;

struct lane {
    const struct protocol *protocol;
    unsigned number, step;
    uint64_t cycle;
    int64_t ids[MANY];
    size_t id_count;
};

struct connection {
    int fd;
    struct buf in, out;
    size_t sent;
    struct lane lanes[LANES_MAX];
    unsigned order[LANES_MAX]; /* of the lanes whose answers are awaited, a ring */
    unsigned first, awaited;
};

struct protocol {
    const char *name;
    const char *steps; /* the requests of a lane's round */
    unsigned cycles;   /* that they are */
    void (*request)(struct lane *l, struct buf *out);
    /* The length of the answer at p, 0: more is needed. Notes what the lane needs of it. */
    size_t (*answer)(struct lane *l, const char *p, size_t len);
    const char *group; /* of drover */
    bool keyed;
};

static uint64_t completed;
static char data[DATA_LEN + 1];
static int port;

static void fail(const char *what, const char *p, size_t len)
{
    fprintf(stderr, "task_load: %s: %.*s\n", what, (int)(len < 400 ? len : 400), p);
    exit(1);
}

/* Drover. */

/* With the token in $DROVER_TOKEN, if there is one. */
static void post(struct buf *out, const char *path, const struct buf *body)
{
    const char *token = getenv("DROVER_TOKEN");
    buf_printf(out, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n", path, port);
    if (token)
        buf_printf(out, "Authorization: Bearer %s\r\n", token);
    buf_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n", body->len);
    buf_put(out, body->p, body->len);
}

static void put_ids(struct buf *b, const struct lane *l)
{
    buf_printf(b, "\"deletes\":[");
    for (size_t i = 0; i < l->id_count; i++)
        buf_printf(b, "%s%" PRId64, i ? "," : "", l->ids[i]);
    buf_printf(b, "]");
}

static char step_of(const struct lane *l)
{
    return l->protocol->steps[l->step];
}

static void put_adds(struct buf *b, const struct lane *l, int count)
{
    buf_printf(b, "\"adds\":[");
    for (int i = 0; i < count; i++) {
        buf_printf(b, "%s{\"group\":\"%s\",\"data\":\"%s\"", i ? "," : "", l->protocol->group,
                   data);
        if (l->protocol->keyed)
            buf_printf(b, ",\"priority\":%d,\"key\":\"%d-%u-%" PRIu64 "\"", (int)(l->cycle % 5),
                       getpid(), l->number, l->cycle);
        buf_printf(b, "}");
    }
    buf_printf(b, "]");
}

static void drover_request(struct lane *l, struct buf *out)
{
    static struct buf body;

    body.len = 0;
    buf_printf(&body, "{\"clientid\":%u,", l->number + 1);
    switch (step_of(l)) {
    case 'a':
        put_adds(&body, l, 1);
        break;
    case 'c':
        buf_printf(&body, "\"group\":\"%s\",\"duration\":60000", l->protocol->group);
        break;
    case 'f':
        buf_printf(&body, "\"fails\":[{\"id\":%" PRId64 ",\"error\":\"no\",\"retry_in\":0}]",
                   l->ids[0]);
        break;
    case 'e':
        buf_printf(&body, "\"finishes\":[{\"id\":%" PRId64 "}]", l->ids[0]);
        break;
    default:
        put_ids(&body, l);
    }
    buf_printf(&body, "}");
    post(out, step_of(l) == 'c' ? "/claim" : "/update", &body);
}

static void drover_claiming(struct lane *l, struct buf *out, int count)
{
    static struct buf body;

    body.len = 0;
    buf_printf(&body, "{\"clientid\":%u,", l->number + 1);
    if (l->step == 0) {
        put_adds(&body, l, count);
    } else {
        buf_printf(&body, "\"group\":\"%s\",\"duration\":60000,\"limit\":%d,", l->protocol->group,
                   count);
        put_ids(&body, l);
    }
    buf_printf(&body, "}");
    post(out, l->step == 1 ? "/claim" : "/update", &body);
}

static void drover_two_request(struct lane *l, struct buf *out)
{
    drover_claiming(l, out, 1);
}

static void drover_many_request(struct lane *l, struct buf *out)
{
    drover_claiming(l, out, MANY);
}

static void read_ids(struct lane *l, const char *p, const char *end)
{
    static const char key[] = "{\"id\":";

    l->id_count = 0;
    while (l->id_count < MANY && (p = memmem(p, (size_t)(end - p), key, sizeof key - 1))) {
        p += sizeof key - 1;
        l->ids[l->id_count++] = strtoll(p, NULL, 10);
    }
}

static size_t drover_answer(struct lane *l, const char *p, size_t len)
{
    const char *head = memmem(p, len, "\r\n\r\n", 4), *field;
    size_t body, total;

    if (!head)
        return 0;
    field = memmem(p, (size_t)(head - p), "Content-Length: ", 16);
    body = field ? strtoul(field + 16, NULL, 10) : 0;
    total = (size_t)(head - p) + 4 + body;
    if (len < total)
        return 0;
    if (memcmp(p, "HTTP/1.1 200", 12) != 0)
        fail("drover", p, total);
    if (step_of(l) == 'c') {
        read_ids(l, head, p + total);
        if (!l->id_count)
            fail("nothing to claim", p, total);
    }
    return total;
}

/* beanstalkd. */

static void beanstalkd_request(struct lane *l, struct buf *out)
{
    if (l->step == 0)
        buf_printf(out, "put 0 0 60 %d\r\n%s\r\n", DATA_LEN, data);
    else if (l->step == 1)
        buf_printf(out, "reserve\r\n");
    else
        buf_printf(out, "delete %" PRId64 "\r\n", l->ids[0]);
}

static size_t beanstalkd_answer(struct lane *l, const char *p, size_t len)
{
    static const char *const expected[] = {"INSERTED ", "RESERVED ", "DELETED"};
    const char *line = memmem(p, len, "\r\n", 2);
    size_t total;

    if (!line)
        return 0;
    total = (size_t)(line - p) + 2 + (l->step == 1 ? DATA_LEN + 2 : 0);
    if (len < total)
        return 0;
    if (strncmp(p, expected[l->step], strlen(expected[l->step])) != 0)
        fail("beanstalkd", p, total);
    if (l->step == 1)
        l->ids[0] = strtoll(p + 9, NULL, 10);
    return total;
}

/* Redis. Each lane's data is its own, so that LREM finds it near the end it looks from. */

static void redis_request(struct lane *l, struct buf *out)
{
    char text[DATA_LEN + 1];

    snprintf(text, sizeof text, "%08u%016" PRIu64 "%.40s", l->number, l->cycle, data);
    if (l->step == 0)
        buf_printf(out, "*3\r\n$5\r\nLPUSH\r\n$1\r\nq\r\n$%d\r\n%s\r\n", DATA_LEN, text);
    else if (l->step == 1)
        buf_printf(out, "*5\r\n$5\r\nLMOVE\r\n$1\r\nq\r\n$1\r\np\r\n$4\r\nLEFT\r\n$5\r\nRIGHT\r\n");
    else
        buf_printf(out, "*4\r\n$4\r\nLREM\r\n$1\r\np\r\n$1\r\n1\r\n$%d\r\n%.*s\r\n", DATA_LEN,
                   DATA_LEN, (const char *)l->ids);
}

static size_t redis_answer(struct lane *l, const char *p, size_t len)
{
    const char *line = memmem(p, len, "\r\n", 2);
    size_t total;

    if (!line)
        return 0;
    total = (size_t)(line - p) + 2 + (l->step == 1 ? DATA_LEN + 2 : 0);
    if (p[0] == '-' || (l->step == 1 && strncmp(p, "$64", 3) != 0))
        fail("redis", p, len);
    if (len < total)
        return 0;
    if (l->step == 1)
        memcpy(l->ids, line + 2, DATA_LEN);
    return total;
}

static const struct protocol PROTOCOLS[] = {
    {"drover", "acd", 1, drover_request, drover_answer, "bench"},
    {"drover-two", "ac", 1, drover_two_request, drover_answer, "bench"},
    {"drover-many", "ac", MANY, drover_many_request, drover_answer, "bench"},
    {"drover-policy", "acd", 1, drover_request, drover_answer, "policy", .keyed = true},
    {"drover-fifo", "acd", 1, drover_request, drover_answer, "fifo"},
    {"drover-retry", "acfce", 1, drover_request, drover_answer, "bench"},
    {"beanstalkd", "acd", 1, beanstalkd_request, beanstalkd_answer},
    {"redis", "acd", 1, redis_request, redis_answer},
};

/* Connections. */

static void send_some(struct connection *c)
{
    while (c->sent < c->out.len) {
        ssize_t n = write(c->fd, c->out.p + c->sent, c->out.len - c->sent);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            fail("write", strerror(errno), strlen(strerror(errno)));
        c->sent += (size_t)n;
    }
    c->out.len = c->sent = 0;
}

static void ask(struct connection *c, const struct protocol *p, unsigned lane)
{
    p->request(&c->lanes[lane], &c->out);
    c->order[(c->first + c->awaited++) % LANES_MAX] = lane;
}

static void next_step(const struct protocol *p, struct lane *l)
{
    if (p->steps[++l->step])
        return;
    l->step = 0;
    l->cycle++;
    completed += p->cycles;
}

static void take_answers(struct connection *c, const struct protocol *p)
{
    size_t at = 0;

    while (c->awaited && at < c->in.len) {
        unsigned lane = c->order[c->first];
        size_t len = p->answer(&c->lanes[lane], c->in.p + at, c->in.len - at);

        if (!len)
            break;
        at += len;
        c->first = (c->first + 1) % LANES_MAX;
        c->awaited--;
        next_step(p, &c->lanes[lane]);
        ask(c, p, lane);
    }
    memmove(c->in.p, c->in.p + at, c->in.len - at);
    c->in.len -= at;
}

static void read_some(struct connection *c, const struct protocol *p)
{
    ssize_t n;

    buf_reserve(&c->in, 65536);
    n = read(c->fd, c->in.p + c->in.len, 65536);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        fail("the server closed", "", 0);
    c->in.len += (size_t)n;
    take_answers(c, p);
    send_some(c);
}

static void connect_to(struct connection *c)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;

    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&a, sizeof a) < 0)
        fail("connect", strerror(errno), strlen(strerror(errno)));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double run(struct connection *connections, int count, unsigned lanes, double seconds,
                  const struct protocol *p)
{
    struct epoll_event events[EVENTS];
    int epoll = epoll_create1(0);
    double start, warm;
    uint64_t before = 0;

    for (int i = 0; i < count; i++) {
        struct connection *c = &connections[i];
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};

        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &e);
        for (unsigned lane = 0; lane < lanes; lane++) {
            c->lanes[lane].protocol = p;
            c->lanes[lane].number = (unsigned)i * LANES_MAX + lane;
            ask(c, p, lane);
        }
        send_some(c);
    }
    start = now();
    warm = start + seconds / 5;
    while (now() < start + seconds) {
        int n = epoll_wait(epoll, events, EVENTS, 100);

        for (int i = 0; i < n; i++)
            read_some(events[i].data.ptr, p);
        if (!before && now() > warm) {
            before = completed;
            warm = now();
        }
    }
    return (double)(completed - before) / (now() - warm);
}

int main(int argc, char **argv)
{
    const struct protocol *p = NULL;
    struct connection *connections;
    int count;

    for (size_t i = 0; argc == 6 && i < sizeof PROTOCOLS / sizeof *PROTOCOLS; i++)
        if (!strcmp(argv[1], PROTOCOLS[i].name))
            p = &PROTOCOLS[i];
    if (!p) {
        fprintf(stderr, "usage: task_load PROTOCOL PORT CONNECTIONS LANES SECONDS\n");
        return 2;
    }
    port = atoi(argv[2]);
    count = atoi(argv[3]);
    assert(atoi(argv[4]) <= LANES_MAX);
    memset(data, 'x', DATA_LEN);
    connections = mem_zalloc((size_t)count * sizeof *connections);
    for (int i = 0; i < count; i++)
        connect_to(&connections[i]);
    printf("%.0f\n", run(connections, count, (unsigned)atoi(argv[4]), atof(argv[5]), p));
    return 0;
}
