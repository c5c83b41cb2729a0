/*
 * name - how batches, jobs, access items and locks are named. Pure.
 *
 * An id is a prefix and ten digits: "bid0000000003", "jid0000000012", "qid0000000000". An entry is
 * how an id stands in a list: "PP-JID" where the list is ordered by priority, else the id alone. Its
 * key is a number that sorts as the entry does.
 */
#ifndef BATCH_NAME_H
#define BATCH_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum {
    NAME_DIGITS = 10,
    NAME_ID_LEN = 3 + NAME_DIGITS,
    NAME_ENTRY_LEN = 3 + NAME_ID_LEN,
    NAME_PRIORITY_MAX = 99,
    NAME_LEN_MAX = 200, /* of what people name: locks, UUIDs */
};

#define NAME_SEQUENCES INT64_C(10000000000)

/* Of which kind an id is. */
#define NAME_BATCH "bid"
#define NAME_JOB "jid"
#define NAME_ACCESS "qid"

/* The number of an id, or -1 when it is none with that prefix. */
int64_t name_number(const char *prefix, struct str id);

void name_id(const char *prefix, int64_t number, char ret_id[NAME_ID_LEN + 1]);

/* The key of an entry, or -1. */
int64_t name_key(const char *prefix, bool priority, struct str entry);
void name_entry(const char *prefix, bool priority, int64_t key, char ret_entry[NAME_ENTRY_LEN + 1]);

static inline int64_t name_key_of(int priority, int64_t number)
{
    return priority * NAME_SEQUENCES + number;
}

/*
 * Whether text can be the last part of a path: not empty, at most NAME_LEN_MAX bytes, no slash, no
 * control characters, valid UTF-8 as the keeper wants it. Else BAD_ARGUMENT, and ret_error says what
 * is wrong with that `what`.
 */
int name_check(const char *what, struct str text, struct err_info *ret_error);

/* An ark or a local id as a name: slashes become "_". */
void name_flatten(struct str text, char *ret_name);

#endif
