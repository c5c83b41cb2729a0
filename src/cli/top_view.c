/* What `drover top` asks the server, as lines. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/top.h"

#define COLUMNS(...) ((const struct verb_column[]){__VA_ARGS__, {{0}}})
#define NODE_COLUMNS                                                                               \
    COLUMNS({{"ID", true}, "id"}, {{"NAME"}, "name", .colour = TERM_BOLD},                         \
            {{"STATE"}, "state", VERB_STATE}, {{"GROUP"}, "group", .colour = TERM_DIM},            \
            {{"TIME", true}, NULL, VERB_TOOK}, {{"REASON"}, "reason"})

const struct top_view TOP_VIEWS[] = {
    {"running", "GET /v1/nodes?state=running&limit=500", "nodes", "id", .nodes = true,
     .columns = NODE_COLUMNS},
    {"runs", "GET /v1/runs?limit=500", "runs", "id", .runs = true,
     .columns = COLUMNS({{"RUN"}, "id", .colour = TERM_BOLD}, {{"STATE"}, "state", VERB_STATE},
                        {{"NODES", true}, "nodes", VERB_NUMBER},
                        {{"FINISHED", true}, "states.finished", VERB_NUMBER},
                        {{"FAILED", true}, "states.failed", VERB_FAILURES},
                        {{"ADDED"}, "added", VERB_TIME})},
    {"failed", "GET /v1/nodes?state=failed,killed&limit=500", "nodes", "id", .nodes = true,
     .columns = NODE_COLUMNS},
    {"tasks", "GET /v1/groups?limit=500", "groups",
     .columns = COLUMNS(
         {{"GROUP"}, "group", .colour = TERM_BOLD}, {{"AVAILABLE", true}, "available", VERB_NUMBER},
         {{"CLAIMED", true}, "claimed", VERB_NUMBER}, {{"DELAYED", true}, "delayed", VERB_NUMBER},
         {{"DEAD", true}, "dead", VERB_FAILURES})},
    {"queues", "GET /v1/queues?limit=500", "queues",
     .columns = COLUMNS({{"QUEUE"}, "queue", .colour = TERM_BOLD}, {{"LAST", true}, "last"},
                        {{"WAITING", true}, "waiting", VERB_NUMBER}, {{"WORKER"}, "worker"})},
    {"batches", "GET /v1/batches?limit=500", "batches",
     .columns = COLUMNS({{"BATCH"}, "id", .colour = TERM_BOLD}, {{"STATE"}, "state", VERB_STATE},
                        {{"PROCESSING", true}, "states.batch-processing", VERB_NUMBER},
                        {{"FAILED", true}, "states.batch-failed", VERB_FAILURES},
                        {{"COMPLETED", true}, "states.batch-completed", VERB_NUMBER})},
    {"jobs", "GET /v1/jobs?limit=500", "jobs",
     .columns = COLUMNS({{"JOB"}, "id", .colour = TERM_BOLD}, {{"STATE"}, "state", VERB_STATE},
                        {{"PRIORITY", true}, "priority", VERB_PRIORITY}, {{"BATCH"}, "batch"},
                        {{"MESSAGE"}, "status.message"})},
    {NULL},
};

const struct top_view TOP_RUN = {"run",         "GET /v1/nodes?limit=500&run=%s", "nodes", "id",
                                 .nodes = true, .columns = NODE_COLUMNS};

/* False: it did not answer as it should; the reason is in why. */
static bool ask(struct top *t, struct client_reply *reply, struct err_info *why,
                const char *request)
{
    t->c->silent = true;
    if (!client_try(t->c, reply, NULL, "%s", request) && reply->status / 100 == 2)
        return true;
    client_describe(t->c, reply, why);
    return false;
}

void top_read_counts(struct top *t)
{
    struct client_reply ready, counts;
    struct err_info why = {""};
    t->counts.len = 0;
    bool is_ready = ask(t, &ready, &why, "GET /readyz");
    bool counted = ask(t, &counts, &why, "GET /v1/scheduler");
    buf_printf(&t->counts, "%s  ", is_ready && counted ? "ok" : why.text);
    const struct json *states = json_get(counted ? counts.json : NULL, "states");
    if (states && states->kind == JSON_OBJECT)
        json_each(m, states) {
            buf_put_str(&t->counts, verb_state_word(m->key));
            buf_printf(&t->counts, " %" PRId64 "  ", m->number);
        }
    if (states)
        buf_printf(&t->counts, "jobs %" PRId64, json_int_of(counts.json, "jobs"));
    arena_reset(&t->c->arena);
}

/* Lists. */

/* Keeps the mark within the list and the rows that are shown around the mark. */
static void scroll(struct top *t, size_t count, size_t rows)
{
    t->selected = t->selected < count ? t->selected : count ? count - 1 : 0;
    if (t->first > t->selected)
        t->first = t->selected;
    if (t->selected >= t->first + rows)
        t->first = t->selected + 1 - rows;
}

/* Marks one of the lines of a table. */
static void put_marked(struct top *t, struct str lines, size_t marked, struct buf *b)
{
    for (size_t i = 0; lines.len; i++) {
        struct str line = str_cut(&lines, '\n');
        bool mark = i == marked && t->view->id && t->rows; /* not if it is printed once */
        buf_printf(b, "%s", mark ? "> " : "  ");
        buf_put_str(b, line);
        buf_printf(b, "\n");
        if (!lines.p)
            break;
    }
}

void top_put_list(struct top *t, size_t rows, struct buf *b)
{
    CLEANUP(buf_release) struct buf lines = {0};
    struct client_reply reply;
    struct err_info why = {""};
    const char *request = t->view->request;
    if (t->view == &TOP_RUN)
        request = arena_printf(&t->c->arena, "GET /v1/nodes?limit=%d&run=%s", TOP_LIST_MAX,
                               client_quote(t->c, str_of(t->run)));
    t->id[0] = '\0';
    if (!ask(t, &reply, &why, request)) {
        term_put_safe(b, str_of(why.text), t->columns);
        buf_printf(b, "\n");
        return;
    }
    struct json list = {.kind = JSON_LIST};
    const struct json *all = json_get(reply.json, t->view->list), *marked = NULL;
    size_t i = 0, count = all && all->kind == JSON_LIST ? all->count : 0;
    scroll(t, count, rows > 1 ? rows - 1 : 1);
    json_each(v, json_list(all)) {
        if (i == t->first)
            list.first = (struct json *)v;
        if (i++ == t->selected)
            marked = v;
    }
    if (t->view->id && marked) {
        struct str id = json_text_of(marked, t->view->id);
        snprintf(t->id, sizeof t->id, "%.*s", STR_ARGS(id));
    }
    verb_put_rows(&list, t->view->columns, rows > 1 ? rows - 1 : 1,
                  t->columns > 2 ? t->columns - 2 : 1, t->coloured, &lines);
    if (!count)
        buf_printf(b, "  none\n");
    else
        put_marked(t, buf_str(&lines), t->selected - t->first + 1, b);
    arena_reset(&t->c->arena);
}

/* The log of a node. */

void top_read_log(struct top *t)
{
    char *text = NULL;
    size_t len = 0;
    bool more = true;
    t->output.to = open_memstream(&text, &len);
    t->c->silent = true;
    for (int i = 0; i < 100 && more; i++) {
        char before[24];
        memcpy(before, t->output.start, sizeof before);
        if (follow_output(t->c, &t->output, 0, &more) || !strcmp(before, t->output.start))
            break; /* that is all for now */
    }
    fclose(t->output.to);
    buf_put(&t->log, text, len);
    free(text);
    if (t->log.len > TOP_LOG_MAX) {
        memmove(t->log.p, t->log.p + t->log.len - TOP_LOG_MAX / 2, TOP_LOG_MAX / 2);
        t->log.len = TOP_LOG_MAX / 2;
    }
    arena_reset(&t->c->arena);
}

/* The last rows before the place that was scrolled to. */
void top_put_log(struct top *t, size_t rows, struct buf *b)
{
    size_t lines = 0, from = 0;
    for (size_t i = 0; i < t->log.len; i++)
        lines += t->log.p[i] == '\n' || i + 1 == t->log.len;
    size_t most = lines > rows ? lines - rows : 0;
    t->back = t->back < most ? t->back : most;
    struct str rest = {t->log.p, t->log.len};
    for (size_t skip = most - t->back; skip && rest.len; skip--)
        str_cut(&rest, '\n');
    for (; rest.len && from < rows; from++) {
        term_put_safe(b, str_cut(&rest, '\n'), t->columns);
        buf_printf(b, "\n");
    }
    if (!t->log.len)
        buf_printf(b, "  no output\n");
}

void top_act(struct top *t, const char *verb)
{
    const char *id = t->output.id ? t->output.id : t->id;
    struct client_reply reply;
    struct err_info why = {""};
    if (!*id)
        return;
    t->c->wait_ms = 1000;
    t->c->silent = true;
    bool done = !client_try(t->c, &reply, NULL, "PUT /v1/scheduler/%s?id=%s", verb,
                            client_quote(t->c, str_of(id))) &&
                reply.status == 200;
    t->c->wait_ms = 0;
    if (!done)
        client_describe(t->c, &reply, &why);
    snprintf(t->message, sizeof t->message, "%s %s: %s", verb, id, done ? "done" : why.text);
    arena_reset(&t->c->arena);
}
