/*
 * option - tables of options.
 *
 * An option is a row: its name, its help, and a function that parses its value into a target.
 * Commands and the modules of the server declare their options as tables of rows. cli/cmd.h parses
 * the command line with them, cli/config.h a file and the environment, and both print them: as
 * --help and as `drover config`.
 *
 * A value is text wherever it comes from, the row's own default included, so there is one way to
 * parse and to show it.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

enum option_flags {
    OPTION_RELOADS = 1 << 0,      /* a new value applies at once when the server reloads */
    OPTION_COMMAND_LINE = 1 << 1, /* can be given on the command line only */
    OPTION_VARIABLE = 1 << 2,     /* there and in the environment, not in a file */
    OPTION_LIST = 1 << 3,         /* may be given more than once, with a parse of its own */
    OPTION_OWN = 1 << 8,          /* this one and further ones mean what the command says */
};

struct option {
    const char *name;     /* without the dashes */
    const char *argument; /* as --help shows it; NULL: a flag, which takes no value */
    const char *help;     /* lines, separated by newlines */

    /* Writes the value to target, or describes in e what is wrong with the text. */
    int (*parse)(const struct option *o, const char *text, struct err_info *e);
    void *target;
    int64_t min, max; /* of option_number and option_span */
    char letter;      /* "-f"; 0: none */

    /*
     * The value of an option that is not given. NULL: none, and the target stays as it is. Where it
     * depends on the machine a function finds it, and the help says how.
     */
    const char *initial;
    const char *(*find_initial)(void);
    const char *secret; /* a variable that has what the option's file would have */
    unsigned flags;     /* enum option_flags */
};

/* A row, for macros that stand for one. */
#define OPTION(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* The value of an option that is not given; NULL: none. */
const char *option_initial(const struct option *o);

/*
 * Gives the target another value: that of the texts, which have been parsed before, or none. A list
 * has any number of them, anything else at most one; a flag that is NULL is set.
 */
void option_set(const struct option *o, const char *const *texts, size_t count);

/* Whether it may be given more than once, and whether it needs no value. */
bool option_is_list(const struct option *o);
bool option_is_flag(const struct option *o);

/* Values for option.parse, each with the type of its target. */
int option_flag(const struct option *o, const char *text, struct err_info *e); /* bool */
int option_text(const struct option *o, const char *text, struct err_info *e); /* const char * */
int option_any_text(const struct option *o, const char *text, struct err_info *e); /* or empty */
int option_number(const struct option *o, const char *text, struct err_info *e);   /* int64_t */

/* A duration, "500ms", "30s", "1m30s", "2h", "1d": int64_t, in milliseconds, from min to max. */
int option_span(const struct option *o, const char *text, struct err_info *e);
int option_span_or_never(const struct option *o, const char *text, struct err_info *e); /* or 0 */

/* A number of bytes, "65536", "512K", "64M", "2GiB": int64_t, from min to max. */
int option_size(const struct option *o, const char *text, struct err_info *e);

/* One that may be given more than once. */
enum { OPTION_LIST_MAX = 32 };

struct option_list {
    const char *items[OPTION_LIST_MAX];
    size_t count;
};

int option_list_add(const struct option *o, const char *text, struct err_info *e);

/* One of the words in o->argument, "strict|none": target is an int, the index of the word. */
int option_choice(const struct option *o, const char *text, struct err_info *e);

/*
 * ADDR:PORT, where ADDR is an IPv4 address, an IPv6 address in brackets, or localhost; one each
 * time the option is given. "none" forgets those before it.
 */
enum { OPTION_ADDRESSES_MAX = 8 };

struct option_addresses {
    bool none;
    struct sockaddr_storage items[OPTION_ADDRESSES_MAX];
    int fds[OPTION_ADDRESSES_MAX]; /* of sockets that listen there already; 0: none does */
    size_t count;
};

int option_addresses(const struct option *o, const char *text, struct err_info *e);

/* Large enough for what any row parses, also a type of its own: where a value is only tried. */
union option_value {
    bool flag;
    int choice;
    uint32_t set;
    int64_t number;
    const char *text;
    struct option_list list;
    struct option_addresses addresses;
    char other[4096];
};

/* Decimal digits, after a minus if min is negative: refuses spaces, a plus and an empty text. */
bool option_digits(const char *text, int64_t min, int64_t max, int64_t *ret_number);

#endif
