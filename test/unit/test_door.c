/* The door of a port: limits on all connections, on those of an address, and on descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "base/door.h"
#include "base/file_limit.h"

enum { GUESTS_MAX = 64, FD = 3 };

struct party {
    struct door door;
    struct door_guest guests[GUESTS_MAX];
    size_t count;
    const char *line; /* of the last refusal */
};

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage a = {.ss_family = !text               ? AF_UNIX
                                              : strchr(text, ':') ? AF_INET6
                                                                  : AF_INET};
    if (a.ss_family == AF_INET)
        assert_int_equal(1, inet_pton(AF_INET, text, &((struct sockaddr_in *)&a)->sin_addr));
    if (a.ss_family == AF_INET6)
        assert_int_equal(1, inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&a)->sin6_addr));
    return a;
}

static enum door_answer enter(struct party *p, const char *from, int fd)
{
    struct sockaddr_storage a = address(from);
    assert_true(p->count < GUESTS_MAX);
    return door_enter_from(&p->door, fd, &a, &p->guests[p->count++], &p->line);
}

static void expect(struct party *p, const char *from, enum door_answer answer)
{
    assert_int_equal(answer, enter(p, from, FD));
}

static void all_leave(struct party *p)
{
    while (p->count) {
        door_leave(&p->door, &p->guests[--p->count]);
        door_leave(&p->door, &p->guests[p->count]);
    }
    assert_int_equal(0, p->door.count);
    assert_int_equal(0, p->door.refused);
    assert_null(p->door.hosts);
}

static void the_total_has_a_limit(void **state)
{
    struct party p = {.door = {.what = "guests", .max = 3}};
    (void)state;
    for (int i = 0; i < 3; i++)
        expect(&p, "127.0.0.1", DOOR_LET_IN);
    expect(&p, "10.0.0.1", DOOR_TOO_MANY);
    assert_string_equal(p.line, "refused 1 guests: there are too many; 3 are open");
    expect(&p, NULL, DOOR_TOO_MANY);
    assert_null(p.line);
    assert_int_equal(2, p.door.refused);
    door_leave(&p.door, &p.guests[0]);
    expect(&p, "10.0.0.1", DOOR_LET_IN);
    assert_int_equal(2, p.door.answers[DOOR_TOO_MANY]);
    all_leave(&p);
}

static void what_has_no_address_has_spare_places(void **state)
{
    struct party p = {.door = {.max = 1, .more_without_address = 2}};
    (void)state;
    for (int i = 0; i < 3; i++)
        expect(&p, NULL, DOOR_LET_IN);
    expect(&p, NULL, DOOR_TOO_MANY);
    expect(&p, "127.0.0.1", DOOR_TOO_MANY);
    all_leave(&p);
}

static void an_address_has_a_quarter_unless_it_is_of_loopback(void **state)
{
    static const char *const same[][2] = {{"10.0.0.1", "::ffff:10.0.0.1"},
                                          {"2001:db8::1", "2001:db8::2:3:4:5"}};
    struct party p = {.door = {.what = "guests", .max = 12}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        for (int j = 0; j < 4; j++)
            expect(&p, same[i][j % 2], DOOR_LET_IN);
        expect(&p, same[i][0], DOOR_TOO_MANY_OF_ADDRESS);
        expect(&p, same[i][1], DOOR_TOO_MANY_OF_ADDRESS);
    }
    assert_int_equal(4, p.door.refused);
    expect(&p, "10.0.0.2", DOOR_LET_IN);
    expect(&p, "2001:db8:0:1::1", DOOR_LET_IN);
    all_leave(&p);
    for (int i = 0; i < 12; i++)
        expect(&p, i % 2 ? "127.0.0.1" : "::1", DOOR_LET_IN);
    expect(&p, "127.0.0.1", DOOR_TOO_MANY);
    all_leave(&p);
}

static void a_given_limit_holds_for_every_address(void **state)
{
    struct party p = {.door = {.what = "guests", .max = 10, .max_of_address = 2}};
    (void)state;
    expect(&p, "127.0.0.1", DOOR_LET_IN);
    expect(&p, "127.0.0.1", DOOR_LET_IN);
    expect(&p, "127.0.0.1", DOOR_TOO_MANY_OF_ADDRESS);
    expect(&p, "127.0.0.2", DOOR_LET_IN);
    door_leave(&p.door, &p.guests[0]);
    expect(&p, "127.0.0.1", DOOR_LET_IN); /* the one that was refused has no place */
    all_leave(&p);
}

/* Of descriptors, the highest numbers are kept back. */
static void descriptors_are_kept_back(void **state)
{
    struct rlimit before, limit;
    struct party p = {.door = {.what = "guests", .max = 50, .files_spare = 10}};
    (void)state;
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &before));
    limit = (struct rlimit){400, before.rlim_max};
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &limit));
    assert_int_equal(300, file_limit_of_clients());
    assert_int_equal(5, file_limit_keep(5, 8));
    assert_int_equal(260, file_limit_of_clients());
    assert_int_equal(DOOR_LET_IN, enter(&p, "127.0.0.1", 249));
    assert_int_equal(DOOR_TOO_MANY, enter(&p, "127.0.0.1", 250));
    assert_int_equal(DOOR_LET_IN, enter(&p, NULL, 250));
    assert_int_equal(DOOR_FILES, enter(&p, "127.0.0.1", 260));
    assert_int_equal(DOOR_FILES, enter(&p, NULL, 260));
    assert_null(door_missed(&p.door));
    assert_int_equal(3, p.door.answers[DOOR_FILES]);
    assert_int_equal(12, file_limit_keep(1000, 8));
    assert_int_equal(204, file_limit_of_clients());
    limit.rlim_cur = 4000;
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &limit));
    assert_int_equal(0, file_limit_keep(0, 8));
    assert_int_equal(4000 - FILE_LIMIT_KEPT, file_limit_of_clients());
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &before));
    all_leave(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_total_has_a_limit),
        cmocka_unit_test(what_has_no_address_has_spare_places),
        cmocka_unit_test(an_address_has_a_quarter_unless_it_is_of_loopback),
        cmocka_unit_test(a_given_limit_holds_for_every_address),
        cmocka_unit_test(descriptors_are_kept_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
