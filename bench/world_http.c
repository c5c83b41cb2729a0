/*
 * bench/world_http - claim and complete through ten handlers over HTTP, each with its own session.
 *
 *     world_http DROVER [--tasks N] [--backlog N]
 *
 * Starts `drover serve`, strict, in a directory of its own below the current one; queues the tasks,
 * and the handlers claim them, one request after the other on a connection each. The figures are
 * those of one run. Exits with 0 whatever they are.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "bench.h"
#include "http/transport.h"

enum { HANDLERS = 10 };

static char server[128], dir[] = "./drover-bench-world-http-XXXXXX";
static long wanted = 20000, backlog = 20000;
static atomic_long next;

static void die(const char *what)
{
    fprintf(stderr, "world_http: %s\n", what);
    exit(1);
}

/* Starts the server and reads its address from its output. The pipe stays open. */
static pid_t start_server(const char *drover)
{
    char line[256], *url = NULL;
    int said[2];
    pid_t pid;
    FILE *in;

    if (!mkdtemp(dir) || pipe(said))
        die("cannot start");
    pid = fork();
    if (!pid) {
        dup2(said[1], STDERR_FILENO);
        execl(drover, drover, "serve", "--data", dir, "--http", "127.0.0.1:0", "--zk", "none",
              (char *)NULL);
        _exit(127);
    }
    close(said[1]);
    in = fdopen(said[0], "r");
    while (!url && fgets(line, sizeof line, in))
        url = strstr(line, "http://");
    if (!url)
        die("the server did not start");
    snprintf(server, sizeof server, "%.*s", (int)strcspn(url, "\n"), url);
    return pid;
}

/* One request; a member of the answer, in the arena. */
static struct str call(struct transport *t, struct arena *a, const char *path, const char *body,
                       const char *member)
{
    struct transport_answer answer = {0};
    struct err_info e = {""};
    struct str text = {0};

    if (transport_call(t, "POST", path, str_of(body), 0, &answer, &e))
        die(e.text);
    if (answer.status != 200)
        die(buf_text(&answer.body));
    json_get_text(json_parse(a, (struct str){answer.body.p, answer.body.len}, NULL), member, &text,
                  NULL);
    text.p = arena_text(a, text);
    buf_release(&answer.body);
    return text;
}

static struct transport *open_transport(void)
{
    struct transport *t;

    if (transport_open(server, NULL, NULL, &t, NULL))
        die("cannot connect");
    return t;
}

static void *queue_main(void *arg)
{
    struct transport *t = open_transport();
    struct arena a = {0};
    long i;

    while ((i = atomic_fetch_add(&next, 1)) < wanted + backlog) {
        arena_reset(&a);
        call(t, &a, "/v1/worlds/bench/tasks",
             arena_printf(&a, "{\"task\":{\"name\":\"n%ld\",\"type\":\"t\",\"data\":{}}}", i), "");
    }
    arena_release(&a);
    transport_close(t);
    return arg;
}

static void *handler_main(void *arg)
{
    struct transport *t = open_transport();
    struct arena mine = {0}, a = {0};
    struct str session = call(t, &mine, "/v1/sessions", "{\"timeout\":60000}", "session"), node;

    while (atomic_fetch_add(&next, 1) < wanted) {
        arena_reset(&a);
        node = call(t, &a, "/v1/worlds/bench/claim",
                    arena_printf(&a, "{\"types\":[\"t\"],\"session\":\"%s\"}", session.p), "node");
        call(t, &a, "/v1/worlds/bench/complete",
             arena_printf(&a, "{\"node\":\"%s\",\"session\":\"%s\"}", node.p, session.p), "node");
    }
    arena_release(&a);
    arena_release(&mine);
    transport_close(t);
    return arg;
}

static double run_threads(void *(*fn)(void *))
{
    pthread_t threads[HANDLERS];
    double began = now_s();

    atomic_store(&next, 0);
    for (int i = 0; i < HANDLERS; i++)
        pthread_create(&threads[i], NULL, fn, NULL);
    for (int i = 0; i < HANDLERS; i++)
        pthread_join(threads[i], NULL);
    return now_s() - began;
}

static void measure(void)
{
    struct transport *t = open_transport();
    struct arena a = {0};
    double queued_s, handled_s;

    call(t, &a, "/v1/worlds", "{\"world\":\"bench\"}", "world");
    queued_s = run_threads(queue_main);
    handled_s = run_threads(handler_main);
    printf("over HTTP, embedded, strict, %d handlers, %ld more pending:\n"
           "  queue %.0f/s, claim-and-complete %.0f/s\n",
           HANDLERS, backlog, (double)(wanted + backlog) / queued_s, (double)wanted / handled_s);
    arena_release(&a);
    transport_close(t);
}

int main(int argc, char **argv)
{
    char command[64];
    pid_t pid;

    for (int i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--tasks"))
            wanted = atol(argv[i + 1]);
        else if (!strcmp(argv[i], "--backlog"))
            backlog = atol(argv[i + 1]);
    }
    if (argc < 2)
        die("usage: world_http DROVER [--tasks N] [--backlog N]");
    pid = start_server(argv[1]);
    measure();
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command) != 0;
}
