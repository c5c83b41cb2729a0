/*
 * graph_file - a graph of named nodes in a file, JSON or YAML, for `drover run`.
 *
 *     name: build                      default: the name of the file without its extension
 *     nodes:
 *       configure: {command: ./configure}
 *       compile:
 *         command: make all            text: a shell command; a list: a command without a shell
 *         after: configure             a name or a list of names
 *         timeout: 60000
 *
 * A node can also have type, when, branch, priority, group, args, env, cwd, retry, interval, user
 * and limits, with the same meaning as in the API, and `data`, an object with further keys. A node
 * without a command is a group.
 */
#ifndef CLI_GRAPH_FILE_H
#define CLI_GRAPH_FILE_H

#include "base/arena.h"
#include "base/json.h"

struct graph_node {
    struct str name;
    const struct json *spec;
    uint32_t *after; /* indices */
    uint32_t after_count;
    const char *type;
    struct str command; /* for people */

    /* Of earlier runs on a server. */
    const char *id;   /* in the latest run of the graph that had it; NULL: none, or not known */
    const char *done; /* the same, if it finished there, or NULL */
};

struct graph_file {
    struct arena arena;
    struct str name;
    struct graph_node *nodes;
    uint32_t count;
    uint32_t *order; /* indices, parents first */
};

/* Reads the text of a file. 0, or BAD_ARGUMENT and the reason. */
int graph_file_parse(struct graph_file *f, struct str text, bool is_yaml, const char *default_name,
                     struct err_info *ret_error);
void graph_file_release(struct graph_file *f);

/* The node that is called GRAPH/NODE on the server, or NULL. */
struct graph_node *graph_file_find(const struct graph_file *f, struct str name);

/*
 * Appends one node for POST /v1/runs. Its parents are named by the ids of those that are done, or
 * by a ref to a node of the same request.
 */
void graph_file_put_node(struct buf *b, struct graph_file *f, uint32_t i);

/* Appends what would run, in order, a line for each node. */
void graph_file_put_plan(struct buf *b, const struct graph_file *f);

/* Appends the graph in the language of Graphviz (dot) or Mermaid. */
void graph_file_put_picture(struct buf *b, const struct graph_file *f, bool dot);

/* Converts YAML to JSON. Scalars become texts, except integers after keys that take a number. */
int graph_yaml_to_json(struct str yaml, struct buf *ret_json, struct err_info *ret_error);

#endif
