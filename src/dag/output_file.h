/*
 * output_file - reads what a run printed: from its file, by ranges, in one of three forms.
 *
 * In order: output_file_open(), for a run that has ended, or output_file_live() for one that goes
 * on -> output_file_seek() -> output_file_read() any number of times -> output_file_close(). The
 * calls block. One thread at a time.
 *
 * Everything in the file is input: lengths are checked, checksums compared. What is wrong is
 * DAMAGED, and what was appended before that is right.
 */
#ifndef DAG_OUTPUT_FILE_H
#define DAG_OUTPUT_FILE_H

#include "dag/output_format.h"

enum output_form {
    OUTPUT_BYTES,  /* as they were printed; where some were not kept, nothing */
    OUTPUT_CHUNKS, /* records: an AT first, a GAP where some were not kept */
    OUTPUT_TEXT,   /* bytes; where some were not kept, a line for people says how many */
};

/* What is wanted: moves on as it is read. */
struct output_want {
    enum run_stream stream;
    enum output_form form;
    uint64_t next;    /* the offset of the next byte */
    uint64_t end;     /* not beyond this one */
    uint64_t missing; /* bytes that were passed over because they were not kept */
};

/*
 * Appends what there is of w in some records, which begin at *at; that moves on. Stops when out has
 * max bytes. *ret_used: of the records. DAMAGED.
 */
int output_take(struct output_want *w, struct str records, struct output_at *at, size_t max,
                size_t *ret_used, struct buf *out);

/* Passes over bytes that were not kept, from one position to another. */
void output_skip(struct output_want *w, const struct output_at *from, const struct output_at *to,
                 int64_t time_ms, struct buf *out);

struct output_file {
    int fd; /* -1: not open */
    bool sealed;
    bool damaged;              /* a scan ended before the end of the file */
    uint64_t len;              /* where the records or frames end */
    struct output_marks marks; /* the frames of a sealed file; places in any other */
    struct output_at total;    /* all that was printed */

    /* Where it is: the records that were read last, and where to read the next. */
    struct buf block, frame;
    size_t block_at;
    uint64_t next; /* place in the file; number of the frame */
    struct output_at at;
};

/*
 * Opens the file of a run, sealed or not; without its suffix. A file that is not sealed is scanned
 * for its last whole record, up to limit (UINT64_MAX: its end). NO_NODE: there is none; DAMAGED.
 */
int output_file_open(struct output_file *f, const char *path, uint64_t node, uint64_t run,
                     struct err_info *ret_error);

/* Takes a descriptor of a file that is being written; len changes as it grows. */
void output_file_live(struct output_file *f, int fd);
void output_file_close(struct output_file *f);

/* Goes to a mark; to the last mark before an offset. */
void output_file_go(struct output_file *f, const struct output_mark *m, uint64_t number);
void output_file_seek(struct output_file *f, enum run_stream s, uint64_t offset);

/* Appends up to about max bytes. Less: there is no more. */
int output_file_read(struct output_file *f, struct output_want *w, size_t max, struct buf *out);

/* The next block of records, for sealing. Empty: there is no more. */
int output_file_next(struct output_file *f);

#define OUTPUT_SUFFIX_RAW ".out"
#define OUTPUT_SUFFIX_SEALED ".zst"

#endif
