/*
 * drover token and drover whoami: who may do what. A token is shown once, alone on standard output,
 * so that a script can keep it; its id is for people and goes to standard error.
 */
#include "cli/verb.h"

static struct option_list roles, groups, worlds, queues;
static int64_t lifetime_ms;
static const char *name;

static const struct {
    const char *member;
    const struct option_list *list;
} LISTS[] = {{"roles", &roles}, {"groups", &groups}, {"worlds", &worlds}, {"queues", &queues}};

enum { LIST_COUNT = sizeof LISTS / sizeof *LISTS };

static int put_token(const struct cmd_call *call, struct client *c, struct buf *b)
{
    (void)call;
    (void)c;
    json_open(b, '{');
    for (size_t i = 0; i < LIST_COUNT; i++)
        json_member_texts(b, LISTS[i].member, LISTS[i].list->items, LISTS[i].list->count);
    json_member_int(b, "lifetime", lifetime_ms);
    json_member_text(b, "name", str_of(name ? name : ""));
    json_close(b, '}');
    return CMD_OK;
}

static int print_token(const struct json *reply)
{
    client_error("the id of the token is %.*s", STR_ARGS(json_text_of(reply, "id")));
    term_line(stdout, json_text_of(reply, "token"), ESCAPE_LINE);
    return CMD_OK;
}

/* The texts of a list in one line. Nothing if the reply has no such member. */
static void print_texts(const struct json *reply, const char *member)
{
    CLEANUP(buf_release) struct buf b = {0};
    const struct json *list = json_get(reply, member);
    json_each(item, json_list(list)) {
        buf_put_str(&b, STR(" "));
        term_put_safe(&b, item->text, SIZE_MAX);
    }
    if (list)
        printf("%s:%s\n", member, b.len ? buf_text(&b) : " none");
}

static int print_identity(const struct json *reply)
{
    CLEANUP(buf_release) struct buf who = {0};
    term_put_safe(&who, json_text_of(reply, "name"), SIZE_MAX);
    puts(buf_text(&who));
    for (size_t i = 0; i < LIST_COUNT; i++)
        print_texts(reply, LISTS[i].member);
    return CMD_OK;
}

static const struct verb_column TOKENS[] = {
    {{"ID"}, "id"},
    {{"NAME"}, "name", .otherwise = "-"},
    {{"ROLES"}, "roles", VERB_LIST},
    {{"GROUPS"}, "groups", VERB_LIST},
    {{"WORLDS"}, "worlds", VERB_LIST},
    {{"QUEUES"}, "queues", VERB_LIST},
    {{"EXPIRES"}, "expires", VERB_TIME, .colour = TERM_DIM},
    {{"BY"}, "by", .colour = TERM_DIM},
    {{0}},
};

static const struct option CREATE[] = {
    {"role", "ROLE,...",
     "What it may do: read, work, submit, run, admin, all. May be given more than once.",
     option_list_add, &roles},
    {"group", "PATTERN",
     "Limit it to groups of tasks of this name; a * at the end stands for any rest. May\n"
     "be given more than once, as the next two.",
     option_list_add, &groups},
    {"world", "PATTERN", "Limit it to worlds of this name, likewise.", option_list_add, &worlds},
    {"queue", "PATTERN", "Limit it to queues of this name, likewise.", option_list_add, &queues},
    {"expires", "TIME", "It ends after this time, such as 30d. Default: never.", option_span,
     &lifetime_ms, 1, INT64_MAX / 2},
    {"name", "TEXT", "What it is for, for lists and logs.", option_text, &name},
    {0},
};

static const struct cmd *const COMMANDS[] = {
    VERB_CMD("token create", "make a token", NULL,
             "Makes a token and prints it: keep it, the server cannot show it again. Its id goes\n"
             "to standard error. With a limit to some groups, worlds or queues it reaches these\n"
             "and nothing else.",
             CREATE, "POST", "/v1/tokens", .requires = "role", .put = put_token,
             .print = print_token),
    VERB_CMD("token ls", "list the tokens", NULL, "Lists the tokens, without their text.", NULL,
             "GET", "/v1/tokens", .list = "tokens", .columns = TOKENS),
    VERB_CMD("token revoke", "end tokens", "ID...",
             "Ends tokens, by their ids: the next request with one is refused.", NULL, "DELETE",
             "/v1/tokens/{1}", .flags = VERB_EACH),
    NULL,
};

const struct cmd cmd_token = CMD_GROUP(
    "token", "tokens, which let others use the server",
    "Tokens with roles, limits and an end. These commands need the role admin.", COMMANDS);

const struct cmd cmd_whoami =
    VERB_INIT("whoami", "show who the server takes you for", NULL,
              "Shows who the server takes the sender of this request for, its roles, and the\n"
              "groups, worlds and queues that it is limited to, if it is.",
              NULL, "GET", "/v1/identity", .print = print_identity);
