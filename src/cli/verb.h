/*
 * verb - a command that is one request: what it sends and how the reply is shown.
 *
 *     VERB_CMD("job ls", "list jobs", NULL, "Lists jobs, by state and priority.",
 *              CMD_OPTIONS({"state", "STATE", "...", option_text}),
 *              "GET", "/v1/jobs", .list = "jobs", .columns = JOBS)
 *
 * Options are sent under their names (a list, "--type", under its plural): in the query of a GET or
 * DELETE, else as members of the body. Those with the flag VERB_LOCAL are not sent.
 * With --json the reply is printed as it came, also when it says that there is nothing.
 */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include "cli/http_client.h"
#include "cli/term.h"

enum verb_kind {
    VERB_TEXT,
    VERB_NUMBER,
    VERB_SPAN,     /* milliseconds */
    VERB_TIME,     /* milliseconds since 1970 */
    VERB_STATE,    /* coloured by verb_colour() */
    VERB_FLAG,     /* the column's word when it is true, "yes|no" for both */
    VERB_RAW,      /* as JSON */
    VERB_COUNT,    /* how many a list has */
    VERB_LIST,     /* the texts of a list */
    VERB_FAILURES, /* a number, red unless it is 0 */
    VERB_PRIORITY, /* two digits */
    VERB_DATA,     /* of a task: the member data, or the bytes of data64 */
    VERB_TOOK,     /* from the members started to ended, or to now */
};

struct verb_column {
    struct table_column head;
    const char *member; /* "status.message": a member of a member; NULL: the object itself */
    enum verb_kind kind;
    const char *word;        /* of VERB_FLAG */
    enum term_colour colour; /* except VERB_STATE and VERB_FAILURES */
    const char *otherwise;   /* shown when a text is missing or empty; NULL: nothing */
};

enum { VERB_LOCAL = OPTION_OWN }; /* of an option */

enum verb_flags {
    VERB_SESSION = 1 << 0, /* needs a session: opens one of --timeout unless --session is given */
    VERB_ACQUIRE = 1 << 1, /* status 3 when the first member of the reply is null */
    VERB_EACH = 1 << 2,    /* one request for each value of the last operand */
    VERB_WAITS = 1 << 3,   /* the server may take any time to reply */
};

/* Prints a reply for people; returns the exit status. */
typedef int verb_print_fn(const struct json *reply);

/* The session of the request whose reply is printed; NULL: it has none. */
extern const char *verb_session;

/*
 * A list that the server answers in pages, with `next` where there are more. The pages are read
 * until there are as many items as --limit says, and shown as one list.
 */
struct verb_page {
    const char *by; /* the field that takes `next`: "after"; NULL: there are no pages */
    int64_t len;    /* of a page at most */
    int64_t limit;  /* unless --limit is given; 0: all */
};

struct verb {
    const char *method;
    const char *path; /* "{1}" is the first operand, "{*}" all of them with commas */
    const char *body; /* an operand in the body: "state=2" text, "value:3" JSON ("-" reads stdin),
                             ":2" the whole body. Of a GET: in the query, "group=1" */
    int (*put)(const struct cmd_call *call, struct client *c, struct buf *body); /* writes the body
                             instead; prints the error; exit status */
    const char *requires; /* an option that must be given */
    unsigned flags;
    const char *session_for; /* VERB_SESSION only when the first operand is one of these words */
    const char *list; /* the member with the list that columns shows; "": the reply is the list */
    struct verb_page page;
    const struct verb_column *columns;       /* up to one without a name */
    const struct verb_column *wide;          /* with --wide, instead */
    verb_print_fn *print;                    /* instead; both NULL: nothing is printed */
    int (*status)(const struct json *reply); /* the exit status, also with --json; NULL: 0 */
};

/* A command that is a verb: its name, summary, operands, paragraph and options, then the verb. */
#define VERB_INIT(name_, summary_, operands_, about_, options_, ...)                               \
    {                                                                                              \
        .name = name_, .summary = summary_, .operands = operands_, .about = about_,                \
        .options = options_, .client = CMD_JSON, .run = verb_run, .verb = &(const struct verb)     \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define VERB_CMD(...) (&(const struct cmd)VERB_INIT(__VA_ARGS__))
#define VERB_COLUMNS(...) ((const struct verb_column[]){__VA_ARGS__, {{0}}})

int verb_run(const struct cmd_call *call);

/* The value of an option without a target; the text of one that was not given is NULL. */
const struct cmd_value *verb_value(const struct cmd_call *call, const char *name);

/* Reads JSON that an operand is; with "-", that is on standard input. Prints the error. */
int verb_read_json(struct client *c, const char *operand, const struct json **ret_json,
                   const char *what);

/* Prints a reply: with --json as it came, else for people; NULL: nothing. Exit status. */
int verb_print(const struct cmd_call *call, const struct client_reply *reply, verb_print_fn *print);

/* Ways to print. */
verb_print_fn verb_print_word;  /* the first member: one text or number, or each of a list */
verb_print_fn verb_print_words; /* the reply itself is such a list */
verb_print_fn verb_print_state; /* the member "state" */
verb_print_fn
    verb_print_members; /* the object in the first member, a line for each of its members */

/* Rows of the objects in a list; NULL or another kind of value has none. */
void verb_print_columns(const struct json *list, const struct verb_column *columns);
void verb_print_rows(const struct json *list, const struct verb_column *columns, size_t rows_max);
void verb_put_rows(const struct json *list, const struct verb_column *columns, size_t rows_max,
                   size_t width, bool coloured, struct buf *b); /* for a screen */

/* Appends the data of a task: text, or the bytes of data64. */
void verb_put_data(struct buf *b, const struct json *task);

/* The colour of a state of any module, and the word that people read ("waiting" for incipient). */
enum term_colour verb_colour(struct str state);
struct str verb_state_word(struct str state);

/* Reads a file by lines, without newlines; NULL: standard input. Prints the error. Exit status. */
int verb_read_lines(const char *file, int (*line)(void *arg, struct str line), void *arg);

#endif
