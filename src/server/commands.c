#include "server/commands.h"

#include "base/json.h"
#include "keeper/wire/wire.h"
#include "server/audit.h"

struct command_in {
    struct str command;
    int64_t mask;
};

static const char *method_of(const struct wire_command *command)
{
    return command->flags & WIRE_COMMAND_CHANGES ? "POST" : "GET";
}

static void get_commands(struct http_request *r)
{
    const struct context *h = r->arg;
    CLEANUP(buf_release) struct buf json = {0};
    json_open(&json, '{');
    json_member_open(&json, "commands", '[');
    const struct wire_command *each;
    for (size_t i = 0; h->wire && (each = wire_command_at(i)); i++) {
        json_open(&json, '{');
        json_member_text(&json, "command", str_of(each->name));
        json_member_text(&json, "word", str_of(each->word));
        json_member_text(&json, "method", str_of(method_of(each)));
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    http_reply(r, 200, buf_str(&json));
}

/* The command of a request that its method fits; NULL: it was refused. */
static const struct wire_command *find(struct http_request *r, const char *method)
{
    const struct command_in *in = r->in;
    const struct context *h = r->arg;
    const struct wire_command *command = wire_command_find(in->command);
    if (!h->wire)
        http_reply_error(r, 404,
                         h->local ? "this server has no ZooKeeper port (--zk none)"
                                  : "the data is in an ensemble: ask its servers");
    else if (!command)
        http_reply_errorf(r, 404, "there is no command %.*s", STR_ARGS(in->command));
    else if (strcmp(method, method_of(command)) != 0)
        http_reply_field(r, "command", "%s goes with %s", command->name, method_of(command));
    else
        return command;
    return NULL;
}

static void run(struct http_request *r, const char *method)
{
    const struct command_in *in = r->in;
    const struct context *h = r->arg;
    const struct wire_command *command = find(r, method);
    CLEANUP(buf_release) struct buf json = {0};
    bool changes = command && command->flags & WIRE_COMMAND_CHANGES;
    if (!command || (changes && !audit_begin(h->audit, r, NULL)))
        return;
    wire_command_run(h->wire, command, in->mask, &json);
    http_reply(r, 200, buf_str(&json));
}

static void get_command(struct http_request *r)
{
    run(r, "GET");
}

static void post_command(struct http_request *r)
{
    run(r, "POST");
}

#define COMMAND_FIELD                                                                              \
    FIELD_TEXT(IN_PATH, struct command_in, command, "command", 1, 64, "Its name, or the word")

static const struct route ROUTES[] = {
    {METHOD_GET, "/v1/keeper/commands", get_commands, ROLE_READ, "List the four-letter words",
     "listKeeperCommands", .reply = "commands:[(command:text word:text method:=GET|POST)]"},
    {METHOD_GET, "/v1/keeper/commands/{command}", get_command, ROLE_READ,
     "Answer a four-letter word as JSON", "getKeeperCommand", .reply = "object",
     .errors = "404 No such command, or no ZooKeeper port",
     ROUTE_IN(struct command_in, COMMAND_FIELD)},
    {METHOD_POST, "/v1/keeper/commands/{command}", post_command, ROLE_ADMIN,
     "Carry out a four-letter word that resets or sets something", "runKeeperCommand",
     .reply = "object", .errors = "404 No such command, or no ZooKeeper port",
     ROUTE_IN(struct command_in, COMMAND_FIELD,
              FIELD_INT(IN_BODY, struct command_in, mask, "mask", INT64_MIN, INT64_MAX,
                        "Of set_trace_mask"))},
};

struct route_table commands_routes(struct context *h)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, h, .tag = "Server"};
}
