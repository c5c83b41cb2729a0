/*
 * node - one node of the DAG: its definition, its state, and the two texts in which a keeper stores
 * it. Pure.
 *
 * A node's *spec* never changes: type, parents, rules and the data given by its creator. Many specs
 * are stored in one keeper node, as a JSON list (a chunk):
 *
 *     [{"id":7,"type":"command","parents":[3,5],"added":1700000000000,
 *       "data":{"command":"true"}}, ...]
 *
 * with when, branch, priority, group and name where they are not the default. The chunks of a run
 * (graph.h) end with its description, each of them:
 *
 *     {"run":7,"name":"build","added":1700000000000,"keep_going":true}
 *
 * A node's *record* is written when its state or its data changes:
 *
 *     {"state":"finished","started":...,"ended":...,"attempts":1,"reason":"...","taken":"then",
 *      "stops":true,
 *      "values":{"result":0,"stdout":"..."},
 *      "slotted":{"stderr":{"pid":4,"slots":[[1,65536],[2,9000]],"tail":"..."}}}
 *
 * With "changed":{"parents":[5],"when":"always","priority":2,"group":"gpu","name":"x"} these words
 * replace those of the spec; all five are there. With "stops" this end has stopped the run of the
 * node: nodes of it that had not started were killed. Values are the current values of the data
 * keys that differ from the spec: small ones in the record, large text in slots (separate keeper
 * nodes), listed by number and length, followed by the tail.
 *
 * Skipped nodes and finished groups have no record: their states are computed from their parents
 * (plan.h).
 */
#ifndef DAG_NODE_H
#define DAG_NODE_H

#include "base/arena.h"
#include "base/json.h"
#include "base/policy.h"
#include "dag/plan.h"

enum {
    NODE_TEXT_INLINE_MAX = 8 * 1024, /* text up to this length is in the record */
    NODE_SLOT_LEN = 256 * 1024,
    NODE_PIECES_MAX = 4096, /* pieces with a slot each, however small */
    NODE_VALUE_LEN_MAX = 64 * 1024 * 1024,
    NODE_KEY_LEN_MAX = 256,
    NODE_NAME_LEN_MAX = 256,
};

#define NODE_GROUP_DEFAULT "drover/run"

struct datum_slot {
    uint32_t number, len;
};

/* The value of a data key: text, which may be in slots, or another JSON value. */
struct node_datum {
    struct node_datum *next;
    char *key;
    struct buf bytes; /* JSON, or the text that is not in slots: all of it, or the tail */
    bool is_text;
    uint64_t pid;      /* changes when the value is replaced */
    uint64_t live_pid; /* its pid while the run printed it; 0: none */
    struct datum_slot *slots;
    uint32_t slot_count;
    uint64_t len; /* of the whole text */
};

/* The specs of one keeper node. */
struct chunk_text {
    uint64_t first_id;
    struct dag_run *run; /* NULL: none */
    uint32_t nodes;      /* nodes that are not deleted */
    uint32_t count;      /* nodes when it was written */
    struct buf text;
};

struct run;
struct dag_run;

struct dag_node {
    uint64_t id;
    uint32_t ref, index; /* in the plan, in the graph's order */
    struct chunk_text *chunk;
    struct str data; /* the object in the spec; empty: none */
    struct str name;
    struct str group;
    int64_t added_ms, started_ms, ended_ms;
    uint32_t attempts;
    char *reason; /* why it failed or was killed; NULL: none */
    struct node_datum *values;
    uint32_t next_slot;
    uint64_t next_pid;
    bool recorded; /* the keeper has a record */
    bool stops;    /* its end has stopped its run */
    char *changed; /* a JSON object: what differs from the spec; NULL: nothing */
    bool dirty;    /* the record must be written */

    /* While it has a task. */
    int64_t slot;  /* of the task, which does not change; 0: it has no task */
    int64_t task;  /* the task's id */
    int64_t agent; /* the agent that has claimed it; 0: none */
    int64_t lease_at, due_at;
    int64_t run_ms;  /* when its command was started; 0: it was not, or that is not known */
    int64_t save_at; /* when to store new output of its run; 0: no new output */
    bool task_put, task_drop, task_busy; /* busy: a change of the task is in flight */
    bool parked, kill_asked, touched;
    bool begun;           /* the agent on another machine was told to start it */
    uint64_t kill_number; /* of the request to kill that run */
    bool ahead;           /* claimed ahead: its agent starts it when another run has ended */
    uint32_t mark;        /* start mark (started.h); 0: none */
    uint32_t pins;        /* pending operations that refer to it */
    uint32_t list_at;     /* index in dag.running or dag.parked */
    struct run *run;      /* while it runs in this process */
};

/* How to run a node. In the arena. */
struct node_command {
    struct policy_request ask; /* argv, env, user and limits; env: the node's own variables */
    const char *cwd;
    int64_t timeout_ms, interval_ms;
    int64_t retries, delay_ms, delay_max_ms;
};

/* The arguments of a %.*s in a message: at most 80 bytes of a text from outside. */
#define NODE_CUT(s) (int)((s).len < 80 ? (s).len : 80), (s).p

/* Names, and the values they name; -1: no such name. */
const char *node_type_name(enum node_type t);
const char *node_state_name(enum node_state s);
const char *node_when_name(enum node_when w);
const char *node_branch_name(enum node_branch b);
int node_type_of(struct str name);
int node_state_of(struct str name);
int node_when_of(struct str name);
int node_branch_of(struct str name);

/* Input keys say how a command runs and are fixed once it started. A run sets the result keys. */
bool node_key_is_input(struct str key);
bool node_key_is_result(struct str key);
bool node_key_is_output(struct str key); /* stdout, stderr, mixedout */

/* Checks a value for an input key. */
int node_check_value(enum node_type type, struct str key, const struct json *v,
                     struct err_info *ret_error);

/* Checks the data of a new node. */
int node_check_data(enum node_type type, const struct json *data, struct err_info *ret_error);

/* The data of the spec, or NULL. */
const struct json *node_spec_data(const struct dag_node *n, struct arena *a);

void node_command(const struct dag_node *n, enum node_type type, struct arena *a,
                  struct node_command *ret_command);

/* What a new node asks for, and what a node would ask for if a value had changed. In the arena. */
struct node_change {
    struct str key;
    const struct json *value;
};

struct policy_request node_new_request(enum node_type type, const struct json *data,
                                       struct arena *a);
struct policy_request node_changed_request(const struct dag_node *n, enum node_type type,
                                           const struct node_change *change, struct arena *a);

/* Limits as JSON; only those that are set. Reading skips what is no positive number. */
void limits_put(struct buf *b, const struct limits *l);
struct limits limits_read(const struct json *v);

struct node_datum *node_value(const struct dag_node *n, struct str key);
struct node_datum *node_set_text(struct dag_node *n, const char *key, struct str text);
struct node_datum *node_set_json(struct dag_node *n, struct str key, const struct json *json);
void node_set_int(struct dag_node *n, const char *key, int64_t number);
void node_set_reason(struct dag_node *n, const char *reason);
/* The pid of the output of the current run, or of the next one. */
uint64_t node_live_pid(const struct dag_node *n);

void node_free(struct dag_node *n);

void node_put_value(struct buf *b, const struct node_datum *v); /* as a member of an object */

/* Sets the words that replace those of the spec. */
void node_set_changed(struct dag_node *n, struct str json);

/* The record. Reading also sets the state and the branch of p. It returns DAMAGED for bad data. */
void node_put_record(struct buf *b, const struct dag_node *n, enum node_state state,
                     enum node_branch taken);
int node_read_record(struct dag_node *n, struct plan_node *p, struct str text, struct arena *a);

/* The delay before the next attempt: doubles with each attempt, up to the maximum. */
int64_t node_delay_ms(const struct node_command *c, uint32_t attempts);

#endif
