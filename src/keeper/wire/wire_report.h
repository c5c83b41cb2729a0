/*
 * wire_report - writes the answer to a four-letter word: ZooKeeper's text, or the same as JSON.
 *
 * What is reported is named once, with its label in the text and its name in JSON. NULL: it is not
 * there. In the text it is prefix, label, separator, value and end, as the word wants them.
 */
#ifndef KEEPER_WIRE_WIRE_REPORT_H
#define KEEPER_WIRE_WIRE_REPORT_H

#include "base/buf.h"

enum { REPORT_MAX = 8 * 1024 * 1024 }; /* bytes; a list of nodes or watches is cut there */

struct report {
    struct buf *out;
    bool json;
    const char *prefix, *separator, *end; /* of a value in the text */
};

void report_int(struct report *r, const char *label, const char *name, int64_t value);
void report_hex(struct report *r, const char *label, const char *name, int64_t value);
void report_real(struct report *r, const char *label, const char *name, double value);
void report_text(struct report *r, const char *label, const char *name, const char *value);
void report_bool(struct report *r, const char *name, bool value); /* JSON only */

/* Text only. */
void report_line(struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* JSON only. name: NULL in a list. */
void report_open(struct report *r, const char *name, char bracket);
void report_close(struct report *r, char bracket);

/* "0x1f", in a buffer of the caller's: a session or a zxid. */
enum { REPORT_ID_LEN = 24 };

struct str report_id(char buffer[REPORT_ID_LEN], int64_t id);

/*
 * A list of texts below a key: lines with a tab in front, each with an end; or a list in JSON. The
 * key has an end of its own in the text.
 */
void report_list_open(struct report *r, struct str key, const char *end);
void report_list_item(struct report *r, struct str item);
void report_list_close(struct report *r);

/* True: lists must end. The answer says so with report_cut(), after its lists. */
bool report_is_full(const struct report *r);
void report_cut(struct report *r);

#endif
