/*
 * The room of sessions: POST /v1/sessions, GET, PUT and DELETE /v1/sessions/{id}. Other rooms find the
 * table at house->sessions.
 */
#ifndef SERVER_SESSIONS_HTTP_H
#define SERVER_SESSIONS_HTTP_H

#include "server/modules.h"

extern const struct module session_module;

/*
 * Borrows the keeper of the session that a request names, or answers it with the reason and returns
 * NULL. Give it back with sessions_done().
 */
struct keeper *session_of_request(struct context *h, struct http_request *r, struct str id);

#endif
