/*
 * file - a graph of named nodes in a file, JSON or YAML, for `drover run`. Pure, but for reading it.
 *
 *     name: build                      the file's name without its ending, unless it is given
 *     nodes:
 *       configure: {command: ./configure}
 *       compile:
 *         command: make all            text: a shell command; a list: a command without a shell
 *         after: configure             a name or a list of names
 *         timeout: 60000
 *
 * Beside these a node has type, when, branch, priority, group, args, env, cwd, retry, interval, with
 * the meaning that the API gives them, and `data`, an object of further keys. A node without a command
 * is a group.
 */
#ifndef CLI_GRAPH_FILE_H
#define CLI_GRAPH_FILE_H

#include "base/arena.h"
#include "base/json.h"

struct file_node {
    struct str name;
    const struct json *spec;
    uint32_t *after; /* indices */
    uint32_t after_count;
    const char *type;
    struct str command; /* as people read it */
};

struct file {
    struct arena arena;
    struct str name;
    struct file_node *nodes;
    uint32_t count;
    uint32_t *order; /* indices, parents first */
};

/* 0, or BAD_ARGUMENT and the reason. path "-": standard input. */
int file_read(struct file *f, const char *path, struct err_info *ret_error);
void file_release(struct file *f);

/* The same from text. */
int file_parse(struct file *f, struct str text, bool is_yaml, const char *default_name,
               struct err_info *ret_error);

/* Appends one node as the API takes it. parents are texts: refs or ids; done[i] NULL: by name. */
void file_put_node(struct buf *b, const struct file *f, uint32_t i, const char *const *done);

/* Pictures. */
void file_put_dot(struct buf *b, const struct file *f);
void file_put_mermaid(struct buf *b, const struct file *f);

/* YAML as JSON. Scalars are text, but for whole numbers that stand behind keys that want one. */
int yaml_to_json(struct str yaml, struct buf *ret_json, struct err_info *ret_error);

#endif
