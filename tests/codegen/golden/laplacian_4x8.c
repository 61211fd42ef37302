// laplacian -> %1
static void laplacian_4x8(const float *restrict x0, float *restrict y) {
  for (int64_t p = 0; p < 4; ++p) {
    const bool inside = p >= 1;
    const bool inside_2 = p < 3;
    const int64_t x0_line = max_i64(p - 1, 0) * 8;
    const int64_t x0_line_2 = min_i64(p + 1, 3) * 8;
    const float narrow_value = x0[x0_line];
    const float narrow_value_2 = x0[x0_line_2];
    y[p * 8] = x0[p * 8] * -2.0f * 2.0f + (inside ? narrow_value : 0.0f)
        + (inside_2 ? narrow_value_2 : 0.0f) + 0.0f + x0[p * 8 + 1];
    #pragma omp simd
    for (int64_t i = 1; i < 7; ++i) {
      const float narrow_value_3 = x0[x0_line + i];
      const float narrow_value_4 = x0[x0_line_2 + i];
      y[p * 8 + i] = x0[p * 8 + i] * -2.0f * 2.0f + (inside ? narrow_value_3 : 0.0f)
          + (inside_2 ? narrow_value_4 : 0.0f) + x0[p * 8 + i - 1] + x0[p * 8 + i + 1];
    }
    const float narrow_value_3 = x0[x0_line + 7];
    const float narrow_value_4 = x0[x0_line_2 + 7];
    y[p * 8 + 7] = x0[p * 8 + 7] * -2.0f * 2.0f + (inside ? narrow_value_3 : 0.0f)
        + (inside_2 ? narrow_value_4 : 0.0f) + x0[p * 8 + 6] + 0.0f;
  }
}
