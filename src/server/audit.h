/*
 * audit - who was refused, and who changed rights or had commands run.
 *
 * Every refusal (401, 403) is counted by its reason, and logged: one line for an address at once,
 * and how many followed after AUDIT_COUNT_MS. Neither has a token.
 *
 * With a file (--audit), lines of JSON are appended to it:
 *
 *   a refused request   one line, with its status
 *   a change            a line before it is made, stage "begin", and one when it is answered, stage
 *                       "end", with the status. `request` is the same in both
 *   the server          start, stop, reopen
 *
 * What always holds: a change is not made before its line was written. If that fails, the request
 * is refused with 503, and the change is not made. So a crash leaves at most a "begin" without an
 * "end": then the change was made or not. A line that fails later, of an end or of a refused
 * request, is counted and reported in the log, and the request goes on.
 *
 * Lines are appended with one write(2) to the page cache of a local file, and not synced: the loop
 * does not wait for the disk. A power failure can lose the last seconds of the log. A line that was
 * cut short by a full disk is ended before the next one.
 *
 * In order: audit_open -> the others, on any thread -> audit_stop on the loop -> audit_free.
 * Everything takes NULL for "no audit".
 */
#ifndef SERVER_AUDIT_H
#define SERVER_AUDIT_H

#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "http/server.h"

enum {
    AUDIT_COUNT_MS = 10 * 1000,
    AUDIT_ADDRESSES_MAX = 32,   /* that are told apart in that time */
    AUDIT_TEXT_LEN_MAX = 1024,  /* of a command; the rest is cut off */
    AUDIT_CHUNK_LEN = 64 * 1024 /* lines of one request are written in pieces of about this */
};

struct metrics;
struct audit;

/* file NULL: refusals are logged and counted only. Fails if the file cannot be opened. */
int audit_open(uv_loop_t *loop, struct metrics *m, const char *file, struct audit **ret_audit,
               struct err_info *ret_error);

/*
 * Opens the file by its name again, after it was moved away; so does SIGHUP. If that fails, the old
 * one is kept.
 */
int audit_reopen(struct audit *a, struct err_info *ret_error);

/* On the loop, when no request is left. Run the loop until its timer has closed, then free. */
void audit_stop(struct audit *a);
void audit_free(struct audit *a);

/* Whether there is a file: without it nobody needs to build lines. */
bool audit_has_file(const struct audit *a);

/*
 * Lines of a change. A handler calls audit_begin() when it is about to make the change: true, or
 * false after an answer. With details, it opens a line, adds members to it and closes it; there may
 * be several lines, and audit_append() writes those so far.
 */
void audit_open_line(struct audit *a, struct http_request *r, struct buf *lines);
void audit_put_text(struct buf *lines, const char *name, struct str text); /* cut if it is long:
                                                  then there is NAME_len, too */
void audit_close_line(struct buf *lines);
int audit_append(struct audit *a, struct buf *lines); /* 0 or DROVER_IO */
bool audit_begin(struct audit *a, struct http_request *r, struct buf *lines_or_null);
void audit_refuse(struct http_request *r); /* answers: the audit log cannot be written */

/* Something else that happened, such as on the ZooKeeper port. members: JSON members, or empty. */
struct audit_event {
    const char *who, *from, *action;
    struct str target, members;
    int outcome; /* a status of HTTP; 0: none */
};

int audit_note(struct audit *a, const struct audit_event *e);

/* For http_options. */
void audit_refused(void *audit, const struct http_request *r, int status, enum http_refusal why);
void audit_answered(void *audit, const struct http_request *r, int status);

/* For wire_rights. False: the change may not be made, because its line cannot be written. */
struct wire_change;
bool audit_wire(void *audit, const struct wire_change *c);

#endif
