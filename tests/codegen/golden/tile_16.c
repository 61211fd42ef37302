static void tile_16(const float *restrict x, float *y) {
  const f32x16 v = load_f32x16(x);
  const f32x16 scaled = fma_f32x16(v, v, splat_f32x16(1.0f));
  store_f32x16(y + 16, select_f32x16((i32x16)(v > 0.5f), scaled, v * 2.0f));
  y[0] = fold_add_f32x16(scaled);
}
