// dll_entry.c: the entry point of a library for Windows that has no state to initialize.

int DllMainCRTStartup(void *library, unsigned reason, void *reserved) {
  (void)library;
  (void)reason;
  (void)reserved;
  return 1;
}

// Compilers refer to it where a program uses floating point.
int _fltused;
