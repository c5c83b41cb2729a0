#include "task_api_scene.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct drover_store *store;
struct drover_client *client;
bool remote; /* which of the two is tested */
struct drover_error e;
static pid_t server;
char group[64]; /* of the test */

/* The server. */

static int start_server(void)
{
    char line[512], *at = NULL, url[100];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    server = fork();
    if (!server) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl(getenv("DROVER"), "drover", "serve", "--http", "127.0.0.1:0", "--zk", "none",
              "--socket", "none", "--journal", "none", "--config", "none", "--loopback-roles",
              "admin", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *log = fdopen(ends[0], "r");
    while (!at && fgets(line, sizeof line, log))
        at = strstr(line, "http://127.0.0.1:");
    assert_non_null(at);
    snprintf(url, sizeof url, "%s", at);
    url[strcspn(url, " \n")] = '\0';
    struct drover_client_options o = {.server = url, .clientid = 1};
    return drover_client_open(&o, &client, &e);
}

int scene_set_up(void **state)
{
    struct drover_store_options o = {.mode = DROVER_MEMORY};
    (void)state;
    return drover_store_open(&o, &store, &e) || start_server();
}

int scene_tear_down(void **state)
{
    int status = -1;
    (void)state;
    drover_store_close(store);
    drover_client_close(client);
    kill(server, SIGTERM);
    waitpid(server, &status, 0);
    return status;
}

static int next_group(void **state)
{
    static int count;
    (void)state;
    snprintf(group, sizeof group, "group-%d", ++count);
    e.text[0] = '\0';
    return 0;
}

int scene_on_store(void **state)
{
    remote = false;
    return next_group(state);
}

int scene_on_client(void **state)
{
    remote = true;
    return next_group(state);
}

/* The calls, of either. */

int try_update(const struct drover_update *u, struct drover_result *r)
{
    struct drover_update mine = *u;
    mine.clientid = mine.clientid ? mine.clientid : 1;
    return remote ? drover_client_update(client, &mine, r, &e)
                  : drover_store_update(store, &mine, r, &e);
}

struct drover_result update(const struct drover_update *u)
{
    struct drover_result r;
    if (try_update(u, &r))
        fail_msg("%s", e.text);
    return r;
}

/* Returns the only task's id. */
int64_t change(const struct drover_update *u)
{
    struct drover_result r = update(u);
    int64_t id = r.task_count == 1 ? r.tasks[0].id : 0;
    drover_result_release(&r);
    return id;
}

int64_t add(struct drover_task t)
{
    t.group = t.group ? t.group : group;
    return change(&(struct drover_update){.adds = &t, .add_count = 1});
}

int claim_with(struct drover_claim c, struct drover_result *r)
{
    const char *groups[] = {group};
    c.clientid = c.clientid ? c.clientid : 1;
    c.groups = c.groups ? c.groups : groups;
    c.group_count = c.group_count ? c.group_count : 1;
    c.duration_ms = HOUR_MS;
    return remote ? drover_client_claim(client, &c, r, &e) : drover_store_claim(store, &c, r, &e);
}

int64_t claim(void)
{
    struct drover_result r;
    assert_int_equal(claim_with((struct drover_claim){0}, &r), 1);
    int64_t id = r.tasks[0].id;
    drover_result_release(&r);
    return id;
}

int get(int64_t id, struct drover_result *r)
{
    return remote ? drover_client_get(client, id, r, &e) : drover_store_get(store, id, r);
}

int await(int64_t id, int64_t ms, struct drover_result *r)
{
    return remote ? drover_client_wait(client, id, ms, r, &e)
                  : drover_store_wait(store, id, ms, r, &e);
}

int find(const struct drover_filter *f, size_t limit, struct drover_result *r)
{
    return remote ? drover_client_find(client, f, limit, r, &e)
                  : drover_store_find(store, f, limit, r, &e);
}

int bulk(const struct drover_bulk *b, struct drover_bulk_count *count)
{
    return remote ? drover_client_bulk(client, b, count, &e)
                  : drover_store_bulk(store, b, count, &e);
}

int set(const char *pattern, struct drover_settings s)
{
    return remote ? drover_client_set_group(client, pattern, &s, &e)
                  : drover_store_set_group(store, pattern, &s, &e);
}

int unset(const char *pattern)
{
    return remote ? drover_client_unset_group(client, pattern, &e)
                  : drover_store_unset_group(store, pattern, &e);
}

struct drover_group settings_of(const char *name)
{
    struct drover_group g;
    int err = remote ? drover_client_group(client, name, &g, &e)
                     : drover_store_group(store, name, &g, &e);
    if (err)
        fail_msg("%s", e.text);
    return g;
}

/* The task whose first id was this, as a search shows it: with its state. */
struct drover_result show(int64_t first)
{
    struct drover_result r;
    assert_int_equal(await(DROVER_FIRST(first), 0, &r) >= 0, 1);
    drover_result_release(&r);
    assert_int_equal(get(DROVER_FIRST(first), &r), 1);
    return r;
}

struct drover_task fail_once(struct drover_fail f)
{
    struct drover_result r;
    f.id = claim();
    f.error = "no luck";
    r = update(&(struct drover_update){.fails = &f, .fail_count = 1});
    assert_int_equal(r.task_count, 1);
    struct drover_task t = r.tasks[0];
    assert_string_equal(t.error, "no luck");
    assert_string_equal(t.origin ? t.origin : group, group);
    t.group = t.error = NULL;
    drover_result_release(&r);
    return t;
}
