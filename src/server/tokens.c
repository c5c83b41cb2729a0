#include "server/tokens.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include "server/audit.h"
#include "server/auth.h"
#include "server/context.h"
#include "server/ground.h"

#define ROOT "/drover/tokens"

enum {
    VERSION = 1,
    IDLE_MS = 3600 * 1000, /* it is woken when tokens change */
    RETRY_MS = 500,
    NAME_LEN_MAX = 64,
    PATTERN_LEN_MAX = 255,
};

struct tokens {
    struct context *context;
    struct periodic *thread;
    pthread_mutex_t loading; /* one at a time, so that an older list never replaces a newer one */
    struct keeper *k;        /* borrowed for the watch; NULL: none */
    struct keeper_watch *watch;
    atomic_bool ended; /* the session has */
};

static const char *const SCOPES[SCOPE_COUNT] = {"groups", "worlds", "queues"};

/* Records. */

struct token_record {
    char hash[AUTH_HASH_LEN + 1];
    struct str name, by;
    unsigned roles;
    const struct json *patterns[SCOPE_COUNT];
    int64_t created_ms, expires_ms;
};

/* False: the data is not that of a token. */
static bool read_record(struct arena *a, struct str data, struct token_record *ret_record)
{
    struct token_record t = {0};
    const struct json *v = json_parse(a, data, NULL), *roles;
    struct str hash = json_text_of(v, "hash");
    if (json_int_of(v, "version") != VERSION || hash.len != AUTH_HASH_LEN ||
        json_get_list(v, "roles", &roles, NULL) != 1)
        return false;
    memcpy(t.hash, hash.p, AUTH_HASH_LEN);
    json_each(role, json_list(roles)) {
        unsigned one;
        if (role->kind != JSON_TEXT || roles_parse(role->text, &one, NULL))
            return false;
        t.roles |= one;
    }
    for (size_t i = 0; i < SCOPE_COUNT; i++)
        if (json_get_list(v, SCOPES[i], &t.patterns[i], NULL) < 0)
            return false;
    t.name = json_text_of(v, "name");
    t.by = json_text_of(v, "by");
    t.created_ms = json_int_of(v, "created");
    t.expires_ms = json_int_of(v, "expires");
    *ret_record = t;
    return true;
}

static struct identity *identity_of(const struct token_record *t)
{
    char name[IDENTITY_NAME_SIZE];
    snprintf(name, sizeof name, "token %.*s%s%.*s%s", AUTH_ID_LEN, t->hash, t->name.len ? " (" : "",
             STR_ARGS(t->name), t->name.len ? ")" : "");
    struct identity *who = identity_new(t->roles, name);
    who->expires_ms = t->expires_ms;
    for (size_t i = 0; i < SCOPE_COUNT; i++)
        json_each(pattern, json_list(t->patterns[i]))
            if (pattern->kind == JSON_TEXT)
                identity_limit(who, (enum identity_scope)i, pattern->text);
    return who;
}

/* What lists show: all but the hash. */
static void put_record(struct buf *b, const struct token_record *t)
{
    json_open(b, '{');
    json_member_text(b, "id", (struct str){t->hash, AUTH_ID_LEN});
    json_member_text(b, "name", t->name);
    json_member_open(b, "roles", '[');
    for (unsigned role = 1; role < ROLE_ALL; role *= 2)
        if (t->roles & role)
            json_put_text(b, str_of(role_name((enum role)role)));
    json_close(b, ']');
    for (size_t i = 0; i < SCOPE_COUNT; i++) {
        json_member_open(b, SCOPES[i], '[');
        json_each(pattern, json_list(t->patterns[i]))
            json_put(b, pattern);
        json_close(b, ']');
    }
    json_member_int(b, "created", t->created_ms);
    json_member_int(b, "expires", t->expires_ms);
    json_member_text(b, "by", t->by);
    json_close(b, '}');
}

/* Loading. */

typedef void record_fn(void *arg, const struct token_record *t);

/* Calls fn for each token. A node that another client has made wrong is reported and left out. */
static int each_record(struct keeper *k, record_fn *fn, void *arg)
{
    CLEANUP(arena_release) struct arena a = {0};
    CLEANUP(buf_release) struct buf data = {0};
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    int err = keeper_children(k, ROOT, &names, NULL);
    if (err)
        return err == DROVER_NO_NODE ? 0 : err;
    for (size_t i = 0; i < names.count && i < AUTH_TOKENS_MAX; i++) {
        struct token_record t;
        arena_reset(&a);
        err = keeper_get(k, arena_printf(&a, ROOT "/%s", names.names[i]), &data, NULL);
        if (err == DROVER_NO_NODE)
            continue; /* revoked meanwhile */
        TRY(err);
        if (read_record(&a, buf_str(&data), &t) && !strncmp(t.hash, names.names[i], AUTH_ID_LEN))
            fn(arg, &t);
        else
            log_warning(ROOT "/%s is not a token, and is ignored", names.names[i]);
    }
    return 0;
}

struct token_list {
    struct auth_token *tokens;
    size_t count, cap;
};

static void add_token(void *arg, const struct token_record *t)
{
    struct token_list *list = arg;
    struct auth_token token = {.who = identity_of(t)};
    memcpy(token.hash, t->hash, sizeof token.hash);
    mem_grow(list->tokens, list->count, list->cap);
    list->tokens[list->count++] = token;
}

static int load(struct tokens *t, struct keeper *k)
{
    struct token_list list = {0};
    LOCKED(&t->loading);
    int err = each_record(k, add_token, &list);
    if (!err) {
        auth_replace(t->context->auth, list.tokens, list.count);
        return 0;
    }
    for (size_t i = 0; i < list.count; i++)
        identity_drop(list.tokens[i].who);
    free(list.tokens);
    return err;
}

/* Following. */

static void on_change(void *arg, enum keeper_event event, const char *path)
{
    struct tokens *t = arg;
    (void)event;
    (void)path;
    if (t->thread)
        periodic_wake(t->thread);
}

static void on_session(void *arg, struct keeper *k)
{
    struct tokens *t = ((struct context *)arg)->tokens;
    if (!t)
        return;
    if (!k)
        t->ended = true;
    periodic_wake(t->thread);
}

static void give_back(struct tokens *t)
{
    if (t->watch)
        keeper_unwatch(t->k, t->watch);
    if (t->k)
        context_return(t->context, t->k);
    t->k = NULL;
    t->watch = NULL;
}

/* The watch is set before the tokens are read, so no change is missed. */
static int follow(struct tokens *t, struct err_info *e)
{
    if (atomic_exchange(&t->ended, false))
        give_back(t);
    if (!t->k)
        t->k = context_keeper(t->context);
    if (!t->k)
        return err_explain(e, DROVER_CLOSED);
    int err = auth_load_key(t->context->auth, t->k);
    if (err)
        return err_set(e, err, "cannot read " AUTH_KEY_NODE ": %s", drover_err_message(err));
    if (!t->watch)
        err = keeper_watch(t->k, ROOT, KEEPER_WATCH_CHILDREN, on_change, t, &t->watch);
    if (!err)
        err = load(t, t->k);
    return err ? err_set(e, err, "cannot read " ROOT ": %s", drover_err_message(err)) : 0;
}

/* A lost connection heals, and others report it; damage needs somebody. */
static void on_turn(struct periodic *thread, void *arg)
{
    struct err_info e;
    int err = follow(arg, &e);
    if (err == DROVER_DAMAGED)
        log_error("%s", e.text);
    periodic_next(thread, err ? RETRY_MS : IDLE_MS);
}

/* Routes. */

struct token_in {
    struct str id, name;
    const struct str *roles, *patterns[SCOPE_COUNT];
    size_t role_count, pattern_count[SCOPE_COUNT];
    int64_t lifetime_ms;
};

static struct keeper *keeper_of(struct http_request *r)
{
    const struct tokens *t = r->arg;
    struct keeper *k = context_keeper(t->context);
    if (!k)
        http_reply_err(r, DROVER_CLOSED, "the keeper is away: try again");
    return k;
}

static void put_texts(struct buf *b, const char *name, const struct str *texts, size_t count)
{
    json_member_open(b, name, '[');
    for (size_t i = 0; i < count; i++)
        json_put_text(b, texts[i]);
    json_close(b, ']');
}

static void make_record(struct buf *b, const struct token_in *in, const char *hash, const char *by)
{
    int64_t now_ms = clock_wall_ms();
    json_open(b, '{');
    json_member_int(b, "version", VERSION);
    json_member_text(b, "hash", str_of(hash));
    json_member_text(b, "name", in->name);
    put_texts(b, "roles", in->roles, in->role_count);
    for (size_t i = 0; i < SCOPE_COUNT; i++)
        put_texts(b, SCOPES[i], in->patterns[i], in->pattern_count[i]);
    json_member_int(b, "created", now_ms);
    json_member_int(b, "expires", in->lifetime_ms ? now_ms + in->lifetime_ms : 0);
    json_member_text(b, "by", str_of(by));
    json_close(b, '}');
}

static int store(struct keeper *k, const char *hash, struct str record)
{
    char path[sizeof ROOT + AUTH_ID_LEN + 2];
    struct keeper_stat stat;
    TRY(keeper_ensure(k, "/drover", STR("")));
    TRY(keeper_ensure(k, ROOT, STR("")));
    TRY(keeper_exists(k, ROOT, &stat));
    if (stat.child_count >= AUTH_TOKENS_MAX)
        return DROVER_TOO_MANY;
    snprintf(path, sizeof path, ROOT "/%.*s", AUTH_ID_LEN, hash);
    return keeper_create(k, path, record, 0, NULL);
}

/* NULL, or which of the roles does not exist. */
static const struct str *wrong_role(const struct token_in *in)
{
    unsigned roles;
    for (size_t i = 0; i < in->role_count; i++)
        if (roles_parse(in->roles[i], &roles, NULL) || !roles)
            return &in->roles[i];
    return NULL;
}

/* The token's id and what it may do. */
static bool audit_token(struct http_request *r, const char *hash)
{
    const struct token_in *in = r->in;
    struct audit *a = ((struct tokens *)r->arg)->context->audit;
    CLEANUP(buf_release) struct buf line = {0};
    if (!audit_has_file(a))
        return true;
    audit_open_line(a, r, &line);
    json_member_text(&line, "token", (struct str){hash, AUTH_ID_LEN});
    json_member_text(&line, "name", in->name);
    put_texts(&line, "roles", in->roles, in->role_count);
    for (size_t i = 0; i < SCOPE_COUNT; i++)
        put_texts(&line, SCOPES[i], in->patterns[i], in->pattern_count[i]);
    json_member_int(&line, "lifetime", in->lifetime_ms);
    audit_close_line(&line);
    return audit_begin(a, r, &line);
}

static void post_token(struct http_request *r)
{
    const struct token_in *in = r->in;
    struct tokens *t = r->arg;
    char token[AUTH_HASH_LEN + 1], hash[AUTH_HASH_LEN + 1];
    CLEANUP(buf_release) struct buf record = {0}, reply = {0};
    const struct str *wrong = wrong_role(in);
    if (wrong) {
        http_reply_field(r, "roles", "'%.*s' is no role: read, work, submit, run, admin or all",
                         STR_ARGS(*wrong));
        return;
    }
    random_hex(token, AUTH_HASH_LEN);
    auth_hash(str_of(token), hash);
    struct keeper *k = audit_token(r, hash) ? keeper_of(r) : NULL;
    if (!k)
        return;
    make_record(&record, in, hash, r->who ? r->who->name : "");
    int err = store(k, hash, buf_str(&record));
    if (!err)
        err = load(t, k);
    context_return(t->context, k);
    if (err) {
        http_reply_err(r, err, err == DROVER_TOO_MANY ? "there are too many tokens" : NULL);
        return;
    }
    json_open(&reply, '{');
    json_member_text(&reply, "id", (struct str){hash, AUTH_ID_LEN});
    json_member_text(&reply, "token", str_of(token));
    json_close(&reply, '}');
    http_reply(r, 200, buf_str(&reply));
    explicit_bzero(token, sizeof token);
}

static void list_record(void *arg, const struct token_record *t)
{
    put_record(arg, t);
}

static void get_tokens(struct http_request *r)
{
    const struct tokens *t = r->arg;
    CLEANUP(buf_release) struct buf b = {0};
    struct keeper *k = keeper_of(r);
    if (!k)
        return;
    json_open(&b, '{');
    json_member_open(&b, "tokens", '[');
    int err = each_record(k, list_record, &b);
    context_return(t->context, k);
    json_close(&b, ']');
    json_close(&b, '}');
    if (err)
        http_reply_err(r, err, NULL);
    else
        http_reply(r, 200, buf_str(&b));
}

static void delete_token(struct http_request *r)
{
    const struct token_in *in = r->in;
    struct tokens *t = r->arg;
    struct keeper *k = audit_begin(t->context->audit, r, NULL) ? keeper_of(r) : NULL;
    if (!k)
        return;
    int err = memchr(in->id.p, '/', in->id.len)
                  ? DROVER_NO_NODE
                  : keeper_delete(k, arena_printf(&r->arena, ROOT "/%.*s", STR_ARGS(in->id)),
                                  KEEPER_ANY_VERSION);
    if (!err)
        err = load(t, k);
    context_return(t->context, k);
    if (err == DROVER_NO_NODE || err == DROVER_BAD_ARGUMENT)
        http_reply_errorf(r, 404, "there is no token %.*s", STR_ARGS(in->id));
    else if (err)
        http_reply_err(r, err, NULL);
    else
        http_reply(r, 200, STR("{}"));
}

static void get_identity(struct http_request *r)
{
    CLEANUP(buf_release) struct buf b = {0};
    unsigned roles = r->who ? r->who->roles : ROLE_ALL;
    json_open(&b, '{');
    json_member_text(&b, "name", str_of(r->who ? r->who->name : "anybody"));
    json_member_open(&b, "roles", '[');
    for (unsigned role = 1; role < ROLE_ALL; role *= 2)
        if (roles & role)
            json_put_text(&b, str_of(role_name((enum role)role)));
    json_close(&b, ']');
    for (size_t i = 0; i < SCOPE_COUNT && r->who && r->who->limited; i++)
        json_member_texts(&b, SCOPES[i], (const char *const *)r->who->patterns[i],
                          r->who->pattern_count[i]);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

#define IN struct token_in
#define PATTERNS(scope, name, help)                                                                \
    FIELD_LIST_(IN_BODY, IN, patterns[scope], pattern_count[scope], name, 0, SCOPE_PATTERNS_MAX,   \
                help, &PATTERN, sizeof(struct str))

static const struct route_field PATTERN = {
    .kind = FIELD_KIND_TEXT, .min = 1, .max = SCOPE_PATTERN_LEN_MAX};

static const struct route ROUTES[] = {
    {METHOD_POST, "/v1/tokens", post_token, ROLE_ADMIN | ROUTE_WORKER,
     "Make a token, which is shown only this once", "createToken", .reply = "id:text token:text",
     .errors = "429 There are too many tokens\n503",
     .example = "{\"name\": \"mail\", \"roles\": [\"work\"], \"groups\": [\"mail/*\"]}",
     ROUTE_IN(IN, FIELD_TEXT(IN_BODY, IN, name, "name", 0, NAME_LEN_MAX, "For people"),
              FIELD_TEXTS(IN_BODY | REQUIRED, IN, roles, role_count, "roles", 1, 8,
                          "What it may do: read, work, submit, run, admin, all"),
              PATTERNS(SCOPE_GROUP, "groups",
                       "Only groups of tasks of these names; a * at the end stands for any rest"),
              PATTERNS(SCOPE_WORLD, "worlds", "Only worlds of these names, likewise"),
              PATTERNS(SCOPE_QUEUE, "queues", "Only queues of these names, likewise"),
              FIELD_INT(IN_BODY, IN, lifetime_ms, "lifetime", 0, INT64_MAX / 2,
                        "Expires after so many milliseconds; 0: never"))},
    {METHOD_GET, "/v1/tokens", get_tokens, ROLE_ADMIN | ROUTE_WORKER,
     "List the tokens, without their text", "listTokens", .reply = "tokens:[Token]",
     .errors = "503"},
    {METHOD_DELETE, "/v1/tokens/{id}", delete_token, ROLE_ADMIN | ROUTE_WORKER, "Revoke a token",
     "revokeToken", .reply = "()", .errors = "404 No such token\n503",
     ROUTE_IN(IN, FIELD_TEXT(IN_PATH, IN, id, "id", 1, NAME_LEN_MAX, "The token"))},
    {METHOD_GET, "/v1/identity", get_identity, ROLE_ALL | ROUTE_LIMITS,
     "Show who sends this request, and what they may do", "getIdentity",
     .reply = "name:text roles:[text] groups?:[text] worlds?:[text] queues?:[text]"},
};

static const struct route_shape SHAPES[] = {
    {"Token", "(id:text name:text roles:[text] groups:[text] worlds:[text] queues:[text] "
              "created:int expires:int by:text)"},
};

/* The module. */

static int module_open(struct context *h, void **ret_module, struct err_info *ret_error)
{
    struct tokens *t = mem_zalloc(sizeof *t);
    t->context = h;
    pthread_mutex_init(&t->loading, NULL);
    ground_own(h, ROOT);
    ground_own(h, AUTH_KEY_NODE);
    /* An ensemble may not answer yet: the thread tries. */
    int err = h->local ? follow(t, ret_error) : 0;
    if (err) {
        give_back(t);
        pthread_mutex_destroy(&t->loading);
        free(t);
        return err;
    }
    context_listen(h, on_session, h);
    t->thread = periodic_start("tokens", 0, on_turn, t);
    *ret_module = h->tokens = t;
    return 0;
}

static struct route_table module_routes(void *module)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, module, "Rights", SHAPES,
                                1};
}

static void module_close(void *module)
{
    struct tokens *t = module;
    t->context->tokens = NULL;
    periodic_stop(t->thread);
    t->thread = NULL;
    give_back(t);
    pthread_mutex_destroy(&t->loading);
    free(t);
}

const struct module token_module = {
    .name = "tokens", .open = module_open, .routes = module_routes, .close = module_close};
