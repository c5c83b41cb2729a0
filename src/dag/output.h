/*
 * output - what a run prints, while it runs.
 *
 * In order: output_new() -> output_put() for each piece -> output_end() -> output_free().
 *
 * The first OUTPUT_MEMORY_MAX bytes stay in memory for OUTPUT_SPILL_MS at most; then there is a
 * file (output_store.h), and each piece is written at once. So a crash of the process loses what
 * was printed in the last OUTPUT_SPILL_MS, and a short run that prints little needs no file at all.
 * Nothing is synced: a power failure loses what the kernel has not written yet.
 *
 * A run has a limit. Beyond it the first half of that is kept and as much of the end, and a GAP
 * between them counts the rest: the file grows on, and loses its middle (a hole). Where there is no
 * file (without a store), where the disk has no room or cannot make holes, the end is kept in
 * memory, OUTPUT_RING_MAX of it, and put behind the GAP when the disk has room or the run ends. A
 * command is not stopped by any of this, and nothing is lost without being counted.
 *
 * Unless somebody holds it: output_hold() says that bytes from an offset on are still needed.
 * output_is_full() then tells the runner not to read on; the command waits, as in a pipe.
 *
 * On one thread. Readers on others get a view: what to read from the file, and a copy of the rest.
 */
#ifndef DAG_OUTPUT_H
#define DAG_OUTPUT_H

#include "dag/output_file.h"

struct output_store;

enum {
    OUTPUT_MEMORY_MAX = 64 * 1024,
    OUTPUT_SPILL_MS = 250,
    OUTPUT_RING_MAX = 64 * 1024,
    OUTPUT_LIMIT_MIN = 64 * 1024,
    OUTPUT_PIECES_SMALL = 64, /* more pieces are not small any more */
    OUTPUT_RETRY_MS = 1000,
};

struct output {
    struct output_store *store; /* NULL: in memory only */
    uint64_t node, run;         /* which name the file */
    uint64_t limit;
    int fd;
    int64_t spill_at_ms, retry_at_ms; /* 0: nothing is to be spilled */
    uint32_t pieces;
    struct output_at total;   /* printed */
    uint64_t missing;         /* of these, not kept */
    struct output_at held_at; /* see output_hold() */
    bool is_held;

    struct buf small; /* all, while it is small and there is a file */
    bool is_large;
    struct buf memory;                   /* behind the file; all, while there is none */
    struct output_at memory_at;          /* where that begins */
    struct buf ring;                     /* the end, behind a gap, while `ringing` */
    struct output_at ring_from, ring_at; /* the gap before it */
    size_t ring_max;
    bool ringing;
    bool ring_is_last; /* the file cannot go on before the end of the run */

    char last_head[OUTPUT_HEAD_LEN]; /* of the last piece, if it went to the file */
    struct str last;                 /* its data, until output_put() returns to who called it */

    uint64_t file_len;
    struct output_marks marks;
    uint64_t mark_every;
    uint64_t gap_file_at; /* the GAP of the limit; 0: there is none */
    struct output_at gap_at;
    uint64_t tail_file_at;
    struct output_at tail_at;
};

struct output *output_new(struct output_store *store, uint64_t node, uint64_t run, uint64_t limit);

/* Goes on with a file that an earlier process began. NULL: there is none, or it is damaged. */
struct output *output_reopen(struct output_store *store, uint64_t node, uint64_t run,
                             uint64_t limit);

/* What was printed, now. Never fails: see above. */
void output_put(struct output *o, enum run_stream s, struct str data, int64_t now_ms);

/* Bytes that were printed and are not kept by whom we have it from. */
void output_put_missing(struct output *o, const struct output_at *to, int64_t now_ms);

/* Writes what has waited too long. Returns when to call it again; INT64_MAX: when it prints. */
int64_t output_tick(struct output *o, int64_t now_ms);

/* The earliest bytes that somebody still needs; NULL: nobody. */
void output_hold(struct output *o, const struct output_at *at);
bool output_is_full(const struct output *o);

/*
 * Few bytes, in few pieces, and text: to be kept in the node's record, without a file. The texts of
 * the three streams, of what is in memory, and of what is behind a gap (with_end); and the pieces:
 * [[stream, bytes, ms since from], ...].
 */
bool output_is_small(const struct output *o);
void output_put_texts(const struct output *o, bool with_end, struct buf texts[RUN_STREAMS]);
void output_put_pieces(const struct output *o, int64_t from_ms, struct buf *json);

/* Writes what is not in the file. What cannot be written is counted as missing. */
void output_end(struct output *o, int64_t now_ms);
void output_free(struct output *o);

/* What there is to read, for a reader on any thread. Release it. */
struct output_view {
    int fd; /* -1: none. Its own */
    uint64_t file_len;
    struct output_mark from;
    struct buf memory, ring;
    struct output_at memory_at, ring_from, ring_at;
    bool rings; /* there is a gap, and the ring behind it */
};

/* From an offset of a stream on. reopen: with a descriptor, else only if there is none yet. */
void output_look(const struct output *o, enum run_stream s, uint64_t offset, bool reopen,
                 struct output_view *ret_view);
void output_view_release(struct output_view *v);

/*
 * Reads from a view. f is the reader's, and keeps its place from one view to the next; fd -1 at
 * first. DAMAGED may also mean that what was to be read was cut meanwhile: look again.
 */
int output_view_read(struct output_view *v, struct output_file *f, struct output_want *w,
                     size_t max, struct buf *out);

#endif
