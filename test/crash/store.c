/*
 * Texts are made from the tree itself, not through a keeper: they show what a restart must restore.
 */
#include "store.h"

#include <stdio.h>

#include "base/crc32c.h"
#include "keeper/journal/recover.h"
#include "keeper/local/engine.h"

static int64_t store_wall_ms(void *arg)
{
    return atomic_load(&((struct store *)arg)->wall_ms);
}

static void store_fatal(void *arg, const char *line)
{
    struct store *s = arg;

    pthread_mutex_lock(&s->lock);
    snprintf(s->fatal, sizeof s->fatal, "%s", line);
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_add(&s->fatals, 1);
}

static void store_note(void *arg, const char *line)
{
    struct store *s = arg;

    pthread_mutex_lock(&s->lock);
    snprintf(s->note, sizeof s->note, "%s", line);
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_add(&s->notes, 1);
}

struct store *store_new(void)
{
    struct store *s = mem_zalloc(sizeof *s);

    atomic_init(&s->wall_ms, 1000000);
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void store_free(struct store *s)
{
    pthread_mutex_destroy(&s->lock);
    free(s);
}

struct local_options store_options(struct store *s, const char *dir, const struct fs *fs)
{
    return (struct local_options){
        .mode = LOCAL_STRICT,
        .dir = dir,
        .snapshot_every = INT64_MAX,
        .segment_len = LOCAL_SEGMENT_LEN_MIN,
        .fs = fs,
        .wall_ms = store_wall_ms,
        .fatal = store_fatal,
        .note = store_note,
        .arg = s,
    };
}

int store_open_with(struct store *s, const struct local_options *o)
{
    int err = local_open(o, &s->l, &s->error);

    if (err)
        s->l = NULL;
    return err;
}

int store_open(struct store *s, const char *dir, const struct fs *fs)
{
    struct local_options o = store_options(s, dir, fs);

    return store_open_with(s, &o);
}

int store_connect(struct store *s)
{
    struct keeper_options o = {.timeout_ms = KEEPER_TIMEOUT_MAX_MS};

    return local_connect(s->l, &o, &s->k);
}

static void close_store(struct store *s, void (*end)(struct keeper *))
{
    if (s->k)
        end(s->k);
    if (s->l)
        local_close(s->l);
    s->k = NULL;
    s->l = NULL;
}

void store_close(struct store *s)
{
    close_store(s, keeper_close);
}

void store_leave(struct store *s)
{
    close_store(s, keeper_abandon);
}

int64_t store_zxid(struct store *s)
{
    struct local_stats stats;

    local_stats(s->l, &stats);
    return stats.zxid;
}

void store_last_note(struct store *s, char *ret_line, size_t len)
{
    pthread_mutex_lock(&s->lock);
    snprintf(ret_line, len, "%s", s->note);
    pthread_mutex_unlock(&s->lock);
}

/* The answer to a commit. */
struct answer {
    pthread_mutex_t lock;
    pthread_cond_t come;
    bool here;
    int err;
    struct keeper_result results[COMMIT_MAX];
};

static void take_answer(void *arg, int err, const struct keeper_result *results, size_t count)
{
    struct answer *a = arg;

    pthread_mutex_lock(&a->lock);
    a->err = err;
    for (size_t i = 0; i < count; i++) {
        a->results[i] = results[i];
        if (results[i].path)
            a->results[i].path = mem_dup(results[i].path, strlen(results[i].path));
    }
    a->here = true;
    pthread_cond_signal(&a->come);
    pthread_mutex_unlock(&a->lock);
}

int commit_and_wait(struct keeper *k, const struct keeper_op *ops, size_t count,
                    struct keeper_result *results)
{
    struct answer a = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, {{0}}};
    int err = keeper_commit(k, ops, count, take_answer, &a);

    if (err) /* malformed: a commit has no results to show for that */
        return keeper_multi(k, ops, count, results);
    pthread_mutex_lock(&a.lock);
    while (!a.here)
        pthread_cond_wait(&a.come, &a.lock);
    pthread_mutex_unlock(&a.lock);
    memcpy(results, a.results, count * sizeof *results);
    return a.err;
}

/* Lines on their way to being sorted: offsets into text, which may move. */
struct lines {
    struct buf text;
    size_t *starts;
    size_t count;
};

static void lines_begin(struct lines *l)
{
    l->starts = mem_realloc(l->starts, (l->count + 1) * sizeof *l->starts);
    l->starts[l->count++] = l->text.len;
}

static void put_node(struct lines *l, const struct tree_node_state *n)
{
    lines_begin(l);
    buf_printf(&l->text,
               "%.*s c%lld m%lld p%lld ct%lld mt%lld o%lld v%d n%d data %zu %08x acl %d %08x",
               (int)n->path.len, n->path.p, (long long)n->czxid, (long long)n->mzxid,
               (long long)n->pzxid, (long long)n->ctime_ms, (long long)n->mtime_ms,
               (long long)n->owner, n->version, n->creations, n->data.len,
               crc32c(0, n->data.p, n->data.len), n->aversion, crc32c(0, n->acl.p, n->acl.len));
    buf_put_u8(&l->text, 0);
}

static void put_session(struct lines *l, const struct tree_session *s)
{
    lines_begin(l);
    buf_printf(&l->text, "session %lld timeout %d password %08x", (long long)s->id, s->timeout_ms,
               crc32c(0, s->password, KEEPER_PASSWORD_LEN));
    buf_put_u8(&l->text, 0);
}

static int by_text(const void *a, const void *b, void *text)
{
    return strcmp((char *)text + *(const size_t *)a, (char *)text + *(const size_t *)b);
}

static char *lines_end(struct lines *l)
{
    struct buf sorted = {0};

    qsort_r(l->starts, l->count, sizeof *l->starts, by_text, l->text.p);
    for (size_t i = 0; i < l->count; i++)
        buf_printf(&sorted, "%s\n", l->text.p + l->starts[i]);
    buf_text(&sorted);
    buf_release(&l->text);
    free(l->starts);
    return sorted.p;
}

char *tree_text(const struct tree *t)
{
    struct lines l = {0};
    struct tree_node_state state;
    struct buf path = {0};
    uint32_t cursor = 0;

    while (tree_walk(t, &cursor, &path, &state))
        put_node(&l, &state);
    for (uint32_t i = 0; i < t->sessions.len; i++)
        if (t->sessions.list[i])
            put_session(&l, t->sessions.list[i]);
    buf_release(&path);
    return lines_end(&l);
}

char *store_text(struct store *s)
{
    char *text;

    pthread_mutex_lock(&s->l->lock);
    text = tree_text(&s->l->tree);
    pthread_mutex_unlock(&s->l->lock);
    return text;
}

int dir_text(const char *dir, char **ret_text, int64_t *ret_zxid, struct err_info *ret_error)
{
    static const struct recover_hooks silent;
    struct recovery r;
    int err = recover_read(dir, &silent, &r, ret_error);

    if (!err) {
        *ret_text = tree_text(&r.tree);
        *ret_zxid = r.tree.zxid;
    }
    recovery_release(&r);
    return err;
}

void expect_text(const char *what, const char *want, const char *got)
{
    size_t same = 0, start = 0;

    if (strcmp(want, got) == 0)
        return;
    for (; want[same] && want[same] == got[same]; same++)
        if (want[same] == '\n')
            start = same + 1;
    fail_msg("%s: expected\n  %.*s\ninstead of\n  %.*s", what, (int)strcspn(want + start, "\n"),
             want + start, (int)strcspn(got + start, "\n"), got + start);
}

void history_release(struct history *h)
{
    for (size_t i = 0; i < h->len; i++)
        free(h->texts[i]);
    free(h->texts);
    *h = (struct history){0};
}

static void history_put(struct history *h, int64_t zxid, char *text)
{
    size_t at = (size_t)zxid;

    if (at >= h->len) {
        h->texts = mem_realloc(h->texts, (at + 1) * sizeof *h->texts);
        memset(h->texts + h->len, 0, (at + 1 - h->len) * sizeof *h->texts);
        h->len = at + 1;
    }
    free(h->texts[at]);
    h->texts[at] = text;
}

void history_note(struct history *h, struct store *s)
{
    history_put(h, store_zxid(s), store_text(s));
}

const char *history_at(const struct history *h, int64_t zxid)
{
    return zxid >= 0 && (size_t)zxid < h->len ? h->texts[zxid] : NULL;
}

void history_join(struct history *to, const struct history *early, const struct history *late)
{
    const struct history *parts[] = {early, late};

    *to = (struct history){0};
    for (int part = 0; part < 2; part++)
        for (size_t i = 0; i < parts[part]->len; i++)
            if (parts[part]->texts[i])
                history_put(to, (int64_t)i,
                            mem_dup(parts[part]->texts[i], strlen(parts[part]->texts[i])));
}
