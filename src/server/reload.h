/*
 * reload - new options for a running server.
 *
 * On SIGHUP the options are read again: the file, the environment, the command line. Then every
 * hook prepares. If all of that succeeds, the options that may change at run time (OPTION_RELOADS)
 * get their new values, and the hooks apply them. Otherwise nothing changes at all. The log says
 * what changed, which options wait for the next start, or why nothing changed.
 *
 * Hooks are called at every reload, also when no option has changed: the content of a file that an
 * option names (a token, a certificate) may have.
 *
 *     reload_add(context->reload, (struct reload_hook){.prepare = read_it, .apply = use_it, ...});
 *
 * Everything happens on the loop, in the order in which the hooks were added.
 */
#ifndef SERVER_RELOAD_H
#define SERVER_RELOAD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct reload;

struct reload_hook {
    /*
     * Reads what it will need, and uses nothing of it yet. reload_text() has the new options.
     * Negative: nothing is reloaded, because of ret_error. NULL: it cannot fail.
     */
    int (*prepare)(void *arg, const struct reload *r, struct err_info *ret_error);
    void (*apply)(void *arg);  /* the targets of the options have their new values */
    void (*cancel)(void *arg); /* it has prepared, but another one failed; NULL: nothing to do */
    void *arg;
};

/* Where the options come from: the command line, which knows the tables. */
struct reload_source {
    /* Reads and checks them. Negative: ret_error says what is wrong. */
    int (*read)(struct err_info *ret_error);
    const char *(*text)(const char *option); /* of what was read; NULL: not given */

    /* Sets the targets of those that reload. Appends names: what changed, what needs a restart. */
    void (*apply)(struct buf *changed, struct buf *later);
};

enum { RELOAD_HOOKS_MAX = 32 };

struct reload {
    const struct reload_source *source; /* NULL: there is nothing to read again */
    struct reload_hook hooks[RELOAD_HOOKS_MAX];
    size_t count;
};

void reload_add(struct reload *r, struct reload_hook hook);

/* True: it was reloaded. */
bool reload_run(struct reload *r);

/* From prepare: the value of an option that was just read; NULL: it has none. */
const char *reload_text(const struct reload *r, const char *option);

#endif
