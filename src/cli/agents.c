/* drover agents, drain; and whether an agent serves a group. */
#include <inttypes.h>
#include <poll.h>

#include "base/clock.h"
#include "cli/dag.h"
#include "cli/verb.h"

enum { LOOK_MS = 500 };

static const struct verb_column AGENTS[] = {
    {{"AGENT"}, "id", .colour = TERM_BOLD},
    {{"MACHINE"}, "host"},
    {{"GROUPS"}, "groups", VERB_LIST},
    {{"RUNNING", true}, "running", VERB_COUNT},
    {{"JOBS", true}, "jobs", VERB_NUMBER},
    {{"DRAINS"}, "drain", VERB_FLAG, .word = "drains", .colour = TERM_YELLOW},
    {{"HEARD"}, "heard", VERB_TIME},
    {{"LABELS"}, "labels", VERB_RAW, .colour = TERM_DIM},
    {{0}},
};

const struct cmd cmd_agents = VERB_INIT(
    "agents", "list agents", NULL,
    "Lists the agents that the server has heard of within their lease, and the one that is built\n"
    "into it: machine, groups, how many commands run and may run there.",
    CMD_OPTIONS({"group", "GROUP", "Only agents that serve this group.", option_text}), "GET",
    "/v1/agents", .list = "agents", .columns = AGENTS);

static bool undo;

static int put_drain(const struct cmd_call *call, struct client *c, struct buf *body)
{
    (void)call;
    (void)c;
    json_open(body, '{');
    json_member_bool(body, "drain", !undo);
    json_close(body, '}');
    return CMD_OK;
}

const struct cmd cmd_drain =
    VERB_INIT("drain", "let an agent end what it runs, and take no more", "AGENT",
              "Makes an agent take no more nodes; what it runs goes on to its end.",
              CMD_OPTIONS({"undo", NULL, "Let it take nodes again.", option_flag, &undo}), "PUT",
              "/v1/agents/{1}/drain", .put = put_drain);

int agents_wait(struct client *c, const char *group, int64_t wait_ms)
{
    int64_t end = clock_boot_ms() + wait_ms;
    struct client_reply reply;
    for (;;) {
        TRY(client_call(c, &reply, NULL, "GET /v1/agents?group=%s",
                        client_quote(c, str_of(group))));
        json_each(agent, json_list(json_get(reply.json, "agents"))) {
            const struct json *drain = json_get(agent, "drain");
            if (!drain || !drain->truth)
                return CMD_OK;
        }
        if (clock_boot_ms() >= end)
            return client_error("no agent serves the group '%s'; --wait-for-agent TIME waits for "
                                "one",
                                group);
        poll(NULL, 0, LOOK_MS);
    }
}
