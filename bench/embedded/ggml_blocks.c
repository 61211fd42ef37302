// ggml_blocks.c: products of rows with a matrix in blocks of q4_k, by ggml's kernels.
//
//   ggml_blocks KERNEL ROWS COLUMNS DEPTH RUNS

#include <stdint.h>
#include <stdlib.h>

enum { DOT, GEMV, GEMM };

void ggml_vec_dot_q4_K_q8_K(
    int n, float *s, size_t bs, const void *x, size_t bx, const void *y, size_t by, int rows);
void ggml_gemv_q4_K_8x4_q8_K(
    int n, float *s, size_t bs, const void *x, const void *y, int rows, int columns);
void ggml_gemm_q4_K_8x4_q8_K(
    int n, float *s, size_t bs, const void *x, const void *y, int rows, int columns);
void quantize_row_q8_K_ref(const float *x, void *y, int64_t k);
void ggml_quantize_mat_q8_K_4x4(const float *x, void *y, int64_t k);

// What is linked and not called.
float ggml_table_f32_f16[1 << 16];
void ggml_abort(const char *file, int line, const char *format, ...) { abort(); }
void __gxx_personality_v0(void) { abort(); }

int main(int argc, char **argv) {
  if (argc < 6) return 1;
  const int kernel = atoi(argv[1]), m = atoi(argv[2]), n = atoi(argv[3]), k = atoi(argv[4]);
  const size_t packed = k / 256 * 144, rounded = k / 256 * 292;
  char *w = calloc(n, packed), *y = calloc(m + 4, rounded);
  float *x = malloc(sizeof(float) * m * k), *s = calloc(m * n, sizeof(float));
  for (int i = 0; i < m * k; i++) x[i] = (float)(i % 7) / 7;
  for (int runs = atoi(argv[5]); runs > 0; runs--) {
    if (kernel == GEMM) {
      for (int i = 0; i < m; i += 4) ggml_quantize_mat_q8_K_4x4(x + i * k, y + i * rounded, k);
      ggml_gemm_q4_K_8x4_q8_K(k, s, n, w, y, m, n);
      continue;
    }
    for (int i = 0; i < m; i++) {
      quantize_row_q8_K_ref(x + i * k, y, k);
      if (kernel == GEMV) ggml_gemv_q4_K_8x4_q8_K(k, s + i * n, n, w, y, 1, n);
      for (int j = 0; kernel == DOT && j < n; j++) {
        ggml_vec_dot_q4_K_q8_K(k, s + i * n + j, 0, w + j * packed, 0, y, 0, 1);
      }
    }
  }
  return 0;
}
