/* The routes of worlds. */
#include "world/http_in.h"

/* clang-format off */
#define TEXT(where, field, help)                                                                   \
    FIELD_TEXT(where, struct world_in, field, #field, (where) == IN_PATH, INT64_MAX, help)
#define WORLD_FIELD TEXT(IN_PATH | NAMES_WORLD, world, "Name of the world")
#define PATH_FIELD                                                                                 \
    TEXT(IN_PATH, path, "Key of the task (a_t|b_t), with / or |, or its path in the tree")
#define SESSION_FIELD TEXT(IN_BODY | REQUIRED, session, "The session that claims")
#define END_FIELDS WORLD_FIELD, SESSION_FIELD, TEXT(IN_BODY | REQUIRED, node, "Key of the task")
#define NO_WORLD "404 No such world\n503"
#define NO_TASK "404 No such world or task\n503"
#define CLAIM_ERRORS                                                                               \
    "404 No such world, or nobody works on the task\n409 Another session works on it\n"            \
    "410 The session has ended\n503"
#define END_REPLY "node:text state:=pending|completed|failed"

static const struct route_field TASK_FIELDS[] = {
    FIELD_TEXT(IN_BODY | REQUIRED, struct world_task_in, name, "name", 0, INT64_MAX, "Name"),
    FIELD_TEXT(IN_BODY | REQUIRED, struct world_task_in, type, "type", 0, INT64_MAX, "Type"),
    FIELD_JSON(IN_BODY, struct world_task_in, data, "data", "any", "Data; null by default"),
    FIELD_INT(IN_BODY, struct world_task_in, attempts, "attempts", 0, WORLD_ATTEMPTS_MAX,
              "After so many the task has failed; 0: no limit"),
    {.name = {NULL, 0}},
};

static const struct route_field PARENT_FIELDS[] = {
    FIELD_TEXT(IN_BODY | REQUIRED, struct world_parent, name, "name", 0, INT64_MAX,
               "Regular expression for the whole name"),
    FIELD_TEXT(IN_BODY | REQUIRED, struct world_parent, type, "type", 0, INT64_MAX,
               "Regular expression for the whole type"),
    {.name = {NULL, 0}},
};

static const struct route_shape SHAPES[] = {
    {"WorldTask", "(node:text name:text type:text path:text parent:text|null failures?:int "
                  "error?:text attempts?:int tries?:int "
                  "state:=pending|working|completed|failed|none since?:int data?:any)"},
    {"WorldClaim", "(name:text type:text path:text parent:text|null failures?:int error?:text "
                   "attempts?:int tries?:int data:any)"},
    {"WorldNode", "(node:text state:=pending|working|completed|failed|none tasks:[WorldNode])"},
};

static const struct route ROUTES[] = {
    {METHOD_GET, "/v1/worlds", world_get_worlds, ROLE_READ | ROUTE_WORKER | ROUTE_LIMITS,
     "List the worlds", "listWorlds", .reply = "worlds:[text]", .errors = "503"},
    {METHOD_POST, "/v1/worlds", world_post_world, ROLE_SUBMIT | ROUTE_WORKER, "Create a world",
     "createWorld", .reply = "world:text", .errors = "503", .example = "{\"world\": \"build\"}",
     ROUTE_IN(struct world_in, TEXT(IN_BODY | REQUIRED | NAMES_WORLD, world, "Name of the world"))},
    {METHOD_POST, "/v1/worlds/{world}/tasks", world_post_task, ROLE_SUBMIT | ROUTE_WORKER,
     "Queue a task, below all tasks that match its parent", "queueWorldTask",
     .reply = "paths:[text] nodes:[text]",
     .errors = "404 No such world, or no task matches the parent\n"
               "409 Another task has the name\n503",
     .example = "{\"task\": {\"name\": \"kernel\", \"type\": \"compile\", \"data\": {\"j\": 8}}}",
     ROUTE_IN(struct world_in, WORLD_FIELD,
              FIELD_OBJECT(IN_BODY | REQUIRED, struct world_in, task, "task",
                           struct world_task_in, TASK_FIELDS, "The task"),
              FIELD_OBJECT(IN_BODY, struct world_in, parent, "parent", struct world_parent,
                           PARENT_FIELDS, "Its parents; none: at the top"),
              TEXT(IN_BODY, child_name,
                   "Names the task below each parent: {parent} and {child} are replaced"))},
    {METHOD_GET, "/v1/worlds/{world}/tasks", world_get_tasks, ROLE_READ | ROUTE_WORKER,
     "List the tasks in a state", "listWorldTasks",
     .reply = "tasks:[WorldTask] next:text|null", .errors = NO_WORLD,
     ROUTE_IN(struct world_in, WORLD_FIELD,
              FIELD_CHOICE(IN_QUERY, struct world_in, state, "state",
                           "pending|working|completed|failed", "The state"),
              TEXT(IN_QUERY, after, "Start after this key"),
              FIELD_INT(IN_QUERY, struct world_in, limit, "limit", 0, LIST_LIMIT_MAX,
                        "At most so many; 0: as many as possible, 100000",
                        .preset = LIST_LIMIT_DEFAULT))},
    {METHOD_GET, "/v1/worlds/{world}/tasks/{path...}", world_get_task, ROLE_READ | ROUTE_WORKER,
     "Show a task with its data", "getWorldTask", .reply = "WorldTask", .errors = NO_TASK,
     ROUTE_IN(struct world_in, WORLD_FIELD, PATH_FIELD)},
    {METHOD_DELETE, "/v1/worlds/{world}/tasks/{path...}", world_delete_task,
     ROLE_SUBMIT | ROUTE_WORKER,
     "Remove a task that has no children and is not being worked on", "removeWorldTask",
     .reply = "()",
     .errors = "404 No such world or task\n409 It has children, or is worked on\n503",
     ROUTE_IN(struct world_in, WORLD_FIELD, PATH_FIELD)},
    {METHOD_GET, "/v1/worlds/{world}/tree", world_get_tree, ROLE_READ | ROUTE_WORKER,
     "Show the whole tree", "getWorldTree", .reply = "root:text tasks:[WorldNode]",
     .errors = NO_WORLD,
     ROUTE_IN(struct world_in, WORLD_FIELD)},
    {METHOD_POST, "/v1/worlds/{world}/claim", world_post_claim, ROLE_WORK | ROUTE_WORKER,
     "Claim the oldest task of a type that nothing blocks", "claimWorldTask",
     .reply = "node:text|null task?:WorldClaim",
     .errors = "404 No such world\n410 The session has ended\n503",
     .example = "{\"types\": [\"compile\"], \"session\": \"ID\", \"wait\": 30000}",
     ROUTE_IN(struct world_in, WORLD_FIELD, SESSION_FIELD,
              FIELD_TEXTS(IN_BODY | REQUIRED, struct world_in, types, type_count, "types", 1,
                          WORLD_TYPES_MAX, "Types that the handler supports"),
              FIELD_INT(IN_BODY, struct world_in, wait_ms, "wait", 0, WAIT_MAX_MS,
                        "Wait so many milliseconds for a task"))},
    {METHOD_POST, "/v1/worlds/{world}/complete", world_post_complete, ROLE_WORK | ROUTE_WORKER,
     "Complete a claimed task", "completeWorldTask", .reply = END_REPLY, .errors = CLAIM_ERRORS,
     .example = "{\"node\": \"kernel_compile\", \"session\": \"ID\"}",
     ROUTE_IN(struct world_in, END_FIELDS)},
    {METHOD_POST, "/v1/worlds/{world}/release", world_post_release, ROLE_WORK | ROUTE_WORKER,
     "Release a claimed task for others", "releaseWorldTask", .reply = END_REPLY,
     .errors = CLAIM_ERRORS, .example = "{\"node\": \"kernel_compile\", \"session\": \"ID\"}",
     ROUTE_IN(struct world_in, END_FIELDS)},
    {METHOD_POST, "/v1/worlds/{world}/fail", world_post_fail, ROLE_WORK | ROUTE_WORKER,
     "Report a failure; the task stays pending, behind the others, or has failed", "failWorldTask",
     .reply = END_REPLY, .errors = CLAIM_ERRORS,
     .example = "{\"node\": \"kernel_compile\", \"session\": \"ID\", \"error\": \"disk full\"}",
     ROUTE_IN(struct world_in, END_FIELDS, TEXT(IN_BODY, error, "What went wrong"),
              FIELD_BOOL(IN_BODY, struct world_in, final, "final",
                         "It has failed, whatever attempts it has left"))},
    {METHOD_POST, "/v1/worlds/{world}/retry", world_post_retry, ROLE_SUBMIT | ROUTE_WORKER,
     "Make a task that has failed pending again", "retryWorldTask", .reply = END_REPLY,
     .errors = "404 No such world or task\n409 The task has not failed\n503",
     .example = "{\"node\": \"kernel_compile\"}",
     ROUTE_IN(struct world_in, WORLD_FIELD, TEXT(IN_BODY | REQUIRED, node, "Key of the task"))},
};
/* clang-format on */

struct route_table world_routes(void *registry)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, registry, "Worlds",
                                SHAPES, sizeof SHAPES / sizeof *SHAPES};
}
