/*
 * drover serve - its options, and what does not go together.
 */
#include "server/serve.h"
#include "base/address.h"
#include "base/log.h"
#include "http/server.h"
#include "keeper/zookeeper/zookeeper.h"
#include "queue/queue.h"

#define HTTP_DEFAULT "127.0.0.1:8048"
#define ZK_DEFAULT "127.0.0.1:8049"

_Static_assert(LOCAL_SNAPSHOT_EVERY == 200000 && LOCAL_FLUSH_MS == 100 &&
                   HTTP_REQUEST_TIMEOUT_MS == 10000 && HTTP_CONNECTIONS_MAX == 16384,
               "--help names these");

static bool is_given(const struct cmd_address *a)
{
    return a->address.ss_family != AF_UNSPEC;
}

static void default_address(struct cmd_address *a, const char *text)
{
    struct err_info e;

    if (!a->none && !is_given(a))
        cmd_address(&(struct cmd_option){.target = a}, text, &e);
}

/* What an ensemble does itself. */
static int check_keeper(const struct cmd *c, struct serve_options *o)
{
    struct err_info e;

    if (!o->keeper && o->zk_timeout_ms)
        return cmd_usage_error(c, "--zk-timeout-ms goes with --keeper");
    if (!o->keeper)
        return o->zk_auth ? cmd_usage_error(c, "--zk-auth goes with --keeper") : CMD_OK;
    if (zookeeper_check_url(o->keeper, &e))
        return cmd_usage_error(c, "--keeper: %s", e.text);
    if (o->data || o->journal != LOCAL_STRICT || o->snapshot_every || is_given(&o->zk))
        return cmd_usage_error(c,
                               "--data, --journal, --snapshot-every and --zk are for the embedded "
                               "keeper and do not go with --keeper");
    o->zk.none = true;
    return CMD_OK;
}

static int check_addresses(const struct cmd *c, const struct serve_options *o)
{
    if (!o->http.none && !address_is_loopback(&o->http.address) && !o->token_file)
        return cmd_usage_error(c, "--http: an address that others can reach needs --token-file");
    if (!o->zk.none && !address_is_loopback(&o->zk.address))
        return cmd_usage_error(c, "--zk: only loopback addresses are served");
    return CMD_OK;
}

/* What the command line says. */
static struct serve_options chosen = {.jobs = -1};
static int log_format;

static const struct cmd_option OPTIONS[] = {
    {"data", "DIR",
     "Keep everything in this directory, which is made if it is missing. Default:\n"
     "/var/lib/drover for root, else $XDG_STATE_HOME/drover, else\n"
     "~/.local/state/drover.",
     cmd_text, &chosen.data},
    {"journal", "strict|opportunistic|none",
     "strict (default): answer when a change is on disk.\n"
     "opportunistic: answer from memory; on disk at most 100 ms later.\n"
     "none: memory only, no data directory.",
     cmd_choice, &chosen.journal},
    {"keeper", "URL",
     "Keep everything in a ZooKeeper ensemble instead of a data directory:\n"
     "zk://HOST:PORT,HOST:PORT/CHROOT.",
     cmd_text, &chosen.keeper},
    {"zk-timeout-ms", "N",
     "On an ensemble: how long the servers hear nothing of this one before another takes\n"
     "over. Default: 10000.",
     cmd_number, &chosen.zk_timeout_ms, KEEPER_TIMEOUT_MIN_MS, KEEPER_TIMEOUT_MAX_MS},
    {"zk-auth", "FILE",
     "Log on to the ensemble with the user:password that this file holds (digest), and\n"
     "make nodes for this user only. Default: what $DROVER_ZK_AUTH holds.",
     cmd_text, &chosen.zk_auth},
    {"http", "ADDR:PORT|none", "Serve HTTP there. Default: " HTTP_DEFAULT ". Port 0: any free one.",
     cmd_address, &chosen.http},
    {"http-host", "NAME",
     "A name that clients may call this server by, beside its address. May be given more\n"
     "than once.",
     cmd_list_add, &chosen.http_hosts},
    {"token-file", "FILE",
     "Answer only to requests that show the token in the first line of this file\n"
     "(Authorization: Bearer TOKEN). Needed to serve others than this machine.",
     cmd_text, &chosen.token_file},
    {"connections", "N", "HTTP connections at a time; further ones are told so. Default: 16384.",
     cmd_number, &chosen.connections_max, 1, 1000000},
    {"http-timeout-ms", "N",
     "Time that a client has to send the head of a request, and again for its\n"
     "body. Default: 10000.",
     cmd_number, &chosen.http_timeout_ms, 1, 3600 * 1000},
    {"zk", "ADDR:PORT|none",
     "Serve ZooKeeper's clients there. Default: " ZK_DEFAULT ". Port 0: any free one.", cmd_address,
     &chosen.zk},
    {"snapshot-every", "N",
     "Write a snapshot after that many transactions. Default: 200000. Never more often\n"
     "than there are nodes.",
     cmd_number, &chosen.snapshot_every, 1, INT64_MAX},
    {"jobs", "N",
     "Run that many commands of the DAG at once in this process; 0: leave them to\n"
     "agents. Default: the number of cores.",
     cmd_number, &chosen.jobs, 0, 100000},
    {"log-dir", "DIR", "Keep all that commands print here, one file a run: NODE-TRY.log.", cmd_text,
     &chosen.log_dir},
    {"queue-namespace", "PATH",
     "The node below which queues and their workers are. Default: " QUEUE_NAMESPACE ".", cmd_text,
     &chosen.queue_ns},
    {"world-retention", "TIME",
     "Remove tasks of worlds that were completed longer ago. Default: they are kept.", cmd_span,
     &chosen.world_retention_ms, 1, INT64_MAX},
    {"queue-retention", "TIME", "Remove messages of queues that are older. Default: 3d.", cmd_span,
     &chosen.queue_retention_ms, 1, INT64_MAX},
    {"queue-error-retention", "TIME",
     "The same for the queue " QUEUE_ERROR ", of messages that failed. Default: 30d.", cmd_span,
     &chosen.queue_error_retention_ms, 1, INT64_MAX},
    {"pipeline", "FILE",
     "The states of batches, jobs and access items, as JSON. Default: the built-in ones.", cmd_text,
     &chosen.pipeline},
    {"on-batch-done", "CMD|URL",
     "Report batches that are done: run this command with the report on its standard\n"
     "input, or post it to this URL. A report that fails is tried again.",
     cmd_text, &chosen.on_batch_done},
    {"log", "text|json", "How lines on standard error are written. Default: text.", cmd_choice,
     &log_format},
};

int cmd_serve(int argc, char **argv)
{
    const struct cmd c = {
        .name = "serve",
        .about = "Runs the server in the foreground until TERM or INT. What it does is said on\n"
                 "standard error, one line for each thing.",
        .options = OPTIONS,
        .option_count = sizeof OPTIONS / sizeof *OPTIONS,
    };
    int status;

    if (!cmd_parse(&c, &argc, argv, &status))
        return status;
    status = check_keeper(&c, &chosen);
    default_address(&chosen.http, HTTP_DEFAULT);
    default_address(&chosen.zk, ZK_DEFAULT);
    if (!status)
        status = check_addresses(&c, &chosen);
    if (!status && chosen.queue_ns && !queues_valid_namespace(chosen.queue_ns))
        status = cmd_usage_error(&c, "--queue-namespace: '%s' is not a path such as /a/b",
                                 chosen.queue_ns);
    if (status)
        return status;
    if (log_format)
        log_as_json();
    return serve(&chosen);
}
