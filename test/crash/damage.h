/*
 * damage - a directory that a test damages, and what a start on it must do.
 *
 * A subject is a closed store: the image of its directory, its history, and the position of each
 * record. Every check begins with the directory as in the image, apart from what the test changed.
 */
#ifndef CRASH_DAMAGE_H
#define CRASH_DAMAGE_H

#include "store.h"

/* The position of a record. */
struct place {
    char name[32]; /* of the segment */
    size_t at;
    size_t whole; /* bytes, with the padding */
    int64_t lsn;
};

struct subject {
    char *dir;
    struct image im;
    struct history past;
    int64_t zxid;
    struct place *records;
    size_t record_count;
};

/* Work that fills a subject; it calls subject_did after each transaction. */
typedef void subject_fn(struct subject *sub, struct store *s);

void subject_make(struct subject *sub, subject_fn *work);
void subject_release(struct subject *sub);
void subject_did(struct subject *sub, struct store *s);

/* Eight small transactions. */
void subject_few_records(struct subject *sub, struct store *s);

/* Restores the directory from the image. */
void subject_restore(struct subject *sub);

/*
 * The start is refused with this error, the explanation holds both texts (NULL: any), and nothing
 * in the directory has changed.
 */
void expect_refused(struct subject *sub, int err, const char *text, const char *text2);

/*
 * The start succeeds and finds the tree as it was after that transaction; the note, where one is
 * given, holds the text. A change goes through and a second start finds it.
 */
void expect_found(struct subject *sub, int64_t zxid, const char *note);

/* Reads only: no store is opened, which makes it fast. */
void expect_readable(struct subject *sub, int64_t zxid, const char *note);

#endif
