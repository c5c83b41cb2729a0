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

/* Whether it is the name of an ensemble, valid or not. */
static inline bool keeper_is_ensemble(const char *name)
{
    return str_starts(str_of(name), STR("zk://")) || str_starts(str_of(name), STR("zks://"));
}

#endif
