/* drover batch, job, lock, access, legacy: tables of their commands. */
#include "cli/batch_verb.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

#define VERB(fn, ...)                                                                              \
    static int fn(int argc, char **argv)                                                           \
    {                                                                                              \
        static const struct verb v = {__VA_ARGS__};                                                \
                                                                                                   \
        return verb_run(&v, argc, argv);                                                           \
    }

#define ACQUIRE (VERB_SESSION | VERB_WAIT | VERB_TIMEOUT)

VERB(batch_create_cmd, .name = "batch create", .operands = "SUBMISSION", .min = 1, .max = 1,
     .about =
         "Makes a batch from a submission, JSON ('-': standard input). Its batchID, where it has\n"
         "one, is the UUID by which it can be found. Prints the BID.",
     .method = "POST", .path = "/v1/batches", .json = {"submission", "1"}, .print = print_word)
VERB(batch_ls_cmd, .name = "batch ls", .about = "Lists batches with their jobs by list.",
     .method = "GET", .path = "/v1/batches", .takes = VERB_STATE | VERB_LIMIT | VERB_AFTER,
     .print = print_batches)
VERB(batch_find_cmd, .name = "batch find", .operands = "UUID", .min = 1, .max = 1,
     .about = "Finds a batch by the UUID of its submission.", .method = "GET",
     .path = "/v1/batches?uuid={1}", .print = print_batches)
VERB(batch_acquire_cmd, .name = "batch acquire",
     .about =
         "Takes the oldest batch that waits for somebody. Prints BID, token and session. Exit\n"
         "status 3: there is none.",
     .method = "POST", .path = "/v1/batches/acquire", .takes = VERB_FOR | ACQUIRE)
VERB(batch_state_cmd, .name = "batch state", .operands = "BID STATE", .min = 2, .max = 2,
     .about = "Moves a batch on: to a state, or next. Moving it from Reporting commits its report.",
     .method = "PUT", .path = "/v1/batches/{1}/state", .text = {"state", "2"},
     .takes = VERB_MESSAGE | VERB_TOKEN | VERB_SESSION | VERB_KEEP, .print = print_state)
VERB(batch_hold_cmd, .name = "batch hold", .operands = "BID", .min = 1, .max = 1,
     .about = "Holds a batch that is pending: its jobs are not given out.", .method = "POST",
     .path = "/v1/batches/{1}/hold", .takes = VERB_MESSAGE, .print = print_state)
VERB(batch_release_cmd, .name = "batch release", .operands = "BID", .min = 1, .max = 1,
     .about = "Releases a batch that is held.", .method = "POST", .path = "/v1/batches/{1}/release",
     .print = print_state)
VERB(batch_delete_cmd, .name = "batch delete", .operands = "BID", .min = 1, .max = 1,
     .about = "Deletes a batch that is Completed or Deleted, and its jobs.", .method = "DELETE",
     .path = "/v1/batches/{1}")
VERB(
    batch_fsck_cmd, .name = "batch fsck",
    .about =
        "Looks for what clients that work without transactions left half done: jobs in no list\n"
        "or in two, entries without a job, batches that ended unnoticed. Exit status 1: something\n"
        "is left.",
    .method = "POST", .path = "/v1/batches/fsck", .takes = VERB_REPAIR, .print = print_findings)

VERB(job_create_cmd, .name = "job create", .operands = "BID JOB", .min = 2, .max = 2,
     .about = "Makes a job in a batch from JSON ('-': standard input): {\"configuration\", "
              "\"priority\",\n"
              "\"identifiers\", \"metadata\", \"space_needed\"}, or {\"jobs\": [...]} for several "
              "at once.\n"
              "Prints the JID.",
     .method = "POST", .path = "/v1/batches/{1}/jobs", .json = {"", "2"}, .print = print_word)
VERB(job_ls_cmd, .name = "job ls", .about = "Lists jobs, by state and in it by priority.",
     .method = "GET", .path = "/v1/jobs",
     .takes = VERB_STATE | VERB_BATCH | VERB_PROFILE | VERB_LIMIT | VERB_START, .print = print_jobs)
VERB(job_show_cmd, .name = "job show", .operands = "JID", .min = 1, .max = 1,
     .about = "Shows a job.", .method = "GET", .path = "/v1/jobs/{1}", .print = print_members)
VERB(job_acquire_cmd, .name = "job acquire",
     .about =
         "Takes the first job of a state, by priority. Prints JID, token and session. Exit status\n"
         "3: there is none.",
     .method = "POST", .path = "/v1/jobs/acquire", .takes = VERB_STATE | ACQUIRE,
     .needs_state = true)
VERB(job_state_cmd, .name = "job state", .operands = "JID STATE", .min = 2, .max = 2,
     .about = "Moves a job: to a state, next or fail.", .method = "PUT",
     .path = "/v1/jobs/{1}/state", .text = {"state", "2"},
     .takes = VERB_MESSAGE | VERB_PRIORITY | VERB_TOKEN | VERB_SESSION | VERB_KEEP,
     .print = print_state)
VERB(job_set_cmd, .name = "job set", .operands = "JID FIELD VALUE", .min = 3, .max = 3,
     .about = "Sets priority, space_needed, identifiers, metadata or inventory to a JSON value.",
     .method = "PUT", .path = "/v1/jobs/{1}/{2}", .json = {"value", "3"},
     .takes = VERB_TOKEN | VERB_SESSION)
VERB(job_hold_cmd, .name = "job hold", .operands = "JID", .min = 1, .max = 1,
     .about = "Holds a job that is pending.", .method = "POST", .path = "/v1/jobs/{1}/hold",
     .takes = VERB_MESSAGE)
VERB(job_release_cmd, .name = "job release", .operands = "JID", .min = 1, .max = 1,
     .about = "Releases a job that is held.", .method = "POST", .path = "/v1/jobs/{1}/release")
VERB(job_release_profile_cmd, .name = "job release-profile", .operands = "NAME", .min = 1, .max = 1,
     .about = "Releases all jobs of a profile that are held. Prints how many.", .method = "POST",
     .path = "/v1/jobs/release", .text = {"profile", "1"}, .print = print_word)
VERB(job_requeue_cmd, .name = "job requeue", .operands = "JID", .min = 1, .max = 1,
     .about = "Tries a job that failed again, from the first state or --state.", .method = "POST",
     .path = "/v1/jobs/{1}/requeue", .takes = VERB_STATE | VERB_MESSAGE)
VERB(job_delete_cmd, .name = "job delete", .operands = "JID", .min = 1, .max = 1,
     .about = "Deletes a job that is Completed or Deleted.", .method = "DELETE",
     .path = "/v1/jobs/{1}")

VERB(lock_ls_cmd, .name = "lock ls", .about = "Lists the locks by name, with their age.",
     .method = "GET", .path = "/v1/locks", .print = print_locks)
VERB(lock_show_cmd, .name = "lock show", .operands = "KIND NAME", .min = 2, .max = 2,
     .about = "Shows a lock.", .method = "GET", .path = "/v1/locks/{1}/{2}", .print = print_members)
VERB(lock_take_cmd, .name = "lock take", .operands = "KIND NAME", .min = 2, .max = 2,
     .about =
         "Takes a lock: queue ingest|accessSmall|accessLarge and collections MNEMONIC stay until\n"
         "they are released; storage ARK and inventory ARK go with their --session: without it,\n"
         "with one of --timeout that is opened and printed.",
     .method = "PUT", .path = "/v1/locks/{1}/{2}", .takes = VERB_WHO | VERB_SESSION | VERB_TIMEOUT,
     .print = print_members)
VERB(lock_release_cmd, .name = "lock release", .operands = "KIND NAME", .min = 2, .max = 2,
     .about =
         "Gives a lock back. A lock that belongs to a worker (storage, inventory, jobs, batches)\n"
         "needs its --token.",
     .method = "DELETE", .path = "/v1/locks/{1}/{2}", .takes = VERB_TOKEN)
VERB(lock_break_cmd, .name = "lock break", .operands = "KIND NAME", .min = 2, .max = 2,
     .about =
         "Breaks a lock, whoever holds it: also 'jobs JID' and 'batches BID'. Its token is no\n"
         "longer valid.",
     .method = "DELETE", .path = "/v1/locks/{1}/{2}", .fixed = "force=1")

VERB(access_create_cmd, .name = "access create", .operands = "small|large TOKEN", .min = 2,
     .max = 2, .about = "Makes an access item from JSON ('-': standard input). Prints its id.",
     .method = "POST", .path = "/v1/access/{1}", .json = {"", "2"}, .print = print_word)
VERB(access_ls_cmd, .name = "access ls", .operands = "small|large", .min = 1, .max = 1,
     .about = "Lists access items.", .method = "GET", .path = "/v1/access/{1}", .takes = VERB_STATE,
     .print = print_access)
VERB(access_show_cmd, .name = "access show", .operands = "small|large ID", .min = 2, .max = 2,
     .about = "Shows an access item.", .method = "GET", .path = "/v1/access/{1}/{2}",
     .print = print_members)
VERB(access_acquire_cmd, .name = "access acquire", .operands = "small|large", .min = 1, .max = 1,
     .about = "Takes an access item. Prints id, token and session. Exit status 3: there is none.",
     .method = "POST", .path = "/v1/access/{1}/acquire", .takes = ACQUIRE)
VERB(access_state_cmd, .name = "access state", .operands = "small|large ID STATE", .min = 3,
     .max = 3, .about = "Moves an access item on: to a state, next or fail.", .method = "PUT",
     .path = "/v1/access/{1}/{2}/state", .text = {"state", "3"},
     .takes = VERB_MESSAGE | VERB_TOKEN | VERB_SESSION, .print = print_state)
VERB(access_delete_cmd, .name = "access delete", .operands = "small|large ID", .min = 2, .max = 2,
     .about = "Deletes an access item that is Completed or Deleted.", .method = "DELETE",
     .path = "/v1/access/{1}/{2}")

VERB(legacy_ls_cmd, .name = "legacy ls", .operands = "PATH", .min = 1, .max = 1,
     .about = "Lists the mrtQ- records below a node of the tree, such as /ingest.", .method = "GET",
     .path = "/v1/legacy?path={1}", .print = print_legacy)
VERB(legacy_import_cmd, .name = "legacy import", .operands = "PATH", .min = 1, .max = 1,
     .about =
         "Imports the pending mrtQ- records below a node as jobs of --batch, or of a new batch,\n"
         "each once. Prints the JIDs.",
     .method = "POST", .path = "/v1/legacy", .text = {"path", "1"},
     .takes = VERB_BATCH | VERB_ALL | VERB_DELETE, .print = print_word)

#define GROUP(fn, word, sentence, ...)                                                             \
    int fn(int argc, char **argv)                                                                  \
    {                                                                                              \
        static const struct cmd_sub subs[] = {__VA_ARGS__};                                        \
        static const struct cmd_group group = {                                                    \
            .name = word, .about = sentence, .subs = subs, .sub_count = COUNT(subs)};              \
                                                                                                   \
        return cmd_group_run(&group, argc, argv);                                                  \
    }

GROUP(cmd_batch, "batch", "Batches of jobs, each reported once when its jobs have ended.",
      {"create", "make a batch from a submission", batch_create_cmd},
      {"ls", "list batches", batch_ls_cmd}, {"show", "show a batch and its jobs", cmd_batch_show},
      {"find", "find a batch by its UUID", batch_find_cmd},
      {"acquire", "take a batch that waits for somebody", batch_acquire_cmd},
      {"state", "move a batch on", batch_state_cmd}, {"hold", "hold a batch", batch_hold_cmd},
      {"release", "release a batch", batch_release_cmd},
      {"delete", "delete a batch and its jobs", batch_delete_cmd},
      {"fsck", "find and repair what is half done", batch_fsck_cmd})
GROUP(cmd_job, "job", "Jobs that move from state to state by priority.",
      {"create", "make a job in a batch", job_create_cmd}, {"ls", "list jobs", job_ls_cmd},
      {"show", "show a job", job_show_cmd},
      {"acquire", "take the first job of a state", job_acquire_cmd},
      {"state", "move a job: a state, next or fail", job_state_cmd},
      {"work", "run a command for each job of a state", cmd_job_work},
      {"set", "set a field of a job", job_set_cmd}, {"hold", "hold a job", job_hold_cmd},
      {"release", "release a job", job_release_cmd},
      {"release-profile", "release all jobs of a profile", job_release_profile_cmd},
      {"requeue", "try a failed job again", job_requeue_cmd},
      {"delete", "delete a job", job_delete_cmd})
GROUP(cmd_lock, "lock", "Locks by name: of queues, collections, storage and inventory.",
      {"ls", "list locks", lock_ls_cmd}, {"show", "show a lock", lock_show_cmd},
      {"take", "take a lock", lock_take_cmd}, {"release", "give a lock back", lock_release_cmd},
      {"break", "break a lock", lock_break_cmd})
GROUP(cmd_access, "access", "The access queues, small and large.",
      {"create", "make an access item", access_create_cmd},
      {"ls", "list access items", access_ls_cmd}, {"show", "show an access item", access_show_cmd},
      {"acquire", "take an access item", access_acquire_cmd},
      {"state", "move an access item on", access_state_cmd},
      {"delete", "delete an access item", access_delete_cmd})
GROUP(cmd_legacy, "legacy", "Records of the queues that Merritt had before.",
      {"ls", "list records", legacy_ls_cmd},
      {"import", "import records as jobs", legacy_import_cmd})
