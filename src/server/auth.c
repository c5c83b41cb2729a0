#include "server/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/place.h"
#include "base/random.h"
#include "base/secret.h"
#include "base/thread.h"
#include "base/tls.h"

enum { FILES_MAX = 2 }; /* --token-file and the administrator's */

struct auth {
    struct identity *loopback, *nobody;
    const struct auth_certificates *certificates; /* NULL: none */
    pthread_mutex_t lock;
    struct auth_token files[FILES_MAX], next_files[FILES_MAX]; /* next: while it reloads */
    char *paths[FILES_MAX];
    size_t file_count;
    struct auth_token *tokens;
    size_t count;
    struct map index; /* of tokens: their place, plus 1 */
    atomic_uint_fast64_t generation;
    char key[AUTH_KEY_LEN];
    auth_runs_fn *runs;
    void *runs_arg;
};

static void put_hex(const unsigned char sum[SHA256_LEN], char ret_hex[AUTH_HASH_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_LEN; i++) {
        ret_hex[2 * i] = digits[sum[i] >> 4];
        ret_hex[2 * i + 1] = digits[sum[i] & 15];
    }
    ret_hex[AUTH_HASH_LEN] = '\0';
}

void auth_hash(struct str token, char ret_hash[AUTH_HASH_LEN + 1])
{
    unsigned char sum[SHA256_LEN];
    sha256(token, sum);
    put_hex(sum, ret_hash);
}

/* Tokens in files. */

static bool is_token(const char *text)
{
    size_t len = strlen(text);
    if (len < AUTH_TOKEN_LEN_MIN || len > AUTH_TOKEN_LEN_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return true;
}

static int read_token(const char *path, const char *name, struct auth_token *ret_token,
                      struct err_info *ret_error)
{
    char line[AUTH_TOKEN_LEN_MAX + 2];
    TRY(secret_read(path, line, sizeof line, ret_error));
    if (!is_token(line))
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "%s does not begin with a token: a line of %d to %d visible characters",
                       path, AUTH_TOKEN_LEN_MIN, AUTH_TOKEN_LEN_MAX);
    auth_hash(str_of(line), ret_token->hash);
    ret_token->who = identity_new(ROLE_ALL, name);
    explicit_bzero(line, sizeof line);
    return 0;
}

static int add_file(struct auth *a, const char *path, const char *name, struct err_info *ret_error)
{
    TRY(read_token(path, name, &a->files[a->file_count], ret_error));
    a->paths[a->file_count++] = mem_dup(path, strlen(path));
    a->generation++;
    return 0;
}

/* Reload: new tokens in the same files. */

static void drop_files(struct auth_token *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        identity_drop(files[i].who);
}

static int prepare_files(void *auth, const struct reload *r, struct err_info *ret_error)
{
    struct auth *a = auth;
    (void)r;
    for (size_t i = 0; i < a->file_count; i++) {
        int err = read_token(a->paths[i], a->files[i].who->name, &a->next_files[i], ret_error);
        if (err) {
            drop_files(a->next_files, i);
            return err;
        }
    }
    return 0;
}

static void use_files(void *auth)
{
    struct auth *a = auth;
    LOCKED(&a->lock);
    drop_files(a->files, a->file_count);
    memcpy(a->files, a->next_files, sizeof a->files);
    a->generation++;
}

static void cancel_files(void *auth)
{
    struct auth *a = auth;
    drop_files(a->next_files, a->file_count);
}

struct reload_hook auth_reload_hook(struct auth *a)
{
    return (struct reload_hook){prepare_files, use_files, cancel_files, a};
}

/* A crash leaves the temporary file, or the whole one. */
static int make_token_file(const char *path, struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf temporary = {0};
    char line[AUTH_HASH_LEN + 2];
    random_hex(line, AUTH_HASH_LEN);
    line[AUTH_HASH_LEN] = '\n';
    buf_printf(&temporary, "%s.new", path);
    unlink(buf_text(&temporary));
    int fd = open(temporary.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool written = fd >= 0 && write(fd, line, AUTH_HASH_LEN + 1) == AUTH_HASH_LEN + 1 &&
                   !fsync(fd) && !rename(temporary.p, path);
    int errnum = errno;
    if (fd >= 0)
        close(fd);
    return written ? 0 : err_set_errno(ret_error, errnum, "cannot write %s", path);
}

int auth_make_admin_token(struct auth *a, const char *data_dir, struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf path = {0};
    struct stat st;
    buf_printf(&path, "%s/" PLACE_ADMIN_TOKEN, data_dir);
    bool there = !lstat(buf_text(&path), &st);
    if (!there && errno != ENOENT)
        return err_set_errno(ret_error, errno, "cannot look at %s", path.p);
    bool safe = there && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
    if (there && !safe)
        log_warning("others could read %s: it has a new token now", path.p);
    if (!safe)
        TRY(make_token_file(path.p, ret_error));
    return add_file(a, path.p, "the admin token", ret_error);
}

/* Open and close. */

int auth_open(const struct auth_options *o, struct auth **ret_auth, struct err_info *ret_error)
{
    struct auth *a = mem_zalloc(sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
    a->loopback = identity_new(o->loopback_roles, "loopback");
    a->nobody = identity_new(0, "nobody");
    a->loopback->anonymous = a->nobody->anonymous = true;
    a->certificates = o->certificates;
    int err =
        o->token_file ? add_file(a, o->token_file, "the token of --token-file", ret_error) : 0;
    if (err) {
        auth_close(a);
        return err;
    }
    *ret_auth = a;
    return 0;
}

static void release_tokens(struct auth *a)
{
    for (size_t i = 0; i < a->count; i++)
        identity_drop(a->tokens[i].who);
    free(a->tokens);
    map_release(&a->index);
}

void auth_close(struct auth *a)
{
    if (!a)
        return;
    release_tokens(a);
    drop_files(a->files, a->file_count);
    for (size_t i = 0; i < a->file_count; i++)
        free(a->paths[i]);
    identity_drop(a->loopback);
    identity_drop(a->nobody);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

void auth_replace(struct auth *a, struct auth_token *tokens, size_t count)
{
    LOCKED(&a->lock);
    release_tokens(a);
    a->tokens = tokens;
    a->count = count;
    a->index = (struct map){0};
    for (size_t i = 0; i < count; i++)
        map_add(&a->index, map_hash_str(str_of(tokens[i].hash)), (uint32_t)i + 1);
    a->generation++;
}

const atomic_uint_fast64_t *auth_generation(const struct auth *a)
{
    return &a->generation;
}

/* Tokens of commands. */

/* The key is made once, by whoever comes first. One that is too short could be guessed. */
int auth_load_key(struct auth *a, struct keeper *k)
{
    CLEANUP(buf_release) struct buf key = {0};
    char fresh[AUTH_KEY_LEN + 1];
    int err = keeper_get(k, AUTH_KEY_NODE, &key, NULL);
    if (err == DROVER_NO_NODE) {
        random_hex(fresh, sizeof a->key);
        TRY(keeper_ensure(k, "/drover", STR("")));
        err = keeper_ensure(k, AUTH_KEY_NODE, (struct str){fresh, sizeof a->key});
        if (!err)
            err = keeper_get(k, AUTH_KEY_NODE, &key, NULL);
    }
    TRY(err);
    if (key.len != sizeof a->key || strspn(buf_text(&key), "0123456789abcdef") != sizeof a->key)
        return DROVER_DAMAGED;
    LOCKED(&a->lock);
    memcpy(a->key, key.p, sizeof a->key);
    return 0;
}

void auth_set_nodes(struct auth *a, auth_runs_fn *runs, void *arg)
{
    a->runs = runs;
    a->runs_arg = arg;
}

void auth_node_token(struct auth *a, uint64_t node, uint32_t attempt,
                     char ret_token[AUTH_NODE_TOKEN_SIZE])
{
    unsigned char sum[SHA256_LEN];
    char hex[AUTH_HASH_LEN + 1];
    int len =
        snprintf(ret_token, AUTH_NODE_TOKEN_SIZE, "node-%" PRIu64 "-%" PRIu32 "-", node, attempt);
    pthread_mutex_lock(&a->lock);
    hmac_sha256((struct str){a->key, sizeof a->key}, (struct str){ret_token, (size_t)len}, sum);
    pthread_mutex_unlock(&a->lock);
    put_hex(sum, hex);
    memcpy(ret_token + len, hex, sizeof hex);
}

static bool is_same_secret(const char *a, const char *b, size_t len)
{
    unsigned different = 0;
    for (size_t i = 0; i < len; i++)
        different |= (unsigned char)a[i] ^ (unsigned char)b[i];
    return !different;
}

/* NULL: it is not the token of a command that runs. */
static struct identity *find_node(struct auth *a, const struct http_peer *peer, struct str token)
{
    char given[AUTH_NODE_TOKEN_SIZE], right[AUTH_NODE_TOKEN_SIZE], name[IDENTITY_NAME_SIZE];
    uint64_t node;
    uint32_t attempt;
    if (token.len >= sizeof given)
        return NULL;
    snprintf(given, sizeof given, "%.*s", STR_ARGS(token));
    if (sscanf(given, "node-%" SCNu64 "-%" SCNu32 "-", &node, &attempt) != 2)
        return NULL;
    auth_node_token(a, node, attempt, right);
    if (strlen(right) != token.len || !is_same_secret(right, given, token.len) || !a->runs ||
        !a->runs(a->runs_arg, node, attempt))
        return NULL;
    snprintf(name, sizeof name, "the command of node %" PRIu64, node);
    unsigned more = peer->is_loopback || peer->is_unix ? a->loopback->roles : 0;
    struct identity *who = identity_new(ROLE_READ | ROLE_RUN | more, name);
    who->node = node;
    return who;
}

/* Recognition. */

static struct identity *find_token(struct auth *a, struct str token)
{
    char hash[AUTH_HASH_LEN + 1];
    uint32_t at;
    auth_hash(token, hash);
    LOCKED(&a->lock);
    for (size_t i = 0; i < a->file_count; i++)
        if (!strcmp(a->files[i].hash, hash))
            return identity_keep(a->files[i].who);
    uint32_t sought = map_hash_str((struct str){hash, AUTH_HASH_LEN});
    for (uint32_t ref = map_first(&a->index, sought, &at); ref;
         ref = map_next(&a->index, sought, &at))
        if (!strcmp(a->tokens[ref - 1].hash, hash))
            return identity_keep(a->tokens[ref - 1].who);
    return NULL;
}

static struct identity *find_user(const struct auth *a, uid_t user)
{
    char name[IDENTITY_NAME_SIZE];
    snprintf(name, sizeof name, "user %u", (unsigned)user);
    return identity_new(user == geteuid() || user == 0 ? ROLE_ALL : a->loopback->roles, name);
}

/* NULL: none of its names has a role. */
static struct identity *find_certificate(const struct auth *a, const struct tls_peer *peer)
{
    const char *name = NULL;
    unsigned roles = 0;
    for (size_t i = 0; a->certificates && i < a->certificates->count; i++)
        for (size_t j = 0; j < peer->count; j++)
            if (identity_matches(a->certificates->items[i].name, str_of(peer->names[j]))) {
                name = name ? name : peer->names[j];
                roles |= a->certificates->items[i].roles;
            }
    char text[IDENTITY_NAME_SIZE];
    snprintf(text, sizeof text, "certificate %s", name ? name : "");
    return name ? identity_new(roles, text) : NULL;
}

struct identity *auth_identify(void *auth, const struct http_peer *peer, struct str token)
{
    struct auth *a = auth;
    if (str_starts(token, STR("node-")))
        return find_node(a, peer, token);
    if (token.len) {
        struct identity *who = find_token(a, token);
        bool expired = who && who->expires_ms && clock_wall_ms() >= who->expires_ms;
        if (expired)
            identity_drop(who);
        return expired ? NULL : who;
    }
    if (peer->is_unix)
        return find_user(a, peer->user);
    struct identity *certified = peer->certificate ? find_certificate(a, peer->certificate) : NULL;
    if (certified)
        return certified;
    return identity_keep(peer->is_loopback ? a->loopback : a->nobody);
}
