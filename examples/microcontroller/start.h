// start.h: printing by way of a debugger, and exit.
#ifndef START_H
#define START_H

#include <stdint.h>

int semihost(int operation, intptr_t argument);
void print(const char *text);
void print_number(const char *what, uint32_t number, const char *unit);

#endif
