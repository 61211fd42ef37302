// start.c: what runs before main on a Cortex-M, and how it talks to the debugger (or QEMU) that
// watches it. No C library is needed.

#include <stddef.h>
#include <stdint.h>

#include "start.h"

extern uint32_t data_load[], data_start[], data_end[], bss_start[], bss_end[], stack_top[];

int main(void);
void reset(void);

static void stop(void) { semihost(0x18, 0x20023); } // a fault ends the run: a run-time error

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top, (const void *)reset, (const void *)stop, (const void *)stop,
    (const void *)stop, (const void *)stop, (const void *)stop,
};

int semihost(int operation, intptr_t argument) {
  register int r0 __asm__("r0") = operation;
  register intptr_t r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void print(const char *text) { semihost(0x04, (intptr_t)text); }

void print_number(const char *what, uint32_t number, const char *unit) {
  char digits[11];
  char *first = digits + sizeof digits - 1;
  *first = 0;
  do {
    *--first = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  print(what);
  print(first);
  print(unit);
}

void *memset(void *to, int value, size_t bytes) {
  for (unsigned char *p = to; bytes > 0; --bytes) {
    *p++ = (unsigned char)value;
  }
  return to;
}

void *memcpy(void *to, const void *from, size_t bytes) {
  const unsigned char *q = from;
  for (unsigned char *p = to; bytes > 0; --bytes) {
    *p++ = *q++;
  }
  return to;
}

void reset(void) {
#ifdef __ARM_FP
  *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; // the floating-point unit is off at first
  __asm__ volatile("dsb\nisb");
#endif
  memcpy(data_start, data_load, (size_t)((char *)data_end - (char *)data_start));
  memset(bss_start, 0, (size_t)((char *)bss_end - (char *)bss_start));
  semihost(0x18, main() == 0 ? 0x20026 : 0x20023);
}
