/*
 * Following a graph: polls the states of its nodes, shows progress, prints the output of nodes that
 * failed, and handles interrupts. Nodes that commands of the graph have added below it count too.
 */
#include "cli/dag.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/term.h"

enum { POLL_MS = 150, OUTPUT_LINES = 25 };

/* Prints the last lines of the output of a node. */
static void print_output(struct graph_run *r, const char *id)
{
    struct dag_output f = {.id = id, .key = "mixedout"};
    char *text = NULL;
    size_t len = 0, from, lines = 0;
    bool more = true;

    f.to = open_memstream(&text, &len);
    while (more && !follow_output(r->c, &f, 0, &more) && len < 4 * 1024 * 1024)
        ;
    fclose(f.to);
    for (from = len; from && lines <= OUTPUT_LINES; from--)
        lines += text[from - 1] == '\n' && from != len;
    if (from) {
        from++;
        fputs("...\n", r->progress.to);
    }
    fwrite(text + from, 1, len - from, r->progress.to);
    if (len > from && text[len - 1] != '\n')
        fputc('\n', r->progress.to);
    fflush(r->progress.to);
    free(text);
}

/* Reports a node that has ended, with its output if it failed. */
static void report_end(struct graph_run *r, uint32_t i)
{
    struct str name = r->file.nodes[i].name;
    struct progress *p = &r->progress;
    bool failed = !strcmp(r->states[i], "failed"), killed = !strcmp(r->states[i], "killed");

    p->ended++;
    if (failed || killed) {
        r->failed = true;
        progress_say(p, "%s%s: %.*s: %s%s", p->coloured ? term_colour(TERM_RED) : "",
                     failed ? "FAILED" : "KILLED", STR_ARGS(name), r->reasons[i],
                     p->coloured ? term_colour(TERM_PLAIN) : "");
    } else if (!p->columns && !r->quiet) {
        progress_say(p, "[%" PRIu32 "/%" PRIu32 "] %.*s %s", p->ended, p->total, STR_ARGS(name),
                     r->states[i]);
    }
    if (failed)
        print_output(r, r->ids[i]);
}

/* Reads the states of all nodes and notes what is new. True: the graph has ended. */
static bool read_states(struct graph_run *r, const struct json *list)
{
    struct str last = {0};
    uint32_t running = 0, i = 0;
    bool ended = false;

    r->progress.expected_ms = 0;
    for (const struct json *n = list->first; n; n = n->next) {
        struct str id = json_text_of(n, "id"), state = json_text_of(n, "state");

        while (i < r->file.count && !r->ids[i])
            i++;
        if (i == r->file.count) {
            ended = state_is_terminal(state);
            break;
        }
        if (!str_eq(id, str_of(r->ids[i])))
            continue; /* added by somebody else in between; ours are in order */
        if (str_eq(state, STR("running"))) {
            running++;
            last = r->file.nodes[i].name;
        }
        if (!state_is_terminal(state))
            r->progress.expected_ms += r->times[i];
        if (!str_eq(state, str_of(r->states[i]))) {
            snprintf(r->states[i], sizeof r->states[i], "%.*s", STR_ARGS(state));
            if (state_is_terminal(state)) {
                r->ended[r->ended_count++] = i;
                r->reasons[i] = arena_text(&r->scratch, json_text_of(n, "reason"));
                last = last.len ? last : r->file.nodes[i].name;
            }
        }
        i++;
    }
    r->progress.running = running;
    if (running > r->progress.jobs)
        r->progress.jobs = running;
    progress_line(&r->progress, last);
    return ended;
}

static int send_kill(struct graph_run *r, const char *ids)
{
    struct client_reply reply;

    return client_call(r->c, "PUT", arena_printf(&r->scratch, "/v1/scheduler/kill?id=%s", ids),
                       NULL, &reply);
}

/* Kills the nodes that have not ended, or only those that wait for success. */
static void kill_nodes(struct graph_run *r, bool only_waiting)
{
    CLEANUP(buf_release) struct buf ids = {0};

    for (uint32_t i = 0; i < r->file.count; i++) {
        struct str when = STR("success");
        bool waits = !r->states[i][0] || !strcmp(r->states[i], "incipient");

        json_get_text(r->file.nodes[i].spec, "when", &when, NULL);
        if (!r->ids[i] || (!waits && strcmp(r->states[i], "running") != 0) ||
            (only_waiting && (!waits || !str_eq(when, STR("success")))))
            continue;
        buf_printf(&ids, "%s%s", ids.len ? "," : "", r->ids[i]);
        if (ids.len > 4000) {
            send_kill(r, buf_text(&ids));
            ids.len = 0;
        }
    }
    if (ids.len)
        send_kill(r, buf_text(&ids));
}

static void check_interrupts(struct graph_run *r)
{
    if (interrupts_count() && !r->interrupted) {
        r->interrupted = true;
        interrupts_forget(1); /* before the message: its reader may interrupt again at once */
        progress_say(&r->progress, "Interrupted. The graph goes on; interrupt again to kill it.");
    } else if (interrupts_count() > 1 && !r->stopped) {
        r->stopped = true;
        progress_say(&r->progress, "Killing.");
        kill_nodes(r, false);
    }
}

/* Nodes that commands of the graph have added below it. */

static uint64_t id_of(struct graph_run *r, struct str text)
{
    return strtoull(arena_text(&r->scratch, text), NULL, 10);
}

static int compare_ids(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static bool is_added(uint64_t id, const uint64_t *added, size_t count)
{
    return bsearch(&id, added, count, sizeof *added, compare_ids) != NULL;
}

static bool is_below(struct graph_run *r, const struct json *node, const uint64_t *added,
                     size_t count)
{
    json_each(parent, json_get(node, "parents")) {
        uint64_t id = id_of(r, parent->text);

        if ((id >= r->first_id && id <= r->end_id) || is_added(id, added, count))
            return true;
    }
    return false;
}

static void report_failure(struct graph_run *r, const struct json *node)
{
    struct str state = json_text_of(node, "state"), name = json_text_of(node, "name"),
               reason = json_text_of(node, "reason");
    bool failed = str_eq(state, STR("failed"));

    if (!failed && !str_eq(state, STR("killed")))
        return;
    r->failed = true;
    if (!name.len)
        name = json_text_of(node, "id");
    progress_say(&r->progress, "%s: %.*s: %.*s", failed ? "FAILED" : "KILLED", STR_ARGS(name),
                 STR_ARGS(reason));
}

/*
 * Reads the nodes that are newer than the graph, in the order of ids. Returns one that has not
 * ended, or 0 after reporting those that failed.
 */
static uint64_t read_added(struct graph_run *r, const struct json *list)
{
    uint64_t *added = arena_alloc(&r->scratch, (list->count + 1) * sizeof *added);
    size_t count = 0;

    json_each(n, list) {
        if (!is_below(r, n, added, count))
            continue;
        added[count++] = id_of(r, json_text_of(n, "id"));
        if (!state_is_terminal(json_text_of(n, "state")))
            return added[count - 1];
    }
    json_each(n, list) {
        if (is_added(id_of(r, json_text_of(n, "id")), added, count))
            report_failure(r, n);
    }
    return 0;
}

static int follow_added(struct graph_run *r)
{
    struct client_reply reply;
    int status = CMD_OK;
    uint64_t waits = 1;

    while (!status && waits) {
        status = client_call(
            r->c, "GET",
            arena_printf(&r->scratch,
                         "/v1/nodes?metadata=name,state,reason,parents&new=%" PRIu64 "&timeout=0",
                         r->end_id),
            NULL, &reply);
        if (status || !reply.json || reply.json->kind != JSON_LIST)
            break;
        waits = read_added(r, reply.json);
        client_forget(r->c);
        check_interrupts(r);
        client_set_wait(r->c, POLL_MS);
        if (waits && r->interrupted && r->stopped)
            status = send_kill(r, arena_printf(&r->scratch, "%" PRIu64, waits));
        if (waits && !status)
            status =
                client_try(r->c, "GET",
                           arena_printf(&r->scratch, "/v1/scheduler/wait?id=%" PRIu64 "&timeout=%d",
                                        waits, POLL_MS),
                           NULL, &reply);
        arena_reset(&r->scratch);
    }
    return status;
}

int graph_run_follow(struct graph_run *r)
{
    struct client_reply reply;
    bool ended = false;
    int status = CMD_OK;

    while (!status && !ended) {
        client_set_wait(r->c, POLL_MS);
        status =
            client_try(r->c, "GET",
                       arena_printf(&r->scratch, "/v1/scheduler/wait?id=%" PRIu64 "&timeout=%d",
                                    r->end_id, POLL_MS),
                       NULL, &reply);
        if (!status)
            status = client_call(r->c, "GET",
                                 arena_printf(&r->scratch,
                                              "/v1/nodes?metadata=state,reason&new=%" PRIu64
                                              "&timeout=0",
                                              r->first_id - 1),
                                 NULL, &reply);
        if (status || !reply.json || reply.json->kind != JSON_LIST)
            break;
        ended = read_states(r, reply.json);
        client_forget(r->c);
        for (uint32_t i = 0; i < r->ended_count; i++)
            report_end(r, r->ended[i]);
        r->ended_count = 0;
        if (r->failed && !r->keep_going && !r->stopped) {
            r->stopped = true;
            kill_nodes(r, true);
        }
        check_interrupts(r);
        arena_reset(&r->scratch);
    }
    progress_clear(&r->progress);
    if (!status)
        status = follow_added(r);
    if (status)
        return status;
    return r->interrupted && interrupts_count() > 1 ? 130 : r->failed ? CMD_FAILURE : CMD_OK;
}
