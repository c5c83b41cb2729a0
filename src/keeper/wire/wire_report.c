#include "keeper/wire/wire_report.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"

/* The value is JSON already; quoted: in quotes. */
static void put(struct report *r, const char *label, const char *name, struct str value,
                bool quoted)
{
    if (r->json && name) {
        json_key(r->out, name);
        if (quoted)
            json_put_text(r->out, value);
        else
            json_put_raw(r->out, value);
    } else if (!r->json && label) {
        const struct str parts[] = {str_of(r->prefix), str_of(label), str_of(r->separator), value,
                                    str_of(r->end)};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            buf_put_str(r->out, parts[i]);
    }
}

/* Before `end`. printf would take most of the time of a long answer. */
static char *put_digits(char *end, uint64_t value, unsigned base)
{
    do
        *--end = "0123456789abcdef"[value % base];
    while (value /= base);
    return end;
}

struct str report_id(char buffer[REPORT_ID_LEN], int64_t id)
{
    char *end = buffer + REPORT_ID_LEN, *p = put_digits(end, (uint64_t)id, 16);
    *--p = 'x';
    *--p = '0';
    return (struct str){p, (size_t)(end - p)};
}

void report_int(struct report *r, const char *label, const char *name, int64_t value)
{
    char text[24], *end = text + sizeof text;
    char *p = put_digits(end, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
    if (value < 0)
        *--p = '-';
    put(r, label, name, (struct str){p, (size_t)(end - p)}, false);
}

void report_hex(struct report *r, const char *label, const char *name, int64_t value)
{
    char text[REPORT_ID_LEN];
    put(r, label, name, report_id(text, value), true);
}

/* As Java writes a number that was rounded to four decimals: "0.0", "1.25". */
void report_real(struct report *r, const char *label, const char *name, double value)
{
    char text[40];
    int len = snprintf(text, sizeof text, "%.4f", value);
    while (text[len - 1] == '0' && text[len - 2] != '.')
        text[--len] = '\0';
    put(r, label, name, str_of(text), false);
}

void report_text(struct report *r, const char *label, const char *name, const char *value)
{
    put(r, label, name, str_of(value), true);
}

void report_bool(struct report *r, const char *name, bool value)
{
    put(r, NULL, name, value ? STR("true") : STR("false"), false);
}

void report_line(struct report *r, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    if (r->json)
        return;
    va_start(ap, fmt);
    int len = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    buf_put(r->out, line, (size_t)len < sizeof line ? (size_t)len : sizeof line - 1);
}

void report_open(struct report *r, const char *name, char bracket)
{
    if (!r->json)
        return;
    if (name)
        json_key(r->out, name);
    json_open(r->out, bracket);
}

void report_close(struct report *r, char bracket)
{
    if (r->json)
        json_close(r->out, bracket);
}

void report_list_open(struct report *r, struct str key, const char *end)
{
    if (r->json) {
        json_key_str(r->out, key);
        json_open(r->out, '[');
    } else {
        buf_put_str(r->out, key);
        buf_put_str(r->out, str_of(end));
    }
}

void report_list_item(struct report *r, struct str item)
{
    if (r->json) {
        json_put_text(r->out, item);
    } else {
        buf_put_u8(r->out, '\t');
        buf_put_str(r->out, item);
        buf_put_u8(r->out, '\n');
    }
}

void report_list_close(struct report *r)
{
    report_close(r, ']');
}

bool report_is_full(const struct report *r)
{
    return r->out->len >= REPORT_MAX;
}

void report_cut(struct report *r)
{
    if (!report_is_full(r))
        return;
    report_line(r, "truncated after %d bytes\n", REPORT_MAX);
    report_bool(r, "truncated", true);
}
