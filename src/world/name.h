/*
 * name - the names of a world's tasks and nodes, and how they convert. Pure.
 *
 *   task   name "downloadFile", type "alpha"
 *   node   "downloadFile_alpha"                            name and type form one key
 *   path   "/zoott_myworld/requestFile_alpha/downloadFile_alpha"
 *   key    "requestFile_alpha|downloadFile_alpha"          below /zoott_p, /zoott_w and /zoott_c
 *
 * Names and types are not empty and hold no space, '/', '\', '|', no control character and nothing
 * that ZooKeeper refuses in a path. Both may hold '_', so a node's name alone does not always tell
 * where the type begins.
 */
#ifndef WORLD_NAME_H
#define WORLD_NAME_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    WORLD_NAME_LEN_MAX = 255,
    WORLD_KEY_LEN_MAX = 4096,
};

#define WORLD_PENDING "/zoott_p"
#define WORLD_WORKING "/zoott_w"
#define WORLD_COMPLETED "/zoott_c"
#define WORLD_ROOT_PREFIX "/zoott_"

/* 0, or BAD_ARGUMENT and why. what: "name" or "type", for the message. */
int world_check_name(struct str name, const char *what, struct err_info *ret_error);

/* The same for a world, whose name must not be p, w or c either. */
int world_check_world(struct str world, struct err_info *ret_error);

/* Whether text may be a key: parts with a name and a type. */
int world_check_key(struct str key, struct err_info *ret_error);

/* "/zoott_<world>". */
char *world_root_path(struct arena *a, struct str world);

/* Converts a key to its path and back; the path is below the root, or without it. */
char *world_path(struct arena *a, const char *root, struct str key);
char *world_key(struct arena *a, const char *root, struct str path);

/* The key without its last part; empty for a task at the top. */
struct str world_parent_key(struct str key);

/* The last part of a key. */
struct str world_key_last(struct str key);

/* "<dir>/<key>". */
char *world_list_path(struct arena *a, const char *dir, struct str key);

/*
 * The next way to split a node's name into name and type, left to right. *at starts with 0. False:
 * no more.
 */
bool world_split_name(struct str node, size_t *at, struct str *ret_name, struct str *ret_type);

#endif
