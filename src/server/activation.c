#include "server/activation.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_FD = 3 }; /* by the protocol */

static const char *const VARIABLES[] = {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"};

/* The options that a socket can be passed for. */
static const struct activation_place {
    const char *name;
    size_t at; /* its struct option_addresses in the options; 0: the Unix socket */
    bool is_keeper;
} PLACES[] = {
    {"http", offsetof(struct serve_options, http)},
    {"https", offsetof(struct serve_options, https)},
    {"zk", offsetof(struct serve_options, wire.listen), .is_keeper = true},
    {"zk-tls", offsetof(struct serve_options, wire.tls_listen), .is_keeper = true},
    {"socket"},
};

enum { PLACE_COUNT = sizeof PLACES / sizeof *PLACES };

static struct taken {
    struct option_addresses addresses[PLACE_COUNT]; /* of the same number in PLACES */
    int socket;                                     /* 0: none */
} taken;

static const struct activation_place *find_place(struct str name)
{
    for (size_t i = 0; i < PLACE_COUNT; i++)
        if (str_eq(name, str_of(PLACES[i].name)))
            return &PLACES[i];
    return NULL;
}

static bool is_stream_listener(int fd)
{
    int type = 0, listens = 0;
    socklen_t type_len = sizeof type, listens_len = sizeof listens;
    return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) && type == SOCK_STREAM &&
           !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_len) && listens;
}

static int take_address(const struct activation_place *p, int fd,
                        const struct sockaddr_storage *address, struct err_info *ret_error)
{
    struct option_addresses *list = &taken.addresses[p - PLACES];
    if (list->count == OPTION_ADDRESSES_MAX)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "more than %d sockets named %s were passed",
                       OPTION_ADDRESSES_MAX, p->name);
    list->items[list->count] = *address;
    list->fds[list->count++] = fd;
    return 0;
}

static int take_one(int fd, struct str name, struct err_info *ret_error)
{
    const struct activation_place *p = find_place(name);
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC))
        return err_set_errno(ret_error, errno, "descriptor %d of $LISTEN_FDS", fd);
    if (!p)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "descriptor %d was passed as '%.*s': the name (FileDescriptorName=) must be "
                       "http, https, zk, zk-tls or socket",
                       fd, STR_ARGS(name));
    bool internet = p->at,
         right = is_stream_listener(fd) && !getsockname(fd, (struct sockaddr *)&address, &len);
    int family = address.ss_family;
    if (!right || (internet ? family != AF_INET && family != AF_INET6 : family != AF_UNIX))
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "descriptor %d was passed as %s, but is no listening %s socket", fd, p->name,
                       internet ? "TCP" : "Unix");
    if (internet)
        return take_address(p, fd, &address, ret_error);
    if (taken.socket)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "more than one Unix socket was passed");
    taken.socket = fd;
    return 0;
}

static int take_all(const char *pid, const char *fds, const char *names, struct err_info *ret_error)
{
    int64_t process, count;
    if (!pid || !fds || !option_digits(pid, 1, INT32_MAX, &process) || process != getpid())
        return 0; /* for another process */
    if (!option_digits(fds, 0, PLACE_COUNT * OPTION_ADDRESSES_MAX, &count))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "$LISTEN_FDS: '%s' is not a number up to %d",
                       fds, PLACE_COUNT * OPTION_ADDRESSES_MAX);
    struct str rest = str_of(names ? names : "");
    for (int i = 0; i < count; i++)
        TRY(take_one(FIRST_FD + i, rest.p ? str_cut(&rest, ':') : STR(""), ret_error));
    return 0;
}

int activation_take(struct err_info *ret_error)
{
    int err = take_all(getenv(VARIABLES[0]), getenv(VARIABLES[1]), getenv(VARIABLES[2]), ret_error);
    for (size_t i = 0; i < sizeof VARIABLES / sizeof *VARIABLES; i++)
        unsetenv(VARIABLES[i]);
    return err;
}

int activation_use(struct serve_options *o, struct err_info *ret_error)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        if (!taken.addresses[i].count)
            continue;
        if (o->keeper && PLACES[i].is_keeper)
            return err_set(ret_error, DROVER_BAD_ARGUMENT,
                           "a socket was passed as %s, which does not go with --keeper",
                           PLACES[i].name);
        *(struct option_addresses *)((char *)o + PLACES[i].at) = taken.addresses[i];
    }
    o->socket_fd = taken.socket;
    return 0;
}
