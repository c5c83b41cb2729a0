/*
 * keeper_library - the inside of struct drover_keeper of the public interface.
 */
#ifndef CLIENT_KEEPER_LIBRARY_H
#define CLIENT_KEEPER_LIBRARY_H

#include "drover.h"
#include "keeper/keeper.h"

struct drover_keeper {
    struct local *local; /* NULL: an ensemble */
    struct keeper *keeper;
};

#endif
