/*
 * keeper_library - the keeper inside struct drover_keeper of the public interface.
 */
#ifndef CLIENT_KEEPER_LIBRARY_H
#define CLIENT_KEEPER_LIBRARY_H

#include "drover.h"
#include "keeper/keeper.h"

/* Lives as long as k. */
struct keeper *drover_keeper_inside(struct drover_keeper *k);

#endif
