/* The room of worlds: /v1/worlds and what is below it. */
#ifndef WORLD_HTTP_H
#define WORLD_HTTP_H

#include "server/modules.h"

extern const struct module world_module;

#endif
