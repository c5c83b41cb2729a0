/* What the subcommands of drover world have in common. */
#ifndef WORLD_CMD_SHARE_H
#define WORLD_CMD_SHARE_H

#include "base/buf.h"
#include "base/json.h"
#include "client/client.h"

enum { WORLD_WORDS_MAX = 100 };

/* What an option gives that may be given more than once. */
struct world_words {
    const char *list[WORLD_WORDS_MAX];
    size_t count;
};

int world_add_text(const struct cmd_option *o, const char *text, struct err_info *e);

/* "/v1/worlds/<world><what>". */
const char *world_url(struct client *c, const char *world, const char *what);

void world_put_claim(struct buf *b, const struct world_words *types, struct str session,
                     int64_t wait_ms);
int world_open_session(struct client *c, int64_t timeout_ms, struct str *ret_session);

/* how: "/complete", "/release", "/fail". error: NULL but for the last. */
int world_end_claim(struct client *c, const char *world, const char *how, const char *node,
                    struct str session, const char *error, struct client_reply *ret_reply);

int cmd_world_work(int argc, char **argv);

#endif
