/*
 * output_format - what a command printed, as records: in the files of output_store.h, and on the
 * wire between servers, agents and commands (`format=chunks`). Numbers are little-endian.
 *
 * A record is a head and its data:
 *
 *     u32 crc32c of the rest of the head
 *     u32 crc32c of the data
 *     u32 length of the data
 *     u32 kind (enum output_kind)
 *     i64 when it was read from the command, ms since 1970
 *
 * The data of STDOUT and STDERR are bytes as they were printed. A GAP stands for bytes that were
 * not kept: u64 bytes of stdout, u64 of stderr, u64 the place in the file where the next record
 * begins (0: right behind it). An AT tells where the next record stands: u64 bytes of stdout before
 * it, u64 of stderr, u64 the number of the run. It is never in a file.
 *
 * A file begins with 32 bytes: the magic number (8), u64 node, u64 run, u32 0, u32 crc32c of these.
 *
 * A file of a run that goes on (".out") has records behind that, and is read up to the last whole
 * one. A file of a run that has ended is sealed (".zst"): frames, then an index, then a foot, so
 * that any part can be read alone:
 *
 *     frame   u32 crc32c of the rest, u32 stored length, u32 length of its records, u32 0;
 *             the records, compressed by zstd
 *     index   of each frame: u64 place in the file, u64 bytes of stdout before it, u64 of stderr
 *     foot    u64 frames, u64 bytes of stdout, u64 of stderr, u32 crc32c of the index,
 *             u32 crc32c of the foot before it
 */
#ifndef DAG_OUTPUT_FORMAT_H
#define DAG_OUTPUT_FORMAT_H

#include "base/buf.h"
#include "base/err.h"

enum run_stream { RUN_STDOUT, RUN_STDERR, RUN_MIXED, RUN_STREAMS };

enum output_kind { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_GAP, OUTPUT_AT, OUTPUT_KINDS };

enum {
    OUTPUT_HEAD_LEN = 24,
    OUTPUT_DATA_MAX = 256 * 1024, /* of a record */
    OUTPUT_NUMBERS_LEN = 24,      /* the data of a GAP and of an AT */
    OUTPUT_FILE_HEAD_LEN = 32,
    OUTPUT_FRAME_HEAD_LEN = 16,
    OUTPUT_FRAME_MAX = 1024 * 1024, /* records in a frame, and one more at most */
    OUTPUT_FRAME_LEN_MAX = OUTPUT_FRAME_MAX + OUTPUT_DATA_MAX + OUTPUT_HEAD_LEN,
    OUTPUT_INDEX_LEN = 24,
    OUTPUT_FOOT_LEN = 32,
    OUTPUT_FRAMES_MAX = 1 << 24,
};

/* A position: how many bytes of stdout and of stderr were printed before. */
struct output_at {
    uint64_t of[2];
};

/* The same in one of the streams. */
static inline uint64_t output_offset(const struct output_at *at, enum run_stream s)
{
    return s == RUN_MIXED ? at->of[0] + at->of[1] : at->of[s];
}

struct output_record {
    enum output_kind kind;
    int64_t time_ms;
    struct str data;
    uint64_t numbers[3]; /* of a GAP and of an AT */
};

/* Appends a record; the data of a GAP and of an AT are the numbers. */
void output_put_record(struct buf *b, enum output_kind kind, int64_t time_ms, struct str data);
void output_put_numbers(struct buf *b, enum output_kind kind, int64_t time_ms,
                        const uint64_t numbers[3]);

/* The head alone. */
void output_make_head(char head[OUTPUT_HEAD_LEN], enum output_kind kind, int64_t time_ms,
                      struct str data);

/*
 * Reads the record at p. Returns its length; 0: it goes beyond len; DAMAGED. Without the data
 * (`heads_only`) its checksum is not compared, and p may have the head alone.
 */
ssize_t output_read_record(const char *p, size_t len, bool heads_only,
                           struct output_record *ret_record);

/* The head of a file. */
void output_put_file_head(struct buf *b, uint64_t node, uint64_t run, bool sealed);
int output_read_file_head(const char *p, uint64_t node, uint64_t run, bool *ret_sealed);

/* A place in a file from which records can be read. */
struct output_mark {
    uint64_t file_at;
    struct output_at at;
};

struct output_marks {
    struct output_mark *all;
    size_t count, cap;
};

void output_marks_add(struct output_marks *m, uint64_t file_at, const struct output_at *at);

/* The last one that is not behind an offset of a stream. There is one at least. */
size_t output_marks_find(const struct output_marks *m, enum run_stream s, uint64_t offset);

/* Compresses records into a frame, and back. DAMAGED, if the lengths or the sum are wrong. */
void output_put_frame(struct buf *b, struct str records);
int output_read_frame(struct str frame, struct buf *ret_records);

/* Index and foot. Reading the foot checks it; the index needs count * OUTPUT_INDEX_LEN bytes. */
void output_put_index(struct buf *b, const struct output_marks *frames,
                      const struct output_at *total);
int output_read_foot(const char *p, uint64_t *ret_count, struct output_at *ret_total,
                     uint32_t *ret_index_crc);
int output_read_index(struct str index, uint32_t crc, struct output_marks *frames);

#endif
