/* drover batch, job, lock, access, legacy: tables of their commands. */
#include <inttypes.h>

#include "base/human.h"
#include "cli/batch.h"
#include "cli/verb.h"

/* Options that several commands take. */
#define STATE_OPTION OPTION("state", "STATE", "A state: Pending, Estimating, ...", option_text)
#define MESSAGE_OPTION                                                                             \
    OPTION("message", "TEXT", "Store this text with the status. Empty: remove it.", option_any_text)
#define TOKEN_OPTION                                                                               \
    OPTION("token", "N", "The token that acquiring it returned.", option_number, NULL, 0, INT64_MAX)
#define SESSION_OPTION OPTION("session", "ID", "The session that holds the lock.", option_text)
#define KEEP_OPTION OPTION("keep", NULL, "Keep the lock for the next change.", option_flag)
#define LIMIT_OPTION                                                                               \
    OPTION("limit", "N", "At most N; 0: all. Default: 1000.", option_number, NULL, 0, INT32_MAX)
#define TIMEOUT_OPTION                                                                             \
    OPTION("timeout", "TIME", "Timeout of the session opened without --session. Default: 60s.",    \
           option_span, NULL, 1000, 3600 * 1000)
#define WAIT_OPTION                                                                                \
    OPTION("wait", "TIME", "Wait this long for one. Default: do not wait.", option_span, NULL, 0,  \
           60 * 1000)
#define ACQUIRE_OPTIONS SESSION_OPTION, WAIT_OPTION, TIMEOUT_OPTION

#define ACQUIRE (VERB_SESSION | VERB_ACQUIRE)

/* What lists show. */

static const struct verb_column BATCHES[] = {
    {{"BATCH"}, "id"},
    {{"STATE"}, "state", VERB_STATE},
    {{"PROCESSING", true}, "states.batch-processing", VERB_NUMBER},
    {{"FAILED", true}, "states.batch-failed", VERB_NUMBER},
    {{"COMPLETED", true}, "states.batch-completed", VERB_NUMBER},
    {{"DELETED", true}, "states.batch-deleted", VERB_NUMBER},
    {{"LOCK"}, "locked", VERB_FLAG, "locked", TERM_DIM},
    {{"PROFILE"}, "submission.profile_name"},
    {{0}},
};

static const struct verb_column JOBS[] = {
    {{"JOB"}, "id"},
    {{"STATE"}, "state", VERB_STATE},
    {{"PRIORITY", true}, "priority", VERB_PRIORITY},
    {{"BATCH"}, "batch"},
    {{"RETRIES", true}, "status.retry_count", VERB_NUMBER},
    {{"LOCK"}, "locked", VERB_FLAG, "locked", TERM_DIM},
    {{"PROFILE"}, "configuration.profile_name"},
    {{"MESSAGE"}, "status.message"},
    {{0}},
};

static const struct verb_column LOCKS[] = {
    {{"KIND"}, "kind"},
    {{"NAME"}, "name"},
    {{"WHO"}, "who"},
    {{"AGE", true}, "age", VERB_SPAN},
    {{"TOKEN", true}, "token", VERB_NUMBER},
    {{0}},
};

static const struct verb_column ACCESS[] = {
    {{"ID"}, "id"},
    {{"STATE"}, "state", VERB_STATE},
    {{"LOCK"}, "locked", VERB_FLAG, "locked", TERM_DIM},
    {{"TOKEN"}, "token", VERB_RAW},
    {{0}},
};

static const struct verb_column RECORDS[] = {
    {{"RECORD"}, "name"},
    {{"STATUS"}, "status"},
    {{"PRIORITY", true}, "priority", VERB_NUMBER},
    {{"NUMBER", true}, "number", VERB_NUMBER},
    {{"TIME"}, "time"},
    {{"PAYLOAD"}, "payload"},
    {{"IMPORTED"}, "imported"},
    {{0}},
};

static int print_lock(const struct json *reply)
{
    verb_print_members(reply);
    if (verb_session) {
        printf("session: ");
        term_line(stdout, str_of(verb_session), ESCAPE_LINE);
    }
    return CMD_OK;
}

static int64_t findings_left(const struct json *reply)
{
    const struct json *findings = json_get(reply, "findings");
    return (findings ? findings->count : 0) - json_int_of(reply, "repaired");
}

static int status_of_findings(const struct json *reply)
{
    return findings_left(reply) ? CMD_FAILURE : CMD_OK;
}

static int print_findings(const struct json *reply)
{
    static const struct verb_column columns[] = {
        {{"WHERE"}, "id"},
        {{"PROBLEM"}, "problem"},
        {{"REPAIRED"}, "repaired", VERB_FLAG, "yes|no"},
        {{0}},
    };
    const struct json *findings = json_get(reply, "findings");
    char batches[HUMAN_SIZE], jobs[HUMAN_SIZE];
    verb_print_columns(findings, columns);
    fprintf(stderr, "checked %s and %s: %" PRId64 " repaired, %" PRId64 " left\n",
            human_count(batches, (uint64_t)json_int_of(reply, "batches"), "batch"),
            human_count(jobs, (uint64_t)json_int_of(reply, "jobs"), "job"),
            json_int_of(reply, "repaired"), findings_left(reply));
    return CMD_OK;
}

/* {"counts": {"Pending": 3, ...}, "total": 3} */
static int print_counts(const struct json *reply)
{
    const struct json *counts = json_get(reply, "counts");
    CLEANUP(buf_release) struct buf b = {0};
    for (const struct json *state = counts ? counts->first : NULL; state; state = state->next) {
        buf_printf(&b, "%8" PRId64 "  ", state->number);
        term_put_safe(&b, state->key, SIZE_MAX);
        buf_printf(&b, "\n");
    }
    printf("%s%8" PRId64 "  total\n", buf_text(&b), json_int_of(reply, "total"));
    return CMD_OK;
}

/*
 * purge: a server removes up to a thousand items for each request, so it is sent until no more are
 * left.
 */

#define PURGE_OPTIONS                                                                              \
    CMD_OPTIONS(                                                                                   \
        {"age", "TIME", "Only what ended this long ago. Default: all that ended.", option_span,    \
         NULL, 0, INT64_MAX},                                                                      \
        {"state", "STATE", "Only in this final state: Completed or Deleted.", option_text})

static void print_purged(int64_t removed, int64_t jobs, int64_t locked, const char *noun)
{
    char items[HUMAN_SIZE], more[HUMAN_SIZE];
    printf("removed %s", human_count(items, (uint64_t)removed, noun));
    if (strcmp(noun, "batch") == 0)
        printf(" and %s", human_count(more, (uint64_t)jobs, "job"));
    if (locked)
        printf("; %" PRId64 " locked and left", locked);
    putchar('\n');
}

static int purge(const struct cmd_call *call, const char *path, const char *noun)
{
    CLEANUP(client_close) struct client c = {0};
    CLEANUP(buf_release) struct buf body = {0};
    struct client_reply reply;
    const struct json *more;
    int64_t removed = 0, jobs = 0, locked;

    TRY(client_open(&c, &call->client));
    json_open(&body, '{');
    json_member_int(&body, "age", call->values[0].given ? call->values[0].number : 0);
    if (call->values[1].given)
        json_member_text(&body, "state", str_of(call->values[1].text));
    json_close(&body, '}');
    do {
        TRY(client_call(&c, &reply, buf_text(&body), "POST %s/purge", path));
        removed += json_int_of(reply.json, "removed");
        jobs += json_int_of(reply.json, "jobs");
        locked = json_int_of(reply.json, "locked");
        more = json_get(reply.json, "more");
    } while (more && more->kind == JSON_BOOL && more->truth);
    if (call->client.json)
        printf("{\"removed\":%" PRId64 ",\"jobs\":%" PRId64 ",\"locked\":%" PRId64 "}\n", removed,
               jobs, locked);
    else
        print_purged(removed, jobs, locked, noun);
    return CMD_OK;
}

static int purge_batches(const struct cmd_call *call)
{
    return purge(call, "/v1/batches", "batch");
}

static int purge_jobs(const struct cmd_call *call)
{
    return purge(call, "/v1/jobs", "job");
}

static int purge_access(const struct cmd_call *call)
{
    bool large = strcmp(call->operands[0], "large") == 0;
    if (!large && strcmp(call->operands[0], "small") != 0)
        return client_misuse("'%s' is not an access queue: small or large", call->operands[0]);
    return purge(call, large ? "/v1/access/large" : "/v1/access/small", "access item");
}

/* batch */

static const struct cmd *const BATCH_COMMANDS[] = {
    VERB_CMD(
        "batch create", "create a batch from a submission", "SUBMISSION",
        "Creates a batch from a submission, JSON ('-': standard input). Its batchID, if it has\n"
        "one, is the UUID by which the batch can be found. Prints the BID.",
        NULL, "POST", "/v1/batches", "submission:1", .print = verb_print_word),
    VERB_CMD("batch ls", "list batches", NULL,
             "Lists batches, with the number of their jobs that are processing, failed, completed\n"
             "and deleted.",
             CMD_OPTIONS(STATE_OPTION, LIMIT_OPTION,
                         {"after", "BID", "Start after this batch.", option_text}),
             "GET", "/v1/batches", .list = "batches", .page = {"after", 1000, 1000},
             .columns = BATCHES),
    CMD("batch show", "show a batch and its jobs", "BID",
        "Shows a batch: its jobs by state, and how many have ended.", NULL, CMD_JSON, batch_show),
    VERB_CMD("batch find", "find a batch by its UUID", "UUID",
             "Finds a batch by the UUID of its submission.", NULL, "GET", "/v1/batches?uuid={1}",
             .list = "batches", .columns = BATCHES),
    VERB_CMD("batch acquire", "acquire a batch that waits for a worker", NULL,
             "Acquires the oldest batch that waits for a worker. Prints BID, token and session.\n"
             "Exit status 3: there is none.",
             CMD_OPTIONS({"for", "pending|reporting|updatereporting",
                          "What the batch waits for. Default: pending.", option_choice},
                         ACQUIRE_OPTIONS),
             "POST", "/v1/batches/acquire", .flags = ACQUIRE),
    VERB_CMD("batch state", "move a batch to a state", "BID STATE",
             "Moves a batch to a state, or to 'next'. Moving it from Reporting commits its report.",
             CMD_OPTIONS(MESSAGE_OPTION, TOKEN_OPTION, SESSION_OPTION, KEEP_OPTION), "PUT",
             "/v1/batches/{1}/state", "state=2", .print = verb_print_state),
    VERB_CMD("batch hold", "hold a batch", "BID",
             "Holds a batch that is pending: its jobs are not handed out.",
             CMD_OPTIONS(MESSAGE_OPTION), "POST", "/v1/batches/{1}/hold",
             .print = verb_print_state),
    VERB_CMD("batch release", "release a batch", "BID", "Releases a batch that is held.", NULL,
             "POST", "/v1/batches/{1}/release", .print = verb_print_state),
    VERB_CMD("batch delete", "delete a batch and its jobs", "BID",
             "Deletes a batch that is Completed or Deleted, and its jobs.", NULL, "DELETE",
             "/v1/batches/{1}"),
    VERB_CMD("batch counts", "count batches by state", NULL, "Counts batches by state.", NULL,
             "GET", "/v1/batches/counts", .print = print_counts),
    CMD("batch purge", "delete batches that ended", NULL,
        "Deletes all batches that are Completed or Deleted, and their jobs. Prints how many.",
        PURGE_OPTIONS, CMD_JSON, purge_batches),
    VERB_CMD(
        "batch fsck", "find and repair inconsistencies", NULL,
        "Finds what clients that work without transactions left half done: jobs in no list or\n"
        "in two, entries without a job, items that were not wholly created or deleted, batches\n"
        "that nobody works on. Exit status 1: something is left to repair.",
        CMD_OPTIONS({"repair", NULL, "Repair what can be repaired.", option_flag},
                    {"age", "TIME",
                     "Leave what is unfinished and younger than this to its client. Default: 1m.",
                     option_span, NULL, 0, INT64_MAX}),
        "POST", "/v1/batches/fsck", .print = print_findings, .status = status_of_findings),
    NULL,
};

const struct cmd cmd_batch =
    CMD_GROUP("batch", "batches of jobs", "Batches of jobs. The end of a batch is reported once.",
              BATCH_COMMANDS, .heading = "Batches");

/* job */

static const struct cmd *const JOB_COMMANDS[] = {
    VERB_CMD(
        "job create", "create a job in a batch", "BID JOB",
        "Creates a job in a batch from JSON ('-': standard input): {\"configuration\",\n"
        "\"priority\", \"identifiers\", \"metadata\", \"space_needed\"}, or {\"jobs\": [...]} for\n"
        "several at once. Prints the JID.",
        NULL, "POST", "/v1/batches/{1}/jobs", ":2", .print = verb_print_word),
    VERB_CMD("job ls", "list jobs", NULL, "Lists jobs, by state and then by priority.",
             CMD_OPTIONS(STATE_OPTION, {"batch", "BID", "Only of this batch.", option_text},
                         {"profile", "NAME", "Only of this profile.", option_text}, LIMIT_OPTION,
                         {"start", "N", "Skip the first N.", option_number, NULL, 0, INT64_MAX}),
             "GET", "/v1/jobs", .list = "jobs", .page = {"start", 1000, 1000}, .columns = JOBS),
    VERB_CMD("job show", "show a job", "JID", "Shows a job.", NULL, "GET", "/v1/jobs/{1}",
             .print = verb_print_members),
    VERB_CMD("job acquire", "acquire the first job of a state", NULL,
             "Acquires the first job of a state, by priority. Prints JID, token and session. Exit\n"
             "status 3: there is none.",
             CMD_OPTIONS(STATE_OPTION, ACQUIRE_OPTIONS), "POST", "/v1/jobs/acquire",
             .flags = ACQUIRE, .requires = "state"),
    VERB_CMD("job state", "move a job to a state", "JID STATE",
             "Moves a job to a state, to 'next' or to 'fail'.",
             CMD_OPTIONS(MESSAGE_OPTION,
                         {"priority", "N", "The priority from now on: 0 (first) to 99.",
                          option_number, NULL, 0, 99},
                         TOKEN_OPTION, SESSION_OPTION, KEEP_OPTION),
             "PUT", "/v1/jobs/{1}/state", "state=2", .print = verb_print_state),
    &cmd_job_work,
    VERB_CMD("job set", "set a field of a job", "JID FIELD VALUE",
             "Sets priority, space_needed, identifiers, metadata, inventory or, with the pipeline\n"
             "'storing', store to a JSON value.",
             CMD_OPTIONS(TOKEN_OPTION, SESSION_OPTION), "PUT", "/v1/jobs/{1}/{2}", "value:3"),
    VERB_CMD("job hold", "hold a job", "JID", "Holds a job that is pending.",
             CMD_OPTIONS(MESSAGE_OPTION), "POST", "/v1/jobs/{1}/hold"),
    VERB_CMD("job release", "release a job", "JID", "Releases a job that is held.", NULL, "POST",
             "/v1/jobs/{1}/release"),
    VERB_CMD("job release-profile", "release all jobs of a profile", "NAME",
             "Releases all jobs of a profile that are held. Prints how many.", NULL, "POST",
             "/v1/jobs/release", "profile=1", .print = verb_print_word),
    VERB_CMD("job requeue", "retry a failed job", "JID",
             "Retries a job that failed, from the first state or --state.",
             CMD_OPTIONS(STATE_OPTION, MESSAGE_OPTION), "POST", "/v1/jobs/{1}/requeue"),
    VERB_CMD("job delete", "delete a job", "JID", "Deletes a job that is Completed or Deleted.",
             NULL, "DELETE", "/v1/jobs/{1}"),
    VERB_CMD("job counts", "count jobs by state", NULL, "Counts jobs by state.", NULL, "GET",
             "/v1/jobs/counts", .print = print_counts),
    CMD("job purge", "delete jobs that ended", NULL,
        "Deletes all jobs that are Completed or Deleted, except those of a batch that still has\n"
        "to be reported. Prints how many.",
        PURGE_OPTIONS, CMD_JSON, purge_jobs),
    NULL,
};

const struct cmd cmd_job =
    CMD_GROUP("job", "jobs that move from state to state",
              "Jobs that move from state to state, by priority.", JOB_COMMANDS);

/* lock */

static const struct cmd *const LOCK_COMMANDS[] = {
    VERB_CMD("lock ls", "list locks", NULL, "Lists the locks by name, with their age.", NULL, "GET",
             "/v1/locks", .list = "locks", .columns = LOCKS),
    VERB_CMD("lock show", "show a lock", "KIND NAME", "Shows a lock.", NULL, "GET",
             "/v1/locks/{1}/{2}", .print = verb_print_members),
    VERB_CMD(
        "lock take", "take a lock", "KIND NAME",
        "Takes a lock. 'queue ingest|accessSmall|accessLarge' and 'collections MNEMONIC' stay\n"
        "until they are released. 'storage ARK', 'inventory ARK' and 'localid ID' end with\n"
        "--session; without it, with a new session of --timeout, which is printed.",
        CMD_OPTIONS({"who", "NAME", "The holder, for others to see.", option_text}, SESSION_OPTION,
                    TIMEOUT_OPTION),
        "PUT", "/v1/locks/{1}/{2}", .flags = VERB_SESSION,
        .session_for = "storage|inventory|localid", .print = print_lock),
    VERB_CMD(
        "lock release", "release a lock", "KIND NAME",
        "Releases a lock. A lock that belongs to a worker (storage, inventory, localid, jobs,\n"
        "batches) needs its --token.",
        CMD_OPTIONS(TOKEN_OPTION), "DELETE", "/v1/locks/{1}/{2}"),
    VERB_CMD("lock break", "break a lock", "KIND NAME",
             "Breaks a lock, whoever holds it; also 'jobs JID' and 'batches BID'. Its token is no\n"
             "longer valid.",
             NULL, "DELETE", "/v1/locks/{1}/{2}?force=1"),
    NULL,
};

const struct cmd cmd_lock = CMD_GROUP(
    "lock", "locks of queues, collections and objects",
    "Locks by name: of queues, collections, storage, inventory and local ids.", LOCK_COMMANDS);

/* access */

static const struct cmd *const ACCESS_COMMANDS[] = {
    VERB_CMD("access create", "create an access item", "small|large TOKEN",
             "Creates an access item from JSON ('-': standard input). Prints its id.", NULL, "POST",
             "/v1/access/{1}", ":2", .print = verb_print_word),
    VERB_CMD("access ls", "list access items", "small|large", "Lists access items.",
             CMD_OPTIONS(STATE_OPTION), "GET", "/v1/access/{1}", .list = "access",
             .page = {"after", 1000, 0}, .columns = ACCESS),
    VERB_CMD("access show", "show an access item", "small|large ID", "Shows an access item.", NULL,
             "GET", "/v1/access/{1}/{2}", .print = verb_print_members),
    VERB_CMD("access acquire", "acquire an access item", "small|large",
             "Acquires an access item. Prints id, token and session. Exit status 3: there is none.",
             CMD_OPTIONS(ACQUIRE_OPTIONS), "POST", "/v1/access/{1}/acquire", .flags = ACQUIRE),
    VERB_CMD("access state", "move an access item to a state", "small|large ID STATE",
             "Moves an access item to a state, to 'next' or to 'fail'.",
             CMD_OPTIONS(MESSAGE_OPTION, TOKEN_OPTION, SESSION_OPTION), "PUT",
             "/v1/access/{1}/{2}/state", "state=3", .print = verb_print_state),
    VERB_CMD(
        "access set", "set fields of an access item", "small|large ID TOKEN",
        "Sets fields of the token of an access item from JSON ('-': standard input): \"status\",\n"
        "\"url\", \"anticipated-availability-time\". Null removes a field; the others stay.",
        CMD_OPTIONS(TOKEN_OPTION, SESSION_OPTION), "PUT", "/v1/access/{1}/{2}/token", "value:3"),
    VERB_CMD("access counts", "count access items by state", "small|large",
             "Counts access items by state.", NULL, "GET", "/v1/access/{1}/counts",
             .print = print_counts),
    CMD("access purge", "delete access items that ended", "small|large",
        "Deletes all access items that are Completed or Deleted. Prints how many.", PURGE_OPTIONS,
        CMD_JSON, purge_access),
    VERB_CMD("access delete", "delete an access item", "small|large ID",
             "Deletes an access item that is Completed or Deleted.", NULL, "DELETE",
             "/v1/access/{1}/{2}"),
    NULL,
};

const struct cmd cmd_access = CMD_GROUP("access", "the access queues",
                                        "The access queues, small and large.", ACCESS_COMMANDS);

/* legacy */

static const struct cmd *const LEGACY_COMMANDS[] = {
    VERB_CMD("legacy ls", "list records", "PATH",
             "Lists the mrtQ- records below a node of the tree, such as /ingest.", NULL, "GET",
             "/v1/legacy?path={1}", .list = "records", .columns = RECORDS),
    VERB_CMD(
        "legacy import", "import records as jobs", "PATH",
        "Imports the pending mrtQ- records below a node as jobs of --batch, or of a new batch,\n"
        "each once. Prints the JIDs.",
        CMD_OPTIONS({"batch", "BID", "Import into this batch.", option_text},
                    {"all", NULL, "Also records that are not pending.", option_flag},
                    {"delete", NULL, "Delete the imported records.", option_flag}),
        "POST", "/v1/legacy", "path=1", .print = verb_print_word),
    NULL,
};

const struct cmd cmd_legacy =
    CMD_GROUP("legacy", "records of older queues",
              "Records of the queues that Merritt used before.", LEGACY_COMMANDS);
