/* The routes of tasks: what each takes and answers. Their handlers are in http.c. */
#include "task/body.h"

#define CHANGE_ERRORS                                                                              \
    "409 Refused, with all reasons. Nothing was changed\n"                                         \
    "413 A list, or the transaction, is too large\n507\n" ROUTE_LEADER

static const struct route ROUTES[] = {
    {METHOD_GET, "/groups", task_get_groups, 0, "List the groups that have tasks", "listGroups",
     .reply = "[text]", .errors = ROUTE_LEADER},
    {METHOD_GET, "/task/{id}", task_get_task, 0, "Show a task", "getTask", .reply = "Task",
     .errors = "404 No such task\n" ROUTE_LEADER,
     ROUTE_IN(struct task_read,
              FIELD_INT(IN_PATH, struct task_read, id, "id", 0, INT64_MAX, "The task"))},
    {METHOD_GET, "/tasks/{ids}", task_get_tasks, 0,
     "Show tasks by their ids, with null for each that does not exist", "getTasks",
     .reply = "[Task|null]", .errors = "413 More than 10,000 ids\n" ROUTE_LEADER,
     ROUTE_IN(struct task_read, FIELD_INTS(IN_PATH, struct task_read, ids, id_count, "ids", 1,
                                           TASK_IDS_MAX, "The tasks, comma-separated"))},
    {METHOD_GET, "/group/{name}", task_get_group, 0, "List the tasks of a group", "listTasks",
     .reply = "[Task]", .errors = ROUTE_LEADER,
     ROUTE_IN(
         struct task_read,
         FIELD_TEXT(IN_PATH, struct task_read, group, "name", 1, INT64_MAX, "The group"),
         FIELD_INT(IN_QUERY, struct task_read, limit, "limit", 0, INT64_MAX,
                   "At most so many; all unless given", .preset = -1),
         FIELD_BOOL(IN_QUERY, struct task_read, owned, "owned",
                    "Also those that are owned; only those that can be claimed unless given"))},
    {METHOD_POST, "/update", task_post_update, 0, "Add, replace and delete tasks, all or nothing",
     "updateTasks", .reply = "tasks:[Task]", .errors = CHANGE_ERRORS,
     .example = "{\"clientid\": 1643, \"adds\": [{\"group\": \"map\", \"data\": \"a\"}]}",
     .in_size = sizeof(struct task_in), .fields = TASK_UPDATE_FIELDS},
    {METHOD_POST, "/claim", task_post_claim, 0, "Claim tasks of a group for some time",
     "claimTasks", .reply = "tasks:[Task]", .errors = CHANGE_ERRORS,
     .example = "{\"clientid\": 1532, \"group\": \"map\", \"duration\": 60000}",
     .in_size = sizeof(struct task_in), .fields = TASK_CLAIM_FIELDS},
};

static const struct route_shape SHAPES[] = {
    {"Task", "(id:int group:text data:text timespec:int ownerid:int)"},
};

struct route_table task_routes(void *module)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, module, "Tasks", SHAPES, 1};
}
