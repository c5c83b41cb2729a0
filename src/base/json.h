/*
 * json - reads and writes JSON, strictly. Pure.
 *
 * Reading gives a tree of values in an arena; text without escapes points into the input, which
 * must outlive it. Strict: exactly the grammar of RFC 8259; UTF-8 is checked; the names in an
 * object are distinct; the depth is limited. A number without fraction and exponent that fits is an
 * exact int64, any other a double. "\u0000" is a byte like others, so text has a length. An escape
 * of half a surrogate pair has no UTF-8: it is stored as the three bytes that UTF-8 would give it,
 * and written as the same escape again.
 *
 * Reading:
 *     struct json *v = json_parse(&arena, text, &why);
 *     if (v && json_get_int(v, "id", &id)) ...
 *
 * Writing appends to a buf. The functions add commas themselves, judging by the byte before:
 *     json_open(b, '{'); json_key(b, "id"); json_put_int(b, 7); json_close(b, '}');
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { JSON_DEPTH_MAX = 64 };

enum json_kind { JSON_NULL, JSON_BOOL, JSON_INT, JSON_REAL, JSON_TEXT, JSON_LIST, JSON_OBJECT };

struct json {
    enum json_kind kind;
    uint32_t count;    /* list, object: members */
    struct json *next; /* in the same list or object */
    struct str key;    /* of a member of an object */
    union {
        bool truth;
        int64_t number;
        double real;
        struct str text;
        struct json *first;
    };
    struct str raw; /* the value as in the input */
};

/* Parses all of text. NULL: ret_error says what is wrong and at which byte. */
struct json *json_parse(struct arena *a, struct str text, struct err_info *ret_error);

/* Limits on the values of a text, at all depths: even a short one takes JSON_VALUE_LEN bytes. */
enum { JSON_VALUE_LEN = sizeof(struct json), JSON_STEP = 1024 };

struct json_limit {
    size_t values_max;

    /*
     * Called after each JSON_STEP values, before memory is taken for as many again. False: there is
     * none. NULL: not called.
     */
    bool (*take)(void *arg);
    void *arg;
};

/* The same for untrusted text. Returns 0, BAD_ARGUMENT, TOO_BIG, or TOO_MANY after `take`. */
int json_read(struct arena *a, struct str text, const struct json_limit *limit,
              struct json **ret_value, struct err_info *ret_error);

/* "null", "a boolean", "a number", "a string", "a list", "an object". */
const char *json_kind_name(const struct json *v);

/* The member of that name; NULL if there is none, or if v is NULL or no object. */
const struct json *json_get(const struct json *v, const char *name);

/*
 * Members that must have a certain kind. Return 1 and set *ret; 0 if the member is missing or null,
 * and *ret stays as it is; BAD_ARGUMENT if it has another kind, and ret_error names it.
 */
int json_get_int(const struct json *v, const char *name, int64_t *ret, struct err_info *ret_error);
int json_get_bool(const struct json *v, const char *name, bool *ret, struct err_info *ret_error);
int json_get_text(const struct json *v, const char *name, struct str *ret,
                  struct err_info *ret_error);
int json_get_list(const struct json *v, const char *name, const struct json **ret,
                  struct err_info *ret_error);
int json_get_object(const struct json *v, const char *name, const struct json **ret,
                    struct err_info *ret_error);

/* The same for answers of a server: an empty text or 0 if it is missing or of another kind. */
struct str json_text_of(const struct json *v, const char *name);
int64_t json_int_of(const struct json *v, const char *name);

/* Refuses an object with a member that is not among the names (NULL-terminated), and names it. */
int json_only(const struct json *v, const char *const *names, struct err_info *ret_error);

#define json_each(member, v)                                                                       \
    for (const struct json *member = (v)->first; member; member = member->next)

/* Writing. */
void json_open(struct buf *b, char bracket);  /* '{' or '[' */
void json_close(struct buf *b, char bracket); /* '}' or ']' */
void json_key(struct buf *b, const char *name);
void json_key_str(struct buf *b, struct str name);
void json_put_int(struct buf *b, int64_t number);
void json_put_bool(struct buf *b, bool truth);
void json_put_null(struct buf *b);
void json_put_raw(struct buf *b, struct str json); /* already JSON */

/* Each byte that is not UTF-8 becomes U+FFFD, so that the output is always valid JSON. */
void json_put_text(struct buf *b, struct str text);

/* A member of an object; text whose p is NULL is null. */
void json_member_text(struct buf *b, const char *name, struct str text);
void json_member_int(struct buf *b, const char *name, int64_t number);
void json_member_bool(struct buf *b, const char *name, bool truth);
void json_member_raw(struct buf *b, const char *name, struct str json);
void json_member_open(struct buf *b, const char *name, char bracket);

/* Whether json_put_text() and reading give back the same text. */
bool json_is_text(struct str text);

/* Writes a value that was read, without spaces. */
void json_put(struct buf *b, const struct json *v);

/* A member that is a list of texts. */
void json_member_texts(struct buf *b, const char *name, const char *const *texts, size_t count);

/* For json_each(): v, or an empty list if it is NULL or no list. */
static inline const struct json *json_list(const struct json *v)
{
    static const struct json empty = {.kind = JSON_LIST};
    return v && v->kind == JSON_LIST ? v : &empty;
}

/*
 * For reader and writer: skips text that needs no escape, ASCII without control characters, quotes
 * and backslashes. Almost all text is plain from end to end, so it goes eight bytes at a time.
 */

/* A word of eight such bytes. */
#define JSON_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/*
 * Whether all bytes of a word are plain. A byte below n sets the top bit of byte - n. A byte that
 * equals n becomes 0 by byte ^ n, and then 0 - 1 sets the top bit.
 */
static inline bool json_word_is_plain(uint64_t word)
{
    uint64_t quote = word ^ JSON_EACH('"'), backslash = word ^ JSON_EACH('\\');
    uint64_t seen =
        word | (word - JSON_EACH(0x20)) | (quote - JSON_EACH(1)) | (backslash - JSON_EACH(1));
    return !(seen & JSON_EACH(0x80));
}

static inline const char *json_skip_plain(const char *p, const char *end)
{
    uint64_t word;
    while (end - p >= 8) {
        memcpy(&word, p, sizeof word);
        if (!json_word_is_plain(word))
            break;
        p += 8;
    }
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\')
        p++;
    return p;
}

#endif
