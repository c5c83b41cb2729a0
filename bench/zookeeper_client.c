/*
 * A client of ZooKeeper's protocol that keeps a window of requests on their way, for
 * bench/zookeeper.
 *
 *     zookeeper_client HOST:PORT OPERATION WINDOW SECONDS
 *     zookeeper_client HOST:PORT fill COUNT
 *
 * Prints how many requests were answered in a second; or only makes so many nodes. Both servers
 * meet the same client. It is one thread that writes its requests together and only counts the
 * answers: with the official library, whose two threads a handle took more of the two cores than
 * our server did, every request of ours came at the same 25,000 a second, whatever it was.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 1000, DATA_LEN = 64, TIMEOUT_MS = 20000, FILL_WINDOW = 500 };
enum { OP_CREATE = 1, OP_GET = 4, OP_SET = 5, OP_CHECK = 13, OP_MULTI = 14 };

static int sock;
static char root[64], data[DATA_LEN];
static char out[1 << 20], in[1 << 20];
static size_t out_len, in_len;
static int on_their_way;
static long done;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void end_with(const char *why)
{
    fprintf(stderr, "zookeeper_client: %s\n", why);
    exit(1);
}

/* What ZooKeeper calls jute: big-endian numbers, and runs of bytes behind their length. */

static void put_i32(int32_t v)
{
    uint32_t big = htonl((uint32_t)v);

    memcpy(out + out_len, &big, sizeof big);
    out_len += sizeof big;
}

static void put_zeros(size_t len)
{
    memset(out + out_len, 0, len);
    out_len += len;
}

static void put_bytes(const char *p, size_t len)
{
    put_i32((int32_t)len);
    memcpy(out + out_len, p, len);
    out_len += len;
}

static void put_text(const char *text)
{
    put_bytes(text, strlen(text));
}

static int32_t load_i32(const char *p)
{
    uint32_t big;

    memcpy(&big, p, sizeof big);
    return (int32_t)ntohl(big);
}

static size_t packet_begin(void)
{
    size_t at = out_len;

    put_i32(0);
    return at;
}

static void packet_end(size_t at)
{
    uint32_t len = htonl((uint32_t)(out_len - at - 4));

    memcpy(out + at, &len, sizeof len);
}

/* One kind of request each, the i-th of its kind. */

static void node_path(char *path, long i)
{
    sprintf(path, "%s/n%03ld", root, i % NODES);
}

static void put_create(const char *path)
{
    put_text(path);
    put_bytes(data, DATA_LEN);
    put_i32(1); /* one entry in the access list: anybody may do anything */
    put_i32(31);
    put_text("world");
    put_text("anyone");
    put_i32(0); /* flags */
}

static void put_set(long i)
{
    char path[96];

    node_path(path, i);
    put_text(path);
    put_bytes(data, DATA_LEN);
    put_i32(-1);
}

static void put_check(long i)
{
    char path[96];

    node_path(path, i);
    put_text(path);
    put_i32(-1);
}

static void request_node(long i)
{
    char path[96];

    node_path(path, i);
    put_i32(OP_CREATE);
    put_create(path);
}

static void request_create(long i)
{
    char path[96];

    sprintf(path, "%s/c%ld", root, i);
    put_i32(OP_CREATE);
    put_create(path);
}

static void request_set(long i)
{
    put_i32(OP_SET);
    put_set(i);
}

static void request_get(long i)
{
    char path[96];

    node_path(path, i);
    put_i32(OP_GET);
    put_text(path);
    put_zeros(1); /* no watch */
}

static void multi_header(int32_t type, bool last)
{
    put_i32(type);
    put_zeros(1);
    out[out_len - 1] = last;
    put_i32(-1);
}

static void request_multi(long i)
{
    put_i32(OP_MULTI);
    multi_header(OP_CHECK, false);
    put_check(i);
    multi_header(OP_SET, false);
    put_set(i);
    multi_header(OP_SET, false);
    put_set(i + 1);
    multi_header(-1, true);
}

static const struct {
    const char *name;
    void (*request)(long i);
} OPERATIONS[] = {
    {"create", request_create},
    {"set", request_set},
    {"get", request_get},
    {"multi", request_multi},
};

/* The connection. */

static void flush(void)
{
    for (size_t at = 0; at < out_len;) {
        ssize_t n = write(sock, out + at, out_len - at);

        if (n <= 0)
            end_with("the server closed the connection");
        at += (size_t)n;
    }
    out_len = 0;
}

/* Reads what there is, at least a byte, and hands each whole packet to `on_packet`. */
static void receive(void (*on_packet)(const char *p, size_t len))
{
    ssize_t n = read(sock, in + in_len, sizeof in - in_len);
    size_t at = 0;

    if (n <= 0)
        end_with("the server closed the connection");
    in_len += (size_t)n;
    while (in_len - at >= 4 && in_len - at - 4 >= (size_t)load_i32(in + at)) {
        on_packet(in + at + 4, (size_t)load_i32(in + at));
        at += 4 + (size_t)load_i32(in + at);
    }
    memmove(in, in + at, in_len - at);
    in_len -= at;
}

static void on_answer(const char *p, size_t len)
{
    if (len < 16 || load_i32(p + 12) != 0) /* behind xid and zxid: the error */
        end_with("a request failed");
    on_their_way--;
    done++;
}

static void on_connected(const char *p, size_t len)
{
    (void)p, (void)len;
    on_their_way--;
}

static void dial(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    const char *colon = strchr(address, ':');
    char host[64] = "";
    int on = 1;
    size_t at;

    if (colon && (size_t)(colon - address) < sizeof host)
        memcpy(host, address, (size_t)(colon - address));
    if (!colon || inet_pton(AF_INET, host, &to.sin_addr) != 1)
        end_with("the address is IPv4:PORT");
    to.sin_port = htons((uint16_t)atoi(colon + 1));
    sock = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(sock, (struct sockaddr *)&to, sizeof to) < 0)
        end_with("cannot connect");
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);

    at = packet_begin();
    put_zeros(4 + 8); /* version of the protocol, last zxid seen */
    put_i32(TIMEOUT_MS);
    put_zeros(8); /* a new session */
    put_i32(16);
    put_zeros(16 + 1); /* its password, and not for reading only */
    packet_end(at);
    flush();
    on_their_way = 1;
    while (on_their_way)
        receive(on_connected);
}

static void send_one(void (*request)(long), long i)
{
    static int32_t xid;
    size_t at = packet_begin();

    put_i32(++xid);
    request(i);
    packet_end(at);
    on_their_way++;
    if (out_len > sizeof out / 2)
        flush();
}

/* Waits until at most `left` are on their way. */
static void wait_for(int left)
{
    flush();
    while (on_their_way > left)
        receive(on_answer);
}

/* The window is filled up, and again when half of it has been answered. */
static void run(void (*request)(long), int window, double seconds)
{
    static long next; /* goes on over several runs: a name is used once */
    double until = now_s() + seconds;

    while (now_s() < until) {
        wait_for(window / 2);
        while (on_their_way < window)
            send_one(request, next++);
    }
    wait_for(0);
}

static void prepare(void)
{
    size_t at = packet_begin();

    sprintf(root, "/bench-%ld", (long)getpid());
    put_i32(-3);
    put_i32(OP_CREATE);
    put_create(root);
    packet_end(at);
    on_their_way++;
    for (long i = 0; i < NODES; i++)
        send_one(request_node, i);
    wait_for(0);
}

static void fill(long count)
{
    for (long i = 0; i < count; i++) {
        if (on_their_way == FILL_WINDOW)
            wait_for(FILL_WINDOW / 2);
        send_one(request_create, i);
    }
    wait_for(0);
}

static void measure(const char *operation, int window, double seconds)
{
    double start;

    for (size_t i = 0; i < sizeof OPERATIONS / sizeof *OPERATIONS; i++) {
        if (strcmp(operation, OPERATIONS[i].name))
            continue;
        run(OPERATIONS[i].request, window, seconds / 4); /* to warm up */
        done = 0;
        start = now_s();
        run(OPERATIONS[i].request, window, seconds);
        printf("%.0f\n", (double)done / (now_s() - start));
    }
}

int main(int argc, char **argv)
{
    bool fills = argc == 4 && !strcmp(argv[2], "fill");

    if (argc != 5 && !fills) {
        fprintf(stderr, "usage: zookeeper_client HOST:PORT OPERATION WINDOW SECONDS\n"
                        "       zookeeper_client HOST:PORT fill COUNT\n");
        return 2;
    }
    dial(argv[1]);
    prepare();
    if (fills)
        fill(atol(argv[3]));
    else
        measure(argv[2], atoi(argv[3]), atof(argv[4]));
    return 0;
}
