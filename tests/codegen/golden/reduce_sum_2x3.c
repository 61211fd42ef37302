// reduce_sum, relu -> %2
static void reduce_sum_2x3(const float *restrict x, float *restrict y, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float total = 0.0f;
    #pragma omp simd reduction(+:total)
    for (int64_t column = 0; column < 3; ++column) {
      total += x[row * 3 + column];
    }
    y[row] = max_f32(total, 0.0f);
  }
}
