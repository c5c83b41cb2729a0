/* Updates, claims and answers as JSON: what the client sends, and how it reads the answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"
#include "client/task_client.h"

static void updates_are_written_short(void **state)
{
    const struct drover_task adds[] = {
        {.group = "g"},
        {.group = "g\0h", .group_len = 3, .data = "a\"\0", .data_len = 3, .timespec = -5}};
    const struct drover_task updates[] = {{.id = 7, .data = "", .timespec = 9}};
    const int64_t ids[] = {1, INT64_MAX};
    struct drover_update u = {.adds = adds, .add_count = 2};
    struct buf b = {0};

    (void)state;
    assert_int_equal(task_body_update(&b, &u, 12, "r1", NULL), 0);
    assert_string_equal(buf_text(&b),
                        "{\"clientid\":12,\"requestid\":\"r1\",\"adds\":[{\"group\":\"g\"},"
                        "{\"group\":\"g\\u0000h\",\"data\":\"a\\\"\\u0000\",\"timespec\":-5}]}");
    b.len = 0;
    u = (struct drover_update){.clientid = 3,
                               .updates = updates,
                               .update_count = 1,
                               .deletes = ids,
                               .delete_count = 2,
                               .depends = ids,
                               .depend_count = 1};
    assert_int_equal(task_body_update(&b, &u, 12, NULL, NULL), 0);
    assert_string_equal(buf_text(&b),
                        "{\"clientid\":3,\"updates\":[{\"id\":7,\"data\":\"\",\"timespec\":9}],"
                        "\"deletes\":[1,9223372036854775807],\"depends\":[1]}");
    buf_release(&b);
}

static void claims_are_written_short(void **state)
{
    const char *const groups[] = {"a", "b"};
    const int64_t id = 4;
    struct drover_claim c = {.groups = groups, .group_count = 1, .duration_ms = 5};
    struct buf b = {0};

    (void)state;
    assert_int_equal(task_body_claim(&b, &c, 1, 0, NULL, NULL), 0);
    assert_string_equal(buf_text(&b), "{\"clientid\":1,\"group\":\"a\",\"duration\":5}");
    b.len = 0;
    c.group_count = c.limit = 2;
    c.deletes = c.depends = &id;
    c.delete_count = c.depend_count = 1;
    assert_int_equal(task_body_claim(&b, &c, 1, 9, "r", NULL), 0);
    assert_string_equal(
        buf_text(&b), "{\"clientid\":1,\"requestid\":\"r\",\"groups\":[\"a\",\"b\"],\"duration\":5,"
                      "\"wait\":9,\"limit\":2,\"deletes\":[4],\"depends\":[4]}");
    buf_release(&b);
}

/* It would come back as something else. */
static void text_that_is_not_utf8_is_refused(void **state)
{
    const char *const groups[] = {"a", "\xc3"};
    const struct drover_task tasks[] = {{.id = 1, .group = "g", .data = "\xff"},
                                        {.id = 1, .group = "\xed\xa0"}};
    struct drover_claim c = {.groups = groups, .group_count = 2};
    struct drover_update u = {0};
    struct err_info e;
    struct buf b = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        u = (struct drover_update){.adds = &tasks[i], .add_count = 1};
        assert_int_equal(task_body_update(&b, &u, 1, NULL, &e), DROVER_BAD_ARGUMENT);
        assert_string_equal(e.text, i ? "group is not UTF-8 text" : "data is not UTF-8 text");
        b.len = 0;
    }
    u = (struct drover_update){.updates = tasks, .update_count = 1};
    assert_int_equal(task_body_update(&b, &u, 1, NULL, &e), DROVER_BAD_ARGUMENT);
    b.len = 0;
    assert_int_equal(task_body_claim(&b, &c, 1, 0, NULL, &e), DROVER_BAD_ARGUMENT);
    buf_release(&b);
}

static void answers_are_read(void **state)
{
    static const struct {
        const char *json;
        size_t tasks, errors;
    } rows[] = {
        {"{\"tasks\":[]}", 0, 0},
        {"[]", 0, 0},
        {"[null,{\"id\":5,\"group\":\"g\"}]", 1, 0},
        {"{\"id\":5,\"group\":\"g\",\"data\":\"\\u0000x\",\"timespec\":-1,\"ownerid\":8}", 1, 0},
        {"{\"errors\":[\"a\",\"b\"]}", 0, 2},
    };
    struct drover_result r;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(task_body_read(str_of(rows[i].json), &r, NULL), 0);
        assert_int_equal(r.task_count, rows[i].tasks);
        assert_int_equal(r.error_count, rows[i].errors);
        if (r.task_count)
            assert_int_equal(r.tasks[0].id, 5);
        if (i == 3) {
            assert_int_equal(r.tasks[0].data_len, 2);
            assert_memory_equal(r.tasks[0].data, "\0x", 3);
            assert_int_equal(r.tasks[0].ownerid, 8);
        }
        if (r.error_count)
            assert_string_equal(r.errors[1], "b");
        drover_result_release(&r);
        drover_result_release(&r); /* safe to repeat */
    }
}

static void what_is_no_answer(void **state)
{
    static const char *const rows[] = {
        "",
        "nonsense",
        "{}",
        "7",
        "{\"tasks\":7}",
        "[7]",
        "[{\"id\":5}]",
        "{\"id\":\"5\"}",
        "{\"tasks\":[{\"id\":5,\"group\":7}]}",
    };
    struct drover_groups g;
    struct drover_result r;
    struct err_info e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (task_body_read(str_of(rows[i]), &r, &e) != DROVER_IO)
            fail_msg("%s", rows[i]);
        if (i < 5)
            assert_int_equal(task_body_read_groups(str_of(rows[i]), &g, &e), DROVER_IO);
    }
    assert_int_equal(task_body_read_groups(STR("[\"a\",\"b\"]"), &g, &e), 0);
    assert_int_equal(g.count, 2);
    assert_string_equal(g.names[1], "b");
    drover_groups_release(&g);
}

/* Answers one request, whose head fits into a read, with a refusal. NULL: it could not. */
static void *refuse_one(void *arg)
{
    static const char answer[] = "HTTP/1.1 409 Conflict\r\nContent-Length: 22\r\n"
                                 "Connection: close\r\n\r\n{\"errors\":[\"not now\"]}";
    char request[4096];
    int fd = accept(*(int *)arg, NULL, NULL);
    bool done = read(fd, request, sizeof request) > 0 &&
                write(fd, answer, sizeof answer - 1) == sizeof answer - 1;
    close(fd);
    return done ? arg : NULL;
}

/* The leak checker sees to it that the reasons are freed. */
static void a_refused_list_of_groups_leaves_nothing(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct drover_client *c;
    struct drover_groups g;
    struct drover_error e = {""};
    pthread_t server;
    void *done;
    char url[64];
    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    thread_must_start(&server, "refuse", refuse_one, &fd);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    assert_int_equal(drover_client_open(&(struct drover_client_options){.server = url}, &c, &e), 0);
    assert_int_equal(drover_client_groups(c, &g, &e), DROVER_REFUSED);
    assert_string_equal(e.text, "not now");
    drover_client_close(c);
    pthread_join(server, &done);
    assert_non_null(done);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_are_written_short),
        cmocka_unit_test(claims_are_written_short),
        cmocka_unit_test(text_that_is_not_utf8_is_refused),
        cmocka_unit_test(answers_are_read),
        cmocka_unit_test(what_is_no_answer),
        cmocka_unit_test(a_refused_list_of_groups_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
