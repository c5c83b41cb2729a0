/*
 * Paths against a naive judge.
 *
 * The judge is written in another way than the code: the whole text is decoded into code points
 * first (by encoding every candidate again and comparing), then the rules of path.h are applied to
 * those, one after the other.
 *
 * Input: one byte of flags, then the path. Flag 1: a sequential create. Flag 2: the path is
 * lengthened in front, up to around the longest that is allowed.
 */
#include "fuzz.h"
#include "keeper/path.h"

enum { SEQUENTIAL = 1, LONG = 2 };

/* The encoding of c that has no alternative; its length. */
static size_t encode(uint32_t c, unsigned char *out)
{
    static const struct {
        uint32_t end, lead;
    } lengths[] = {{0x80, 0}, {0x800, 0xc0}, {0x10000, 0xe0}, {0x110000, 0xf0}};
    size_t more = 0;

    while (c >= lengths[more].end)
        more++;
    for (size_t i = more; i > 0; i--, c >>= 6)
        out[i] = (unsigned char)(0x80 | (c & 0x3f));
    out[0] = (unsigned char)(lengths[more].lead | c);
    return more + 1;
}

/* The code point that the bytes begin with, and its length; 0: none. */
static size_t decode(struct str bytes, uint32_t *ret_char)
{
    for (size_t len = 1; len <= 4 && len <= bytes.len; len++) {
        static const uint32_t mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
        unsigned char again[4];
        uint32_t c = (unsigned char)bytes.p[0] & mask[len];

        for (size_t i = 1; i < len; i++)
            c = c << 6 | ((unsigned char)bytes.p[i] & 0x3f);
        if (c < 0x110000 && encode(c, again) == len && memcmp(again, bytes.p, len) == 0) {
            *ret_char = c;
            return len;
        }
    }
    return 0;
}

static bool naive_allowed(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } refused[] = {
        {0x0000, 0x001f}, {0x007f, 0x009f}, {0xd800, 0xdfff}, {0xe000, 0xf8ff}, {0xfff0, 0x10ffff}};

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (c >= refused[i].first && c <= refused[i].last)
            return false;
    return true;
}

static bool naive_part(size_t len, size_t dots)
{
    return len > 0 && !(len == dots && len <= 2);
}

/* All of the rules but the one about the length. */
static bool naive_is_valid(struct str path, bool sequential)
{
    size_t part = 0, dots = 0, len;
    uint32_t c;

    if (!path.len || path.p[0] != '/')
        return false;
    if (path.len == 1)
        return true;
    for (size_t at = 1; at < path.len; at += len) {
        len = decode((struct str){path.p + at, path.len - at}, &c);
        if (!len || !naive_allowed(c))
            return false;
        if (c == '/' && !naive_part(part, dots))
            return false;
        part = c == '/' ? 0 : part + 1;
        dots = c == '/' ? 0 : dots + (c == '.');
    }
    return sequential || naive_part(part, dots);
}

/* What a sequential create makes of a path must be a path: it is read back from the disk as one. */
static void check_numbered(struct str path)
{
    static const char *const numbers[] = {"0000000000", "2147483647", "-2147483648"};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct buf b = {0};

        buf_put_str(&b, path);
        buf_put_str(&b, str_of(numbers[i]));
        FUZZ_CHECK(path_is_valid((struct str){b.p, b.len}, false));
        buf_release(&b);
    }
}

/* Parent and name are the path again. */
static void check_halves(struct str path)
{
    struct str parent = path_parent(path), name = path_name(path);

    FUZZ_CHECK(path_is_valid(parent, false));
    FUZZ_CHECK(name.len && !memchr(name.p, '/', name.len));
    FUZZ_CHECK(name.p + name.len == path.p + path.len);
    FUZZ_CHECK(parent.p == path.p);
    FUZZ_CHECK((parent.len == 1 ? 0 : parent.len) + 1 + name.len == path.len);
}

static void check(struct str path, bool sequential, bool expected)
{
    bool valid = path_is_valid(path, sequential);

    FUZZ_CHECK(valid == expected);
    if (valid && sequential)
        check_numbered(path);
    if (valid && !sequential && path.len > 1)
        check_halves(path);
    FUZZ_CHECK(!path_is_special(path) || path_is_valid(path, false));
}

/* A long path is "/" and many an x in front of what the input gives; the judge sees only one x. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct reader in = {(const char *)data, len, false};
    int flags = reader_u8(&in);
    size_t front = flags & LONG ? (size_t)PATH_MAX_LEN - 32 + reader_u8(&in) % 40 : 0;
    size_t room = flags & SEQUENTIAL ? 11 : 0; /* for the number */
    struct buf text = {0}, judged = {0};
    char *exact;

    buf_reserve(&text, front + 1);
    memset(text.p, 'x', front + 1);
    text.p[0] = '/';
    text.len = front;
    buf_put(&judged, "/x", front ? 2 : 0);
    buf_put_str(&text, (struct str){in.p, in.left});
    buf_put_str(&judged, (struct str){in.p, in.left});
    exact = fuzz_exact((struct str){text.p, text.len});
    check((struct str){exact, text.len}, flags & SEQUENTIAL,
          text.len <= PATH_MAX_LEN - room &&
              naive_is_valid((struct str){judged.p, judged.len}, flags & SEQUENTIAL));
    free(exact);
    buf_release(&text);
    buf_release(&judged);
    return 0;
}
