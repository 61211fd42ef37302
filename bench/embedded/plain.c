// plain.c: kernels as a person writes them, one loop nest each; -DKERNEL names the one that runs.
//
// The extents are those of kernels.py. Clang makes vectors of the loops by itself.

#include <stdint.h>
#include <stdlib.h>

#if __has_include("weights.h")
void by_hand(const float *x, float *y);
float units[16], scores[4];

static void mlp(void) { by_hand(units, scores); }
#endif

// Within 2 ULP of the C library's, which is not for vectors; arguments are at most zero.
static inline float exponential(float x) {
  union {
    int32_t bits;
    float number;
  } power;
  x = x < -87.0f ? -87.0f : x;
  const float rounded = (float)(int32_t)(x * 1.44269504f - 0.5f);
  const float r = (x - rounded * 0.693359375f) + rounded * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  power.bits = ((int32_t)rounded + 127) << 23;
  return (p * r * r + r + 1.0f) * power.number;
}

static inline void softmax_row(const float *restrict x, float *restrict y, int n) {
  float most = x[0], sum = 0;
  for (int i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
  for (int i = 0; i < n; i++) {
    y[i] = exponential(x[i] - most);
    sum += y[i];
  }
  for (int i = 0; i < n; i++) y[i] *= 1.0f / sum;
}

float logits[16][256], shares[16][256];

static void softmax(void) {
  for (int row = 0; row < 16; row++) softmax_row(logits[row], shares[row], 256);
}

float q[2][16][16], k[2][16][16], v[2][16][16], attended[2][16][16];

static void attention(void) {
  for (int head = 0; head < 2; head++) {
    for (int i = 0; i < 16; i++) {
      float weights[16], products[16];
      for (int j = 0; j < 16; j++) {
        float sum = 0;
        for (int d = 0; d < 16; d++) sum += q[head][i][d] * k[head][j][d];
        products[j] = sum * 0.25f;
      }
      softmax_row(products, weights, 16);
      float sums[16] = {0};
      for (int j = 0; j < 16; j++)
        for (int d = 0; d < 16; d++) sums[d] += weights[j] * v[head][j][d];
      for (int d = 0; d < 16; d++) attended[head][i][d] = sums[d];
    }
  }
}

float image[16][18][18], filters[16][16][3][3], filtered[16][16][16];

static void conv3x3(void) {
  for (int o = 0; o < 16; o++) {
    for (int y = 0; y < 16; y++) {
      float sums[16] = {0};
      for (int i = 0; i < 16; i++)
        for (int r = 0; r < 3; r++)
          for (int s = 0; s < 3; s++)
            for (int x = 0; x < 16; x++) sums[x] += image[i][y + r][x + s] * filters[o][i][r][s];
      for (int x = 0; x < 16; x++) filtered[o][y][x] = sums[x];
    }
  }
}

float left[64][64], right[64][64], product[64][64];

static void matmul(void) {
  for (int i = 0; i < 64; i++) {
    float sums[64] = {0};
    for (int j = 0; j < 64; j++)
      for (int c = 0; c < 64; c++) sums[c] += left[i][j] * right[j][c];
    for (int c = 0; c < 64; c++) product[i][c] = sums[c];
  }
}

int8_t rows[16][256], columns[64][256];
int32_t sums[16][64];

static void byte_product(void) {
  for (int i = 0; i < 16; i++) {
    for (int j = 0; j < 64; j++) {
      int32_t sum = 0;
      for (int c = 0; c < 256; c++) sum += rows[i][c] * columns[j][c];
      sums[i][j] = sum;
    }
  }
}

int main(int argc, char **argv) {
  for (int runs = argc > 1 ? atoi(argv[1]) : 1; runs > 0; --runs) {
    KERNEL();
    __asm__ volatile("" ::: "memory");
  }
  return 0;
}
