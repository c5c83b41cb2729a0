/*
 * PCRE2, compiled by its JIT if there is one. The JIT obeys the match limit; the other limits
 * concern the interpreter, which is used where the JIT cannot compile.
 */
#include "world/expression.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

struct expression {
    char *text;
    size_t len;
    const char *what;
    pcre2_code *code; /* NULL: it is plain */
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

static bool is_plain(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (strchr("\\^$.[]|()?*+{}", s.p[i]))
            return false;
    return true;
}

static int compile(struct expression *x, struct err_info *e)
{
    uint32_t options = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C |
                       PCRE2_DOLLAR_ENDONLY;
    int number;
    PCRE2_SIZE at;
    PCRE2_UCHAR why[128];
    x->code = pcre2_compile((PCRE2_SPTR)x->text, x->len, options, &number, &at, NULL);
    if (!x->code) {
        pcre2_get_error_message(number, why, sizeof why);
        return err_set(e, DROVER_BAD_ARGUMENT, "the %s '%s' is not a regular expression: %s at %zu",
                       x->what, x->text, (const char *)why, at);
    }
    pcre2_jit_compile(x->code, PCRE2_JIT_COMPLETE); /* if it fails, the interpreter matches */
    x->match = pcre2_match_data_create_from_pattern(x->code, NULL);
    x->limits = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(x->limits, EXPRESSION_MATCH_LIMIT);
    pcre2_set_depth_limit(x->limits, EXPRESSION_DEPTH_LIMIT);
    pcre2_set_heap_limit(x->limits, EXPRESSION_HEAP_LIMIT_KB);
    return 0;
}

int expression_new(struct str pattern, const char *what, struct expression **ret_expression,
                   struct err_info *ret_error)
{
    if (!pattern.len)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "the %s is empty", what);
    if (pattern.len > EXPRESSION_LEN_MAX)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "the %s is longer than %d bytes", what,
                       EXPRESSION_LEN_MAX);
    if (memchr(pattern.p, '\0', pattern.len))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "the %s holds a NUL", what);
    struct expression *x = mem_alloc(sizeof *x);
    *x = (struct expression){mem_dup(pattern.p, pattern.len), pattern.len, what};
    int err = is_plain(pattern) ? 0 : compile(x, ret_error);
    if (err)
        expression_free(x);
    else
        *ret_expression = x;
    return err;
}

void expression_free(struct expression *x)
{
    if (!x)
        return;
    pcre2_match_context_free(x->limits);
    pcre2_match_data_free(x->match);
    pcre2_code_free(x->code);
    free(x->text);
    free(x);
}

struct str expression_plain(const struct expression *x)
{
    return x->code ? (struct str){0} : (struct str){x->text, x->len};
}

int expression_match(struct expression *x, struct str name, struct err_info *ret_error)
{
    PCRE2_UCHAR why[128];
    if (!x->code)
        return str_eq(expression_plain(x), name);
    int found = pcre2_match(x->code, (PCRE2_SPTR)name.p, name.len, 0, 0, x->match, x->limits);
    if (found >= 0)
        return 1;
    /* A name that is not UTF-8, created by another tool: it matches nothing. */
    if (found == PCRE2_ERROR_NOMATCH ||
        (found <= PCRE2_ERROR_UTF8_ERR1 && found >= PCRE2_ERROR_UTF8_ERR21))
        return 0;
    pcre2_get_error_message(found, why, sizeof why);
    return err_set(ret_error, DROVER_BAD_ARGUMENT, "the %s '%s' is too expensive: %s", x->what,
                   x->text, (const char *)why);
}
