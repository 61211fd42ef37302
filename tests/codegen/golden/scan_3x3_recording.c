// matmul, add -> %3.0
static void scan_3x3(
    const double *restrict first, const double *restrict turn, const double *restrict push,
    double *restrict last_c, double *restrict saved_c) {
  _Alignas(64) double c[9];
  #pragma GCC unroll 9
  for (int64_t i = 0; i < 9; ++i) {
    c[i] = first[i];
  }
  for (int64_t step = 0; step < 10000; ++step) {
    _Alignas(64) double next_c[9];
    #pragma GCC unroll 3
    for (int64_t i = 0; i < 3; ++i) {
      #pragma GCC unroll 3
      for (int64_t j = 0; j < 3; ++j) {
        next_c[i * 3 + j] = c[i * 3] * turn[j] + c[i * 3 + 1] * turn[j + 3]
            + c[i * 3 + 2] * turn[j + 6] + push[i * 3 + j];
      }
    }
    #pragma GCC unroll 9
    for (int64_t i = 0; i < 9; ++i) {
      saved_c[step * 9 + i] = c[i];
      c[i] = next_c[i];
    }
  }
  #pragma GCC unroll 9
  for (int64_t i = 0; i < 9; ++i) {
    last_c[i] = c[i];
  }
}
