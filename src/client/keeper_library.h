/*
 * open - a keeper by its name, for the public interface: drover_keeper_open() of drover.h.
 */
#ifndef CLIENT_KEEPER_LIBRARY_H
#define CLIENT_KEEPER_LIBRARY_H

#include "drover.h"
#include "keeper/keeper.h"

/* What the rooms work on. Lives as long as k. */
struct keeper *drover_keeper_inside(struct drover_keeper *k);

#endif
