static void hash_6(const int32_t *restrict x, int32_t *restrict y) {
  for (int64_t i = 0; i < 3; ++i) {
    const int32_t value = wrap_add_i32(wrap_mul_i32(x[i * 2 + 1], 31), 7);
    y[i] = value ^ (value >> 16);
  }
}
