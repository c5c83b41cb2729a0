/* drover serve - its options, the checks between them, and the table of modules. */
#include "cli/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/buf.h"
#include "base/human.h"
#include "base/identity.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "base/place.h"
#include "batch/server.h"
#include "cli/config.h"
#include "cli/zk_options.h"
#include "dag/service.h"
#include "http/server.h"
#include "keeper/local/local.h"
#include "keeper/zookeeper/zookeeper.h"
#include "queue/http.h"
#include "schedule/module.h"
#include "server/activation.h"
#include "server/sessions.h"
#include "server/status.h"
#include "server/tokens.h"
#include "task/http.h"
#include "world/http.h"

#define MEMORY_MIN ((size_t)32 << 20)
#define MEMORY_MOST ((size_t)2 << 30)

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
    &token_module,    &session_module, &task_module,  &task_v1_module, &dag_module,
    &schedule_module, &queue_module,   &world_module, &batch_module,   NULL,
};

_Static_assert(sizeof MODULES / sizeof *MODULES <= MODULES_MAX + 1, "too many modules");
_Static_assert(sizeof(struct auth_certificates) <= sizeof(union option_value),
               "a value of --tls-role could not be tried");

static struct serve_options chosen = {.modules = MODULES};
static const char *config_file;

/* What an option is for; without a flag it is for every server. */
enum { EMBEDDED = OPTION_OWN, ENSEMBLE = OPTION_OWN << 1, ON_DISK = OPTION_OWN << 2 };

static const char *default_data(void)
{
    static struct buf b;
    b.len = 0;
    place_data(&b);
    return buf_text(&b);
}

/* Defaults that depend on other options: what is given is parsed before any default is found. */
static const char *default_socket(void)
{
    static struct buf b;
    b.len = 0;
    return !chosen.http.none && place_socket(&b) ? buf_text(&b) : "none";
}

/* The largest request, 256 MiB with as many values as it may have, needs 1.3 of these 2 GiB. */
static const char *default_memory(void)
{
    static char text[32];
    size_t quarter = memory_limit() / 4;
    if (quarter > MEMORY_MOST)
        quarter = MEMORY_MOST;
    snprintf(text, sizeof text, "%zuM", (quarter < MEMORY_MIN ? MEMORY_MIN : quarter) >> 20);
    return text;
}

static const char *default_roles(void)
{
    return chosen.token_file ? "none" : "read,work,submit";
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
    return roles_parse(str_of(text), o->target, e);
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

/* An unknown word is no error to ZooKeeper, and the same configuration may be used for both. */
static int option_words(const struct option *o, const char *text, struct err_info *e)
{
    (void)e;
    struct str unknown = wire_words_parse(text, o->target);
    if (unknown.len)
        log_warning("--%s: %.*s is no four-letter word and is ignored", o->name, STR_ARGS(unknown));
    return 0;
}

const struct option SERVE_OPTIONS[] = {
    {"config", "FILE|none",
     "Read options from this file, one in each line: NAME VALUE. Default: " CONFIG_FILE ",\n"
     "if there is one. The environment overrules the file (DROVER_SERVE_HTTP), and the\n"
     "command line overrules both. See drover.conf(5).",
     option_text, &config_file, .flags = OPTION_VARIABLE},
    {"data", "DIR",
     "Store everything in this directory; create it if it is missing. Default:\n"
     "/var/lib/drover for root, else $XDG_STATE_HOME/drover, else\n"
     "~/.local/state/drover.",
     option_text, &chosen.data, .find_initial = default_data, .flags = EMBEDDED | ON_DISK},
    {"journal", "strict|opportunistic|none",
     "strict: reply once the change is on disk.\n"
     "opportunistic: reply from memory; on disk at most 100 ms later.\n"
     "none: memory only, no data directory.",
     option_choice, &chosen.journal, .initial = "strict", .flags = EMBEDDED},
    {"keeper", "URL",
     "Store everything in a ZooKeeper ensemble instead of a data directory:\n"
     "zk://HOST:PORT,HOST:PORT/CHROOT, or zks:// with TLS.",
     option_text, &chosen.keeper},
    {"zk-timeout-ms", "N",
     "On an ensemble: session timeout in milliseconds, after which another server takes\n"
     "over from one that does not respond.",
     option_number, &chosen.zk_timeout_ms, KEEPER_TIMEOUT_MIN_MS, KEEPER_TIMEOUT_MAX_MS,
     .initial = "10000", .flags = ENSEMBLE},
    {"zk-auth", "FILE",
     "Log in to the ensemble with the user:password in this file (digest), and create\n"
     "nodes for this user only. Default: $DROVER_ZK_AUTH.",
     option_text, &chosen.zk_auth, .secret = "DROVER_ZK_AUTH", .flags = ENSEMBLE},
    ZK_TLS_OPTIONS(chosen.zk_tls, .flags = ENSEMBLE),
    {"http", "ADDR:PORT|none",
     "Serve HTTP there. Port 0: any free one. May be given more than once.", option_addresses,
     &chosen.http, .initial = "127.0.0.1:8048"},
    {"https", "ADDR:PORT|none",
     "Serve HTTP with TLS there. Port 0: any free one. May be given more than once.",
     option_addresses, &chosen.https, .initial = "none"},
    {"tls-cert", "FILE",
     "The certificate for TLS, and those between it and its authority, in PEM. Read again\n"
     "when it changes, and on SIGHUP.",
     option_text, &chosen.tls.cert},
    {"tls-key", "FILE", "Its key, in PEM, without a password.", option_text, &chosen.tls.key},
    {"tls-ca", "FILE",
     "Ask clients for certificates, and accept those that these authorities have signed.",
     option_text, &chosen.tls.ca},
    {"tls-verify", "optional|required", "Whether a client without a certificate is served.",
     option_choice, &chosen.tls.verify, .initial = "optional"},
    {"tls-role", "NAME=ROLE,...|all",
     "What a client with a certificate for NAME may do without a token: its CN, or an\n"
     "alternative name (DNS, URI, email); a * at the end stands for anything. May be given\n"
     "more than once.",
     option_certificate, &chosen.certificates, .flags = OPTION_LIST},
    {"insecure-network", NULL,
     "Serve addresses other than loopback without TLS, too. Tokens and data can be read and\n"
     "changed on their way.",
     option_flag, &chosen.insecure_network},
    {"http-host", "NAME",
     "Accept this name in the Host header, besides the address. May be given more than\n"
     "once.",
     option_list_add, &chosen.http_hosts, .flags = OPTION_RELOADS},
    {"socket", "PATH|none",
     "Serve HTTP on a Unix socket there, too. This user and root have every role on it.\n"
     "Default: /run/drover.sock for root, else $XDG_RUNTIME_DIR/drover.sock.",
     option_text, &chosen.socket, .find_initial = default_socket},
    {"socket-mode", "MODE", "The mode of the Unix socket, in octal.", option_mode,
     &chosen.socket_mode, .initial = "0600"},
    {"socket-group", "GROUP", "The group that the Unix socket belongs to.", option_text,
     &chosen.socket_group},
    {"loopback-roles", "ROLE,...|all|none",
     "What a request without a token may do that comes from this machine: read, work,\n"
     "submit, run, admin. Default: read,work,submit; none if --token-file is given.",
     option_roles, &chosen.loopback_roles, .find_initial = default_roles},
    {"token-file", "FILE",
     "Accept the token in the first line of this file (Authorization: Bearer TOKEN), for\n"
     "every role.",
     option_text, &chosen.token_file},
    {"audit", "FILE",
     "Append a line of JSON to this file for each change of rights, each command that is\n"
     "added, killed or retried, and each request that is refused.",
     option_text, &chosen.audit},
    {"connections", "N", "Maximum number of HTTP connections; further ones get status 503.",
     option_number, &chosen.connections_max, 1, 1000000, .initial = "16384",
     .flags = OPTION_RELOADS},
    {"connections-per-address", "N",
     "Maximum number of HTTP connections from one address; further ones get status 503.\n"
     "Default: a quarter of --connections; loopback addresses have no limit of their own.",
     option_number, &chosen.connections_per_address, 1, 1000000, .flags = OPTION_RELOADS},
    {"waits", "N",
     "Maximum number of HTTP requests that wait, event streams included; further ones get\n"
     "status 503.",
     option_number, &chosen.waits_max, 1, 10000000, .initial = "32768", .flags = OPTION_RELOADS},
    {"memory", "SIZE",
     "Memory for requests and answers under way; what would be more is refused with status\n"
     "503. A quarter of it is for the ZooKeeper port, if there is one. Default: a quarter\n"
     "of what this process may use, at most 2G.",
     option_size, &chosen.memory, MEMORY_MIN, INT64_MAX, .find_initial = default_memory,
     .flags = OPTION_RELOADS},
    {"sessions", "N",
     "Maximum number of sessions, over HTTP and on the ZooKeeper port together; further\n"
     "ones are refused.",
     option_number, &chosen.wire.sessions_max, 1, 10000000, .initial = "20000",
     .flags = OPTION_RELOADS},
    {"http-timeout-ms", "N",
     "How long a client may take to send the head of a request, and again for its body,\n"
     "in milliseconds.",
     option_number, &chosen.http_timeout_ms, 1, 3600 * 1000, .initial = "10000",
     .flags = OPTION_RELOADS},
    {"zk", "ADDR:PORT|none",
     "Serve the ZooKeeper protocol there. Port 0: any free one. May be given more than\n"
     "once.",
     option_addresses, &chosen.wire.listen, .initial = "127.0.0.1:8049", .flags = EMBEDDED},
    {"zk-tls", "ADDR:PORT|none",
     "Serve the ZooKeeper protocol with TLS there. May be given more than once.", option_addresses,
     &chosen.wire.tls_listen, .initial = "none", .flags = EMBEDDED},
    {"zk-words", "WORD,...|*",
     "Answer these four-letter words on that port, and srvr; * is all. Default: all but\n"
     "wchc and wchp.",
     option_words, &chosen.wire.words, .find_initial = wire_words_default_text,
     .flags = EMBEDDED | OPTION_RELOADS},
    {"zk-reap", "TIME",
     "How often to look for containers without children and nodes whose time to live is\n"
     "over, and delete them.",
     option_span, &chosen.zk_reap_ms, 1, 24 * 3600 * 1000, .initial = "60s",
     .flags = EMBEDDED | OPTION_RELOADS},
    {"zk-no-ttl", NULL,
     "Refuse to create nodes with a time to live, as ZooKeeper does without\n"
     "extendedTypesEnabled.",
     option_flag, &chosen.wire.no_ttl, .flags = EMBEDDED},
    {"zk-enforce-quota", NULL,
     "Refuse ZooKeeper clients what exceeds the hard limit of a quota, and log what exceeds\n"
     "a soft one. Without this option quotas are counted only, as in ZooKeeper.",
     option_flag, &chosen.wire.enforce_quota, .flags = EMBEDDED | OPTION_RELOADS},
    {"zk-super", "FILE",
     "A client of the ZooKeeper port that authenticates as the user in this file may do\n"
     "everything. The file has user:DIGEST, as ZooKeeper's superDigest.",
     option_text, &chosen.wire.super_file, .flags = EMBEDDED | OPTION_RELOADS},
    {"zk-digest", "SHA1|SHA-256|SHA-512|SHA3-256|none",
     "The sum in the ids of digest authentication; none: there is no such\n"
     "authentication.",
     option_choice, &chosen.wire.digest, .initial = "SHA1", .flags = EMBEDDED},
    {"zk-require-auth", NULL,
     "Refuse requests of clients of the ZooKeeper port that have not authenticated with a\n"
     "digest.",
     option_flag, &chosen.wire.require_auth, .flags = EMBEDDED},
    {"zk-skip-acl", NULL,
     "Do not enforce access lists: every client of the ZooKeeper port may do everything.",
     option_flag, &chosen.wire.skip_acl, .flags = EMBEDDED},
    {"zk-max-buffer", "BYTES", "The longest request that the ZooKeeper port accepts.",
     option_number, &chosen.wire.packet_max, 64, WIRE_PACKET_LIMIT, .initial = "1048575",
     .flags = EMBEDDED | OPTION_RELOADS},
    {"zk-connections", "N",
     "Maximum number of connections to the ZooKeeper port; further ones are closed.", option_number,
     &chosen.wire.connections_max, 1, 1000000, .initial = "10000",
     .flags = EMBEDDED | OPTION_RELOADS},
    {"zk-connections-per-address", "N",
     "Maximum number of connections to the ZooKeeper port from one address. Default: a\n"
     "quarter of --zk-connections; loopback addresses have no limit of their own.",
     option_number, &chosen.wire.connections_per_address, 1, 1000000,
     .flags = EMBEDDED | OPTION_RELOADS},
    {"zk-min-session-timeout", "TIME",
     "The shortest session timeout on the ZooKeeper port; who asks for less gets this.",
     option_span, &chosen.wire.timeout_min_ms, 1, TIMEOUT_LIMIT_MS, .initial = "1s",
     .flags = EMBEDDED | OPTION_RELOADS},
    {"zk-max-session-timeout", "TIME", "The longest one; who asks for more gets this.", option_span,
     &chosen.wire.timeout_max_ms, 1, TIMEOUT_LIMIT_MS, .initial = "1h",
     .flags = EMBEDDED | OPTION_RELOADS},
    {"zk-hello-timeout", "TIME",
     "How long a client may take from its connection to the ZooKeeper port to its connect\n"
     "request.",
     option_span, &chosen.wire.hello_ms, 1, 3600 * 1000, .initial = "10s",
     .flags = EMBEDDED | OPTION_RELOADS},
    {"snapshot-every", "N",
     "Write a snapshot after N transactions, or after as many as there are nodes if that\n"
     "is more.",
     option_number, &chosen.snapshot_every, 1, INT64_MAX, .initial = "200000",
     .flags = EMBEDDED | ON_DISK | OPTION_RELOADS},
    {0},
};

/* Whether a value asks for what an ensemble does anyway. */
static bool is_idle(const struct cmd_call *call, size_t i)
{
    static const struct {
        const char *name, *value;
    } idle[] = {{"journal", "strict"}, {"zk", "none"}};
    const struct option *o = &call->options[i];
    const char *given = call->values[i].given;
    for (size_t j = 0; j < sizeof idle / sizeof *idle; j++)
        if (!strcmp(o->name, idle[j].name))
            return !strcmp(given, idle[j].value);
    return option_is_flag(o) && !*(const bool *)o->target;
}

static bool is_for_keeper(const struct serve_options *o, const struct option *option)
{
    return !(option->flags & (o->keeper ? EMBEDDED : ENSEMBLE));
}

bool serve_applies(const struct serve_options *o, const struct option *option)
{
    return is_for_keeper(o, option) && !(o->journal == LOCAL_NONE && option->flags & ON_DISK);
}

/* Options that need an ensemble, and options that an ensemble excludes. */
static int check_keeper(const struct cmd_call *call, struct serve_options *o,
                        struct err_info *ret_error)
{
    char origin[CONFIG_ORIGIN_SIZE];
    struct err_info e;
    if (o->keeper && zookeeper_check_url(o->keeper, &o->zk_tls, &e))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "--keeper: %s", e.text);
    for (size_t i = 0; i < call->option_count; i++)
        if (call->values[i].given && !is_for_keeper(o, &call->options[i]) && !is_idle(call, i))
            return err_set(ret_error, DROVER_BAD_ARGUMENT,
                           o->keeper ? "%s is for the embedded keeper and does not go with --keeper"
                                     : "%s goes with --keeper",
                           config_origin(origin, call, i));
    if (o->keeper)
        o->wire.listen = (struct option_addresses){.none = true};
    return 0;
}

static bool is_all_loopback(const struct option_addresses *a)
{
    size_t i = 0;
    while (i < a->count && address_is_loopback(&a->items[i]))
        i++;
    return i == a->count;
}

/* What is sent in clear may be read and changed by whoever is on the way. */
static int check_addresses(const struct serve_options *o, struct err_info *ret_error)
{
    if (!is_all_loopback(&o->http) && !o->insecure_network)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "--http: an address other than loopback needs TLS: --https; or "
                       "--insecure-network");
    if (!is_all_loopback(&o->wire.listen) && !o->insecure_network)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "--zk: an address other than loopback needs TLS: --zk-tls; or "
                       "--insecure-network");
    return 0;
}

static bool is_given(const struct cmd_call *call, const char *name)
{
    for (size_t i = 0; i < call->option_count; i++)
        if (!strcmp(call->options[i].name, name))
            return call->values[i].given;
    return false;
}

static int check_tls(const struct serve_options *o, struct err_info *ret_error)
{
    bool wanted = o->https.count || o->wire.tls_listen.count,
         verify = o->tls.verify == TLS_VERIFY_REQUIRED;
    const char *wrong = NULL;
    if (wanted && !o->tls.cert)
        wrong = o->https.count ? "--https needs --tls-cert and --tls-key"
                               : "--zk-tls needs --tls-cert and --tls-key";
    else if (!o->tls.cert != !o->tls.key)
        wrong = "--tls-cert and --tls-key go together";
    else if (o->tls.cert && !wanted)
        wrong = "--tls-cert goes with --https or --zk-tls";
    else if (!o->tls.ca && (verify || o->certificates.count))
        wrong = verify ? "--tls-verify goes with --tls-ca" : "--tls-role goes with --tls-ca";
    else if (o->tls.ca && !wanted)
        wrong = "--tls-ca goes with --https or --zk-tls";
    return wrong ? err_set(ret_error, DROVER_BAD_ARGUMENT, "%s", wrong) : 0;
}

/* The options of the ZooKeeper port that contradict each other. */
static int check_wire(const struct wire_options *o, struct err_info *ret_error)
{
    char min[HUMAN_SIZE], max[HUMAN_SIZE];
    if (o->timeout_min_ms > o->timeout_max_ms)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "--zk-min-session-timeout, %s, is more than --zk-max-session-timeout, %s",
                       human_span(min, o->timeout_min_ms), human_span(max, o->timeout_max_ms));
    if (o->digest == WIRE_NO_DIGEST && (o->super_file || o->require_auth))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "--%s does not go with --zk-digest none",
                       o->super_file ? "zk-super" : "zk-require-auth");
    return 0;
}

int serve_check_options(const struct cmd_call *call, struct serve_options *o,
                        struct err_info *ret_error)
{
    TRY(check_keeper(call, o, ret_error));
    TRY(activation_use(o, ret_error));
    TRY(check_wire(&o->wire, ret_error));
    TRY(check_tls(o, ret_error));
    return check_addresses(o, ret_error);
}

int serve_check(const struct cmd_call *call, struct serve_options **ret_options)
{
    struct err_info e;
    if (serve_check_options(call, &chosen, &e))
        return cmd_usage_error(call->cmd, "%s", e.text);
    *ret_options = &chosen;
    return CMD_OK;
}

/* The options of the modules, and those of the log. */
size_t serve_more_options(struct option *to)
{
    static const struct option log_options[] = {
        {"log", "text|json",
         "Format of the lines on standard error. Text has the time and the level; only the\n"
         "level in systemd's journal, which has the time itself.",
         option_choice, &chosen.log_format, .initial = "text", .flags = OPTION_RELOADS},
        {"log-level", "debug|info|warning|error", "Leave out lines below this level.",
         option_choice, &chosen.log_level, .initial = "info", .flags = OPTION_RELOADS},
    };
    size_t count = 0;
    for (size_t i = 0; MODULES[i]; i++)
        for (size_t j = 0; j < MODULES[i]->option_count; j++)
            to[count++] = MODULES[i]->options[j];
    for (size_t i = 0; i < sizeof log_options / sizeof *log_options; i++)
        to[count++] = log_options[i];
    return count;
}

static int run_serve(const struct cmd_call *call)
{
    struct serve_options *o;
    struct err_info e;
    if (activation_take(&e))
        return cmd_usage_error(call->cmd, "%s", e.text);
    TRY(serve_check(call, &o));
    /* A new user does not have the default's parents yet. Those of a directory that was named must
     * exist: a typo should not become a new tree of directories. */
    o->makes_parents = !is_given(call, "data");
    o->socket_is_default = !is_given(call, "socket");
    o->source = serve_source(call, o);
    log_begin((enum log_format)o->log_format, (enum log_level)o->log_level);
    return serve(o) ? CMD_FAILURE : CMD_OK;
}

const struct cmd cmd_serve = CMD_INIT(
    "serve", "run the server", NULL,
    "Runs the server in the foreground until it receives TERM or INT. It logs to standard\n"
    "error, one line per event.",
    SERVE_OPTIONS, CMD_LOCAL, run_serve, .heading = "The server",
    .more_options = serve_more_options, .variables = SERVE_VARIABLES);
