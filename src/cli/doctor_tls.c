/* The certificate of a server: whether it goes with its key, when it ends, who can read the key. */
#include <stdio.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/secret.h"
#include "base/tls.h"
#include "cli/doctor.h"

enum { SOON_DAYS = 14 };

static void check_end(struct doctor *d, const char *cert, const char *who, int64_t expires_ms)
{
    char span[HUMAN_SIZE], when[HUMAN_SIZE];
    int64_t left_ms = expires_ms - clock_wall_ms();
    bool soon = left_ms < (int64_t)SOON_DAYS * 24 * 3600 * 1000;
    human_time(when, expires_ms);
    if (left_ms <= 0)
        doctor_say(d, DOCTOR_ERROR, "certificate", who, "%s expired %s ago, %s", cert,
                   human_span(span, -left_ms), when);
    else
        doctor_say(d, soon ? DOCTOR_WARNING : DOCTOR_OK, "certificate",
                   soon ? "renew it; the server reads the new one by itself" : NULL,
                   "%s expires in %s, %s", cert, human_span(span, left_ms), when);
}

static void check_pair(struct doctor *d, const struct tls_options *o, const char *when_expired)
{
    struct tls_context *tls;
    struct err_info e;
    if (!o->cert)
        return;
    if (secret_is_exposed(o->key))
        doctor_say(d, DOCTOR_ERROR, "key", "chmod 600, and make a new key",
                   "every user of this machine can read %s", o->key);
    if (tls_context_open(o, &tls, &e)) {
        doctor_say(d, DOCTOR_ERROR, "certificate", "a server does not start with it", "%s", e.text);
        return;
    }
    check_end(d, o->cert, when_expired, tls_context_expires(tls) * 1000);
    tls_context_close(tls);
}

/* The server's own, and the one that it shows to the ensemble. */
void doctor_check_tls(struct doctor *d)
{
    const struct zookeeper_tls *zk = &d->zk_tls;
    struct tls_options own = {.cert = d->cert, .key = d->key};
    struct tls_options shown = {.cert = zk->cert, .key = zk->key ? zk->key : zk->cert};
    check_pair(d, &own, "renew it: clients refuse it");
    check_pair(d, &shown, "renew it: the ensemble refuses it");
}
