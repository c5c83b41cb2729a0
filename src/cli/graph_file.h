/*
 * graph_file - a graph of named nodes in a file, JSON or YAML, for `drover run`.
 *
 *     name: build                      default: the name of the file without its extension
 *     timeout: 10m                     for all nodes; so with env, cwd, retry, group, priority,
 *     nodes:                           limits and user
 *       configure: {command: ./configure}
 *       compile:
 *         command: make all            text: a shell command; a list: a command without a shell
 *         after: configure             a name or a list of names
 *         timeout: 60s
 *
 * A node can also have type, when, branch, args and interval, with the same meaning as in the API,
 * and `data`, an object with further keys. A node without a command is a group. Times and sizes are
 * numbers of ms and bytes, or have units. doc/graph.schema.json describes the whole.
 *
 * Everything that is wrong is found at once: `errors` has a line for each, with file, line and
 * node.
 */
#ifndef CLI_GRAPH_FILE_H
#define CLI_GRAPH_FILE_H

#include "base/arena.h"
#include "base/json.h"

/* The line of each value, in the order of their places in the JSON that was made of YAML. */
struct graph_line {
    size_t offset;
    uint32_t line;
};

struct graph_lines {
    struct graph_line *items;
    size_t count, cap;
};

struct graph_node {
    struct str name;
    const struct json *spec;
    uint32_t *after; /* indices */
    uint32_t after_count;
    const char *type;
    struct str command; /* for people */
    struct str data;    /* for the API: a JSON object */
    int64_t priority;

    /* Of earlier runs on a server. */
    const char *id;   /* in the latest run of the graph that had it; NULL: none, or not known */
    const char *done; /* the same, if it finished there, or NULL */
};

struct graph_file {
    /* Set before parsing. */
    const char *path;       /* for messages */
    const char *cwd;        /* an absolute path: where commands run, and relative ones begin */
    const char *const *env; /* NAME=VALUE for all nodes, up to NULL; NULL: none */

    struct arena arena;
    struct str name;
    struct graph_node *nodes;
    uint32_t count;
    uint32_t *order;         /* indices, parents first */
    const struct json *spec; /* the file */

    struct buf errors; /* a line for each */
    uint32_t error_count;
    struct str text; /* JSON */
    struct graph_lines lines;
    bool is_yaml;
};

/* Reads the text of a file. 0, or BAD_ARGUMENT and `errors`. */
int graph_file_parse(struct graph_file *f, struct str text, bool is_yaml, const char *default_name);
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

/* Converts YAML to JSON. Scalars become texts or null. The error begins with the line. */
int graph_yaml_to_json(struct str yaml, struct buf *ret_json, struct graph_lines *ret_lines,
                       struct err_info *ret_error);

/* An error, at a value of the file or at its beginning (NULL); node NULL: of the file. */
void graph_file_wrong(struct graph_file *f, const struct json *at, const struct graph_node *node,
                      const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* graph_data.c: makes the data of a node, with what stands once for all, and checks it. */
void graph_file_make_data(struct graph_file *f, struct graph_node *n);

#endif
