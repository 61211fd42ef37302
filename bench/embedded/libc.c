// libc.c: enough of C's library to run a small program on Linux for aarch64, riscv64 and x86-64, or
// in a host of WASI. The whole of one takes Zig a minute of processor time for each of them.
//
// Printed are the formats alone, without their arguments.

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct _IO_FILE {
  int descriptor;
};

static struct _IO_FILE files[8] = {{0}, {1}, {2}};
FILE *const stdout = &files[1];
FILE *const stderr = &files[2];

#ifdef __wasm__

#define IMPORT(NAME) __attribute__((import_module("wasi_snapshot_preview1"), import_name(#NAME)))

struct part {
  void *start;
  size_t size;
};

IMPORT(fd_write) int wasi_write(int file, const struct part *parts, size_t count, size_t *done);
IMPORT(fd_read) int wasi_read(int file, const struct part *parts, size_t count, size_t *done);
IMPORT(fd_close) int wasi_close(int file);
IMPORT(path_open)
int wasi_open(int directory, int lookup, const char *path, size_t length, int flags,
              uint64_t rights, uint64_t inherited, int more, int *file);
IMPORT(clock_time_get) int wasi_time(int clock, uint64_t precision, uint64_t *nanoseconds);
IMPORT(proc_exit) _Noreturn void wasi_exit(int status);

static long move(int file, void *start, size_t size, int writes) {
  const struct part part = {start, size};
  size_t done = 0;
  const int status = writes ? wasi_write(file, &part, 1, &done) : wasi_read(file, &part, 1, &done);
  return status == 0 ? (long)done : -1;
}

// The directory of the program is the first after the three files that are open at the start.
static int open_file(const char *path, int writes) {
  enum { DIRECTORY = 3, CREATE = 1, TRUNCATE = 8, READ = 2, WRITE = 64 };
  int file = -1;
  const int flags = writes ? CREATE | TRUNCATE : 0, rights = writes ? WRITE : READ;
  const int status = wasi_open(DIRECTORY, 0, path, strlen(path), flags, rights, 0, 0, &file);
  return status == 0 ? file : -1;
}

static void close_file(int file) {
  (void)wasi_close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  uint64_t nanoseconds = 0;
  (void)clock;
  (void)wasi_time(1, 1000, &nanoseconds);
  now->tv_sec = (time_t)(nanoseconds / 1000000000);
  now->tv_nsec = (long)(nanoseconds % 1000000000);
  return 0;
}

void exit(int status) {
  wasi_exit(status);
}

int main(int argc, char **argv);

void _start(void) {
  exit(main(0, NULL));
}

#else

#ifdef __x86_64__
enum { READ = 0, WRITE = 1, CLOSE = 3, MMAP = 9, CLOCK = 228, EXIT = 231, OPEN = 257 };
__asm__(".globl _start\n_start:\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call begin\n");

static long system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "+a"(number)
                   : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return number;
}
#else
enum { OPEN = 56, CLOSE = 57, READ = 63, WRITE = 64, EXIT = 94, CLOCK = 113, MMAP = 222 };
#ifdef __aarch64__
#define REGISTER(NUMBER) __asm__("x" #NUMBER)
#define NUMBER_REGISTER __asm__("x8")
#define CALL "svc 0"
__asm__(".globl _start\n_start:\n  mov x0, sp\n  b begin\n");
#else
#define REGISTER(NUMBER) __asm__("a" #NUMBER)
#define NUMBER_REGISTER __asm__("a7")
#define CALL "ecall"
__asm__(".globl _start\n_start:\n  mv a0, sp\n  andi sp, sp, -16\n  tail begin\n");
#endif

static long system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long which NUMBER_REGISTER = number, r0 REGISTER(0) = a, r1 REGISTER(1) = b;
  register long r2 REGISTER(2) = c, r3 REGISTER(3) = d, r4 REGISTER(4) = e, r5 REGISTER(5) = f;
  __asm__ volatile(CALL
                   : "+r"(r0)
                   : "r"(which), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5)
                   : "memory");
  return r0;
}
#endif

static long move(int file, void *start, size_t size, int writes) {
  return system_call(writes ? WRITE : READ, file, (long)start, (long)size, 0, 0, 0);
}

static int open_file(const char *path, int writes) {
  enum { HERE = -100, WRITE_NEW = 01 | 0100 | 01000, ANYONE = 0644 };
  return (int)system_call(OPEN, HERE, (long)path, writes ? WRITE_NEW : 0, ANYONE, 0, 0);
}

static void close_file(int file) {
  (void)system_call(CLOSE, file, 0, 0, 0, 0, 0);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  return (int)system_call(CLOCK, clock, (long)now, 0, 0, 0, 0);
}

_Noreturn void exit(int status) {
  for (;;) {
    (void)system_call(EXIT, status, 0, 0, 0, 0, 0);
  }
}

// Pages of their own, which are at a multiple of 4096, and zero.
void *aligned_alloc(size_t alignment, size_t size) {
  enum { READ_AND_WRITE = 3, PRIVATE_AND_OF_NO_FILE = 0x22 };
  const long found = system_call(MMAP, 0, (long)size, READ_AND_WRITE, PRIVATE_AND_OF_NO_FILE, -1, 0);
  return alignment > 4096 || (found < 0 && found > -4096) ? NULL : (void *)found;
}

int main(int argc, char **argv);

__attribute__((used)) void begin(long *stack) {
  exit(main((int)stack[0], (char **)(stack + 1)));
}

#endif

int timespec_get(struct timespec *now, int base) {
  return clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

clock_t clock(void) {
  struct timespec now = {0};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (clock_t)now.tv_sec * CLOCKS_PER_SEC + (clock_t)(now.tv_nsec / (1000000000 / CLOCKS_PER_SEC));
}

FILE *fopen(const char *path, const char *mode) {
  const int file = open_file(path, mode[0] == 'w');
  if (file < 0 || file >= (int)(sizeof files / sizeof *files)) {
    return NULL;
  }
  files[file].descriptor = file;
  return &files[file];
}

int fclose(FILE *file) {
  close_file(file->descriptor);
  return 0;
}

static size_t move_all(FILE *file, char *start, size_t size, int writes) {
  size_t done = 0;
  for (long part = 1; done < size && part > 0; done += part > 0 ? (size_t)part : 0) {
    part = move(file->descriptor, start + done, size - done, writes);
  }
  return done;
}

size_t fread(void *start, size_t size, size_t count, FILE *file) {
  return size == 0 ? 0 : move_all(file, start, size * count, 0) / size;
}

size_t fwrite(const void *start, size_t size, size_t count, FILE *file) {
  return size == 0 ? 0 : move_all(file, (char *)(uintptr_t)start, size * count, 1) / size;
}

int fprintf(FILE *file, const char *format, ...) {
  return (int)fwrite(format, 1, strlen(format), file);
}

int printf(const char *format, ...) {
  return (int)fwrite(format, 1, strlen(format), stdout);
}

void perror(const char *what) {
  fprintf(stderr, what);
}

int atoi(const char *digits) {
  int found = 0;
  for (; *digits >= '0' && *digits <= '9'; ++digits) {
    found = 10 * found + (*digits - '0');
  }
  return found;
}

size_t strlen(const char *text) {
  size_t length = 0;
  while (text[length] != '\0') {
    ++length;
  }
  return length;
}

int strcmp(const char *a, const char *b) {
  for (; *a != '\0' && *a == *b; ++a, ++b) {
  }
  return *(const unsigned char *)a - *(const unsigned char *)b;
}

void *memmove(void *to, const void *from, size_t size) {
  char *const t = to;
  const char *const f = from;
  for (size_t i = 0; i < size; ++i) {
    const size_t at = (uintptr_t)t <= (uintptr_t)f ? i : size - 1 - i;
    t[at] = f[at];
  }
  return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
  char *restrict const t = to;
  const char *restrict const f = from;
  for (size_t i = 0; i < size; ++i) {
    t[i] = f[i];
  }
  return to;
}

void *memset(void *to, int byte, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    ((char *)to)[i] = (char)byte;
  }
  return to;
}

double floor(double x) {
  const double whole = x > -0x1p52 && x < 0x1p52 ? (double)(int64_t)x : x;
  return whole > x ? whole - 1 : whole;
}
