#include "cli/dag_share.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum term_colour state_colour(struct str state)
{
    if (str_eq(state, STR("finished")))
        return TERM_GREEN;
    if (str_eq(state, STR("failed")) || str_eq(state, STR("killed")))
        return TERM_RED;
    return str_eq(state, STR("running")) ? TERM_YELLOW : TERM_DIM;
}

bool state_is_terminal(struct str state)
{
    return !str_eq(state, STR("incipient")) && !str_eq(state, STR("running"));
}

static bool is_id(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 19;
}

const char *join_ids(struct client *c, int argc, char **argv)
{
    struct arena *a = client_arena(c);
    const char *list = "";

    for (int i = 1; i < argc; i++) {
        if (!is_id(argv[i])) {
            client_error("'%s' is no node id", argv[i]);
            return NULL;
        }
        list = *list ? arena_printf(a, "%s,%s", list, argv[i]) : argv[i];
    }
    return list;
}

int get_node(struct client *c, const char *id, struct client_reply *reply)
{
    if (!is_id(id)) {
        client_error("'%s' is no node id", id);
        return CMD_USAGE;
    }
    return client_call(c, "GET", arena_printf(client_arena(c), "/v1/nodes/%s", id), NULL, reply);
}

/* When the value was replaced, because the node is tried again, it is read from its beginning. */
int follow_output(struct client *c, struct following *f, int64_t wait_ms, bool *ret_more)
{
    struct client_reply reply;
    const struct json *page;
    const char *path;
    struct str text;
    int status;

    *ret_more = false;
    path = f->pid[0]
               ? arena_printf(client_arena(c), "/v1/nodes/%s/data/%s?start=%s&pid=%s&wait=%lld",
                              f->id, f->key, f->start, f->pid, (long long)wait_ms)
               : arena_printf(client_arena(c), "/v1/nodes/%s/data/%s?wait=%lld", f->id, f->key,
                              (long long)wait_ms);
    client_set_wait(c, wait_ms);
    status = client_try(c, "GET", path, NULL, &reply);
    if (status)
        return status;
    if (reply.status == 410 && f->pid[0]) {
        f->pid[0] = '\0';
        *ret_more = true;
        return CMD_OK;
    }
    if (reply.status == 404 && f->pid[0])
        return CMD_OK; /* it ended without having printed */
    if (reply.status != 200)
        return client_refused(c, &reply);
    text = json_text_of(reply.json, "data");
    fwrite(text.p, 1, text.len, f->to);
    fflush(f->to);
    page = json_get(reply.json, "pagination");
    *ret_more = page != NULL;
    if (page) {
        struct str next = json_text_of(page, "next"), pid = json_text_of(page, "pid");

        snprintf(f->start, sizeof f->start, "%.*s", (int)next.len, next.p);
        snprintf(f->pid, sizeof f->pid, "%.*s", (int)pid.len, pid.p);
    }
    client_forget(c);
    return CMD_OK;
}

static volatile sig_atomic_t interrupts;

static void on_interrupt(int number)
{
    (void)number;
    interrupts++;
}

void interrupts_catch(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};

    sigaction(SIGINT, &action, NULL);
}

int interrupts_count(void)
{
    return interrupts;
}

void interrupts_forget(int count)
{
    interrupts = count;
}
