/* The room of the DAG: nodes, the scheduler, agents. */
#ifndef DAG_HTTP_H
#define DAG_HTTP_H

#include "server/context.h"

extern const struct module dag_module;

#endif
