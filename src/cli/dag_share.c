#include "cli/dag.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

bool state_is_terminal(struct str state)
{
    return !str_eq(state, STR("incipient")) && !str_eq(state, STR("running"));
}

static bool is_id(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 19;
}

int get_node(struct client *c, const char *id, struct client_reply *reply)
{
    if (!is_id(id)) {
        client_error("'%s' is not the id of a node", id);
        return CMD_USAGE;
    }
    return client_call(c, "GET", arena_printf(client_arena(c), "/v1/nodes/%s", id), NULL, reply);
}

/* When the output was replaced because the node runs again, it is read from its beginning. */
int follow_output(struct client *c, struct dag_output *f, int64_t wait_ms, bool *ret_more)
{
    struct client_reply reply;

    *ret_more = false;
    const char *path =
        f->pid[0] ? arena_printf(client_arena(c), "/v1/nodes/%s/data/%s?start=%s&pid=%s&wait=%lld",
                                 f->id, f->key, f->start, f->pid, (long long)wait_ms)
                  : arena_printf(client_arena(c), "/v1/nodes/%s/data/%s?wait=%lld", f->id, f->key,
                                 (long long)wait_ms);
    client_set_wait(c, wait_ms);
    TRY(client_try(c, "GET", path, NULL, &reply));
    if (reply.status == 410 && f->pid[0]) {
        f->pid[0] = '\0';
        *ret_more = true;
        return CMD_OK;
    }
    if (reply.status == 404 && f->pid[0])
        return CMD_OK; /* it ended without any output */
    if (reply.status != 200)
        return client_refused(c, &reply);
    struct str text = json_text_of(reply.json, "data");
    fwrite(text.p, 1, text.len, f->to);
    fflush(f->to);
    const struct json *page = json_get(reply.json, "pagination");
    *ret_more = page != NULL;
    if (page) {
        struct str next = json_text_of(page, "next"), pid = json_text_of(page, "pid");

        snprintf(f->start, sizeof f->start, "%.*s", STR_ARGS(next));
        snprintf(f->pid, sizeof f->pid, "%.*s", STR_ARGS(pid));
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
