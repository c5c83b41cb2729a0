/*
 * mapreduce - counts the words of files with many worker processes, on a Drover server. The counts
 * are exact even if workers are killed at any moment.
 *
 *     drover serve &
 *     mapreduce --workers 8 some.txt more.txt
 *
 * A job is a set of groups below one name:
 *
 *   JOB/guard     one task, whose data is the phase: "map", then "reduce"
 *   JOB/map       a task for each piece of a file: "offset length path"
 *   JOB/part/P    the counts of the mappers for part P of all words: lines of "word count"
 *   JOB/reduce    a task for each part: "P"
 *   JOB/result    the sums of each part: lines of "word count"
 *
 * A mapper claims a piece, counts its words, and deletes the piece and adds the counts in one
 * transaction, so each piece is counted exactly once. Every claim and every commit depends on the
 * guard. The mapper that finds no piece left, claimed or not, ends the phase: one transaction
 * updates the guard and adds the reduce tasks. That changes the guard's id, so a mapper that was
 * declared dead by mistake can no longer commit, and if two mappers end the phase, one is refused.
 * A reducer claims a part, sums the counts in JOB/part/P, and replaces them by the result in one
 * transaction.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drover.h"

enum { PARTS = 8, WORKERS_MAX = 64, PIECES_MAX = 4000, PIECE_MIN_LEN = 16 * 1024, ADDS_MAX = 500 };

static const char *program;
static int64_t lease_ms = 10000;
static struct drover_client *client;
static struct drover_error error;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "mapreduce: %s: %s\n", what, why);
    exit(1);
}

__attribute__((format(printf, 1, 2))) static char *text(const char *fmt, ...)
{
    char *made;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&made, fmt, ap) < 0)
        die("vasprintf", "out of memory");
    va_end(ap);
    return made;
}

/* Words and their counts. */

struct count {
    const char *word;
    int64_t n;
};

struct counts {
    struct count *rows;
    size_t len, cap;
};

static void add_count(struct counts *c, const char *word, int64_t n)
{
    if (c->len == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 1024;
        c->rows = realloc(c->rows, c->cap * sizeof *c->rows);
        if (!c->rows)
            die("realloc", "out of memory");
    }
    c->rows[c->len++] = (struct count){word, n};
}

static int by_word(const void *a, const void *b)
{
    return strcmp(((const struct count *)a)->word, ((const struct count *)b)->word);
}

/* Sorts the rows and merges those with the same word. */
static void sum_up(struct counts *c)
{
    size_t kept = 0;

    if (c->len)
        qsort(c->rows, c->len, sizeof *c->rows, by_word);
    for (size_t i = 0; i < c->len; i++) {
        if (kept && !strcmp(c->rows[kept - 1].word, c->rows[i].word))
            c->rows[kept - 1].n += c->rows[i].n;
        else
            c->rows[kept++] = c->rows[i];
    }
    c->len = kept;
}

static int part_of(const char *word)
{
    uint32_t hash = 2166136261;

    for (; *word; word++)
        hash = (hash ^ (unsigned char)*word) * 16777619;
    return (int)(hash % PARTS);
}

/* The rows of a part as lines; part -1: all. The caller frees them. */
static char *lines_of(const struct counts *c, int part)
{
    char *lines;
    size_t len;
    FILE *out = open_memstream(&lines, &len);

    for (size_t i = 0; i < c->len; i++)
        if (part < 0 || part_of(c->rows[i].word) == part)
            fprintf(out, "%s %" PRId64 "\n", c->rows[i].word, c->rows[i].n);
    fclose(out);
    return lines;
}

/* Parses lines. The words point into `lines`, which it modifies. */
static void add_lines(struct counts *c, char *lines)
{
    char *save = NULL;

    for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *space = strchr(line, ' ');

        *space = '\0';
        add_count(c, line, strtoll(space + 1, NULL, 10));
    }
}

/* A piece of a file: the words that begin in it. */

static int is_letter(int c)
{
    return c != EOF && isalnum((unsigned char)c);
}

static void count_piece(struct counts *c, const char *path, long offset, long len, char **ret_words)
{
    long at = offset ? offset - 1 : 0;
    FILE *in = fopen(path, "r"), *out;
    char *save = NULL;
    size_t size;
    int letter;

    if (!in || fseek(in, at, SEEK_SET))
        die(path, strerror(errno));
    out = open_memstream(ret_words, &size);
    letter = getc(in);
    for (; offset && is_letter(letter); at++) /* began in the piece before */
        letter = getc(in);
    while (letter != EOF && at < offset + len) {
        for (; is_letter(letter); at++) { /* to its end, even if that is in the next piece */
            putc(tolower(letter), out);
            letter = getc(in);
        }
        putc(' ', out);
        letter = getc(in);
        at++;
    }
    fclose(in);
    fclose(out);
    for (char *word = strtok_r(*ret_words, " ", &save); word; word = strtok_r(NULL, " ", &save))
        add_count(c, word, 1);
}

/* Workers. */

static int list(const char *group, size_t limit, struct drover_result *ret_result)
{
    int n = drover_client_list(client, group, limit, 1, ret_result, &error);

    if (n < 0)
        die(group, error.text);
    return n;
}

/* The guard of a job: its id and phase. 0 when the job is gone. */
static int64_t find_guard(const char *job, char phase[static 16])
{
    char *group = text("%s/guard", job);
    struct drover_result r;
    int64_t id = 0;

    if (list(group, 1, &r)) {
        id = r.tasks[0].id;
        snprintf(phase, 16, "%s", r.tasks[0].data);
    }
    drover_result_release(&r);
    free(group);
    return id;
}

static int claim(const char *group, int64_t guard, struct drover_result *ret_result)
{
    struct drover_claim c = {.groups = &group,
                             .group_count = 1,
                             .duration_ms = lease_ms,
                             .wait_ms = 100,
                             .depends = &guard,
                             .depend_count = 1};
    int got = drover_client_claim(client, &c, ret_result, &error);

    if (got < 0 && got != DROVER_REFUSED)
        die(group, error.text);
    return got;
}

/* REFUSED: another worker has the task now, or the phase is over. */
static void commit(struct drover_update u, int64_t guard)
{
    struct drover_result r;
    int err;

    u.depends = &guard;
    u.depend_count = guard != 0;
    err = drover_client_update(client, &u, &r, &error);
    if (err && err != DROVER_REFUSED)
        die("commit", error.text);
    drover_result_release(&r);
}

static void map(const char *job, const struct drover_task *t, int64_t guard)
{
    struct drover_hold *hold = drover_client_hold(client, t, lease_ms);
    struct drover_task adds[PARTS] = {0};
    struct counts counts = {0};
    char *words = NULL, path[PATH_MAX];
    long offset, len;
    int64_t id;
    struct drover_update done = {
        .adds = adds, .deletes = &id, .delete_count = 1, .depends = &guard, .depend_count = 1};

    if (sscanf(t->data, "%ld %ld %4095[^\n]", &offset, &len, path) != 3)
        die("map task", t->data);
    count_piece(&counts, path, offset, len, &words);
    sum_up(&counts);
    for (int part = 0; part < PARTS; part++) {
        char *lines = lines_of(&counts, part);

        if (*lines)
            adds[done.add_count++] =
                (struct drover_task){.group = text("%s/part/%d", job, part), .data = lines};
        else
            free(lines);
    }
    if (!drover_hold_release(hold, &id))
        commit(done, guard);
    for (size_t i = 0; i < done.add_count; i++) {
        free((char *)adds[i].group);
        free((char *)adds[i].data);
    }
    free(counts.rows);
    free(words);
}

/* All pieces are done: starts the reduce phase. */
static void hand_over(const char *job, int64_t guard)
{
    struct drover_task phase = {.id = guard, .data = "reduce"}, adds[PARTS] = {0};
    struct drover_update u = {
        .adds = adds, .add_count = PARTS, .updates = &phase, .update_count = 1};
    char *group = text("%s/reduce", job), number[PARTS][16];

    for (int part = 0; part < PARTS; part++) {
        snprintf(number[part], sizeof number[part], "%d", part);
        adds[part] = (struct drover_task){.group = group, .data = number[part]};
    }
    commit(u, 0);
    free(group);
}

static void reduce(const char *job, const struct drover_task *t, int64_t guard)
{
    struct drover_hold *hold = drover_client_hold(client, t, lease_ms);
    char *group = text("%s/part/%s", job, t->data), *result = text("%s/result", job);
    struct drover_task add = {.group = result};
    struct counts counts = {0};
    struct drover_result found;
    size_t n = (size_t)list(group, 0, &found);
    int64_t *ids = calloc(n + 1, sizeof *ids);
    struct drover_update done = {
        .adds = &add, .add_count = 1, .deletes = ids, .delete_count = n + 1};

    for (size_t i = 0; i < n; i++) {
        ids[i + 1] = found.tasks[i].id;
        add_lines(&counts, (char *)found.tasks[i].data);
    }
    sum_up(&counts);
    add.data = lines_of(&counts, -1);
    if (!drover_hold_release(hold, &ids[0]))
        commit(done, guard);
    drover_result_release(&found);
    free((char *)add.data);
    free(counts.rows);
    free(group);
    free(result);
    free(ids);
}

static int is_empty(const char *group)
{
    struct drover_result r;
    int n = list(group, 1, &r);

    drover_result_release(&r);
    return n == 0;
}

static void work(const char *job)
{
    char phase[16];
    int64_t guard;
    int ended = 0;

    while (!ended && (guard = find_guard(job, phase))) {
        int is_map = !strcmp(phase, "map"), got;
        char *group = text("%s/%s", job, phase);
        struct drover_result r;

        got = claim(group, guard, &r);
        if (got > 0)
            (is_map ? map : reduce)(job, &r.tasks[0], guard);
        drover_result_release(&r);
        if (got == 0 && is_empty(group)) {
            ended = !is_map;
            if (is_map)
                hand_over(job, guard);
        }
        free(group);
    }
}

/* The coordinator adds the pieces. */
static void send_adds(struct drover_task *adds, size_t *count)
{
    struct drover_update u = {.adds = adds, .add_count = *count};
    struct drover_result r;

    if (*count && drover_client_update(client, &u, &r, &error))
        die("add", error.text);
    if (*count)
        drover_result_release(&r);
    for (size_t i = 0; i < *count; i++)
        free((char *)adds[i].data);
    *count = 0;
}

static long length_of(const char *path)
{
    struct stat st;

    if (stat(path, &st))
        die(path, strerror(errno));
    return (long)st.st_size;
}

/* Adds the pieces, then the guard: without it no worker starts. */
static void add_job(const char *job, char **files)
{
    char *group = text("%s/map", job), *guard = text("%s/guard", job), path[PATH_MAX];
    struct drover_task adds[ADDS_MAX];
    long total = 0, piece;
    size_t count = 0;

    for (char **f = files; *f; f++)
        total += length_of(*f);
    piece = total / PIECES_MAX > PIECE_MIN_LEN ? total / PIECES_MAX : PIECE_MIN_LEN;
    for (; *files; files++)
        for (long at = 0, len = length_of(*files); at < len; at += piece) {
            if (!realpath(*files, path))
                die(*files, strerror(errno));
            adds[count++] =
                (struct drover_task){.group = group, .data = text("%ld %ld %s", at, piece, path)};
            if (count == ADDS_MAX)
                send_adds(adds, &count);
        }
    send_adds(adds, &count);
    adds[count++] = (struct drover_task){.group = guard, .data = text("map")};
    send_adds(adds, &count);
    free(group);
    free(guard);
}

static pid_t start_worker(const char *job)
{
    char *lease = text("%" PRId64, lease_ms);
    pid_t pid = fork();

    if (pid < 0)
        die("fork", strerror(errno));
    if (pid == 0) {
        execl("/proc/self/exe", program, "--lease", lease, "--worker", job, (char *)NULL);
        _exit(127);
    }
    free(lease);
    return pid;
}

/* Runs `workers` processes until the first finds nothing left to do. Replaces those that die. */
static void run_workers(const char *job, int workers)
{
    int running = 0, finished = 0, status;

    while (running < workers && start_worker(job))
        running++;
    while (running) {
        if (wait(&status) < 0)
            die("wait", strerror(errno));
        if (WIFEXITED(status) && WEXITSTATUS(status))
            die("worker", "failed"); /* it printed why; another would fail too */
        if (WIFEXITED(status))
            finished = 1;
        else if (!finished && start_worker(job))
            continue;
        running--;
    }
}

static void print_result(const char *job)
{
    char *group = text("%s/result", job), *guard = text("%s/guard", job);
    struct drover_result found, g, none;
    struct counts counts = {0};
    int n = list(group, 0, &found);
    int64_t ids[PARTS + 1];

    if (n != PARTS || list(guard, 1, &g) != 1)
        die("result", "parts are missing");
    for (int i = 0; i < n; i++) {
        ids[i] = found.tasks[i].id;
        add_lines(&counts, (char *)found.tasks[i].data);
    }
    ids[n] = g.tasks[0].id;
    sum_up(&counts);
    for (size_t i = 0; i < counts.len; i++)
        printf("%s %" PRId64 "\n", counts.rows[i].word, counts.rows[i].n);
    if (drover_client_update(client,
                             &(struct drover_update){.deletes = ids, .delete_count = PARTS + 1},
                             &none, &error))
        die("tidy up", error.text);
    drover_result_release(&none);
    drover_result_release(&found);
    drover_result_release(&g);
    free(counts.rows);
    free(group);
    free(guard);
}

int main(int argc, char **argv)
{
    const char *worker = NULL;
    int workers = 4, at = 1;
    char *job;

    program = argv[0];
    for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
        if (!strcmp(argv[at], "--server"))
            setenv("DROVER_URL", argv[at + 1], 1);
        else if (!strcmp(argv[at], "--workers"))
            workers = atoi(argv[at + 1]);
        else if (!strcmp(argv[at], "--lease"))
            lease_ms = atoll(argv[at + 1]);
        else if (!strcmp(argv[at], "--worker"))
            worker = argv[at + 1];
        else
            break;
    }
    if ((at == argc && !worker) || workers < 1 || workers > WORKERS_MAX || lease_ms < 1 ||
        (at < argc && argv[at][0] == '-')) {
        fprintf(stderr, "usage: mapreduce [--server URL] [--workers N] [--lease MS] FILE...\n");
        return 2;
    }
    if (drover_client_open(NULL, &client, &error))
        die("open", error.text);
    if (worker) {
        work(worker);
        drover_client_close(client);
        return 0;
    }
    job = text("wordcount/%" PRId64, drover_client_id(client));
    add_job(job, argv + at);
    run_workers(job, workers);
    print_result(job);
    drover_client_close(client);
    free(job);
    return 0;
}
