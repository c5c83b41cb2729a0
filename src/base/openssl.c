/* Looked up once, and never unloaded. */
#include "base/openssl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libssl.so.3"

static struct openssl functions;
static char trouble[256]; /* empty: every function was found */

static const struct {
    const char *name;
    void *place; /* in functions */
} WANTED[] = {
#define X(name) {#name, &functions.name},
    OPENSSL_FUNCTIONS(X)
#undef X
};

/* libcrypto comes with libssl, which depends on it: its names are found through the same handle. */
static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof WANTED / sizeof *WANTED; i++) {
        void *found = dlsym(library, WANTED[i].name);
        if (!found)
            library = NULL;
        else
            memcpy(WANTED[i].place, &found, sizeof found);
    }
    if (!library)
        snprintf(trouble, sizeof trouble, "%s", dlerror());
}

const struct openssl *openssl_load(struct err_info *ret_error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (!trouble[0])
        return &functions;
    err_set(ret_error, DROVER_IO, "cannot load " LIBRARY ": %s", trouble);
    return NULL;
}
