/*
 * driver - a keeper over ZooKeeper, one command a line, for the tests that break its connection.
 *
 * A reply is one line: "= OK ..." or "= NAME", the name of an error. Callbacks write lines of their
 * own at any time: "! EVENT path" from watches, "~ TEXT ERROR path" from storms. Data is one word,
 * "-" is none; flags are of the letters e (ephemeral), s (sequential), or "-".
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "keeper/zookeeper/zookeeper.h"

enum { WORDS_MAX = 24, THREADS_MAX = 16 };

static struct keeper *k;
static struct keeper_watch *watches[64];
static size_t watch_count;
static struct keeper_session session;

static int reply(int err, const char *text)
{
    printf("= %s%s%s\n", drover_err_name(err), text ? " " : "", text ? text : "");
    return err;
}

static struct str data_of(const char *word)
{
    return strcmp(word, "-") == 0 ? STR("") : str_of(word);
}

static int flags_of(const char *word)
{
    return (strchr(word, 'e') ? KEEPER_EPHEMERAL : 0) | (strchr(word, 's') ? KEEPER_SEQUENTIAL : 0);
}

/* connect URL TIMEOUT_MS [AUTH | -] [CONNECT_MS]; resume does the same with the latest session. */
static void do_connect(char **w)
{
    struct keeper_options o = {.timeout_ms = atoi(w[2])};
    struct zookeeper_options zo = {
        .auth = w[3] && strcmp(w[3], "-") != 0 ? w[3] : NULL,
        .connect_timeout_ms = w[3] && w[4] ? atoi(w[4]) : 0,
    };
    struct err_info e = {0};
    int err;

    if (strcmp(w[0], "resume") == 0)
        o.resume = session;
    err = zookeeper_connect(w[1], &zo, &o, &k, &e);
    if (!err)
        keeper_session(k, &session);
    reply(err, e.text[0] ? e.text : NULL);
}

static void do_session(char **w)
{
    char text[64];

    (void)w;
    keeper_session(k, &session);
    snprintf(text, sizeof text, "%" PRIx64 " %d", (uint64_t)session.id, session.timeout_ms);
    reply(0, text);
}

static void do_create(char **w)
{
    char *path = NULL;
    int err = keeper_create(k, w[1], data_of(w[2]), flags_of(w[3]), &path);

    reply(err, path);
    free(path);
}

static void do_set(char **w)
{
    struct keeper_stat stat;
    char text[32];
    int err = keeper_set(k, w[1], data_of(w[2]), atoi(w[3]), &stat);

    snprintf(text, sizeof text, "%d", err ? 0 : stat.version);
    reply(err, err ? NULL : text);
}

static void do_delete(char **w)
{
    reply(keeper_delete(k, w[1], atoi(w[2])), NULL);
}

static void do_get(char **w)
{
    struct buf data = {0};
    int err = keeper_get(k, w[1], &data, NULL);

    reply(err, err ? NULL : buf_text(&data));
    buf_release(&data);
}

static void do_children(char **w)
{
    struct keeper_names names = {0};
    struct buf text = {0};
    int err = keeper_children(k, w[1], &names, NULL);

    for (size_t i = 0; i < names.count; i++)
        buf_printf(&text, "%s%s", i ? " " : "", names.names[i]);
    reply(err, err ? NULL : buf_text(&text));
    keeper_names_release(&names);
    buf_release(&text);
}

static void do_sync(char **w)
{
    reply(keeper_sync(k, w[1]), NULL);
}

/* multi [create PATH DATA FLAGS | set PATH DATA VERSION]...: the result of each. */
static void do_multi(char **w)
{
    struct keeper_op ops[4] = {0};
    struct keeper_result results[4];
    struct buf text = {0};
    size_t n = 0;
    int err;

    for (w++; *w && n < 4; w += 4, n++)
        ops[n] = strcmp(*w, "create") == 0 ? keeper_op_create(w[1], data_of(w[2]), flags_of(w[3]))
                                           : keeper_op_set(w[1], data_of(w[2]), atoi(w[3]));
    err = keeper_multi(k, ops, n, results);
    for (size_t i = 0; i < n; i++)
        buf_printf(&text, "%s%s:%s:%" PRId64, i ? " " : "", drover_err_name(results[i].err),
                   results[i].path ? results[i].path : "-", results[i].stat.mzxid);
    reply(err, buf_text(&text));
    keeper_results_release(results, n);
    buf_release(&text);
}

static void on_watch(void *arg, enum keeper_event event, const char *path)
{
    static const char *const names[] = {"CREATED",  "CHANGED",     "DELETED",
                                        "CHILDREN", "RECONNECTED", "EXPIRED"};

    printf("! %s %s %s\n", names[event], (const char *)arg, path);
}

/* watch data|exists|children PATH */
static void do_watch(char **w)
{
    static const char *const kinds[] = {"data", "exists", "children"};
    int kind = w[1][0] == 'd' ? 0 : w[1][0] == 'e' ? 1 : 2;
    int err = keeper_watch(k, w[2], (enum keeper_watch_kind)kind, on_watch, (void *)kinds[kind],
                           &watches[watch_count]);

    watch_count += !err;
    reply(err, NULL);
}

static void do_unwatch(char **w)
{
    (void)w;
    while (watch_count)
        keeper_unwatch(k, watches[--watch_count]);
    reply(0, NULL);
}

/* Storms: many changes; each prints a line with its data. */
struct storm {
    pthread_t thread;
    int number, count, flags;
    const char *path;
};

static void *storm_create(void *arg)
{
    struct storm *s = arg;
    char data[32];

    for (int i = 0; i < s->count; i++) {
        char *path = NULL;
        int err;

        snprintf(data, sizeof data, "t%d-%d", s->number, i);
        err = keeper_create(k, s->path, str_of(data), s->flags, &path);
        printf("~ %s %s %s\n", data, drover_err_name(err), path ? path : "-");
        free(path);
        if (err == DROVER_SESSION_EXPIRED)
            break;
    }
    return NULL;
}

/* storm PATH FLAGS COUNT THREADS: creations that wait. */
static void do_storm(char **w)
{
    struct storm storms[THREADS_MAX];
    int threads = atoi(w[4]);

    for (int i = 0; i < threads; i++) {
        storms[i] =
            (struct storm){.number = i, .count = atoi(w[3]), .flags = flags_of(w[2]), .path = w[1]};
        if (pthread_create(&storms[i].thread, NULL, storm_create, &storms[i]))
            abort();
    }
    for (int i = 0; i < threads; i++)
        pthread_join(storms[i].thread, NULL);
    reply(0, NULL);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static int on_their_way;

static void on_commit(void *arg, int err, const struct keeper_result *results, size_t count)
{
    printf("~ %s %s %s\n", (char *)arg, drover_err_name(err),
           count && results[0].path ? results[0].path : "-");
    free(arg);
    pthread_mutex_lock(&lock);
    on_their_way--;
    pthread_cond_signal(&answered);
    pthread_mutex_unlock(&lock);
}

static void wait_below(int limit)
{
    pthread_mutex_lock(&lock);
    while (on_their_way >= limit)
        pthread_cond_wait(&answered, &lock);
    pthread_mutex_unlock(&lock);
}

static int commit(char **w, int i)
{
    bool sequential = strchr(w[2], 's');
    struct keeper_op ops[2] = {0};
    char path[128], second[128], *data;
    int err;

    if (asprintf(&data, "c-%d", i) < 0)
        abort();
    snprintf(path, sizeof path, sequential ? "%s" : "%s%d", w[1], i);
    ops[0] = keeper_op_create(path, str_of(data), flags_of(w[2]));
    if (w[6]) {
        snprintf(second, sizeof second, w[6][0] == '+' ? "%s%d" : "%s", w[6] + (w[6][0] == '+'), i);
        ops[1] = w[6][0] == '+' ? keeper_op_create(second, str_of(data), 0)
                                : keeper_op_set(second, str_of(data), -1);
    }
    pthread_mutex_lock(&lock);
    on_their_way++;
    pthread_mutex_unlock(&lock);
    err = keeper_commit(k, ops, w[6] ? 2 : 1, on_commit, data);
    if (err) {
        free(data);
        pthread_mutex_lock(&lock);
        on_their_way--;
        pthread_mutex_unlock(&lock);
    }
    return err;
}

/*
 * commits PATH FLAGS COUNT WINDOW PAUSE_US [OTHER | +OTHER]: creations that do not wait, of PATH
 * with ZooKeeper's number or else ours; with OTHER, each in one transaction with a set of that
 * node, with +OTHER, with the creation of one more.
 */
static void do_commits(char **w)
{
    int count = atoi(w[3]), window = atoi(w[4]), pause_us = atoi(w[5]), err = 0;

    for (int i = 0; i < count && !err; i++) {
        wait_below(window);
        err = commit(w, i);
        if (pause_us)
            nanosleep(&(struct timespec){.tv_nsec = pause_us * 1000L}, NULL);
    }
    wait_below(1);
    reply(err, NULL);
}

/* sets PATH COUNT: one after the other, each told with the version that it got. */
static void do_sets(char **w)
{
    for (int i = 0; i < atoi(w[2]); i++) {
        struct keeper_stat stat = {0};
        char data[32];
        int err;

        snprintf(data, sizeof data, "s-%d", i);
        err = keeper_set(k, w[1], str_of(data), KEEPER_ANY_VERSION, &stat);
        printf("~ %s %s %d\n", data, drover_err_name(err), stat.version);
        if (err == DROVER_SESSION_EXPIRED)
            break;
    }
    reply(0, NULL);
}

static void do_writable(char **w)
{
    bool writable = false;
    int err = zookeeper_world_writable(k, &writable);

    (void)w;
    reply(err, writable ? "yes" : "no");
}

static void do_close(char **w)
{
    if (strcmp(w[0], "close") == 0)
        keeper_close(k);
    else
        keeper_abandon(k);
    k = NULL;
    watch_count = 0;
    reply(0, NULL);
}

static const struct {
    const char *name;
    int words; /* at least */
    void (*run)(char **words);
} commands[] = {
    {"connect", 3, do_connect},   {"resume", 3, do_connect},    {"session", 1, do_session},
    {"create", 4, do_create},     {"set", 4, do_set},           {"delete", 3, do_delete},
    {"get", 2, do_get},           {"children", 2, do_children}, {"sync", 2, do_sync},
    {"multi", 5, do_multi},       {"watch", 3, do_watch},       {"unwatch", 1, do_unwatch},
    {"storm", 5, do_storm},       {"commits", 6, do_commits},   {"sets", 3, do_sets},
    {"writable", 1, do_writable}, {"close", 1, do_close},       {"abandon", 1, do_close},
};

static void run(char *line)
{
    char *words[WORDS_MAX + 1] = {0}, *rest = line;
    int n = 0;

    while (n < WORDS_MAX && (words[n] = strtok_r(rest, " \n", &rest)))
        n++;
    for (size_t i = 0; n && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, words[0]) == 0 && n >= commands[i].words) {
            commands[i].run(words);
            return;
        }
    }
    printf("= ? %s\n", n ? words[0] : "");
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    while (getline(&line, &size, stdin) > 0)
        run(line);
    free(line);
    if (k)
        keeper_close(k);
    return 0;
}
