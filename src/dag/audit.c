/*
 * What the audit log says of nodes: a line for each command that is added, with its text but not
 * its environment, which may have secrets; which nodes are killed, retried or removed; and what a
 * command is changed to.
 */
#include <inttypes.h>

#include "dag/service.h"
#include "server/audit.h"

/* A text as it is, anything else as JSON. */
static void put_value(struct buf *b, const char *name, const struct json *v)
{
    if (v)
        audit_put_text(b, name, v->kind == JSON_TEXT ? v->text : v->raw);
}

static void put_node(struct buf *b, uint64_t id, const struct json *node)
{
    static const char *const members[] = {"command", "args", "cwd", "user"};
    const struct json *data = json_get(node, "data");
    if (id)
        json_member_int(b, "node", (int64_t)id);
    put_value(b, "type", json_get(json_get(node, "metadata"), "type"));
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        put_value(b, members[i], json_get(data, members[i]));
}

bool dag_audit_add(struct audit *a, struct http_request *r, const struct json *nodes,
                   uint64_t first_id)
{
    CLEANUP(buf_release) struct buf lines = {0};
    uint64_t id = first_id;
    int err = 0;
    if (!audit_has_file(a))
        return true;
    json_each(node, nodes) {
        audit_open_line(a, r, &lines);
        put_node(&lines, id, node);
        id += id != 0;
        audit_close_line(&lines);
        if (lines.len > AUDIT_CHUNK_LEN && (err = audit_append(a, &lines)))
            break;
    }
    if (!err)
        return audit_begin(a, r, &lines);
    audit_refuse(r);
    return false;
}

/* Ids of nodes are numbers, those of runs are texts. */
bool dag_audit_ids(struct http_request *r, const struct str *ids, size_t count)
{
    struct audit *a = ((struct dag *)r->arg)->context->audit;
    CLEANUP(buf_release) struct buf line = {0};
    if (!audit_has_file(a))
        return true;
    audit_open_line(a, r, &line);
    json_member_open(&line, "nodes", '[');
    for (size_t i = 0; i < count; i++) {
        if (graph_parse_id(ids[i], &(uint64_t){0}))
            json_put_raw(&line, ids[i]);
        else
            json_put_text(&line, ids[i]);
    }
    json_close(&line, ']');
    audit_close_line(&line);
    return audit_begin(a, r, &line);
}

bool dag_audit_input(struct http_request *r, struct str key, const struct json *value)
{
    struct audit *a = ((struct dag *)r->arg)->context->audit;
    CLEANUP(buf_release) struct buf line = {0};
    if (!audit_has_file(a) || !node_key_is_input(key))
        return true;
    audit_open_line(a, r, &line);
    if (!str_eq(key, STR("env")))
        put_value(&line, "value", value);
    audit_close_line(&line);
    return audit_begin(a, r, &line);
}
