/* drover world rm - removes tasks. */
#include "cli/http_client.h"
#include "cli/world_share.h"

int cmd_world_rm(int argc, char **argv)
{
    struct client_options o = {0};
    const struct option options[] = {CLIENT_OPTIONS(o)};
    const struct cmd cmd = {
        .name = "world rm",
        .operands = "WORLD NODE...",
        .operands_min = 2,
        .operands_max = SIZE_MAX,
        .about =
            "Removes tasks from a world, pending or not. One that is being worked on stays, and\n"
            "one with tasks below it.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    struct client_reply reply;
    const char *what;
    int status, worst = CMD_OK;
    struct client *c = client_begin(&cmd, &o, &argc, argv, &status);

    if (!c)
        return status;
    for (int i = 2; i < argc; i++) {
        what = arena_printf(client_arena(c), "/tasks/%s", client_quote(c, str_of(argv[i])));
        status = client_call(c, "DELETE", world_url(c, argv[1], what), NULL, &reply);
        if (!status && o.json)
            client_print_json(&reply);
        worst = status ? status : worst;
    }
    client_close(c);
    return worst;
}
