/*
 * name - the names of batches, jobs, access items and locks. Pure.
 *
 * An id is a prefix and ten digits: "bid0000000003", "jid0000000012", "qid0000000000". An entry is
 * the name of an item in a list: "PP-JID" in lists that are ordered by priority, else the id. A key
 * is a number that sorts as the entry does.
 */
#ifndef BATCH_NAME_H
#define BATCH_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    BATCH_ID_DIGITS = 10,
    BATCH_ID_LEN = 3 + BATCH_ID_DIGITS,
    BATCH_ENTRY_LEN = 3 + BATCH_ID_LEN,
    BATCH_PRIORITY_MAX = 99,
    BATCH_NAME_MAX = 200, /* bytes of a lock's name or a UUID */
};

#define BATCH_ID_COUNT INT64_C(10000000000)

/* Prefixes of ids. */
#define BATCH_ID_BATCH "bid"
#define BATCH_ID_JOB "jid"
#define BATCH_ID_ACCESS "qid"

/* The number of an id, or -1 if the text is not an id with that prefix. */
int64_t batch_id_number(const char *prefix, struct str id);

void batch_id(const char *prefix, int64_t number, char ret_id[BATCH_ID_LEN + 1]);

/* The key of an entry, or -1. */
int64_t batch_entry_key(const char *prefix, bool priority, struct str entry);
void batch_entry(const char *prefix, bool priority, int64_t key,
                 char ret_entry[BATCH_ENTRY_LEN + 1]);

static inline int64_t batch_key(int priority, int64_t number)
{
    return priority * BATCH_ID_COUNT + number;
}

/*
 * Whether text can be the last part of a path: 1 to BATCH_NAME_MAX - 1 bytes, no slash, no control
 * characters, UTF-8 that the keeper accepts. Else BAD_ARGUMENT; the message calls the text `what`.
 */
int batch_name_check(const char *what, struct str text, struct err_info *ret_error);

/*
 * An ark or a local id as a name: each slash, together with a colon right before it, becomes "_".
 * So "ark:/13030/x" is "ark_13030_x", as the library of the specification's authors has it.
 */
void batch_name_flatten(struct str text, char *ret_name);

/* The name of a state's list: with ASCII letters in lower case. In the arena. */
char *batch_name_lower(struct arena *a, struct str name);

#endif
