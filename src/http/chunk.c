/*
 * A state machine with one state for each byte that may come next:
 *
 *   SIZE -> LF after the size -> DATA -> CR -> LF -> SIZE ...
 *   a size of 0: LF after the size -> CR of the empty line -> LF of it -> done
 */
#include "http/head.h"

enum { SIZE, SIZE_LF, DATA, DATA_CR, DATA_LF, END_CR, END_LF };

/* States in which exactly one byte is allowed, and the state that follows. */
static const struct {
    char byte;
    int next;
} FIXED[] = {
    [SIZE_LF] = {'\n', DATA},  [DATA_CR] = {'\r', DATA_LF}, [DATA_LF] = {'\n', SIZE},
    [END_CR] = {'\r', END_LF}, [END_LF] = {'\n', SIZE},
};

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int size_byte(struct chunk *c, char byte)
{
    int digit = digit_of(byte);

    if (byte == '\r' && c->digits) {
        c->state = SIZE_LF;
        return 0;
    }
    if (digit < 0 || c->digits == 8)
        return -400;
    c->digits++;
    c->left = c->left << 4 | (uint32_t)digit;
    return 0;
}

static int fixed_byte(struct chunk *c, char byte)
{
    int was = c->state;

    if (byte != FIXED[was].byte)
        return -400;
    c->state = FIXED[was].next;
    c->digits = 0;
    if (was == SIZE_LF && !c->left)
        c->state = END_CR;
    c->done = was == END_LF;
    return 0;
}

ssize_t chunk_feed(struct chunk *c, const char *p, size_t len, struct buf *body, size_t max)
{
    size_t at = 0;

    while (at < len && !c->done) {
        if (c->state == DATA) {
            size_t run = len - at < c->left ? len - at : c->left;

            buf_put(body, p + at, run);
            at += run;
            c->left -= (uint32_t)run;
            if (!c->left)
                c->state = DATA_CR;
            continue;
        }
        TRY(c->state == SIZE ? size_byte(c, p[at]) : fixed_byte(c, p[at]));
        if (c->state == DATA && c->left > max - body->len)
            return -413;
        at++;
    }
    return (ssize_t)at;
}
