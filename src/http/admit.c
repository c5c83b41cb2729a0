/*
 * Who is let in: connections are accepted up to a maximum, in all and from one address.
 *
 * One that is too many is told so when it sends a request, not when it is accepted: a client that
 * reconnects at once would otherwise keep libuv in its accept loop. Only when there are many of
 * them, or no descriptor is left for them, are they closed unheard. For the same reason a turn of
 * the loop accepts a part of what waits and leaves the rest to the next turn.
 */
#include "base/log.h"
#include "http/conn.h"

enum {
    REFUSALS_MAX = 8192, /* connections at a time that wait for their 503 */
    FILES_SPARE = 64,    /* descriptors for them, or an eighth of what clients may have */
    UNIX_SPARE = 64,     /* connections to Unix sockets beyond the maximum */
    ACCEPTS_MAX = 64,    /* connections accepted in a turn of the loop */
};

void admit_open(struct http_server *s)
{
    const struct http_options *o = &s->options;
    size_t files = (size_t)file_limit_of_clients();
    s->door = (struct door){
        .what = "HTTP connections",
        .max = o->connections_max ? o->connections_max : HTTP_CONNECTIONS_MAX,
        .max_of_address = o->connections_per_address,
        .files_spare = files / 8 < FILES_SPARE ? files / 8 : FILES_SPARE,
        .more_without_address = UNIX_SPARE,
    };
}

static void report(const char *line)
{
    if (line)
        log_warning("%s", line);
}

bool admit(struct conn *c)
{
    struct http_server *s = c->server;
    const char *line;
    enum door_answer answer = door_enter(&s->door, c->fd, &c->guest, &line);
    if (answer == DOOR_LET_IN)
        return true;
    report(line);
    return answer != DOOR_FILES && s->door.refused <= REFUSALS_MAX;
}

bool admit_now(struct listener *l, int status)
{
    struct http_server *s = l->server;
    if (status == UV_EMFILE || status == UV_ENFILE)
        report(door_missed(&s->door));
    l->waits = !status && s->accepted == ACCEPTS_MAX;
    s->accepted += !status && !l->waits;
    return !status && !l->waits;
}

void admit_more(struct http_server *s)
{
    s->accepted = 0;
    for (size_t i = 0; i < s->listener_count && !s->closing; i++)
        if (s->listeners[i].waits)
            conn_accept(&s->listeners[i].stream, 0);
}

/* Metrics. */

static double read_refused(void *arg)
{
    return (double)*(const uint64_t *)arg;
}

void admit_metrics(struct http_server *s, struct metrics *m)
{
    for (enum door_answer a = DOOR_LET_IN + 1; a < DOOR_ANSWERS; a++) {
        CLEANUP(buf_release) struct buf label = {0};
        metrics_put_label(&label, "reason", str_of(door_reason(a)));
        metrics_read(m, "drover_http_connections_refused_total", "counter", buf_text(&label),
                     "Connections that were one too many.", read_refused, &s->door.answers[a]);
    }
}
