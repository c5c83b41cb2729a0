/*
 * The room of batches and jobs over HTTP: /v1/batches, /v1/jobs, /v1/locks, /v1/access, /v1/legacy.
 * All routes run on workers.
 */
#ifndef BATCH_HTTP_H
#define BATCH_HTTP_H

#include "server/modules.h"

extern const struct module batch_module;

#endif
