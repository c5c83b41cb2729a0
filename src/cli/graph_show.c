/* drover graph: draws the nodes of a run, or those around some nodes. */
#include "base/clock.h"
#include "cli/dag.h"
#include "cli/graph_draw.h"
#include "cli/verb.h"

enum { TEXT_LIMIT = 500, PICTURE_LIMIT = 5000, OPERANDS_MAX = 100 };

static struct {
    bool dot, mermaid, svg, ascii;
    int64_t limit;
} how = {.limit = -1};

#define FIELDS "metadata=name,type,state,parents,branch,run,started,ended"

/* The nodes of the run that an operand names or belongs to; without a run, all nodes. */
static int list_nodes(struct client *c, const char *operand, struct str *ret_id,
                      struct str *ret_run, const struct json **ret_list)
{
    struct client_reply reply;
    *ret_id = (struct str){0};
    *ret_run = str_of(operand);
    if (!dag_names_run(operand)) {
        TRY(client_call(c, &reply, NULL, "GET /v1/nodes/%s", client_quote(c, str_of(operand))));
        const struct json *m = json_get(reply.json, "metadata");
        *ret_id = json_text_of(m, "id");
        *ret_run = json_text_of(m, "run");
    }
    if (ret_run->len)
        TRY(client_call(c, &reply, NULL, "GET /v1/nodes?run=%s&" FIELDS,
                        client_quote(c, *ret_run)));
    else
        TRY(client_call(c, &reply, NULL, "GET /v1/nodes?" FIELDS));
    *ret_list = reply.json;
    return CMD_OK;
}

static void put_picture(const struct draw *d, struct buf *b)
{
    struct draw_text text = {.columns = term_columns(stdout),
                             .utf8 = !how.ascii && term_is_utf8(),
                             .coloured = term_has_colour(stdout)};
    term_set_ascii(!text.utf8);
    if (how.dot)
        draw_put_dot(d, b);
    else if (how.mermaid)
        draw_put_mermaid(d, b);
    else if (how.svg)
        draw_put_svg(d, b);
    else
        draw_put_text(d, &text, b);
}

/* Nodes must belong to one run, or to none: ids are found in the list of the first. */
static int run_draw(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    CLEANUP(draw_release) struct draw d = {0};
    CLEANUP(buf_release) struct buf b = {0};
    struct str ids[OPERANDS_MAX];
    const struct json *list = NULL, *other;
    bool picture = how.dot || how.mermaid || how.svg;
    uint32_t limit = picture ? PICTURE_LIMIT : TEXT_LIMIT;

    if (how.dot + how.mermaid + how.svg > 1)
        return cmd_usage_error(call->cmd, "--dot, --mermaid and --svg exclude each other");
    if (call->count > OPERANDS_MAX)
        return cmd_usage_error(call->cmd, "too many operands");
    TRY(client_open(&c, &call->client));
    for (int i = 0; i < call->count; i++) {
        struct str run;
        TRY(list_nodes(&c, call->operands[i], &ids[i], &run, &other));
        if (i && (!ids[i].len || !ids[0].len || !str_eq(run, d.title)))
            return client_misuse("name one run, or nodes of one run");
        d.title = run;
        list = list ? list : other;
    }
    if (how.limit >= 0)
        limit = how.limit ? (uint32_t)how.limit : UINT32_MAX;
    draw_read(&d, list, ids[0].len ? UINT32_MAX : limit, clock_wall_ms());
    if (ids[0].len && !draw_select(&d, ids, (size_t)call->count))
        return client_error("a node was removed meanwhile");
    draw_cut(&d, limit);
    put_picture(&d, &b);
    fputs(buf_text(&b), stdout);
    return CMD_OK;
}

const struct cmd cmd_graph = CMD_INIT(
    "graph", "draw a graph of nodes", "RUN|ID...",
    "Draws the graph of a run, or nodes with all that is above and below them, with their\n"
    "states.",
    CMD_OPTIONS({"dot", NULL, "Print it for Graphviz.", option_flag, &how.dot},
                {"mermaid", NULL, "Print it for Mermaid.", option_flag, &how.mermaid},
                {"svg", NULL, "Print it as SVG.", option_flag, &how.svg},
                {"ascii", NULL, "Draw without characters beyond ASCII. Default: by the locale.",
                 option_flag, &how.ascii},
                {"limit", "N",
                 "Draw at most N nodes; 0: all. Default: 500, of the other formats 5000.",
                 option_number, &how.limit, 0, INT32_MAX}),
    CMD_REMOTE, run_draw);
