static void dequant_matmul_32(
    const float *restrict x, const uint8_t *restrict packed_blocks, float *restrict y) {
  for (int64_t panel = 0; panel < 2; ++panel) {
    const int64_t first = panel * 640;
    f32x16 total = splat_f32x16(0.0f);
    for (int64_t block = 0; block < 2; ++block) {
      const int64_t base = first + block * 320;
      prefetch(packed_blocks + base + 8192);
      prefetch(packed_blocks + base + 8256);
      prefetch(packed_blocks + base + 8320);
      prefetch(packed_blocks + base + 8384);
      prefetch(packed_blocks + base + 8448);
      const int64_t start = block * 32;
      const f32x16 half = f16_to_f32x16(__builtin_convertvector(load_u8x16(packed_blocks + base),
              u16x16)
          | (__builtin_convertvector(load_u8x16(packed_blocks + base + 16), u16x16)
              << splat_u16x16(8)));
      const f32x16 half_2 = f16_to_f32x16(__builtin_convertvector(load_u8x16(packed_blocks + base
                  + 32), u16x16)
          | (__builtin_convertvector(load_u8x16(packed_blocks + base + 48), u16x16)
              << splat_u16x16(8)));
      f32x16 sum = splat_f32x16(0.0f);
      f32x16 sum_2 = splat_f32x16(0.0f);
      f32x16 sum_3 = splat_f32x16(0.0f);
      f32x16 sum_4 = splat_f32x16(0.0f);
      #pragma GCC unroll 8
      for (int64_t place = 0; place < 16; place += 2) {
        const i32x16 byte = __builtin_convertvector(__builtin_convertvector(load_u8x16(packed_blocks
                    + base + (4 + place) * 16), i16x16), i32x16);
        const f32x16 weight = __builtin_convertvector(byte & 0xF, f32x16);
        sum = fma_f32x16(splat_f32x16(x[start + place]), weight, sum);
        const f32x16 weight_2 = __builtin_convertvector(byte >> 4, f32x16);
        sum_3 = fma_f32x16(splat_f32x16(x[start + place + 16]), weight_2, sum_3);
        const i32x16 byte_2 = __builtin_convertvector(__builtin_convertvector(load_u8x16(packed_blocks
                    + base + (4 + (place + 1)) * 16), i16x16), i32x16);
        const f32x16 weight_3 = __builtin_convertvector(byte_2 & 0xF, f32x16);
        sum_2 = fma_f32x16(splat_f32x16(x[start + place + 1]), weight_3, sum_2);
        const f32x16 weight_4 = __builtin_convertvector(byte_2 >> 4, f32x16);
        sum_4 = fma_f32x16(splat_f32x16(x[start + place + 1 + 16]), weight_4, sum_4);
      }
      total = fma_f32x16(half, sum + sum_2, total);
      const float plain = fold_add_f32x16(load_f32x16(x + start));
      total = fma_f32x16(half_2, splat_f32x16(plain), total);
      total = fma_f32x16(half, sum_3 + sum_4, total);
      const float plain_2 = fold_add_f32x16(load_f32x16(x + start + 16));
      total = fma_f32x16(half_2, splat_f32x16(plain_2), total);
    }
    store_f32x16(y + panel * 16, total);
  }
}
