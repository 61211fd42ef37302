// matmul, matmul, add, add -> %9.0
static void scan_3x3_2(
    const double *restrict d_c, const double *restrict d_turn, const double *restrict d_push,
    const double *restrict transpose, const double *restrict saved_transpose, double *restrict y_0,
    double *restrict y_1, double *restrict y_2) {
  _Alignas(64) double d_c_2[9];
  _Alignas(64) double d_turn_2[9];
  _Alignas(64) double d_push_2[9];
  #pragma GCC unroll 9
  for (int64_t i = 0; i < 9; ++i) {
    d_c_2[i] = d_c[i];
    d_turn_2[i] = d_turn[i];
    d_push_2[i] = d_push[i];
  }
  for (int64_t step = 0; step < 10000; ++step) {
    const int64_t row = 9999 - step;
    _Alignas(64) double next_d_c[9];
    #pragma GCC unroll 3
    for (int64_t i = 0; i < 3; ++i) {
      #pragma GCC unroll 3
      for (int64_t j = 0; j < 3; ++j) {
        next_d_c[i * 3 + j] = d_c_2[i * 3] * transpose[j] + d_c_2[i * 3 + 1] * transpose[j + 3]
            + d_c_2[i * 3 + 2] * transpose[j + 6];
        d_turn_2[i * 3 + j] += saved_transpose[row * 9 + i * 3] * d_c_2[j]
            + saved_transpose[row * 9 + i * 3 + 1] * d_c_2[j + 3]
            + saved_transpose[row * 9 + i * 3 + 2] * d_c_2[j + 6];
        d_push_2[i * 3 + j] += d_c_2[i * 3 + j];
      }
    }
    #pragma GCC unroll 9
    for (int64_t i = 0; i < 9; ++i) {
      d_c_2[i] = next_d_c[i];
    }
  }
  #pragma GCC unroll 9
  for (int64_t i = 0; i < 9; ++i) {
    y_0[i] = d_c_2[i];
    y_1[i] = d_turn_2[i];
    y_2[i] = d_push_2[i];
  }
}
