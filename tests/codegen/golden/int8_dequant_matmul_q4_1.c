static void dequant_matmul_words_32(
    const int32_t *restrict words, const float *restrict scales, const int32_t *restrict sums,
    const float *restrict values, const uint32_t *restrict packed_blocks, float *restrict y) {
  (void)sums;
  for (int64_t panel = 0; panel < 2; ++panel) {
    const int64_t first = panel * 160;
    f32x16 total = splat_f32x16(0.0f);
    for (int64_t block = 0; block < 2; ++block) {
      const int64_t base = first + block * 80;
      prefetch(packed_blocks + base + 2048);
      prefetch(packed_blocks + base + 2064);
      prefetch(packed_blocks + base + 2080);
      prefetch(packed_blocks + base + 2096);
      prefetch(packed_blocks + base + 2112);
      const int64_t start = block * 32;
      i32x16 dots = splat_i32x16(0);
      #pragma GCC unroll 4
      for (int64_t w = 0; w < 4; ++w) {
        const u32x16 word = load_u32x16(packed_blocks + base + (w + 1) * 16);
        const u32x16 bytes = word & 0xF0F0F0Fu;
        dots = dot_bytes_u32x16(bytes, splat_i32x16(words[start / 4 + w]), dots);
        const u32x16 bytes_2 = (word >> 4u) & 0xF0F0F0Fu;
        dots = dot_bytes_u32x16(bytes_2, splat_i32x16(words[start / 4 + 4 + w]), dots);
      }
      const u32x16 word = load_u32x16(packed_blocks + base);
      const f32x16 half = f16_to_f32x16(__builtin_convertvector(word, u16x16));
      const f32x16 half_2 = f16_to_f32x16(__builtin_convertvector(word >> 16u, u16x16));
      total = fma_f32x16(half * scales[block], __builtin_convertvector(dots, f32x16), total);
      total = fma_f32x16(half_2, splat_f32x16(values[block]), total);
    }
    store_f32x16(y + panel * 16, total);
  }
}
