// transpose x2, matmul x2, add x2 -> %8.0
static void scan_3x3_2(
    const double *restrict first_d_c, const double *restrict turn, const double *restrict saved_c,
    double *restrict last_d_c, double *restrict last_d_turn, double *restrict last_d_push) {
  _Alignas(64) double d_c[9];
  _Alignas(64) double d_turn[9];
  _Alignas(64) double d_push[9];
  #pragma GCC unroll 9
  for (int64_t i = 0; i < 9; ++i) {
    d_c[i] = first_d_c[i];
    d_turn[i] = 0.0;
    d_push[i] = 0.0;
  }
  for (int64_t step = 0; step < 10000; ++step) {
    const int64_t row = 9999 - step;
    _Alignas(64) double next_d_c[9];
    #pragma GCC unroll 3
    for (int64_t i = 0; i < 3; ++i) {
      #pragma GCC unroll 3
      for (int64_t j = 0; j < 3; ++j) {
        next_d_c[i * 3 + j] = d_c[i * 3] * turn[j * 3] + d_c[i * 3 + 1] * turn[j * 3 + 1]
            + d_c[i * 3 + 2] * turn[j * 3 + 2];
        d_turn[i * 3 + j] += saved_c[row * 9 + i] * d_c[j] + saved_c[row * 9 + i + 3] * d_c[j + 3]
            + saved_c[row * 9 + i + 6] * d_c[j + 6];
        d_push[i * 3 + j] += d_c[i * 3 + j];
      }
    }
    #pragma GCC unroll 9
    for (int64_t i = 0; i < 9; ++i) {
      d_c[i] = next_d_c[i];
    }
  }
  #pragma GCC unroll 9
  for (int64_t i = 0; i < 9; ++i) {
    last_d_c[i] = d_c[i];
    last_d_turn[i] = d_turn[i];
    last_d_push[i] = d_push[i];
  }
}
