/*
 * zookeeper_relay - TLS for libzookeeper, which has none in Debian 12 (it is built without
 * zookeeper_init_ssl()) and no hook for its sockets.
 *
 * For each server of the ensemble there is a socket that listens on 127.0.0.1, on any free port.
 * libzookeeper is given these addresses. A thread, zk-tls, accepts its connection, connects to the
 * server with TLS and passes the bytes on, decrypted and encrypted (zookeeper_link.h). So
 * libzookeeper chooses servers, detects silent ones and reconnects as it always does. A handle has
 * one connection at a time, and so has its relay: a new one replaces the one before.
 *
 * Everybody on the machine can connect to 127.0.0.1. What is passed on has the rights of our
 * certificate, so a connection is closed at once unless its other end is a socket of this process.
 *
 * The hosts are resolved with each connection, on that thread, as libzookeeper does on its own:
 * nobody else waits for it.
 */
#ifndef KEEPER_ZOOKEEPER_ZOOKEEPER_RELAY_H
#define KEEPER_ZOOKEEPER_ZOOKEEPER_RELAY_H

#include "keeper/zookeeper/zookeeper.h"

enum { ZK_RELAY_HOSTS_MAX = 64 };

struct zk_relay;

/* hosts: "host:port,host:port". timeout_ms: of the session. zo may be NULL. */
int zk_relay_open(const char *hosts, const struct zookeeper_options *zo, int32_t timeout_ms,
                  struct zk_relay **ret_relay, struct err_info *ret_error);

/* When libzookeeper has closed its socket: sends the rest first. NULL is allowed. */
void zk_relay_close(struct zk_relay *r);

/* For libzookeeper. */
const char *zk_relay_hosts(struct zk_relay *r);

/*
 * Why the latest attempt failed, "host:port: reason"; empty: it did not. True: TLS has failed with
 * every server, so it is of no use to wait. From any thread.
 */
bool zk_relay_problem(struct zk_relay *r, struct err_info *ret_problem);

#endif
