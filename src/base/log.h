/*
 * log - one line an event, to stderr, from the edge only.
 *
 *   drover: warning: journal: cut 37 bytes ...
 *
 * Core and library code never calls this: they return errors, or tell the `note` of their options.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
