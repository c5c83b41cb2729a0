/* Lines on standard error: their form, and repeated ones, which are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

static int64_t time_ms;

static int64_t clock_of_test(void)
{
    return time_ms;
}

/* Runs fn in a process of its own and returns what it wrote to standard error until its end. */
static const char *written_by(void (*fn)(void))
{
    static char text[64 * 1024];
    size_t len = 0;
    int ends[2], status;
    ssize_t n;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        log_use_clock(clock_of_test);
        fn();
        exit(0);
    }
    close(ends[1]);
    while ((n = read(ends[0], text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    text[len] = '\0';
    return text;
}

static void log_levels(void)
{
    log_error("cannot open %s", "x");
    log_warning("beware");
    log_info("hello");
    log_error_with((struct log_field[]){{"path", STR("/a b")}, LOG_NUMBER("status", 507)}, 2,
                   "full");
}

static void one_line_each(void **state)
{
    (void)state;
    assert_string_equal(written_by(log_levels), "drover: cannot open x\n"
                                                "drover: warning: beware\n"
                                                "drover: hello\n"
                                                "drover: full path=\"/a b\" status=507\n");
}

static void log_repeats(void)
{
    for (int i = 0; i < 42; i++)
        log_error("full");
    log_error("other");
    log_error("other");
    log_error("full");
}

static void repeated_lines_are_counted(void **state)
{
    (void)state;
    assert_string_equal(written_by(log_repeats), "drover: full\n"
                                                 "drover: full (repeated 41 times)\n"
                                                 "drover: other\n"
                                                 "drover: other (repeated 1 time)\n"
                                                 "drover: full\n");
}

static void log_differences(void)
{
    log_error("full");
    log_warning("full");
    log_error_with((struct log_field[]){{"path", STR("/a")}}, 1, "full");
    log_error_with((struct log_field[]){{"path", STR("/b")}}, 1, "full");
}

/* Level and fields count too. */
static void lines_that_differ_are_all_written(void **state)
{
    (void)state;
    assert_string_equal(written_by(log_differences), "drover: full\n"
                                                     "drover: warning: full\n"
                                                     "drover: full path=/a\n"
                                                     "drover: full path=/b\n");
}

static void log_for_a_while(void)
{
    for (time_ms = 0; time_ms < 25000; time_ms += 1000)
        log_error("full");
}

/* At 0, the count every 10 s, and what is left at the end of the process. */
static void a_long_repetition_shows_now_and_then(void **state)
{
    (void)state;
    assert_string_equal(written_by(log_for_a_while), "drover: full\n"
                                                     "drover: full (repeated 10 times)\n"
                                                     "drover: full (repeated 10 times)\n"
                                                     "drover: full (repeated 4 times)\n");
}

static void log_json(void)
{
    log_begin(LOG_JSON, LOG_LEVEL_INFO);
    for (int i = 0; i < 3; i++)
        log_error_with((struct log_field[]){{"path", STR("/a")}}, 1, "full");
    log_info("done");
}

static void json_has_a_member(void **state)
{
    static const char *const lines[] = {
        "\",\"level\":\"error\",\"message\":\"full\",\"path\":\"/a\"}\n",
        "\",\"level\":\"error\",\"message\":\"full\",\"path\":\"/a\",\"repeated\":2}\n",
        "\",\"level\":\"info\",\"message\":\"done\"}\n",
    };
    const char *at = written_by(log_json);
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_memory_equal(at, "{\"time\":\"2", 10);
        at = strstr(at, "Z\"") + 1;
        assert_memory_equal(at, lines[i], strlen(lines[i]));
        at += strlen(lines[i]);
    }
    assert_string_equal(at, "");
}

static void log_events(void)
{
    log_begin(LOG_JSON, LOG_LEVEL_WARNING);
    log_info("dropped");
    log_event(LOG_LEVEL_WARNING,
              LOG_FIELDS("late", LOG_TEXT_OF("path", "a\nb"), LOG_NUMBER("pid", 7)), "pid %d", 7);
}

static void json_has_fields(void **state)
{
    const char *line = written_by(log_events);
    (void)state;
    assert_string_equal(strstr(line, "Z\"") + 1,
                        "\",\"level\":\"warning\",\"message\":\"pid 7\",\"event\":\"late\","
                        "\"path\":\"a\\nb\",\"pid\":7}\n");
}

static void log_to_a_pipe(void)
{
    setenv("TZ", "UTC-2", 1);
    log_begin(LOG_TEXT, LOG_LEVEL_DEBUG);
    log_event(LOG_LEVEL_DEBUG, LOG_FIELDS("late", LOG_NUMBER("pid", 7)), "pid %d", 7);
    log_error_with((struct log_field[]){LOG_NUMBER("status", 507)}, 1, "full");
}

/* 2026-01-31T12:03:04.567+02:00 debug pid 7 */
static void text_has_time_and_level(void **state)
{
    static const char form[] = "2ddd-dd-ddTdd:dd:dd.ddd+02:00 ";
    static const char *const rest[] = {"debug pid 7\n", "error full status=507\n"};
    const char *at = written_by(log_to_a_pipe);
    (void)state;
    for (int i = 0; i < 2; i++) {
        for (const char *f = form; *f; f++, at++)
            assert_true(*f == 'd' ? *at >= '0' && *at <= '9' : *at == *f);
        assert_memory_equal(at, rest[i], strlen(rest[i]));
        at += strlen(rest[i]);
    }
    assert_string_equal(at, "");
}

/* As systemd tells which stream is its own; another one is none. */
static void log_to_the_journal(void)
{
    char stream[64];
    struct stat st;
    fstat(STDERR_FILENO, &st);
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    log_begin(LOG_TEXT, LOG_LEVEL_DEBUG);
    log_error("a");
    log_warning("b");
    log_info("c");
    log_event(LOG_LEVEL_DEBUG, LOG_FIELDS("d", LOG_NUMBER("pid", 7)), "d");
    setenv("JOURNAL_STREAM", "1:1", 1);
    log_begin(LOG_TEXT, LOG_LEVEL_DEBUG);
    log_error("e");
}

static void the_journal_has_priorities(void **state)
{
    const char *said = written_by(log_to_the_journal);
    (void)state;
    assert_memory_equal(said, "<3>a\n<4>b\n<6>c\n<7>d\n2", 21);
    assert_non_null(strstr(said, " error e\n"));
}

static void log_hostile(void)
{
    log_error("a\nb\x1b[1m \xff \xc2\x9b\x31m \xe2\x80\xae \xe2\x81\xa6 \xc3\xa4");
}

static void hostile_text_is_escaped(void **state)
{
    (void)state;
    assert_string_equal(written_by(log_hostile),
                        "drover: a\\nb\\x1b[1m \\xff \\xc2\\x9b1m \\xe2\\x80\\xae "
                        "\\xe2\\x81\\xa6 \xc3\xa4\n");
}

enum { THREADS = 4, LINES = 1000 };

static void *log_many(void *arg)
{
    for (int i = 0; i < LINES; i++)
        log_info("the same of all");
    return arg;
}

static void log_from_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, log_many, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void threads_share_the_count(void **state)
{
    (void)state;
    assert_string_equal(written_by(log_from_threads),
                        "drover: the same of all\n"
                        "drover: the same of all (repeated 3999 times)\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line_each),
        cmocka_unit_test(repeated_lines_are_counted),
        cmocka_unit_test(lines_that_differ_are_all_written),
        cmocka_unit_test(a_long_repetition_shows_now_and_then),
        cmocka_unit_test(json_has_a_member),
        cmocka_unit_test(json_has_fields),
        cmocka_unit_test(text_has_time_and_level),
        cmocka_unit_test(the_journal_has_priorities),
        cmocka_unit_test(hostile_text_is_escaped),
        cmocka_unit_test(threads_share_the_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
