/*
 * log - one line per event to stderr, from the edge only.
 *
 * A command reports its errors:
 *
 *   drover: warning: the server is gone; trying again
 *
 * A process that runs for long calls log_begin(), and its lines depend on where they go:
 *
 *   12:03:04 info listening on http://127.0.0.1:8048                       a terminal
 *   <6>listening on http://127.0.0.1:8048                                  systemd's journal
 *   2026-01-31T12:03:04.567+01:00 info listening on http://127.0.0.1:8048  a file or a pipe
 *   {"time":"2026-01-31T11:03:04.567Z","level":"info",
 *    "message":"listening on http://127.0.0.1:8048",
 *    "event":"listening","url":"http://127.0.0.1:8048"}                    LOG_JSON, in one line
 *
 * A line that follows itself is counted: "... (repeated 41 times)", or a member `repeated`. Control
 * characters and others that would disturb a terminal are escaped.
 *
 * Core and library never log: they return errors, or call the `note` of their options.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };

enum log_format { LOG_TEXT, LOG_JSON };

/* From now on lines have this format, and those below the level are dropped. Any thread, again. */
void log_begin(enum log_format format, enum log_level least);

/* Whether lines of this level are written. */
bool log_shows(enum log_level level);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A named detail: a text, or a number. */
struct log_field {
    const char *name;
    struct str value;
    bool is_number; /* then this: */
    int64_t number;
};

/* clang-format off */
#define LOG_STR(name_, str_) {.name = name_, .value = str_}
#define LOG_TEXT_OF(name_, text_) LOG_STR(name_, str_of(text_))
#define LOG_NUMBER(name_, number_) {.name = name_, .is_number = true, .number = number_}
/* clang-format on */

/*
 * An event that programs look for. The sentence is for people and says everything; the fields are
 * only in the JSON.
 *
 *     log_event(LOG_LEVEL_INFO, LOG_FIELDS("listening", LOG_TEXT_OF("url", url)),
 *               "listening on %s", url);
 */
struct log_fields {
    const char *event;
    const struct log_field *fields;
    size_t count;
};

#define LOG_FIELDS(event_, ...)                                                                    \
    ((struct log_fields){event_, (const struct log_field[]){__VA_ARGS__},                          \
                         sizeof((const struct log_field[]){__VA_ARGS__}) /                         \
                             sizeof(struct log_field)})

void log_event(enum log_level level, struct log_fields f, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* An error whose fields say more than the sentence: they are in the text, too. */
void log_error_with(const struct log_field *fields, size_t count, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* For tests: what tells when repetitions are counted anew. Default: clock_boot_ms. */
void log_use_clock(int64_t (*boot_ms)(void));

#endif
