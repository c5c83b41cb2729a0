/*
 * A start of the server in which one call fails: each allocation, thread, handle, call about a file
 * and call of the keeper in turn, with every module on.
 *
 * The program is all of drover, linked so that main() is this one. Each start is a child. One that
 * fails prints one line and ends with status 1; a failure that the server can do without lets it
 * start, and then it is stopped at once. Nothing crashes, leaks or hangs, and the data is the same
 * afterwards.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "keeper/local/local.h"
#include "schedule/schedule.h"
#include "server/announce.h"
#include "start_fault.h"
#include "support.h"
#include "task/settings_json.h"
#include "task/task_tree.h"

enum { SAID_MAX = 16 * 1024, CHILD_S = PATIENCE_MS / 1000 };

int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);
void __wrap_announce_start(const struct serve_options *o, const struct context *h);

/* The server has started: stop it. */
void __wrap_announce_start(const struct serve_options *o, const struct context *h)
{
    (void)o, (void)h;
    fault_disarm();
    raise(SIGTERM);
}

/* Children. */

static struct {
    struct fault fault;
    uint32_t sum; /* of the tree */
    size_t nodes;
} * shared; /* with the children */

struct ending {
    int status; /* as of waitpid() */
    char said[SAID_MAX];
};

static void read_all(int fd, char said[SAID_MAX])
{
    size_t len = 0;
    ssize_t n;

    while ((n = read(fd, said + len, SAID_MAX - 1 - len)) > 0)
        len += (size_t)n;
    said[len] = '\0';
    close(fd);
}

/* Calls fn in a child, with its standard error in a pipe. */
static void run_child(int (*fn)(const char *dir), const char *dir, struct ending *ret_ending)
{
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (!pid) {
        dup2(fds[1], STDERR_FILENO);
        alarm(CHILD_S);
        exit(fn(dir));
    }
    close(fds[1]);
    read_all(fds[0], ret_ending->said);
    assert_int_equal(waitpid(pid, &ret_ending->status, 0), pid);
}

/* The child must succeed, and say nothing. */
static void run_well(int (*fn)(const char *dir), const char *dir)
{
    struct ending e;

    run_child(fn, dir, &e);
    if (e.status || e.said[0])
        fail_msg("status %#x: %s", (unsigned)e.status, e.said);
}

static int serve_child(const char *dir)
{
    char data[256], sock[256], audit[256], logs[256];
    char *arguments[] = {"drover",
                         "serve",
                         "--config",
                         "none",
                         "--data",
                         data,
                         "--http",
                         "127.0.0.1:0",
                         "--zk",
                         "127.0.0.1:0",
                         "--socket",
                         sock,
                         "--audit",
                         audit,
                         "--log-dir",
                         logs,
                         "--jobs",
                         "1",
                         "--run-as",
                         "root",
                         "--world-retention",
                         "1d",
                         "--batch-retention",
                         "1d",
                         "--log-level",
                         "warning",
                         NULL};
    bool is_root = !geteuid();

    snprintf(data, sizeof data, "%s/data", dir);
    snprintf(sock, sizeof sock, "%s/sock", dir);
    snprintf(audit, sizeof audit, "%s/audit", dir);
    snprintf(logs, sizeof logs, "%s/logs", dir);
    for (char **a = arguments; !is_root && *a; a++)
        if (!strcmp(*a, "--run-as")) {
            a[0] = "--log";
            a[1] = "text";
        }
    fault_arm(&shared->fault);
    return __real_main(sizeof arguments / sizeof *arguments - 1, arguments);
}

/* What is stored. */

static struct keeper *open_data(const char *dir, struct local **ret_local)
{
    char data[256];
    struct err_info e;
    struct keeper *k;

    snprintf(data, sizeof data, "%s/data", dir);
    struct local_options o = {.mode = LOCAL_STRICT, .dir = data};
    struct keeper_options ko = {0};
    if (local_open(&o, ret_local, &e) || local_connect(*ret_local, &ko, &k)) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    return k;
}

static void close_data(struct keeper *k, struct local *l)
{
    keeper_close(k);
    local_close(l);
}

static void add_up(struct keeper *k, const char *path)
{
    struct keeper_names names = {0};
    struct buf data = {0}, child = {0};

    if (keeper_get(k, path, &data, NULL) || keeper_children(k, path, &names, NULL))
        abort();
    shared->sum = crc32c(shared->sum, path, strlen(path) + 1);
    shared->sum = crc32c(shared->sum, data.p, data.len);
    shared->nodes++;
    for (size_t i = 0; i < names.count; i++) {
        child.len = 0;
        buf_printf(&child, "%s/%s", path[1] ? path : "", names.names[i]);
        add_up(k, buf_text(&child));
    }
    keeper_names_release(&names);
    buf_release(&data);
    buf_release(&child);
}

/* The snapshot keeps the journal short, of which each start begins another segment. */
static int sum_child(const char *dir)
{
    struct local *l;
    struct keeper *k = open_data(dir, &l);

    shared->sum = 0;
    shared->nodes = 0;
    add_up(k, "/");
    int err = local_snapshot(l);
    close_data(k, l);
    return err;
}

static void put(struct keeper *k, const char *path, struct str data)
{
    int err = keeper_create(k, path, data, 0, NULL);

    if (err) {
        fprintf(stderr, "%s: %s\n", path, drover_err_message(err));
        exit(1);
    }
}

static void put_tasks(struct keeper *k)
{
    struct task t = {.id = 1, .group = STR("mail"), .data = STR("a"), .timespec = 1, .ownerid = 2};
    struct task_node_head head = {.last_id = 1, .ceiling = 100};
    struct request_key key = {.clientid = 2, .id = STR("request")};
    struct request_log_entry *before;
    struct request_log *log = mem_zalloc(sizeof *log);
    char bytes[64];

    put(k, "/drover/tasks", (struct str){bytes, task_node_head_encode(&head, bytes)});
    put(k, "/drover/tasks/0", STR(""));
    task_node_encode(&t, bytes);
    put(k, "/drover/tasks/0/1", (struct str){bytes, task_node_len(&t)});
    put(k, "/drover/requests", STR(""));
    const struct request_log_entry *one = request_log_put(log, &key, &t, 1, &before);
    put(k, "/drover/requests/0", (struct str){one->bytes, one->len});
    request_log_release(log);
    free(log);
}

/* The settings of a group and a schedule: the names of both nodes are hashes. */
static void put_policy(struct keeper *k)
{
    static const char schedule[] =
        "{\"version\":1,\"name\":\"nightly\",\"spec\":{\"cron\":\"0 3 * * *\",\"timezone\":"
        "\"Europe/Berlin\",\"task\":{\"group\":\"mail\",\"data\":\"\"}}}";
    /* The next time is far away: a tick would change the data. */
    struct schedule_state state = {.from_ms = 1, .next_ms = INT64_C(1) << 42};
    CLEANUP(buf_release) struct buf data = {0};
    char path[SETTINGS_PATH_SIZE], of_schedule[SCHEDULE_PATH_SIZE];

    put(k, SETTINGS_ROOT, STR(""));
    settings_path(STR("mail*"), path);
    put(k, path, STR("{\"version\":1,\"pattern\":\"mail*\",\"settings\":{\"attempts\":3}}"));
    put(k, SCHEDULES_ROOT, STR(""));
    schedule_path("nightly", false, of_schedule);
    put(k, of_schedule, str_of(schedule));
    schedule_path("nightly", true, of_schedule);
    schedule_put_state(&data, &state);
    put(k, of_schedule, buf_str(&data));
}

/* Something for every module that reads at its start. */
static int fill_child(const char *dir)
{
    static const char *const nodes[][2] = {
        {"/drover/dag", ""},
        {"/drover/dag/head", "{\"client\":1,\"last\":2}"},
        {"/drover/dag/specs", ""},
        {"/drover/dag/specs/0", ""},
        {"/drover/dag/specs/0/1",
         "[{\"id\":1,\"type\":\"command\",\"data\":{\"command\":\"true\"}},"
         "{\"id\":2,\"type\":\"group\",\"parents\":[1]}]"},
        {"/drover/dag/nodes", ""},
        {"/drover/dag/nodes/0", ""},
        {"/drover/dag/nodes/0/1", "{\"state\":\"finished\",\"attempts\":1}"},
        {"/drover/dag/slots", ""},
        {"/drover/tokens", ""},
        {"/drover/tokens/0123456789ab",
         "{\"version\":1,\"hash\":"
         "\"0123456789ab0123456789ab0123456789ab0123456789ab0123456789ab0123\","
         "\"roles\":[\"work\"],\"groups\":[\"mail\"]}"},
    };
    struct local *l;
    struct keeper *k = open_data(dir, &l);

    put(k, "/drover", STR(""));
    put_tasks(k);
    put_policy(k);
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        put(k, nodes[i][0], str_of(nodes[i][1]));
    close_data(k, l);
    return 0;
}

/* Faults. DROVER_SOAK tries all of them. */

/* The lines before it are warnings: of what the server could have done without. */
static const char *last_line(const char *said)
{
    for (const char *end; (end = strchr(said, '\n')) && end[1]; said = end + 1)
        if (!memmem(said, (size_t)(end - said), " warning ", strlen(" warning ")))
            break;
    return said;
}

static void check_ending(const struct ending *e)
{
    const char *last = last_line(e->said), *line = strchr(last, '\n');
    bool one_line = line && line > last && !line[1];

    if (!WIFEXITED(e->status) || WEXITSTATUS(e->status) > 1)
        fail_msg("status %#x: %s", (unsigned)e->status, e->said);
    if (WEXITSTATUS(e->status) ? !one_line : strstr(e->said, "Sanitizer") != NULL)
        fail_msg("status %d, and it said: %s", WEXITSTATUS(e->status), e->said);
}

/* False: there were fewer calls, and the server has started without. */
static bool start_with(const char *dir, enum fault_kind kind, long nth)
{
    static struct ending e;

    shared->fault = (struct fault){.kind = kind, .nth = nth};
    run_child(serve_child, dir, &e);
    if (shared->fault.hit)
        doing("%s, call %ld", shared->fault.name, nth);
    check_ending(&e);
    if (getenv("DROVER_VERBOSE"))
        fprintf(stderr, "# %s %ld: %d %s\n", shared->fault.name, nth, WEXITSTATUS(e.status),
                e.said);
    if (!shared->fault.hit && e.status)
        fail_msg("a start without a fault: %s", e.said);
    return shared->fault.hit;
}

static void start_well(const char *dir)
{
    assert_false(start_with(dir, FAULT_NONE, 1));
}

/* On data that is there: it is the same after each start. */
static void fail_each(enum fault_kind kind, long stride)
{
    char *dir = dir_make();

    run_well(fill_child, dir);
    start_well(dir);
    run_well(sum_child, dir);
    uint32_t sum = shared->sum;
    size_t nodes = shared->nodes, starts = 0;
    for (long nth = 1; start_with(dir, kind, nth); nth += stride, starts++) {
        run_well(sum_child, dir);
        assert_int_equal(shared->nodes, nodes);
        assert_int_equal(shared->sum, sum);
    }
    assert_true(starts > 0);
    print_message("# %zu starts that failed, %zu nodes\n", starts, nodes);
    done();
    dir_remove(dir);
}

/* The first start in a directory: the next one works. */
static void fail_each_first(enum fault_kind kind, long stride)
{
    bool hit = true;

    for (long nth = 1; hit; nth += stride) {
        char *dir = dir_make();
        hit = start_with(dir, kind, nth);
        start_well(dir);
        dir_remove(dir);
    }
    done();
}

static long stride(long usual)
{
    return soaking() ? 1 : usual * (long)short_run_stride(8);
}

static void test_memory(void **state)
{
    (void)state;
    fail_each(FAULT_MEMORY, stride(97));
}

static void test_threads(void **state)
{
    (void)state;
    fail_each(FAULT_THREAD, stride(1));
}

static void test_handles(void **state)
{
    (void)state;
    fail_each(FAULT_HANDLE, stride(3));
}

static void test_files(void **state)
{
    (void)state;
    fail_each(FAULT_FILE, stride(5));
}

static void test_keeper(void **state)
{
    (void)state;
    fail_each(FAULT_KEEPER, stride(2));
}

static void test_files_of_the_first_start(void **state)
{
    (void)state;
    fail_each_first(FAULT_FILE, stride(13));
}

static void test_keeper_of_the_first_start(void **state)
{
    (void)state;
    fail_each_first(FAULT_KEEPER, stride(7));
}

int __wrap_main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_handles),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_keeper),
        cmocka_unit_test(test_files_of_the_first_start),
        cmocka_unit_test(test_keeper_of_the_first_start),
        cmocka_unit_test(test_memory),
    };

    (void)argc, (void)argv;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : run_group(tests);
}
