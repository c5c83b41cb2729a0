/* The certificate of a server: whether it goes with its key, when it ends, who can read the key. */
#include <stdio.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/secret.h"
#include "base/tls.h"
#include "cli/doctor.h"

enum { SOON_DAYS = 14 };

static void check_end(struct doctor *d, int64_t expires_ms)
{
    char span[HUMAN_SIZE], when[HUMAN_SIZE];
    int64_t left_ms = expires_ms - clock_wall_ms();
    bool soon = left_ms < (int64_t)SOON_DAYS * 24 * 3600 * 1000;
    human_time(when, expires_ms);
    if (left_ms <= 0)
        doctor_say(d, DOCTOR_ERROR, "certificate", "renew it: clients refuse it",
                   "%s expired %s ago, %s", d->cert, human_span(span, -left_ms), when);
    else
        doctor_say(d, soon ? DOCTOR_WARNING : DOCTOR_OK, "certificate",
                   soon ? "renew it; the server reads the new one by itself" : NULL,
                   "%s expires in %s, %s", d->cert, human_span(span, left_ms), when);
}

void doctor_check_tls(struct doctor *d)
{
    struct tls_context *tls;
    struct err_info e;
    if (!d->cert)
        return;
    if (secret_is_exposed(d->key))
        doctor_say(d, DOCTOR_ERROR, "key", "chmod 600, and make a new key",
                   "every user of this machine can read %s", d->key);
    if (tls_context_open(&(struct tls_options){.cert = d->cert, .key = d->key}, &tls, &e)) {
        doctor_say(d, DOCTOR_ERROR, "certificate", "a server does not start with it", "%s", e.text);
        return;
    }
    check_end(d, tls_context_expires(tls) * 1000);
    tls_context_close(tls);
}
