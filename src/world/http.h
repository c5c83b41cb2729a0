/* The room of worlds: /v1/worlds and what is below it. */
#ifndef WORLD_HTTP_H
#define WORLD_HTTP_H

#include "rooms.h"

extern const struct room world_room;

#endif
