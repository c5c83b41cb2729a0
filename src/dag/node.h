/*
 * node - one node of the DAG: what it was given, how it stands, and the two texts by which a keeper
 * remembers it. Pure.
 *
 * A node's *spec* never changes: type, parents, rules and the data that its creator gave. Specs are
 * kept many to a keeper node, as a JSON list (a chunk):
 *
 *     [{"id":7,"type":"command","parents":[3,5],"added":1700000000000,"data":{"command":"true"}}, ...]
 *
 * with when, branch, priority, group and name where they are not the default. A node's *record* is
 * written when there is something to remember:
 *
 *     {"state":"finished","started":...,"ended":...,"attempts":1,"reason":"...","taken":"then",
 *      "values":{"result":0,"stdout":"..."},"slotted":{"stderr":{"pid":4,"slots":[[1,65536],[2,9000]],"tail":"..."}}}
 *
 * Values are what the data keys hold now, where that differs from the spec: small ones in the record,
 * large text in slots (keeper nodes of its own), listed by number and length, and in the tail, which
 * comes after them.
 *
 * Skipped nodes and finished groups have no record: they follow from their parents (plan.h).
 */
#ifndef DAG_NODE_H
#define DAG_NODE_H

#include "base/arena.h"
#include "base/json.h"
#include "dag/plan.h"

enum {
    NODE_TEXT_INLINE_MAX = 8 * 1024, /* text up to this stands in the record */
    NODE_SLOT_LEN = 256 * 1024,
    NODE_PIECES_MAX = 4096, /* that have a slot each, however small; the record names them all */
    NODE_VALUE_LEN_MAX = 64 * 1024 * 1024,
    NODE_KEY_LEN_MAX = 256,
    NODE_NAME_LEN_MAX = 256,
};

#define NODE_GROUP_DEFAULT "drover/run"

struct slot {
    uint32_t number, len;
};

/* What a data key holds. Text, or any other JSON value; text may be in slots. */
struct value {
    struct value *next;
    char *key;
    struct buf bytes; /* text that is not in slots: all of it or the tail; or JSON */
    bool is_text;
    uint64_t pid;      /* another one when the value is replaced */
    uint64_t live_pid; /* the one it had while it was printed; 0: none */
    struct slot *slots;
    uint32_t slot_count;
    uint64_t len; /* of text, wherever it is */
};

/* The specs of one keeper node. */
struct chunk_text {
    uint64_t first_id;
    uint32_t nodes; /* of it that are not deleted */
    uint32_t count; /* that it began with */
    struct buf text;
};

struct node_wait; /* requests that wait for its end: http.c */
struct run;

struct node {
    uint64_t id;
    uint32_t ref, index; /* in the plan, in the graph's order */
    struct chunk_text *chunk;
    struct str data; /* the object in the spec; empty: none */
    struct str name;
    struct str group;
    int64_t added_ms, started_ms, ended_ms;
    uint32_t attempts;
    char *reason; /* why it failed or was killed; NULL: nothing to say */
    struct value *values;
    uint32_t next_slot;
    uint64_t next_pid;
    bool recorded; /* the keeper has a record */
    bool dirty;    /* the record is to be written */

    /* While it has a task. */
    int64_t task;  /* its id, where has_task */
    int64_t agent; /* who runs it; 0: nobody */
    int64_t lease_at, due_at;
    int64_t keep_at; /* what its run has printed is to be kept then; 0: nothing new */
    bool has_task, task_put, task_drop, task_busy; /* busy: a change of it is under way */
    bool parked, kill_asked, touched;
    bool ahead;    /* it has an agent, which will start it when another run has ended */
    uint32_t mark; /* of its start (started.h), 0: none */
    uint32_t pins; /* requests under way that count on it */
    uint32_t running_at, parked_at; /* places in the lists of those, from 1 */
    struct run *run;                /* while it runs in this process */
    struct node_wait *waits;
};

/* What a node is started with. Lives in the arena. */
struct node_command {
    const char **argv;
    const char **env; /* "NAME=VALUE", NULL-terminated: what the node gives */
    const char *cwd;
    int64_t timeout_ms, interval_ms;
    int64_t retries, delay_ms, delay_max_ms;
};

/* Names, and what they name: -1 when there is no such. */
const char *node_type_name(enum node_type t);
const char *node_state_name(enum node_state s);
const char *node_when_name(enum node_when w);
const char *node_branch_name(enum node_branch b);
int node_type_of(struct str name);
int node_state_of(struct str name);
int node_when_of(struct str name);
int node_branch_of(struct str name);

/* Data keys that say how a command runs: set before it starts, or never. And those that it leaves. */
bool node_key_is_given(struct str key);
bool node_key_is_left(struct str key);
bool node_key_is_printed(struct str key); /* stdout, stderr, mixedout */

/* Checks a value for one of the keys that are given. Says what is wrong. */
int node_check_value(enum node_type type, struct str key, const struct json *v,
                     struct err_info *ret_error);

/* Checks the data of a new node. */
int node_check_data(enum node_type type, const struct json *data, struct err_info *ret_error);

void node_command(const struct node *n, enum node_type type, struct arena *a,
                  struct node_command *ret_command);

struct value *node_value(const struct node *n, struct str key);
struct value *node_set_value(struct node *n, struct str key); /* made or emptied */
void node_drop_value(struct node *n, struct str key);
void node_set_text(struct node *n, const char *key, struct str text);
void node_set_int(struct node *n, const char *key, int64_t number);
void node_set_reason(struct node *n, const char *reason);
/* The pid of what its run prints, or its next one will, as long as it runs. */
uint64_t node_live_pid(const struct node *n);

void node_free(struct node *n);

/* The record. Reading returns DAMAGED for what no node has written. */
void node_put_record(struct buf *b, const struct node *n, enum node_state state,
                     enum node_branch taken);
int node_read_record(struct node *n, struct str text, struct arena *a, int *ret_state,
                     int *ret_taken);

/* Of seconds that a try is put off after so many failed: doubles each time. */
int64_t node_delay_ms(const struct node_command *c, uint32_t attempts);

#endif
