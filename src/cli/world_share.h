/* What the subcommands of drover world have in common. */
#ifndef CLI_WORLD_SHARE_H
#define CLI_WORLD_SHARE_H

#include "base/buf.h"
#include "base/json.h"
#include "cli/http_client.h"

/* "/v1/worlds/<world><what>". */
const char *world_url(struct client *c, const char *world, const char *what);

void world_put_claim(struct buf *b, const struct option_list *types, struct str session,
                     int64_t wait_ms);
int world_open_session(struct client *c, int64_t timeout_ms, struct str *ret_session);

/* how: "/complete", "/release", "/fail". error: NULL but for the last. */
int world_end_claim(struct client *c, const char *world, const char *how, const char *node,
                    struct str session, const char *error, struct client_reply *ret_reply);

int cmd_world_claim(int argc, char **argv);
int cmd_world_complete(int argc, char **argv);
int cmd_world_release(int argc, char **argv);
int cmd_world_fail(int argc, char **argv);
int cmd_world_work(int argc, char **argv);
int cmd_world_rm(int argc, char **argv);

#endif
