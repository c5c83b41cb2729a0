/* The word dump: the sessions with the time at which they expire, and their ephemeral nodes. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "keeper/wire/wire_impl.h"
#include "keeper/wire/wire_report.h"

/* A session, or a connection. */
struct expiry {
    int64_t at_s; /* wall time; INT64_MAX: never */
    int64_t session;
    const struct wire_conn *c; /* NULL: a session */
};

struct expiries {
    struct expiry *list;
    size_t count, cap;
};

static void add(struct expiries *e, int64_t at_ms, int64_t session, const struct wire_conn *c)
{
    int64_t boot_to_wall_ms = clock_wall_ms() - clock_boot_ms();
    mem_grow(e->list, e->count, e->cap);
    e->list[e->count++] = (struct expiry){
        at_ms == INT64_MAX ? at_ms : (at_ms + boot_to_wall_ms + 999) / 1000, session, c};
}

static int compare(const void *a, const void *b)
{
    const struct expiry *x = a, *y = b;
    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    return x->session < y->session ? -1 : x->session > y->session;
}

/* Those from `first` on that expire in the same second. */
static size_t set_len(const struct expiries *e, size_t first)
{
    size_t end = first;
    while (end < e->count && e->list[end].at_s == e->list[first].at_s)
        end++;
    return end - first;
}

static void put_item(struct report *r, const struct expiry *e)
{
    char id[REPORT_ID_LEN], text[128];
    struct str item = report_id(id, e->session);
    if (e->c) {
        snprintf(text, sizeof text, "ip: /%s sessionId: %.*s", e->c->peer, STR_ARGS(item));
        item = str_of(text);
    }
    report_list_item(r, item);
}

static void put_set(struct report *r, const struct expiry *first, size_t count)
{
    char key[96], date[64] = "never";
    struct tm tm;
    time_t at = (time_t)first->at_s;
    if (first->at_s != INT64_MAX && localtime_r(&at, &tm))
        strftime(date, sizeof date, "at %a %b %d %H:%M:%S %Z %Y", &tm);
    if (!r->json)
        snprintf(key, sizeof key, "%zu expire %s", count, date);
    else if (first->at_s == INT64_MAX)
        snprintf(key, sizeof key, "%s", date);
    else
        snprintf(key, sizeof key, "%" PRId64, first->at_s * 1000);
    report_list_open(r, str_of(key), ":\n");
    for (size_t i = 0; i < count && !report_is_full(r); i++)
        put_item(r, first + i);
    report_list_close(r);
}

/* Sorts them, and frees them. */
static void put_expiries(struct report *r, const char *label, const char *name, struct expiries *e)
{
    size_t sets = 0;
    if (e->count)
        qsort(e->list, e->count, sizeof *e->list, compare);
    for (size_t i = 0; i < e->count; i += set_len(e, i))
        sets++;
    report_line(r, "%s Sets (%zu)/(%zu):\n", label, sets, e->count);
    report_open(r, name, '{');
    for (size_t i = 0; i < e->count && !report_is_full(r); i += set_len(e, i))
        put_set(r, &e->list[i], set_len(e, i));
    report_close(r, '}');
    free(e->list);
}

static void put_ephemerals(struct report *r, const struct tree *t, const struct tree_session *s)
{
    CLEANUP(buf_release) struct buf path = {0};
    char id[REPORT_ID_LEN];
    report_list_open(r, report_id(id, s->id), ":\n");
    for (uint32_t ref = s->first_ephemeral; ref && !report_is_full(r);
         ref = node_at(&t->nodes, ref)->more->next_owned) {
        path.len = 0;
        nodes_put_path(&t->nodes, ref, &path);
        report_list_item(r, buf_str(&path));
    }
    report_list_close(r);
}

void wire_put_sessions(struct wire *w, struct report *r)
{
    const struct tree_sessions *s = &w->l->tree.sessions;
    struct expiries sessions = {0}, connections = {0};
    const struct wire_conn *c;
    size_t owners = 0;

    LOCKED(&w->l->lock);
    for (uint32_t i = 0; i < s->len; i++)
        if (s->list[i]) {
            add(&sessions, s->list[i]->pins ? INT64_MAX : s->list[i]->deadline_ms, s->list[i]->id,
                NULL);
            owners += s->list[i]->first_ephemeral != 0;
        }
    TAILQ_FOREACH(c, &w->conns, link) {
        const struct tree_session *of = sessions_find(s, c->session);
        add(&connections,
            of ? of->deadline_ms : clock_boot_ms() + (int64_t)uv_timer_get_due_in(&c->patience),
            c->session, c);
    }
    report_line(r, "SessionTracker dump:\n");
    put_expiries(r, "Session", "expiry_time_to_session_ids", &sessions);
    report_line(r, "ephemeral nodes dump:\nSessions with Ephemerals (%zu):\n", owners);
    report_open(r, "session_id_to_ephemeral_paths", '{');
    for (uint32_t i = 0; i < s->len && !report_is_full(r); i++)
        if (s->list[i] && s->list[i]->first_ephemeral)
            put_ephemerals(r, &w->l->tree, s->list[i]);
    report_close(r, '}');
    report_line(r, "Connections dump:\n");
    put_expiries(r, "Connections", "expiry_time_to_connections", &connections);
    report_cut(r);
}
