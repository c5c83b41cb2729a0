/*
 * escape - text from outside, made harmless for whoever looks at it.
 *
 * What a terminal obeys instead of showing is escaped: control characters (C0, DEL, C1), characters
 * that change the direction of text or end a line, and bytes that are not UTF-8. A name can then
 * not move the cursor, hide what follows, or pass for another line.
 */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include "base/buf.h"
#include "base/str.h"

enum escape_style {
    ESCAPE_LINE,  /* \n, \t, \r, \xNN for each byte */
    ESCAPE_LINES, /* the same, but newlines and tabs stay */
    ESCAPE_JSON,  /* \u00NN: the text is JSON and still is afterwards; newlines and tabs stay */
};

void escape_put(struct buf *b, struct str text, enum escape_style style);

/* The length of the first character of a text that is not empty; 0: it is to be escaped. */
size_t escape_shown_len(struct str text);

/* One byte in the style ESCAPE_LINE. */
struct escaped_byte {
    char text[8];
};

struct escaped_byte escape_byte(char byte);

#endif
