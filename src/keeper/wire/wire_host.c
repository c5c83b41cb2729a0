/*
 * The address of a connection: its name, its first identity, and how many connections it has. The
 * counts are in a balanced tree, so that many connections from many addresses stay cheap.
 */
#include <search.h>
#include <stdlib.h>

#include "base/address.h"
#include "base/mem.h"
#include "keeper/wire/wire_impl.h"

/* First member: a pointer to the address is one to the host. */
struct wire_host {
    struct in6_addr address; /* of IPv4: as IPv6 writes it, ::ffff:127.0.0.1 */
    int64_t connections;
};

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct in6_addr));
}

static struct in6_addr plain_address(const struct sockaddr_storage *address)
{
    struct in6_addr plain = {.s6_addr = {[10] = 0xff, 0xff}};
    if (address->ss_family == AF_INET6)
        return ((const struct sockaddr_in6 *)address)->sin6_addr;
    memcpy(&plain.s6_addr[12], &((const struct sockaddr_in *)address)->sin_addr, 4);
    return plain;
}

static struct wire_host *find_or_add(struct wire *w, const struct in6_addr *address)
{
    struct wire_host **found = tfind(address, &w->hosts, compare);
    if (found)
        return *found;
    struct wire_host *host = mem_zalloc(sizeof *host);
    host->address = *address;
    if (!tsearch(host, &w->hosts, compare))
        err_fatal("out of memory");
    return host;
}

bool wire_host_enter(struct wire_conn *c)
{
    struct sockaddr_storage address = {0};
    int len = sizeof address;
    char ip[48] = "";
    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&address, &len) < 0)
        return true;
    uv_ip_name((struct sockaddr *)&address, ip, sizeof ip);
    snprintf(c->peer, sizeof c->peer, "%s:%d", ip, wire_port(&address));
    wire_add_id(c, STR("ip"), str_of(ip));
    c->is_loopback = address_is_loopback(&address);
    struct in6_addr plain = plain_address(&address);
    c->host = find_or_add(c->w, &plain);
    return ++c->host->connections <= c->w->o.connections_per_address;
}

void wire_host_leave(struct wire_conn *c)
{
    if (!c->host || --c->host->connections)
        return;
    tdelete(c->host, &c->w->hosts, compare);
    free(c->host);
}
