/*
 * json - reads and writes JSON, strictly. Pure.
 *
 * Reading gives a tree of values that lives in an arena; text without escapes borrows from the input,
 * which must outlive it. Strict: the grammar of RFC 8259 and nothing else; UTF-8 is checked; the
 * names in an object are distinct; depth is limited. A number without fraction and exponent that fits
 * is an exact int64, any other a double. "\u0000" is a byte like others, so text has a length. An
 * escape of half a surrogate pair cannot be written in UTF-8: it is kept as the three bytes that UTF-8
 * would give it, and written as an escape again, so that it comes back as it came.
 *
 * Reading:
 *     struct json *v = json_parse(&arena, text, &why);
 *     if (v && json_get_int(v, "id", &id)) ...
 *
 * Writing appends to a buf. Commas are put by the functions, from what stands before them:
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
    struct json *next; /* in the list or object that it is a member of */
    struct str key;    /* of a member of an object */
    union {
        bool truth;
        int64_t number;
        double real;
        struct str text;
        struct json *first;
    };
    struct str raw; /* the value as it stood in the input */
};

/* The value that the whole of text is, or NULL, and then why says what is wrong and at which byte. */
struct json *json_parse(struct arena *a, struct str text, struct err_info *ret_error);

/*
 * The same for text from strangers: a value takes 64 bytes however short it is, so there may be
 * values_max of them, counted at every depth. Returns 0, BAD_ARGUMENT or TOO_BIG.
 */
int json_read(struct arena *a, struct str text, size_t values_max, struct json **ret_value,
              struct err_info *ret_error);

/* "null", "a boolean", "a number", "a string", "a list", "an object". */
const char *json_kind_name(const struct json *v);

/* The member of an object by its name, or NULL; also when v is NULL or no object. */
const struct json *json_get(const struct json *v, const char *name);

/*
 * Members of an object that must be of a kind. Where the member is missing or null, they return 0 and
 * leave the target as it is; where it is there, 1; where it is of another kind, BAD_ARGUMENT, and
 * ret_error names it.
 */
int json_get_int(const struct json *v, const char *name, int64_t *ret, struct err_info *ret_error);
int json_get_bool(const struct json *v, const char *name, bool *ret, struct err_info *ret_error);
int json_get_text(const struct json *v, const char *name, struct str *ret,
                  struct err_info *ret_error);
int json_get_list(const struct json *v, const char *name, const struct json **ret,
                  struct err_info *ret_error);
int json_get_object(const struct json *v, const char *name, const struct json **ret,
                    struct err_info *ret_error);

/* The same where anything else will do as nothing: an empty text, 0. For what a server answered. */
struct str json_text_of(const struct json *v, const char *name);
int64_t json_int_of(const struct json *v, const char *name);

/* Refuses an object with members that are not among the names (NULL ends them), and says which. */
int json_only(const struct json *v, const char *const *names, struct err_info *ret_error);

#define json_each(member, v)                                                                       \
    for (const struct json *member = (v)->first; member; member = member->next)

/* Writing. */
void json_open(struct buf *b, char bracket);  /* '{' or '[' */
void json_close(struct buf *b, char bracket); /* '}' or ']' */
void json_key(struct buf *b, const char *name);
void json_key_str(struct buf *b, struct str name);
void json_put_int(struct buf *b, int64_t number);
void json_put_real(struct buf *b, double number);
void json_put_bool(struct buf *b, bool truth);
void json_put_null(struct buf *b);
void json_put_raw(struct buf *b, struct str json); /* a value that is JSON already */

/* Text. Bytes that are not UTF-8 become U+FFFD each, so that what we write can always be read. */
void json_put_text(struct buf *b, struct str text);

/* A member of an object; text whose p is NULL is null. */
void json_member_text(struct buf *b, const char *name, struct str text);
void json_member_int(struct buf *b, const char *name, int64_t number);

/* Whether json_put_text() writes it so that it comes back as it is. */
bool json_is_text(struct str text);

/* A value that was read, written anew without spaces. */
void json_put(struct buf *b, const struct json *v);

#endif
