// gather axis 0 -> %5
static int gather_4(
    const float *restrict table, const int64_t *restrict indices, float *restrict y, int64_t n,
    int64_t *fault) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = indices[i];
    if ((at < 0) | (at >= 4)) {
      fault[2] = i;
      return STATUS_INDEX_OUT_OF_RANGE;
    }
    for (int64_t j = 0; j < 3; ++j) {
      y[i * 3 + j] = table[at * 3 + j];
    }
  }
  return 0;
}
