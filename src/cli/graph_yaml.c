/*
 * Converts YAML to JSON, from the events of libyaml. Aliases are refused: a few lines of them can
 * expand to gigabytes.
 */
#include <string.h>
#include <yaml.h>

#include "cli/graph_file.h"

enum { DEPTH_MAX = 32 };

struct yaml_conversion {
    struct buf *out;
    struct err_info *e;
    char open[DEPTH_MAX];
    bool wants_key[DEPTH_MAX];
    int depth;
    char key[64];
};

static bool is_number_key(const char *key)
{
    static const char *const keys[] = {"timeout", "interval", "retry",    "count",
                                       "delay",   "priority", "max_delay"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i]))
            return true;
    return false;
}

static bool is_number(const char *p, size_t len)
{
    size_t i = len && p[0] == '-';
    if (i == len || len > 15 || (p[i] == '0' && len > i + 1))
        return false;
    for (; i < len; i++)
        if (p[i] < '0' || p[i] > '9')
            return false;
    return true;
}

/* Inside an object, a key follows a value. */
static void value_done(struct yaml_conversion *c)
{
    if (c->depth && c->open[c->depth - 1] == '{')
        c->wants_key[c->depth - 1] = true;
}

static int put_scalar(struct yaml_conversion *c, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    struct str s = {text, event->data.scalar.length};

    if (c->depth && c->open[c->depth - 1] == '{' && c->wants_key[c->depth - 1]) {
        json_key_str(c->out, s);
        c->wants_key[c->depth - 1] = false;
        c->key[0] = '\0';
        if (s.len < sizeof c->key)
            memcpy(c->key, text, s.len + 1);
        return 0;
    }
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && is_number_key(c->key) &&
        is_number(text, s.len))
        json_put_raw(c->out, s);
    else if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
             (!s.len || str_eq(s, STR("~")) || str_eq(s, STR("null"))))
        json_put_null(c->out);
    else
        json_put_text(c->out, s);
    value_done(c);
    return 0;
}

static int open_container(struct yaml_conversion *c, char bracket)
{
    if (c->depth == DEPTH_MAX)
        return err_set(c->e, DROVER_BAD_ARGUMENT, "nested too deeply");
    if (c->depth && c->open[c->depth - 1] == '{' && c->wants_key[c->depth - 1])
        return err_set(c->e, DROVER_BAD_ARGUMENT, "a key must be a text");
    json_open(c->out, bracket);
    c->open[c->depth] = bracket;
    c->wants_key[c->depth++] = bracket == '{';
    return 0;
}

static int close_container(struct yaml_conversion *c)
{
    c->depth--;
    json_close(c->out, c->open[c->depth] == '{' ? '}' : ']');
    value_done(c);
    return 0;
}

static int convert(struct yaml_conversion *c, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return put_scalar(c, event);
    case YAML_MAPPING_START_EVENT:
        return open_container(c, '{');
    case YAML_SEQUENCE_START_EVENT:
        return open_container(c, '[');
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        return close_container(c);
    case YAML_ALIAS_EVENT:
        return err_set(c->e, DROVER_BAD_ARGUMENT, "line %zu: aliases are not supported",
                       event->start_mark.line + 1);
    default:
        return 0;
    }
}

int graph_yaml_to_json(struct str yaml, struct buf *ret_json, struct err_info *ret_error)
{
    struct yaml_conversion c = {.out = ret_json, .e = ret_error};
    yaml_parser_t parser;
    yaml_event_t event;
    bool ended = false;
    int err = 0, documents = 0;

    if (!yaml_parser_initialize(&parser))
        err_fatal("out of memory (libyaml)");
    yaml_parser_set_input_string(&parser, (const unsigned char *)yaml.p, yaml.len);
    while (!err && !ended) {
        if (!yaml_parser_parse(&parser, &event)) {
            err = err_set(ret_error, DROVER_BAD_ARGUMENT, "line %zu: %s",
                          parser.problem_mark.line + 1, parser.problem);
            break;
        }
        ended = event.type == YAML_STREAM_END_EVENT;
        if (event.type == YAML_DOCUMENT_START_EVENT && documents++)
            err = err_set(ret_error, DROVER_BAD_ARGUMENT, "more than one document");
        else
            err = convert(&c, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return err;
}
