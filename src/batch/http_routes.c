/* The routes of batches, jobs, locks and access items. */
#include "batch/server.h"
#include "batch/tools.h"

#define IN struct batch_in
#define TEXT_MAX INT64_MAX

/* Fields that several routes have. */
#define BID FIELD_TEXT(IN_PATH, IN, id, "bid", 1, TEXT_MAX, "Id of the batch")
#define JID FIELD_TEXT(IN_PATH, IN, id, "jid", 1, TEXT_MAX, "Id of the job")
#define QUEUE FIELD_CHOICE(IN_PATH, IN, queue, "queue", "small|large", "The access queue")
#define ITEM FIELD_TEXT(IN_PATH, IN, id, "id", 1, TEXT_MAX, "Id of the access item")
#define KIND FIELD_TEXT(IN_PATH, IN, kind, "kind", 1, TEXT_MAX, "Kind of the lock")
#define NAME FIELD_TEXT(IN_PATH, IN, name, "name", 1, TEXT_MAX, "Name of the lock")
#define SESSION FIELD_TEXT(IN_BODY, IN, session, "session", 1, TEXT_MAX, "The session")
#define OWNER                                                                                      \
    FIELD_TEXT(IN_BODY | REQUIRED, IN, session, "session", 1, TEXT_MAX, "Owner of the lock")
#define MESSAGE FIELD_TEXT(IN_BODY, IN, message, "message", 0, TEXT_MAX, "For the status")
#define TOKEN                                                                                      \
    FIELD_INT(IN_BODY, IN, token, "token", 0, INT64_MAX, "Token of the lock, if it is locked")
#define KEEP FIELD_BOOL(IN_BODY, IN, keep, "keep", "Keep the lock for the next move")
#define TO                                                                                         \
    FIELD_TEXT(IN_BODY | REQUIRED, IN, state, "state", 1, TEXT_MAX, "The new state, next or fail")
#define WAIT                                                                                       \
    FIELD_INT(IN_BODY, IN, wait_ms, "wait", 0, INT64_MAX,                                          \
              "Wait for so many milliseconds, at most 60,000, until there is one")
#define STATE FIELD_TEXT(IN_QUERY, IN, state, "state", 1, TEXT_MAX, "Only in this state")
#define LIMIT                                                                                      \
    FIELD_INT(IN_QUERY, IN, limit, "limit", 0, INT64_MAX,                                          \
              "At most so many, and at most 10,000; 0: as many as that",                           \
              .preset = BATCH_LIST_DEFAULT)
#define AFTER(what) FIELD_TEXT(IN_QUERY, IN, after, "after", 1, TEXT_MAX, "Only after this " what)
#define VALUE                                                                                      \
    FIELD_JSON(IN_BODY | REQUIRED, IN, body, "", "any",                                            \
               "The value, or an object with a member of that name, and a token")

#define NOT_FOUND "404 Does not exist\n503"
#define REFUSED                                                                                    \
    "404 Does not exist\n409 Not allowed in its state, or locked\n410 The session has ended\n503"
#define CHANGED "404 Does not exist\n409 Not allowed in its state, or locked\n503"
#define ACQUIRED "410 The session has ended\n503"

#define SET_JOB(field, operation, value)                                                           \
    {                                                                                              \
        METHOD_PUT, "/v1/jobs/{jid}/" field, put_field, ROLE_WORK | ROUTE_WORKER,                  \
            "Set " field " of a job", operation, .reply = "job:Job", .errors = CHANGED,            \
                                                 .example = value, ROUTE_IN(IN, JID, VALUE)        \
    }

/* For every kind of item; `of` is its path. */
#define COUNT_ITEMS(of, things, operation, in)                                                     \
    {                                                                                              \
        METHOD_GET, of "/counts", count_items, ROLE_READ | ROUTE_WORKER,                           \
            "Count " things " by state, also states that the pipeline does not have", operation,   \
            .reply = "counts:{int} total:int", .errors = "503", in                                 \
    }
#define PURGE_ITEMS(of, things, operation, more, ...)                                              \
    {                                                                                              \
        METHOD_POST, of "/purge", post_purge, ROLE_WORK | ROUTE_WORKER, "Delete " things,          \
            operation, .reply = "removed:int " more "locked:int more:bool", .errors = "503",       \
                       .example = "{\"age\": 2592000000}",                                         \
                       ROUTE_IN(IN, __VA_ARGS__ AGE, FINAL, PURGE_MAX)                             \
    }
#define AGE                                                                                        \
    FIELD_INT(IN_BODY, IN, age_ms, "age", 0, INT64_MAX,                                            \
              "Only those that ended so many milliseconds ago")
#define FINAL FIELD_TEXT(IN_BODY, IN, state, "state", 1, TEXT_MAX, "Only in this final state")
#define PURGE_MAX                                                                                  \
    FIELD_INT(IN_BODY, IN, limit, "limit", 1, INT64_MAX, "At most so many, and at most 10,000",    \
              .preset = BATCH_LIST_DEFAULT)

static const struct route ROUTES[] = {
    {METHOD_POST, "/v1/batches", post_item, ROLE_SUBMIT | ROUTE_WORKER, "Create a batch",
     "createBatch", .reply = "batch:text",
     .errors = "409 There is a batch with that batchID\n410 The session has ended\n503",
     .example = "{\"submission\": {\"batchID\": \"u-1\", \"profile_name\": \"demo_content\"}}",
     ROUTE_IN(IN, SESSION,
              FIELD_JSON(IN_BODY | REQUIRED, IN, submission, "submission", "object",
                         "Any members; batchID is unique"))},
    {METHOD_GET, "/v1/batches", list_items, ROLE_READ | ROUTE_WORKER, "List batches", "listBatches",
     .reply = "batches:[Batch] next?:text", .errors = NOT_FOUND,
     ROUTE_IN(IN, STATE, LIMIT,
              FIELD_TEXT(IN_QUERY, IN, uuid, "uuid", 1, TEXT_MAX, "Only the one with this batchID"),
              AFTER("batch"))},
    {METHOD_POST, "/v1/batches/acquire", acquire_item, ROLE_WORK | ROUTE_WORKER, "Lock a batch",
     "acquireBatch", .reply = "batch:Batch|null token?:int", .errors = ACQUIRED,
     .example = "{\"session\": \"S\", \"for\": \"reporting\", \"wait\": 0}",
     ROUTE_IN(IN, OWNER, WAIT,
              FIELD_TEXT(IN_BODY, IN, state, "for", 1, TEXT_MAX,
                         "pending (unless given), reporting or updatereporting"))},
    {METHOD_POST, "/v1/batches/fsck", post_fsck, ROLE_WORK | ROUTE_WORKER,
     "Find what other clients left half done", "fsckBatches",
     .reply = "findings:[(id:text problem:text repaired:bool)] jobs:int batches:int repaired:int",
     .errors = "503", .example = "{\"repair\": false}",
     ROUTE_IN(IN, FIELD_BOOL(IN_BODY, IN, repair, "repair", "Also repair it"),
              FIELD_INT(IN_BODY, IN, age_ms, "age", 0, INT64_MAX,
                        "Milliseconds for which what is unfinished is left to its client",
                        .preset = BATCH_REPAIR_AGE_MS))},
    PURGE_ITEMS("/v1/batches", "batches in a final state, and their jobs", "purgeBatches",
                "jobs:int ", ),
    COUNT_ITEMS("/v1/batches", "batches", "countBatches", .in_size = sizeof(IN)),
    {METHOD_GET, "/v1/batches/{bid}", get_item, ROLE_READ | ROUTE_WORKER, "Show a batch",
     "getBatch", .reply = "batch:Batch", .errors = NOT_FOUND, ROUTE_IN(IN, BID)},
    {METHOD_DELETE, "/v1/batches/{bid}", delete_item, ROLE_WORK | ROUTE_WORKER,
     "Delete a batch in a final state, and its jobs", "deleteBatch", .reply = "()",
     .errors = CHANGED, ROUTE_IN(IN, BID)},
    {METHOD_PUT, "/v1/batches/{bid}/state", move_item, ROLE_WORK | ROUTE_WORKER, "Move a batch",
     "moveBatch", .reply = "batch:text state:text", .errors = REFUSED,
     .example = "{\"state\": \"next\"}", ROUTE_IN(IN, BID, TO, MESSAGE, TOKEN, SESSION, KEEP)},
    {METHOD_POST, "/v1/batches/{bid}/hold", move_item, ROLE_WORK | ROUTE_WORKER,
     "Hold a batch and its jobs", "holdBatch", .reply = "batch:text state:text", .errors = REFUSED,
     ROUTE_IN(IN, BID, MESSAGE, TOKEN, SESSION)},
    {METHOD_POST, "/v1/batches/{bid}/release", move_item, ROLE_WORK | ROUTE_WORKER,
     "Release a held batch", "releaseBatch", .reply = "batch:text state:text", .errors = REFUSED,
     ROUTE_IN(IN, BID, MESSAGE, TOKEN, SESSION)},
    {METHOD_POST, "/v1/batches/{bid}/jobs", post_batch_jobs, ROLE_SUBMIT | ROUTE_WORKER,
     "Create jobs in a batch, all or none", "createJobs", .reply = "job?:text jobs?:[text]",
     .errors = CHANGED,
     .example = "{\"configuration\": {\"profile_name\": \"demo_content\"}, \"priority\": 5}",
     ROUTE_IN(IN, BID,
              FIELD_JSON(IN_BODY | REQUIRED, IN, body, "", "any",
                         "A job, a list of jobs, or {\"jobs\": [...]}"))},

    {METHOD_GET, "/v1/jobs", list_items, ROLE_READ | ROUTE_WORKER,
     "List jobs by state and priority", "listJobs", .reply = "jobs:[Job] next?:int",
     .errors = NOT_FOUND,
     ROUTE_IN(IN, STATE, LIMIT,
              FIELD_TEXT(IN_QUERY, IN, batch, "batch", 1, TEXT_MAX, "Only of this batch"),
              FIELD_TEXT(IN_QUERY, IN, profile, "profile", 1, TEXT_MAX, "Only of this profile"),
              FIELD_INT(IN_QUERY, IN, start, "start", 0, INT64_MAX, "Skip so many"))},
    {METHOD_POST, "/v1/jobs/acquire", acquire_item, ROLE_WORK | ROUTE_WORKER,
     "Lock the first job of a state, by priority", "acquireJob", .reply = "job:Job|null token?:int",
     .errors = ACQUIRED, .example = "{\"session\": \"S\", \"state\": \"Pending\", \"wait\": 0}",
     ROUTE_IN(IN, OWNER, WAIT,
              FIELD_TEXT(IN_BODY | REQUIRED, IN, state, "state", 1, TEXT_MAX, "The state"))},
    {METHOD_POST, "/v1/jobs/release", release_jobs, ROLE_WORK | ROUTE_WORKER,
     "Release all held jobs of a profile", "releaseJobs", .reply = "released:int", .errors = "503",
     .example = "{\"profile\": \"demo_content\"}",
     ROUTE_IN(IN, FIELD_TEXT(IN_BODY | REQUIRED, IN, profile, "profile", 0, TEXT_MAX,
                             "The profile_name of their configuration"))},
    PURGE_ITEMS("/v1/jobs", "jobs in a final state whose batch was reported", "purgeJobs", "", ),
    COUNT_ITEMS("/v1/jobs", "jobs", "countJobs", .in_size = sizeof(IN)),
    {METHOD_GET, "/v1/jobs/{jid}", get_item, ROLE_READ | ROUTE_WORKER, "Show a job", "getJob",
     .reply = "job:Job", .errors = NOT_FOUND, ROUTE_IN(IN, JID)},
    {METHOD_DELETE, "/v1/jobs/{jid}", delete_item, ROLE_WORK | ROUTE_WORKER,
     "Delete a job in a final state", "deleteJob", .reply = "()", .errors = CHANGED,
     ROUTE_IN(IN, JID)},
    {METHOD_PUT, "/v1/jobs/{jid}/state", move_item, ROLE_WORK | ROUTE_WORKER, "Move a job",
     "moveJob", .reply = "job:text state:text", .errors = REFUSED,
     .example = "{\"state\": \"next\"}",
     ROUTE_IN(IN, JID, TO, MESSAGE, TOKEN, SESSION, KEEP,
              FIELD_INT(IN_BODY, IN, priority, "priority", 0, BATCH_PRIORITY_MAX,
                        "The new priority; unchanged unless given", .preset = -1))},
    SET_JOB("priority", "setJobPriority", "80"),
    SET_JOB("space_needed", "setJobSpaceNeeded", "1000"),
    SET_JOB("space", "setJobSpace", "1000"),
    SET_JOB("identifiers", "setJobIdentifiers", "{\"primary_id\": \"ark:/1\"}"),
    SET_JOB("metadata", "setJobMetadata", "{\"creator\": \"me\"}"),
    SET_JOB("inventory", "setJobInventory", "{\"manifest\": \"m\"}"),
    SET_JOB("store", "setJobStore", "{\"manifest_url\": \"m\"}"),
    {METHOD_POST, "/v1/jobs/{jid}/hold", post_job_verb, ROLE_WORK | ROUTE_WORKER, "Hold a job",
     "holdJob", .reply = "job:Job", .errors = REFUSED, ROUTE_IN(IN, JID, MESSAGE, SESSION)},
    {METHOD_POST, "/v1/jobs/{jid}/release", post_job_verb, ROLE_WORK | ROUTE_WORKER,
     "Release a held job", "releaseJob", .reply = "job:Job", .errors = REFUSED,
     ROUTE_IN(IN, JID, MESSAGE, SESSION)},
    {METHOD_POST, "/v1/jobs/{jid}/requeue", post_job_verb, ROLE_WORK | ROUTE_WORKER,
     "Retry a failed job", "requeueJob", .reply = "job:Job", .errors = REFUSED,
     ROUTE_IN(IN, JID, MESSAGE, SESSION,
              FIELD_TEXT(IN_BODY, IN, state, "state", 1, TEXT_MAX,
                         "The state to go on from; the first one unless given"))},

    {METHOD_GET, "/v1/locks", get_locks, ROLE_READ | ROUTE_WORKER, "List all locks by name",
     "listAllLocks", .reply = "locks:[Lock]", .errors = "503", .in_size = sizeof(IN)},
    {METHOD_GET, "/v1/locks/{kind}", get_locks, ROLE_READ | ROUTE_WORKER,
     "List the locks of a kind", "listLocks", .reply = "locks:[Lock]", .errors = NOT_FOUND,
     ROUTE_IN(IN, KIND)},
    {METHOD_GET, "/v1/locks/{kind}/{name}", get_lock, ROLE_READ | ROUTE_WORKER, "Show a lock",
     "getLock", .reply = "lock:Lock token:int", .errors = NOT_FOUND, ROUTE_IN(IN, KIND, NAME)},
    {METHOD_PUT, "/v1/locks/{kind}/{name}", put_lock, ROLE_WORK | ROUTE_WORKER, "Take a lock",
     "takeLock", .reply = "lock:Lock token:int",
     .errors = "404 No such kind\n409 Another has it\n410 The session has ended\n503",
     ROUTE_IN(IN, KIND, NAME, SESSION,
              FIELD_TEXT(IN_BODY, IN, who, "who", 0, TEXT_MAX, "Who takes it"))},
    {METHOD_DELETE, "/v1/locks/{kind}/{name}", delete_lock, ROLE_WORK | ROUTE_WORKER,
     "Release a lock with its token, or break it", "releaseLock", .reply = "()", .errors = REFUSED,
     ROUTE_IN(IN, KIND, NAME, SESSION, TOKEN,
              FIELD_BOOL(IN_BODY, IN, force, "force", "Break it without the token"),
              FIELD_INT(IN_QUERY, IN, token, "token", 0, INT64_MAX, "Token of the lock"),
              FIELD_BOOL(IN_QUERY, IN, force, "force", "Break it without the token"))},

    {METHOD_POST, "/v1/access/{queue}", post_item, ROLE_SUBMIT | ROUTE_WORKER,
     "Create an access item", "createAccess", .reply = "access:text", .errors = "503",
     .example = "{\"token\": \"t\", \"url\": \"https://example.org/t\"}",
     ROUTE_IN(IN, QUEUE,
              FIELD_JSON(IN_BODY | REQUIRED, IN, body, "", "object",
                         "The data of the token node, or {\"token\": {...}}"))},
    {METHOD_GET, "/v1/access/{queue}", list_items, ROLE_READ | ROUTE_WORKER, "List access items",
     "listAccess", .reply = "access:[Access] next?:text", .errors = "503",
     ROUTE_IN(IN, QUEUE, STATE, AFTER("item"),
              FIELD_INT(IN_QUERY, IN, limit, "limit", 0, INT64_MAX,
                        "At most so many, and at most 10,000; 0: all of them"))},
    {METHOD_POST, "/v1/access/{queue}/acquire", acquire_item, ROLE_WORK | ROUTE_WORKER,
     "Lock an access item", "acquireAccess", .reply = "access:Access|null token?:int",
     .errors = ACQUIRED, .example = "{\"session\": \"S\", \"wait\": 0}",
     ROUTE_IN(IN, QUEUE, OWNER, WAIT)},
    PURGE_ITEMS("/v1/access/{queue}", "access items in a final state", "purgeAccess", "", QUEUE, ),
    COUNT_ITEMS("/v1/access/{queue}", "access items", "countAccess", ROUTE_IN(IN, QUEUE)),
    {METHOD_GET, "/v1/access/{queue}/{id}", get_item, ROLE_READ | ROUTE_WORKER,
     "Show an access item", "getAccess", .reply = "access:Access", .errors = NOT_FOUND,
     ROUTE_IN(IN, QUEUE, ITEM)},
    {METHOD_DELETE, "/v1/access/{queue}/{id}", delete_item, ROLE_WORK | ROUTE_WORKER,
     "Delete an access item in a final state", "deleteAccess", .reply = "()", .errors = CHANGED,
     ROUTE_IN(IN, QUEUE, ITEM)},
    {METHOD_PUT, "/v1/access/{queue}/{id}/state", move_item, ROLE_WORK | ROUTE_WORKER,
     "Move an access item", "moveAccess", .reply = "access:text state:text", .errors = REFUSED,
     .example = "{\"state\": \"next\"}", ROUTE_IN(IN, QUEUE, ITEM, TO, MESSAGE, TOKEN, SESSION)},
    {METHOD_PUT, "/v1/access/{queue}/{id}/token", put_field, ROLE_WORK | ROUTE_WORKER,
     "Set fields of the token of an access item", "setAccessToken", .reply = "access:Access",
     .errors = CHANGED, .example = "{\"status\": \"ready\", \"url\": \"https://example.org/t\"}",
     ROUTE_IN(IN, QUEUE, ITEM,
              FIELD_JSON(IN_BODY | REQUIRED, IN, body, "", "object",
                         "The fields, or {\"value\": {...}} and a token; null removes a field, "
                         "others stay"))},

    {METHOD_GET, "/v1/legacy", get_legacy, ROLE_READ | ROUTE_WORKER, "List mrtQ- records",
     "listLegacy",
     .reply = "records:[(name:text status:text priority?:int number?:int time?:text payload?:text "
              "configuration?:object imported?:text|null)]",
     .errors = NOT_FOUND,
     ROUTE_IN(IN, FIELD_TEXT(IN_QUERY, IN, path, "path", 1, TEXT_MAX,
                             "The parent node; /ingest unless given"))},
    {METHOD_POST, "/v1/legacy", post_legacy, ROLE_SUBMIT | ROUTE_WORKER,
     "Import mrtQ- records as jobs", "importLegacy", .reply = "jobs:[text]", .errors = CHANGED,
     ROUTE_IN(
         IN,
         FIELD_TEXT(IN_BODY, IN, path, "path", 1, TEXT_MAX,
                    "The parent node; /ingest unless given"),
         FIELD_TEXT(IN_BODY, IN, batch, "batch", 1, TEXT_MAX, "Into this batch, else a new one"),
         FIELD_BOOL(IN_BODY, IN, all, "all", "Also records that are not pending"),
         FIELD_BOOL(IN_BODY, IN, remove, "delete", "Delete the records"))},
    {METHOD_GET, "/v1/machines", get_machines, ROLE_READ | ROUTE_WORKER,
     "Show the states of batches, jobs and access items", "getMachines",
     .reply = "batch:Machine job:Machine access:Machine"},
};

#define ITEM_SHAPE "id:text state:text status:object locked:bool "

static const struct route_shape SHAPES[] = {
    {"Batch", "(" ITEM_SHAPE "submission:any status-report:any states:{int})"},
    {"Job", "(" ITEM_SHAPE "batch:text priority:int configuration:any identifiers:any metadata:any "
            "inventory:any space_needed:any store?:any)"},
    {"Access", "(" ITEM_SHAPE "queue:=small|large token:any)"},
    {"Lock", "(kind:=queue|storage|inventory|collections|localid name:text node:text who:text|null "
             "when:text|null age:int ephemeral:bool token:int)"},
    {"Machine", "(first:text states:[(name:text to:[text] success?:text fail?:text end:bool "
                "batch:text)])"},
};

struct route_table batch_server_routes(void *module)
{
    return (struct route_table){ROUTES,           sizeof ROUTES / sizeof *ROUTES,
                                module,           .tag = "Batches",
                                .shapes = SHAPES, .shape_count = sizeof SHAPES / sizeof *SHAPES};
}
