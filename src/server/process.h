/*
 * process - metrics of this process, under the names that Prometheus' own clients use.
 */
#ifndef SERVER_PROCESS_H
#define SERVER_PROCESS_H

struct metrics;

void process_metrics(struct metrics *m);

#endif
