/*
 * Clients of the ZooKeeper port that send anything, over socket pairs, to a store in memory.
 *
 * Whatever they send, the server goes on: what comes back is whole packets; the answers of a
 * connection carry the numbers of its requests in their order, one each, until it is closed; what a
 * watch tells has a kind and a path. In the end the tree is a tree, and no watch and no answer is
 * left, or counted, of connections that are gone.
 *
 * Input: steps. The first byte of each is a connection (two bits) and a kind:
 *
 *   HELLO    u8: 0 a new session, else that of connection n, with its password
 *   REQUEST  u8 type (TYPES), u8 count of fields, fields: see put_field
 *   PACKET   u8 length, bytes: sent with their length in front
 *   BYTES    u8 length, bytes: sent as they are
 *   CLOSE    the connection is closed; the next step on it opens another
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "fuzz.h"
#include "keeper/wire/wire_impl.h"

enum { CLIENTS = 4, STEPS_MAX = 200, FIELDS_MAX = 24, OUTSTANDING_MAX = 64 };

enum step { HELLO, REQUEST, PACKET, BYTES, CLOSE, STEP_COUNT };

static const int TYPES[] = {1,  2,  3,  4,  5,  6,   7,   8,   9,   11,  12,  13,  14,  15,  16, 17,
                            18, 19, 21, 22, 99, 100, 101, 102, 103, 104, 105, 106, 107, -11, 0};

static const char *const PATHS[] = {"/",      "/a",   "/a/b", "/a/b/c", "/b",         "/a/n-", "",
                                    "/a/../", "/a//", "x",    "/b/",    "/zookeeper", "/c"};

struct client {
    int fd;      /* -1: none */
    bool strict; /* has only sent requests that have an answer each */
    bool greeted;
    int32_t xids[OUTSTANDING_MAX];
    size_t first, count;
    int64_t session;
    char password[KEEPER_PASSWORD_LEN];
    struct buf in;
};

struct world {
    struct reader in;
    struct wire *w;
    struct client clients[CLIENTS];
    int32_t next_xid;
};

static uv_loop_t loop;
static struct wire *server;

static void client_close(struct client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->in.len = 0;
}

static void client_open(struct world *w, struct client *c)
{
    int fds[2];

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    c->fd = fds[0];
    c->strict = true;
    c->greeted = false;
    c->first = c->count = 0;
    wire_conn_open(w->w, fds[1]);
}

/* The answer to the hello: version, timeout, session, password, and whether it is read-only. */
static void take_greeting(struct client *c, struct reader *r)
{
    int32_t version = jute_i32(r), timeout_ms = jute_i32(r);
    int64_t session = jute_i64(r);
    struct str password = jute_bytes(r);

    if (r->left)
        jute_bool(r);
    FUZZ_CHECK(!r->bad && !r->left && version == 0 && password.len == KEEPER_PASSWORD_LEN);
    FUZZ_CHECK((session != 0) == (timeout_ms != 0));
    c->greeted = true;
    if (!session)
        return;
    c->session = session;
    memcpy(c->password, password.p, KEEPER_PASSWORD_LEN);
}

/* The path may be invalid: setWatches tells that there is no such node. */
static void take_event(struct reader *r)
{
    int32_t type = jute_i32(r), state = jute_i32(r);

    jute_bytes(r);
    FUZZ_CHECK(!r->bad && !r->left && state == 3);
    FUZZ_CHECK(type >= 1 && type <= 4);
}

static void take_packet(struct client *c, struct str packet)
{
    struct reader r = {packet.p, packet.len, false};
    int32_t xid;

    if (!c->greeted) {
        take_greeting(c, &r);
        return;
    }
    xid = jute_i32(&r);
    jute_i64(&r);
    jute_i32(&r);
    FUZZ_CHECK(!r.bad);
    if (xid == -1 && r.left) {
        take_event(&r);
        return;
    }
    if (!c->strict)
        return;
    FUZZ_CHECK(c->count && c->xids[c->first] == xid);
    c->first = (c->first + 1) % OUTSTANDING_MAX;
    c->count--;
}

/* Answers to four-letter words have no length prefix: connections that sent one are not checked. */
static void take_packets(struct client *c)
{
    size_t at = 0;

    while (c->strict && c->in.len - at >= 4) {
        struct reader r = {c->in.p + at, c->in.len - at, false};
        int32_t len = jute_i32(&r);

        FUZZ_CHECK(len >= 16);
        if ((size_t)len > r.left)
            break;
        take_packet(c, reader_bytes(&r, (size_t)len));
        at += 4 + (size_t)len;
    }
    memmove(c->in.p, c->in.p + at, c->in.len - at);
    c->in.len -= at;
}

static void client_read(struct client *c)
{
    ssize_t len = 1;

    while (c->fd >= 0 && len > 0) {
        buf_reserve(&c->in, 65536);
        len = read(c->fd, c->in.p + c->in.len, 65536);
        if (len > 0)
            c->in.len += (size_t)len;
    }
    if (c->in.len)
        take_packets(c);
    if (len == 0 || (len < 0 && errno != EAGAIN))
        client_close(c);
}

/* Lets the server process its input, and reads its answers. */
static void run(struct world *w)
{
    for (int i = 0; i < 3; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    for (int i = 0; i < CLIENTS; i++)
        client_read(&w->clients[i]);
}

static void client_send(struct world *w, struct client *c, struct str bytes)
{
    while (bytes.len && c->fd >= 0) {
        ssize_t sent = send(c->fd, bytes.p, bytes.len, MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN)
            return;
        sent = sent < 0 ? 0 : sent;
        bytes.p += sent;
        bytes.len -= (size_t)sent;
        run(w);
    }
}

static void send_packet(struct world *w, struct client *c, struct str packet)
{
    struct buf b = {0};

    jute_put_bytes(&b, packet);
    client_send(w, c, (struct str){b.p, b.len});
    buf_release(&b);
}

static void put_path(struct buf *b, uint8_t which)
{
    jute_put_bytes(b, str_of(PATHS[which % (sizeof PATHS / sizeof *PATHS)]));
}

static void put_acl(struct buf *b, uint8_t which)
{
    static const struct str lists[] = {
        STR("\0\0\0\1\0\0\0\37\0\0\0\5world\0\0\0\6anyone"),
        STR("\0\0\0\1\0\0\0\37\0\0\0\4auth\0\0\0\0"),
        STR("\0\0\0\2\0\0\0\1\0\0\0\5world\0\0\0\6anyone\0\0\0\37\0\0\0\6digest\0\0\0\3u:x"),
        STR("\0\0\0\1\0\0\0\37\0\0\0\2ip\0\0\0\x9"
            "127.0.0.1"),
        STR("\0\0\0\0"),
        STR("\0\0\0\2\0\0\0\37\0\0\0\4auth\0\0\0\1x\0\0\0\1\0\0\0\4auth\0\0\0\0"),
    };

    buf_put_str(b, lists[which % (sizeof lists / sizeof *lists)]);
}

/* The header of an operation in a bundle; type 255 ends it. */
static void put_bundle_header(struct buf *b, uint8_t type)
{
    jute_put_i32(b, type == 255 ? -1 : TYPES[type % (sizeof TYPES / sizeof *TYPES)]);
    jute_put_bool(b, type == 255);
    jute_put_i32(b, -1);
}

/* One field: its kind, and one byte of its value. */
static void put_field(struct buf *b, uint8_t what, uint8_t which)
{
    switch (what % 8) {
    case 0:
        put_path(b, which);
        break;
    case 1:
        jute_put_i32(b, (int8_t)which);
        break;
    case 2:
        jute_put_bool(b, which);
        break;
    case 3:
        put_acl(b, which);
        break;
    case 4:
        put_bundle_header(b, which);
        break;
    case 5: /* data */
        jute_put_bytes(b, (struct str){"ann:secret and what follows it", which % 30});
        break;
    case 6:
        jute_put_i64(b, (int8_t)which);
        break;
    case 7:
        jute_put_bytes(b, which & 1 ? STR("digest") : STR("ip"));
        break;
    }
}

static void step_hello(struct world *w, struct client *c)
{
    uint8_t which = reader_u8(&w->in);
    const struct client *other = which ? &w->clients[which % CLIENTS] : NULL;
    static const char none[KEEPER_PASSWORD_LEN];
    struct buf b = {0};

    if (c->greeted)
        c->strict = false;
    jute_put_i32(&b, 0);
    jute_put_i64(&b, 0);
    jute_put_i32(&b, 10000);
    jute_put_i64(&b, other ? other->session : 0);
    jute_put_bytes(&b, (struct str){other ? other->password : none, KEEPER_PASSWORD_LEN});
    if (which & 0x80)
        jute_put_bool(&b, false);
    send_packet(w, c, (struct str){b.p, b.len});
    buf_release(&b);
}

static void step_request(struct world *w, struct client *c)
{
    int32_t type = TYPES[reader_u8(&w->in) % (sizeof TYPES / sizeof *TYPES)];
    uint8_t count = reader_u8(&w->in) % FIELDS_MAX;
    struct buf b = {0};

    jute_put_i32(&b, ++w->next_xid);
    jute_put_i32(&b, type);
    for (uint8_t i = 0; i < count; i++) {
        uint8_t what = reader_u8(&w->in);

        put_field(&b, what, reader_u8(&w->in));
    }
    if (!c->greeted || c->count == OUTSTANDING_MAX)
        c->strict = false;
    if (c->strict)
        c->xids[(c->first + c->count++) % OUTSTANDING_MAX] = type == WIRE_PING ? -2 : w->next_xid;
    send_packet(w, c, (struct str){b.p, b.len});
    buf_release(&b);
}

static void step(struct world *w)
{
    uint8_t head = reader_u8(&w->in);
    struct client *c = &w->clients[head % CLIENTS];
    struct str bytes;

    if (c->fd < 0)
        client_open(w, c);
    switch ((enum step)(head / CLIENTS % STEP_COUNT)) {
    case HELLO:
        step_hello(w, c);
        break;
    case REQUEST:
        step_request(w, c);
        break;
    case PACKET:
        c->strict = false;
        bytes = fuzz_bytes(&w->in, reader_u8(&w->in));
        send_packet(w, c, bytes);
        break;
    case BYTES:
        c->strict = false;
        bytes = fuzz_bytes(&w->in, reader_u8(&w->in));
        client_send(w, c, bytes);
        break;
    default:
        client_close(c);
        break;
    }
    run(w);
}

static void serve_once(void)
{
    struct wire_options o = {.words = UINT32_MAX};
    struct err_info why;

    if (server)
        return;
    uv_loop_init(&loop);
    uv_ip4_addr("127.0.0.1", 0, (struct sockaddr_in *)&o.listen.items[o.listen.count++]);
    FUZZ_CHECK(wire_listen(&loop, &o, &server, &why) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct world w = {.in = {(const char *)data, len, false}};
    struct local_options o = {.mode = LOCAL_NONE};
    struct local *l;
    struct err_info why;

    serve_once();
    FUZZ_CHECK(local_open(&o, &l, &why) == 0);
    wire_serve(server, l);
    w.w = server;
    for (int i = 0; i < CLIENTS; i++)
        w.clients[i].fd = -1;
    for (int i = 0; i < STEPS_MAX && w.in.left; i++)
        step(&w);
    for (int i = 0; i < CLIENTS; i++) {
        client_close(&w.clients[i]);
        buf_release(&w.clients[i].in);
    }
    while (!TAILQ_EMPTY(&server->conns))
        uv_run(&loop, UV_RUN_NOWAIT);
    wire_leave(server);
    fuzz_expect(check_tree(&l->tree));
    FUZZ_CHECK(l->watches.count == 0 && server->watch_count == 0 && server->unsent == 0);
    server->l = NULL;
    local_close(l);
    return 0;
}
