/*
 * address - what kind of internet address one is.
 */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether only this machine can reach it. */
bool address_is_loopback(const struct sockaddr_storage *address);

/* Whether it stands for every address of the machine. */
bool address_is_any(const struct sockaddr_storage *address);

#endif
