/*
 * The conformance cases over a real ZooKeeper: standalone or an ensemble, whatever the URL names.
 *
 *   main_zookeeper [FILTER] | --list     with DROVER_TEST_ZK=zk://host:port,... in the environment
 *
 * or zks://..., and the file of the authorities in DROVER_TEST_ZK_CA.
 *
 * DROVER_TEST_BREAKS says under how many cases a connection may break, our own port never. An
 * ensemble of 3.8 on a busy machine answers about one new session in a thousand nothing more: the
 * request has left its socket's queue, the change is made, and no thread of the server is at work
 * on it. After two thirds of the session's timeout the client gives that connection up, and what
 * was on its way is UNKNOWN.
 *
 * Each run lives below a chroot of its own, which its first connection makes. Without a URL there
 * is nothing to test: the exit status is 77, which test runners count as skipped. zk.py starts
 * servers:
 *
 *   test/zookeeper/zk.py run DIR --nodes 3 -- main_zookeeper
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "conformance.h"
#include "keeper/zookeeper/zookeeper.h"

/*
 * libzookeeper_mt 3.8.0 now and then loses an event that is queued while its handle closes: 352
 * bytes in about a quarter of the runs. Only what the library itself allocated is passed over.
 */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libzookeeper_mt";
}

static int connect_zookeeper(void *ctx, const struct keeper_options *o, struct keeper **ret_keeper)
{
    struct zookeeper_options zo = {.tls.ca = getenv("DROVER_TEST_ZK_CA")};
    struct err_info e = {0};
    int err = zookeeper_connect(ctx, &zo, o, ret_keeper, &e);

    if (err && err != DROVER_SESSION_EXPIRED)
        fprintf(stderr, "%s\n", e.text);
    return err;
}

int main(int argc, char **argv)
{
    const char *servers = getenv("DROVER_TEST_ZK"), *filter = argc > 1 ? argv[1] : NULL;
    struct conformance_backend backend = {
        .name = "zookeeper",
        .connect = connect_zookeeper,
        .short_timeout_ms = 2000, /* two ticks of the server */
        .breaks_max = getenv("DROVER_TEST_BREAKS") ? atoi(getenv("DROVER_TEST_BREAKS")) : 0};
    char url[1024];

    if (filter && strcmp(filter, "--list") == 0) {
        conformance_list();
        return 0;
    }
    if (!servers) {
        fprintf(stderr, "DROVER_TEST_ZK is not set: nothing to test\n");
        return 77;
    }
    snprintf(url, sizeof url, "%s/conformance/%d", servers, (int)getpid());
    backend.ctx = url;
    return conformance_run(&backend, filter) != 0;
}
