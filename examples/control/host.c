// host.c: prints numbers on a machine with a C library, in place of a debugger.

#include <stdio.h>

#include "start.h"

void print_number(const char *what, uint32_t number, const char *unit) {
  (void)printf("%s%lu%s", what, (unsigned long)number, unit);
}
