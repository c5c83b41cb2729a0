#include "base/door.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file_limit.h"
#include "base/mem.h"

/* First member: a pointer to the address is one to the host. */
struct door_host {
    struct in6_addr address; /* of IPv4: as IPv6 writes it, ::ffff:127.0.0.1 */
    size_t count;
    bool is_loopback;
};

static const struct {
    const char *label, *words;
} REASONS[DOOR_ANSWERS] = {
    [DOOR_TOO_MANY] = {"total", "there are too many"},
    [DOOR_TOO_MANY_OF_ADDRESS] = {"address", "there are too many from one address"},
    [DOOR_FILES] = {"files", "the limit on open files is reached"},
};

const char *door_reason(enum door_answer a)
{
    return REASONS[a].label;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct in6_addr));
}

static struct door_host host_of(const struct sockaddr_storage *from)
{
    static const struct in6_addr mapped = {.s6_addr = {[10] = 0xff, 0xff}};
    struct door_host host = {.address = mapped, .is_loopback = address_is_loopback(from)};
    if (from->ss_family == AF_INET) {
        memcpy(&host.address.s6_addr[12], &((const struct sockaddr_in *)from)->sin_addr, 4);
        return host;
    }
    host.address = ((const struct sockaddr_in6 *)from)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&host.address))
        host.is_loopback = host.address.s6_addr[12] == 127;
    else if (!host.is_loopback)
        memset(&host.address.s6_addr[8], 0, 8);
    return host;
}

/* NULL: it has no address. */
static struct door_host *find_or_add(struct door *d, const struct sockaddr_storage *from)
{
    if (from->ss_family != AF_INET && from->ss_family != AF_INET6)
        return NULL;
    struct door_host wanted = host_of(from);
    struct door_host **found = tfind(&wanted, &d->hosts, compare);
    if (found)
        return *found;
    struct door_host *host = mem_alloc(sizeof *host);
    *host = wanted;
    if (!tsearch(host, &d->hosts, compare))
        err_fatal("out of memory");
    return host;
}

static bool is_full_for(const struct door *d, const struct door_host *host)
{
    if (host->is_loopback && !d->max_of_address)
        return false;
    return host->count >= (d->max_of_address ? d->max_of_address : d->max / 4 + 1);
}

static void host_leave(struct door *d, struct door_host *host)
{
    if (!host || --host->count)
        return;
    tdelete(host, &d->hosts, compare);
    free(host);
}

static enum door_answer decide(const struct door *d, int fd, const struct door_host *host)
{
    int files = file_limit_of_clients();
    if (fd >= files)
        return DOOR_FILES;
    if (!host)
        return d->count < d->max + d->more_without_address ? DOOR_LET_IN : DOOR_TOO_MANY;
    if (d->count >= d->max || fd >= files - (int)d->files_spare)
        return DOOR_TOO_MANY;
    return is_full_for(d, host) ? DOOR_TOO_MANY_OF_ADDRESS : DOOR_LET_IN;
}

/* A line for the log, or NULL. */
static const char *note_refusal(struct door *d, enum door_answer a)
{
    d->answers[a]++;
    uint64_t unsaid = refusals_add(&d->refusals, clock_boot_ms());
    if (!unsaid)
        return NULL;
    snprintf(d->line, sizeof d->line, "refused %" PRIu64 " %s: %s; %zu are open", unsaid, d->what,
             REASONS[a].words, d->count);
    return d->line;
}

enum door_answer door_enter_from(struct door *d, int fd, const struct sockaddr_storage *from,
                                 struct door_guest *g, const char **ret_line)
{
    struct door_host *host = find_or_add(d, from);
    enum door_answer answer = decide(d, fd, host);
    if (host)
        host->count++;
    if (answer == DOOR_LET_IN) {
        *g = (struct door_guest){.host = host, .let_in = true};
        d->answers[answer]++;
        d->count++;
    } else {
        *g = (struct door_guest){.refused = true};
        host_leave(d, host);
        *ret_line = note_refusal(d, answer);
        d->refused++;
    }
    return answer;
}

enum door_answer door_enter(struct door *d, int fd, struct door_guest *g, const char **ret_line)
{
    struct sockaddr_storage from = {0};
    socklen_t len = sizeof from;
    if (getpeername(fd, (struct sockaddr *)&from, &len)) /* the client has left */
        from.ss_family = AF_UNSPEC;
    return door_enter_from(d, fd, &from, g, ret_line);
}

void door_leave(struct door *d, struct door_guest *g)
{
    d->count -= g->let_in;
    d->refused -= g->refused;
    host_leave(d, g->host);
    *g = (struct door_guest){0};
}

const char *door_missed(struct door *d)
{
    return note_refusal(d, DOOR_FILES);
}
