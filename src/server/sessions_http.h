/*
 * The module of sessions: POST /v1/sessions; GET, PUT and DELETE /v1/sessions/{id}. Other modules
 * find the table at context->sessions.
 */
#ifndef SERVER_SESSIONS_HTTP_H
#define SERVER_SESSIONS_HTTP_H

#include "server/modules.h"

extern const struct module session_module;

/*
 * Borrows the keeper of the session that a request names, or answers the request with the error and
 * returns NULL. Return the keeper with sessions_done().
 */
struct keeper *session_of_request(struct context *h, struct http_request *r, struct str id);

/*
 * Waiting with a session, as http_watch() and http_park() on context->topic. The session stays
 * alive while the request is parked, and the handler runs again at once when the session ends.
 */
struct http_watch session_watch(struct context *h, struct http_request *r, struct str id,
                                const uint64_t *keys, size_t count);
bool session_park(struct context *h, struct http_request *r, struct str id,
                  const struct http_watch *w, int64_t wait_ms);

#endif
