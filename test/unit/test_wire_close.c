/* The ZooKeeper port is closed while clients connect, who come back at once when it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <netinet/in.h>

#include "keeper/local/local.h"
#include "keeper/wire/wire.h"

enum { CLIENTS = 3 };

static int connect_to(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* The loop has not seen these connections yet: it finds them after the port was closed. */
static void a_connection_comes_too_late(void **state)
{
    struct local_options lo = {.mode = LOCAL_NONE};
    struct wire_options o = {.listen.count = 1};
    struct sockaddr_in *at = (struct sockaddr_in *)&o.listen.items[0];
    int clients[CLIENTS];
    struct err_info e;
    struct local *l;
    struct wire *w;
    uv_loop_t loop;
    (void)state;

    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(local_open(&lo, &l, &e), 0);
    assert_int_equal(wire_listen(&loop, &o, &w, &e), 0);
    wire_serve(w, l);
    uv_run(&loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = connect_to(wire_address(w, 0));
        assert_int_equal(write(clients[i], "ruok", 4), 4);
    }
    wire_close(w);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    local_close(l);
    for (size_t i = 0; i < CLIENTS; i++) {
        char byte;
        assert_true(read(clients[i], &byte, 1) <= 0);
        close(clients[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_connection_comes_too_late)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
