/*
 * Letting connections in, and their addresses: the name and the first identity.
 *
 * One that is too many is closed at once, as by ZooKeeper. Clients take that as the loss of the
 * connection and try again after a delay of their own: at most a second in Java and kazoo, a
 * sixtieth of the session timeout in C. An answer would be worse: the only one that the protocol
 * has tells that a session has expired. A turn of the loop accepts a part of what waits, so that a
 * client that tries again without delay does not keep libuv in its accept loop.
 */
#include <inttypes.h>

#include "base/address.h"
#include "base/clock.h"
#include "keeper/wire/wire_impl.h"

enum { ACCEPTS_MAX = 64 };

void wire_door_open(struct wire *w)
{
    w->door = (struct door){
        .what = "ZooKeeper connections",
        .max = (size_t)w->o.connections_max,
        .max_of_address = (size_t)w->o.connections_per_address,
    };
}

static void report(struct wire *w, const char *line)
{
    if (line && w->l->o.note)
        w->l->o.note(w->l->o.arg, line);
}

static void name_peer(struct wire_conn *c)
{
    struct sockaddr_storage address = {0};
    int len = sizeof address;
    char ip[48] = "";
    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&address, &len) < 0)
        return;
    uv_ip_name((struct sockaddr *)&address, ip, sizeof ip);
    snprintf(c->peer, sizeof c->peer, "%s:%d", ip, wire_port(&address));
    wire_add_id(c, STR("ip"), str_of(ip));
    c->is_loopback = address_is_loopback(&address);
}

bool wire_let_in(struct wire_conn *c)
{
    const char *line;
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)&c->tcp, &fd))
        return false;
    if (door_enter(&c->w->door, fd, &c->guest, &line) == DOOR_LET_IN) {
        name_peer(c);
        return true;
    }
    c->w->totals.rejected++;
    report(c->w, line);
    return false;
}

void wire_session_refused(struct wire *w)
{
    char line[120];
    uint64_t unsaid = refusals_add(&w->sessions_refused, clock_boot_ms());
    snprintf(line, sizeof line,
             "refused %" PRIu64 " ZooKeeper sessions: there are too many; %u are open", unsaid,
             w->l->tree.sessions.count);
    report(w, unsaid ? line : NULL);
}

void wire_counts(const struct wire *w, struct wire_counts *ret_counts)
{
    *ret_counts = (struct wire_counts){.connections = w->door.count,
                                       .sessions_refused = w->sessions_refused.count,
                                       .memory = w->held,
                                       .evicted = w->evicted.count};
    memcpy(ret_counts->answers, w->door.answers, sizeof w->door.answers);
}

void wire_accept(uv_stream_t *listener, int status)
{
    struct wire *w = listener->data;
    if (!w->l || uv_is_closing((uv_handle_t *)&w->news)) /* wire_close() would not know of it */
        return;
    if (status == UV_EMFILE || status == UV_ENFILE)
        report(w, door_missed(&w->door));
    if (status)
        return;
    if (w->accepted++ < ACCEPTS_MAX) {
        wire_conn_accept(w, listener);
        return;
    }
    w->waiting[(uv_tcp_t *)listener - w->listeners] = true;
    uv_async_send(&w->news);
}

void wire_accept_more(struct wire *w)
{
    w->accepted = 0;
    for (size_t i = 0; i < w->listener_count; i++)
        if (w->waiting[i]) {
            w->waiting[i] = false;
            wire_accept((uv_stream_t *)&w->listeners[i], 0);
        }
}
