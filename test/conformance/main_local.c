/*
 * The conformance suite over the embedded keeper:
 *
 *   conformance-local memory|strict|opportunistic [part of a case's name]
 *
 * The journal goes to a temporary directory of its own, which is removed afterwards.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "conformance.h"
#include "keeper/local/local.h"

static const struct {
    const char *word;
    enum local_mode mode;
} modes[] = {
    {"memory", LOCAL_NONE},
    {"strict", LOCAL_STRICT},
    {"opportunistic", LOCAL_OPPORTUNISTIC},
};

enum { MODES = sizeof modes / sizeof *modes };

static int connect_local(void *ctx, const struct keeper_options *o, struct keeper **ret_keeper)
{
    return local_connect(ctx, o, ret_keeper);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int run(size_t mode, const char *filter)
{
    char dir[] = "/tmp/drover-conformance-XXXXXX";
    struct local_options o = {.mode = modes[mode].mode, .dir = dir};
    struct conformance_backend backend = {modes[mode].word, NULL, connect_local,
                                          KEEPER_TIMEOUT_MIN_MS};
    struct err_info error = {""};
    struct local *l;
    int failed = 1;

    if (!mkdtemp(dir)) {
        perror("mkdtemp");
        return 1;
    }
    if (local_open(&o, &l, &error) == 0) {
        backend.ctx = l;
        failed = conformance_run(&backend, filter);
        local_close(l);
    } else {
        fprintf(stderr, "%s\n", error.text);
    }
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return failed != 0;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < MODES; i++) {
        if (argc >= 2 && strcmp(argv[1], modes[i].word) == 0)
            return run(i, argc > 2 ? argv[2] : NULL);
    }
    if (argc >= 2 && strcmp(argv[1], "list") == 0) {
        conformance_list();
        return 0;
    }
    fprintf(stderr, "usage: %s memory|strict|opportunistic|list [part of a name]\n", argv[0]);
    return 2;
}
