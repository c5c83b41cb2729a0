/* The module of schedules, for the table of `serve`: /v1/schedules, and what comes by the clock. */
#ifndef SCHEDULE_MODULE_H
#define SCHEDULE_MODULE_H

extern const struct module schedule_module;

#endif
