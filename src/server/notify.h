/*
 * notify - tells the service manager how the server does, by the protocol of sd_notify(3).
 *
 * In order: notify_open() reads $NOTIFY_SOCKET and the variables of the watchdog, and removes them,
 * so that commands do not inherit them; notify_progress() while the start takes its time;
 * notify_begin() once the loop is about to run. From then on a timer of the loop sends READY=1 when
 * /readyz would say so, the state in words when it changes, and WATCHDOG=1 twice in the time that
 * the manager allows: a loop that does not turn sends nothing, nor does one whose journal makes no
 * progress. Everything on the thread of the loop. Without a manager all of it does nothing.
 */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

#include "server/status.h"

struct notify {
    int fd; /* a datagram socket; 0: there is no manager */
    struct sockaddr_un manager;
    socklen_t manager_len;
    bool failed; /* and it was logged */
    int64_t watchdog_ms;
    struct module_set *modules;
    uv_timer_t timer;
    bool begun, ready;
    const char *waiting;    /* what the manager was told last */
    int64_t durable_before; /* at the last look at the journal */
};

/* Never fails: a manager that cannot be reached is logged. */
void notify_open(struct notify *n);

/* The start goes on: it is doing this, "reading FILE", and needs more time. */
void notify_progress(struct notify *n, const char *what);

void notify_begin(struct notify *n, uv_loop_t *loop, struct module_set *modules);

void notify_reloading(struct notify *n);
void notify_reloaded(struct notify *n, bool done);

/* The last words: why it ends. Run the loop until its handle is gone. */
void notify_stopping(struct notify *n, const char *why);
void notify_close(struct notify *n);

#endif
