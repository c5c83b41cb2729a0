/*
 * tokens - the tokens that an administrator makes and revokes at run time, and the key for those
 * of commands.
 *
 * A token is 256 random bits, shown once. The keeper has, below /drover/tokens, a node for each,
 * named by the first AUTH_ID_LEN characters of the token's SHA-256:
 *
 *     {"version":1,"hash":"...","name":"mail","roles":["work"],"groups":["mail"],"worlds":[],
 *      "queues":[],"created":1767225600000,"expires":0,"by":"user 1000"}
 *
 * Nodes are created and deleted, never changed, so a watch on the children of
 * /drover/tokens tells every server of an ensemble. A crash leaves a token or none.
 *
 * The token of a command is not stored: it is the node, the attempt, and a keyed hash of both
 * (auth_node_token), and is valid while that attempt runs. /drover/secret has the key.
 */
#ifndef SERVER_TOKENS_H
#define SERVER_TOKENS_H

struct module;

extern const struct module token_module;

#endif
