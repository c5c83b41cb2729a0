/*
 * files - temporary directories of a test, and the content of one as a value: an image.
 *
 * An image can be changed (cut, flipped, a file taken away), written to a directory, and compared.
 * The lock file is no part of it: each process that opens a store writes its pid there. A failed
 * system call in here ends the program: it is not under test.
 */
#ifndef CRASH_FILES_H
#define CRASH_FILES_H

#include "base/buf.h"

/*
 * A fresh directory, and its end. It is in memory where there is enough of it, since most tests
 * make thousands of files and only compare their contents; dir_make_on_disk is for the others.
 */
char *dir_make(void);
char *dir_make_on_disk(void);
void dir_remove(char *dir);
void dirs_remove(void); /* all that are left */

struct image_file {
    char *name;
    struct buf bytes;
};

struct image {
    struct image_file *files; /* sorted by name once read from a directory */
    size_t count;
};

void image_read(struct image *im, const char *dir);
void image_release(struct image *im);

/* The directory holds exactly this afterwards. */
void image_write(const struct image *im, const char *dir);

/* NULL: there is none. */
struct buf *image_find(const struct image *im, const char *name);
struct buf *image_add(struct image *im, const char *name);
void image_remove(struct image *im, const char *name);

/* The name of the nth file (from 0; negative: from the end) that begins with prefix, or NULL. */
const char *image_name(const struct image *im, const char *prefix, int nth);

/* One file of a directory: made to hold this, removed, or a run of its bytes written over. */
void file_write(const char *dir, const char *name, const struct buf *bytes);
void file_remove(const char *dir, const char *name);
void file_patch(const char *dir, const char *name, size_t at, const void *bytes, size_t len);

/* Flips one bit; a second call restores it. */
void file_flip(const char *dir, const char *name, size_t bit);

/* A line a file: name, length and sum. The lock file is left out. To be freed. */
char *dir_listing(const char *dir);

#endif
