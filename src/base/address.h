/*
 * address - tells kinds of internet addresses apart.
 */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Reachable from this machine only. */
bool address_is_loopback(const struct sockaddr_storage *address);

/* The wildcard: every address of the machine. */
bool address_is_any(const struct sockaddr_storage *address);

#endif
