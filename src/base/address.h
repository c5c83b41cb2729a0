/*
 * address - tells kinds of internet addresses apart.
 */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

/* Reachable from this machine only. */
static inline bool address_is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* The wildcard: every address of the machine. */
static inline bool address_is_any(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ((const struct sockaddr_in *)address)->sin_addr.s_addr == INADDR_ANY;
}

#endif
