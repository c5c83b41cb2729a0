/*
 * drover serve - its options, the checks between them, and the table of modules.
 * drover fsck - checks a data directory; with --salvage, cuts it at the first damage after asking.
 */
#include "server/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/human.h"
#include "base/identity.h"
#include "base/log.h"
#include "batch/server.h"
#include "cli/cmd.h"
#include "dag/service.h"
#include "http/server.h"
#include "keeper/local/local.h"
#include "keeper/zookeeper/zookeeper.h"
#include "queue/http.h"
#include "server/sessions.h"
#include "server/status.h"
#include "server/tokens.h"
#include "task/http.h"
#include "world/http.h"

#define HTTP_DEFAULT "127.0.0.1:8048"
#define ZK_DEFAULT "127.0.0.1:8049"

enum { TIMEOUT_LIMIT_MS = 24 * 24 * 3600 * 1000 }; /* the protocol has 31 bits */

_Static_assert(LOCAL_SNAPSHOT_EVERY == 200000 && LOCAL_FLUSH_MS == 100 &&
                   HTTP_REQUEST_TIMEOUT_MS == 10000 && HTTP_CONNECTIONS_MAX == 16384 &&
                   WIRE_PACKET_MAX == 1048575 && WIRE_CONNECTIONS_MAX == 10000 &&
                   WIRE_SESSIONS_MAX == 20000 && SESSIONS_MAX == 20000 && HTTP_WAITS_MAX == 32768 &&
                   WIRE_HELLO_MS == 10000 && KEEPER_TIMEOUT_MIN_MS == 1000 &&
                   KEEPER_TIMEOUT_MAX_MS == 3600 * 1000,
               "--help names these");

/* The modules, in the order in which they open. */
static const struct module *const MODULES[] = {
    &token_module, &session_module, &task_module,  &dag_module,
    &queue_module, &world_module,   &batch_module, NULL,
};

_Static_assert(sizeof MODULES / sizeof *MODULES <= MODULES_MAX + 1, "too many modules");

static struct serve_options chosen = {.modules = MODULES, .socket_mode = 0600};
static bool roles_given, verify_given, insecure_network;
static int log_format;

static void default_address(struct option_addresses *a, const char *text)
{
    struct err_info e;
    if (!a->none && !a->count)
        option_addresses(&(struct option){.target = a}, text, &e);
}

static bool is_all_loopback(const struct option_addresses *a)
{
    size_t i = 0;
    while (i < a->count && address_is_loopback(&a->items[i]))
        i++;
    return i == a->count;
}

/* What is sent in clear may be read and changed by whoever is on the way. */
static int check_addresses(const struct cmd *c, const struct serve_options *o)
{
    if (!is_all_loopback(&o->http) && !insecure_network)
        return cmd_usage_error(c, "--http: an address other than loopback needs TLS: --https; or "
                                  "--insecure-network");
    if (!is_all_loopback(&o->wire.listen) && !insecure_network)
        return cmd_usage_error(c, "--zk: an address other than loopback needs TLS: --zk-tls; or "
                                  "--insecure-network");
    return CMD_OK;
}

static int check_tls(const struct cmd *c, const struct serve_options *o)
{
    bool wanted = o->https.count || o->wire.tls_listen.count;
    if (wanted && !o->tls.cert)
        return cmd_usage_error(c, "--%s needs --tls-cert and --tls-key",
                               o->https.count ? "https" : "zk-tls");
    if (!o->tls.cert != !o->tls.key)
        return cmd_usage_error(c, "--tls-cert and --tls-key go together");
    if (o->tls.cert && !wanted)
        return cmd_usage_error(c, "--tls-cert goes with --https or --zk-tls");
    if (!o->tls.ca && (verify_given || o->certificates.count))
        return cmd_usage_error(c, "--%s goes with --tls-ca",
                               verify_given ? "tls-verify" : "tls-role");
    if (o->tls.ca && !wanted)
        return cmd_usage_error(c, "--tls-ca goes with --https or --zk-tls");
    return CMD_OK;
}

/* 660 or 0660 */
static int option_mode(const struct option *o, const char *text, struct err_info *e)
{
    size_t digits = strspn(text, "01234567");
    if (!digits || digits > 4 || text[digits])
        return err_set(e, DROVER_BAD_ARGUMENT, "'%s' is not a mode such as 0660", text);
    *(int64_t *)o->target = strtol(text, NULL, 8) & 0777;
    return 0;
}

static int option_roles(const struct option *o, const char *text, struct err_info *e)
{
    TRY(roles_parse(str_of(text), o->target, e));
    roles_given = true;
    return 0;
}

/* NAME=ROLE,...; an "=" in the name is part of it. */
static int option_certificate(const struct option *o, const char *text, struct err_info *e)
{
    struct auth_certificates *list = o->target;
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text)
        return err_set(e, DROVER_BAD_ARGUMENT, "'%s' is not NAME=ROLE,...", text);
    if (list->count == AUTH_CERTIFICATES_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "given more than %d times", AUTH_CERTIFICATES_MAX);
    TRY(roles_parse(str_of(equals + 1), &list->items[list->count].roles, e));
    list->items[list->count++].name = (struct str){text, (size_t)(equals - text)};
    return 0;
}

static int option_verify(const struct option *o, const char *text, struct err_info *e)
{
    verify_given = true;
    return option_choice(o, text, e);
}

/* An unknown word is no error to ZooKeeper, and the same configuration may be used for both. */
static int option_words(const struct option *o, const char *text, struct err_info *e)
{
    (void)e;
    struct str unknown = wire_words_parse(text, o->target);
    if (unknown.len)
        log_warning("--%s: %.*s is no four-letter word and is ignored", o->name, STR_ARGS(unknown));
    return 0;
}

static const struct option OPTIONS[] = {
    {"data", "DIR",
     "Store everything in this directory; create it if it is missing. Default:\n"
     "/var/lib/drover for root, else $XDG_STATE_HOME/drover, else\n"
     "~/.local/state/drover.",
     option_text, &chosen.data},
    {"journal", "strict|opportunistic|none",
     "strict (default): reply once the change is on disk.\n"
     "opportunistic: reply from memory; on disk at most 100 ms later.\n"
     "none: memory only, no data directory.",
     option_choice, &chosen.journal},
    {"keeper", "URL",
     "Store everything in a ZooKeeper ensemble instead of a data directory:\n"
     "zk://HOST:PORT,HOST:PORT/CHROOT.",
     option_text, &chosen.keeper},
    {"zk-timeout-ms", "N",
     "On an ensemble: session timeout in milliseconds, after which another server takes\n"
     "over from one that does not respond. Default: 10000.",
     option_number, &chosen.zk_timeout_ms, KEEPER_TIMEOUT_MIN_MS, KEEPER_TIMEOUT_MAX_MS},
    {"zk-auth", "FILE",
     "Log in to the ensemble with the user:password in this file (digest), and create\n"
     "nodes for this user only. Default: $DROVER_ZK_AUTH.",
     option_text, &chosen.zk_auth},
    {"http", "ADDR:PORT|none",
     "Serve HTTP there. Default: " HTTP_DEFAULT ". Port 0: any free one. May be given more\n"
     "than once.",
     option_addresses, &chosen.http},
    {"https", "ADDR:PORT|none",
     "Serve HTTP with TLS there. Default: none. Port 0: any free one. May be given more than\n"
     "once.",
     option_addresses, &chosen.https},
    {"tls-cert", "FILE",
     "The certificate for TLS, and those between it and its authority, in PEM. Read again\n"
     "when it changes, and on SIGHUP.",
     option_text, &chosen.tls.cert},
    {"tls-key", "FILE", "Its key, in PEM, without a password.", option_text, &chosen.tls.key},
    {"tls-ca", "FILE",
     "Ask clients for certificates, and accept those that these authorities have signed.",
     option_text, &chosen.tls.ca},
    {"tls-verify", "optional|required",
     "Whether a client without a certificate is served. Default: optional.", option_verify,
     &chosen.tls.verify},
    {"tls-role", "NAME=ROLE,...|all",
     "What a client with a certificate for NAME may do without a token: its CN, or an\n"
     "alternative name (DNS, URI, email); a * at the end stands for anything. May be given\n"
     "more than once.",
     option_certificate, &chosen.certificates},
    {"insecure-network", NULL,
     "Serve addresses other than loopback without TLS, too. Tokens and data can be read and\n"
     "changed on their way.",
     option_flag, &insecure_network},
    {"http-host", "NAME",
     "Accept this name in the Host header, besides the address. May be given more than\n"
     "once.",
     option_list_add, &chosen.http_hosts},
    {"socket", "PATH|none",
     "Serve HTTP on a Unix socket there, too. This user and root have every role on it.\n"
     "Default: /run/drover.sock for root, else $XDG_RUNTIME_DIR/drover.sock.",
     option_text, &chosen.socket},
    {"socket-mode", "MODE", "The mode of the Unix socket, in octal. Default: 0600.", option_mode,
     &chosen.socket_mode},
    {"socket-group", "GROUP", "The group that the Unix socket belongs to.", option_text,
     &chosen.socket_group},
    {"loopback-roles", "ROLE,...|all|none",
     "What a request without a token may do that comes from this machine: read, work,\n"
     "submit, run, admin. Default: read,work,submit; none if --token-file is given.",
     option_roles, &chosen.loopback_roles},
    {"token-file", "FILE",
     "Accept the token in the first line of this file (Authorization: Bearer TOKEN), for\n"
     "every role.",
     option_text, &chosen.token_file},
    {"audit", "FILE",
     "Append a line of JSON to this file for each change of rights, each command that is\n"
     "added, killed or retried, and each request that is refused.",
     option_text, &chosen.audit},
    {"connections", "N",
     "Maximum number of HTTP connections; further ones get status 503. Default: 16384.",
     option_number, &chosen.connections_max, 1, 1000000},
    {"connections-per-address", "N",
     "Maximum number of HTTP connections from one address; further ones get status 503.\n"
     "Default: a quarter of --connections; loopback addresses have no limit of their own.",
     option_number, &chosen.connections_per_address, 1, 1000000},
    {"waits", "N",
     "Maximum number of HTTP requests that wait, event streams included; further ones get\n"
     "status 503. Default: 32768.",
     option_number, &chosen.waits_max, 1, 10000000},
    {"sessions", "N",
     "Maximum number of sessions, over HTTP and on the ZooKeeper port together; further\n"
     "ones are refused. Default: 20000.",
     option_number, &chosen.sessions_max, 1, 10000000},
    {"http-timeout-ms", "N",
     "How long a client may take to send the head of a request, and again for its body,\n"
     "in milliseconds. Default: 10000.",
     option_number, &chosen.http_timeout_ms, 1, 3600 * 1000},
    {"zk", "ADDR:PORT|none",
     "Serve the ZooKeeper protocol there. Default: " ZK_DEFAULT ". Port 0: any free one. May\n"
     "be given more than once.",
     option_addresses, &chosen.wire.listen},
    {"zk-tls", "ADDR:PORT|none",
     "Serve the ZooKeeper protocol with TLS there. Default: none. May be given more than\n"
     "once.",
     option_addresses, &chosen.wire.tls_listen},
    {"zk-words", "WORD,...|*",
     "Answer these four-letter words on that port, and srvr; * is all. Default: all but\n"
     "wchc and wchp.",
     option_words, &chosen.wire.words},
    {"zk-reap", "TIME",
     "How often to look for containers without children and nodes whose time to live is\n"
     "over, and delete them. Default: 60s.",
     option_span, &chosen.zk_reap_ms, 1, 24 * 3600 * 1000},
    {"zk-no-ttl", NULL,
     "Refuse to create nodes with a time to live, as ZooKeeper does without\n"
     "extendedTypesEnabled.",
     option_flag, &chosen.wire.no_ttl},
    {"zk-enforce-quota", NULL,
     "Refuse ZooKeeper clients what exceeds the hard limit of a quota, and log what exceeds\n"
     "a soft one. Without this option quotas are counted only, as in ZooKeeper.",
     option_flag, &chosen.wire.enforce_quota},
    {"zk-super", "FILE",
     "A client of the ZooKeeper port that authenticates as the user in this file may do\n"
     "everything. The file has user:DIGEST, as ZooKeeper's superDigest.",
     option_text, &chosen.wire.super_file},
    {"zk-digest", "SHA1|SHA-256|SHA-512|SHA3-256|none",
     "The sum in the ids of digest authentication; none: there is no such\n"
     "authentication. Default: SHA1.",
     option_choice, &chosen.wire.digest},
    {"zk-require-auth", NULL,
     "Refuse requests of clients of the ZooKeeper port that have not authenticated with a\n"
     "digest.",
     option_flag, &chosen.wire.require_auth},
    {"zk-skip-acl", NULL,
     "Do not enforce access lists: every client of the ZooKeeper port may do everything.",
     option_flag, &chosen.wire.skip_acl},
    {"zk-max-buffer", "BYTES",
     "The longest request that the ZooKeeper port accepts. Default: 1048575.", option_number,
     &chosen.wire.packet_max, 64, WIRE_PACKET_LIMIT},
    {"zk-connections", "N",
     "Maximum number of connections to the ZooKeeper port; further ones are closed.\n"
     "Default: 10000.",
     option_number, &chosen.wire.connections_max, 1, 1000000},
    {"zk-connections-per-address", "N",
     "Maximum number of connections to the ZooKeeper port from one address. Default: a\n"
     "quarter of --zk-connections; loopback addresses have no limit of their own.",
     option_number, &chosen.wire.connections_per_address, 1, 1000000},
    {"zk-min-session-timeout", "TIME",
     "The shortest session timeout on the ZooKeeper port; who asks for less gets this.\n"
     "Default: 1s.",
     option_span, &chosen.wire.timeout_min_ms, 1, TIMEOUT_LIMIT_MS},
    {"zk-max-session-timeout", "TIME", "The longest one; who asks for more gets this. Default: 1h.",
     option_span, &chosen.wire.timeout_max_ms, 1, TIMEOUT_LIMIT_MS},
    {"zk-hello-timeout", "TIME",
     "How long a client may take from its connection to the ZooKeeper port to its connect\n"
     "request. Default: 10s.",
     option_span, &chosen.wire.hello_ms, 1, 3600 * 1000},
    {"snapshot-every", "N",
     "Write a snapshot after N transactions, or after as many as there are nodes if that\n"
     "is more. Default: 200000.",
     option_number, &chosen.snapshot_every, 1, INT64_MAX},
    {0},
};

/* Of the embedded keeper, its ZooKeeper port included, unless it asks for what an ensemble does. */
static bool excludes_ensemble(const struct option *o)
{
    const char *target = o->target, *wire = (const char *)&chosen.wire;
    if (o->target == &chosen.journal)
        return chosen.journal != LOCAL_STRICT;
    if (o->target == &chosen.wire.listen)
        return !chosen.wire.listen.none;
    return o->target == &chosen.data || o->target == &chosen.snapshot_every ||
           o->target == &chosen.zk_reap_ms ||
           (target >= wire && target < wire + sizeof chosen.wire);
}

/* Options that need an ensemble, and options that an ensemble excludes. */
static int check_keeper(const struct cmd_call *call, struct serve_options *o)
{
    const struct cmd *c = call->cmd;
    struct err_info e;
    if (!o->keeper && o->zk_timeout_ms)
        return cmd_usage_error(c, "--zk-timeout-ms goes with --keeper");
    if (!o->keeper)
        return o->zk_auth ? cmd_usage_error(c, "--zk-auth goes with --keeper") : CMD_OK;
    if (zookeeper_check_url(o->keeper, &e))
        return cmd_usage_error(c, "--keeper: %s", e.text);
    for (size_t i = 0; OPTIONS[i].name; i++)
        if (call->values[i].given && excludes_ensemble(&OPTIONS[i]))
            return cmd_usage_error(c,
                                   "--%s is for the embedded keeper and does not go with --keeper",
                                   OPTIONS[i].name);
    o->wire.listen.none = true;
    return CMD_OK;
}

/* The options of the ZooKeeper port that contradict each other. */
static int check_wire(const struct cmd *c, const struct wire_options *o)
{
    int64_t min_ms = o->timeout_min_ms ? o->timeout_min_ms : KEEPER_TIMEOUT_MIN_MS;
    int64_t max_ms = o->timeout_max_ms ? o->timeout_max_ms : KEEPER_TIMEOUT_MAX_MS;
    char min[HUMAN_SIZE], max[HUMAN_SIZE];
    if (min_ms > max_ms)
        return cmd_usage_error(
            c, "--zk-min-session-timeout, %s, is more than --zk-max-session-timeout, %s",
            human_span(min, min_ms), human_span(max, max_ms));
    if (o->digest == WIRE_NO_DIGEST && (o->super_file || o->require_auth))
        return cmd_usage_error(c, "--%s does not go with --zk-digest none",
                               o->super_file ? "zk-super" : "zk-require-auth");
    return CMD_OK;
}

/* The options of the modules, and --log. */
static size_t more_options(struct option *to)
{
    static const struct option log_option = {
        "log", "text|json", "Format of the lines on standard error. Default: text.", option_choice,
        &log_format};
    size_t count = 0;
    for (size_t i = 0; MODULES[i]; i++)
        for (size_t j = 0; j < MODULES[i]->option_count; j++)
            to[count++] = MODULES[i]->options[j];
    to[count++] = log_option;
    return count;
}

static int run_serve(const struct cmd_call *call)
{
    TRY(check_keeper(call, &chosen));
    TRY(check_wire(call->cmd, &chosen.wire));
    default_address(&chosen.http, HTTP_DEFAULT);
    default_address(&chosen.wire.listen, ZK_DEFAULT);
    TRY(check_addresses(call->cmd, &chosen));
    TRY(check_tls(call->cmd, &chosen));
    if (!roles_given && !chosen.token_file)
        chosen.loopback_roles = ROLE_READ | ROLE_WORK | ROLE_SUBMIT;
    if (log_format)
        log_as_json();
    return serve(&chosen) ? CMD_FAILURE : CMD_OK;
}

const struct cmd cmd_serve = CMD_INIT(
    "serve", "run the server", NULL,
    "Runs the server in the foreground until it receives TERM or INT. It logs to standard\n"
    "error, one line per event.",
    OPTIONS, CMD_LOCAL, run_serve, .heading = "The server", .more_options = more_options);

/* fsck */

/* No answer means no. */
static bool ask(void *arg, const char *question)
{
    const bool *yes = arg;
    char answer[16];
    if (*yes)
        return true;
    fprintf(stderr, "%s [y/N] ", question);
    fflush(stderr);
    if (!fgets(answer, sizeof answer, stdin)) {
        fputc('\n', stderr);
        return false;
    }
    return !strcmp(answer, "y\n") || !strcmp(answer, "yes\n");
}

static bool yes;
static struct fsck_options checks = {.confirm = ask, .arg = &yes};

static int run_fsck(const struct cmd_call *call)
{
    struct err_info e;
    checks.dir = call->operands[0];
    checks.out = stdout;
    int err = fsck_run(&checks, &e);
    fflush(stdout);
    if (err)
        log_error("%s", e.text);
    return err ? CMD_FAILURE : CMD_OK;
}

const struct cmd cmd_fsck = CMD_INIT(
    "fsck", "check a data directory", "DIR",
    "Checks the data directory DIR, which no server may have open, and reports what it\n"
    "holds. Changes nothing unless --salvage is given. Exit status 1: something is\n"
    "damaged.",
    CMD_OPTIONS(
        {"dump", NULL, "Print every transaction in the journal.", option_flag, &checks.dump},
        {"salvage", NULL,
         "When the journal is damaged, or ends before what was on disk, keep what comes\n"
         "before that and cut off the rest, after asking. What is cut off is saved in\n"
         "files named salvaged-*.",
         option_flag, &checks.salvage},
        {"yes", NULL, "Do not ask.", option_flag, &yes}),
    CMD_LOCAL, run_fsck);
