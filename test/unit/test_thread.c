/* Threads get their names, and a thread that cannot start is an error or the end of the process. */
#include "base/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"

static void *read_comm(void *arg)
{
    FILE *f = fopen("/proc/thread-self/comm", "re");

    if (!f || !fgets(arg, THREAD_NAME_MAX + 1, f))
        *(char *)arg = '\0';
    if (f)
        fclose(f);
    return arg;
}

static void test_a_thread_has_its_name(void **state)
{
    char comm[THREAD_NAME_MAX + 1];
    pthread_t thread;
    void *ret;

    (void)state;
    assert_int_equal(thread_start(&thread, "fifteen-letters", read_comm, comm, NULL), 0);
    pthread_join(thread, &ret);
    assert_ptr_equal(ret, comm);
    assert_string_equal(comm, "fifteen-letters");
    thread_must_start(&thread, "short", read_comm, comm);
    pthread_join(thread, NULL);
    assert_string_equal(comm, "short\n");
}

/* No address space is large enough for such a stack, so no thread can start. */
static void ask_for_huge_stacks(void)
{
    pthread_attr_t attr;

    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, (size_t)1 << 48), 0);
    assert_int_equal(pthread_setattr_default_np(&attr), 0);
    pthread_attr_destroy(&attr);
}

/*
 * Runs fn in a child and gives the signal that ended it, 0 for none, and what it printed on stderr.
 */
static int ending_of(void (*fn)(void), char *text, size_t len)
{
    int fds[2], status;
    size_t filled = 0;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (!pid) {
        dup2(fds[1], STDERR_FILENO);
        fn();
        _exit(0);
    }
    close(fds[1]);
    while ((n = read(fds[0], text + filled, len - 1 - filled)) > 0)
        filled += (size_t)n;
    text[filled] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void start_checked(void)
{
    struct err_info e = {""};
    pthread_t thread;

    ask_for_huge_stacks();
    fprintf(stderr, "%s ", drover_err_name(thread_start(&thread, "worker", read_comm, NULL, &e)));
    fprintf(stderr, "%s", e.text);
}

static void start_needed(void)
{
    pthread_t thread;

    ask_for_huge_stacks();
    thread_must_start(&thread, "worker", read_comm, NULL);
}

static void test_no_thread(void **state)
{
    char text[512];

    (void)state;
    assert_int_equal(ending_of(start_checked, text, sizeof text), 0);
    assert_non_null(strstr(text, "IO cannot start the thread 'worker': "));
    assert_int_equal(ending_of(start_needed, text, sizeof text), SIGABRT);
    assert_non_null(strstr(text, "drover: cannot start the thread 'worker': "));
}

/* The sanitizers call these: their allocators then fail as malloc() does. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void allocate_too_much(void)
{
    mem_alloc((size_t)1 << 62);
}

static void test_no_memory(void **state)
{
    char text[4096];

    (void)state;
    assert_int_equal(ending_of(allocate_too_much, text, sizeof text), SIGABRT);
    assert_non_null(strstr(text, "drover: out of memory (4611686018427387904 bytes)\n"));
}

static void test_a_wait_ends_in_time(void **state)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    int64_t until = clock_boot_ms() + 20;

    (void)state;
    cond_init(&cond);
    pthread_mutex_lock(&lock);
    while (clock_boot_ms() < until)
        cond_wait_until(&cond, &lock, until);
    cond_wait_until(&cond, &lock, 0); /* the past: returns at once */
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&cond);
}

static void test_random(void **state)
{
    char a[33], b[33];

    (void)state;
    random_hex(a, 32);
    random_hex(b, 32);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_int_equal(a[32], 0);
    assert_string_not_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_has_its_name),
        cmocka_unit_test(test_no_thread),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_a_wait_ends_in_time),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
