/*
 * The file of an output, as a disk might give it back. Input: a byte (sealed or not, form, stream),
 * then the bytes behind the head of the file. Random bytes would not get past a checksum: those of
 * heads, frames and feet are made right first where they stand.
 *
 * Reading ends, without a crash, and gives no more than the file can have.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "dag/output_file.h"
#include "fuzz.h"

enum { NODE = 7, RUN = 9 };

/* Makes the sums of records right, as far as their lengths make sense. */
static void mend(struct buf *b)
{
    size_t at = OUTPUT_FILE_HEAD_LEN;
    while (at + OUTPUT_HEAD_LEN <= b->len) {
        uint32_t len = le_load32(b->p + at + 8) & 0xff;
        size_t left = b->len - at - OUTPUT_HEAD_LEN;
        le_store32(b->p + at + 8, len);
        le_store32(b->p + at + 12, le_load32(b->p + at + 12) & 3);
        if (len <= left)
            le_store32(b->p + at + 4, crc32c(0, b->p + at + OUTPUT_HEAD_LEN, len));
        le_store32(b->p + at, crc32c(0, b->p + at + 4, OUTPUT_HEAD_LEN - 4));
        at += OUTPUT_HEAD_LEN + len;
    }
}

static void mend_sealed(struct buf *b)
{
    if (b->len < OUTPUT_FILE_HEAD_LEN + OUTPUT_FOOT_LEN)
        return;
    char *foot = b->p + b->len - OUTPUT_FOOT_LEN;
    uint64_t count = le_load64(foot) & 3, len = count * OUTPUT_INDEX_LEN;
    le_store64(foot, count);
    if (len <= b->len - OUTPUT_FILE_HEAD_LEN - OUTPUT_FOOT_LEN)
        le_store32(foot + 24, crc32c(0, foot - len, len));
    le_store32(foot + OUTPUT_FOOT_LEN - 4, crc32c(0, foot, OUTPUT_FOOT_LEN - 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(buf_release) struct buf file = {0}, out = {0}, path = {0};
    struct output_file f;
    struct err_info why;
    if (size < 2)
        return 0;
    bool sealed = data[0] & 1;
    output_put_file_head(&file, NODE, RUN, sealed);
    buf_put(&file, data + 1, size - 1);
    (sealed ? mend_sealed : mend)(&file);
    buf_printf(&path, "/tmp/drover-fuzz-output-%d", (int)getpid());
    size_t len = path.len;
    buf_printf(&path, OUTPUT_SUFFIX_RAW);
    int fd = open(buf_text(&path), O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, file.p, file.len) != (ssize_t)file.len)
        abort();
    close(fd);
    path.p[len] = '\0';
    if (!output_file_open(&f, path.p, NODE, RUN, &why)) {
        struct output_want w = {.stream = (enum run_stream)(data[0] >> 1 & 3) % RUN_STREAMS,
                                .form = (enum output_form)((data[0] >> 3 & 3) % 3),
                                .end = INT64_MAX};
        output_file_read(&f, &w, SIZE_MAX / 2, &out);
        if (!sealed && out.len > 4 * file.len + 4096)
            abort();
        output_file_seek(&f, w.stream, w.next / 2);
        output_file_read(&f, &w, 100, &out);
    }
    output_file_close(&f);
    path.p[len] = '.';
    unlink(path.p);
    return 0;
}
