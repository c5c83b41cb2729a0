/*
 * doctor - what is wrong with this machine or with a server, as a list of findings.
 *
 * A check looks at one thing and reports it with doctor_say(): that it is as it should be, or what
 * is wrong and what to do. Checks change nothing but a file of their own in the data directory,
 * which they remove.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "base/buf.h"
#include "cli/cmd.h"
#include "keeper/zookeeper/zookeeper.h"

enum doctor_level { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_ERROR };

struct doctor {
    const char *data;   /* the data directory */
    bool data_given;    /* else the default one, which may be missing */
    const char *keeper; /* an ensemble; NULL: none */
    struct zookeeper_tls zk_tls;
    const char *cert, *key; /* of a server with TLS; NULL: none */
    struct client_options client;
    struct buf findings; /* JSON: a list of {"level","check","message","advice"} */
    enum doctor_level worst;
};

/* advice NULL: nothing is to be done. */
void doctor_say(struct doctor *d, enum doctor_level level, const char *check, const char *advice,
                const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Each may report several findings. */
void doctor_check_server(struct doctor *d);  /* reachable, ready, version, rights, clock */
void doctor_check_data(struct doctor *d);    /* rights, space, file system, owner of the lock */
void doctor_check_disk(struct doctor *d);    /* how long a sync takes */
void doctor_check_machine(struct doctor *d); /* clock, files, memory, cgroups */
void doctor_check_tls(struct doctor *d);     /* the certificate and its key */
void doctor_check_keeper(struct doctor *d);  /* the servers of the ensemble */

#endif
