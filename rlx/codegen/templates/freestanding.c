// What generated code needs of libm, without libm. Each function is taken where it is used; all
// give the bits of libm, in the rounding mode to nearest.

static inline float own_fabsf(float x) {
#ifdef __GNUC__
  return __builtin_fabsf(x);
#else
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits &= 2147483647u;
  memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

static inline double own_fabs(double x) {
#ifdef __GNUC__
  return __builtin_fabs(x);
#else
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits &= UINT64_C(9223372036854775807);
  memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

// The magnitude of x, which is not negative, with the sign of y.
static inline float own_signedf(float x, float y) {
  uint32_t bits, sign;
  memcpy(&bits, &x, sizeof bits);
  memcpy(&sign, &y, sizeof sign);
  bits |= sign & 2147483648u;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline double own_signed(double x, double y) {
  uint64_t bits, sign;
  memcpy(&bits, &x, sizeof bits);
  memcpy(&sign, &y, sizeof sign);
  bits |= sign & UINT64_C(9223372036854775808);
  memcpy(&x, &bits, sizeof x);
  return x;
}

// An instruction of aarch64 at any level of optimization.
static inline float own_truncf(float x) {
#ifdef __aarch64__
  return __builtin_truncf(x);
#else
  return own_fabsf(x) < 8388608.0f ? own_signedf(own_fabsf((float)(int32_t)x), x) : x;
#endif
}

static inline double own_trunc(double x) {
#ifdef __aarch64__
  return __builtin_trunc(x);
#else
  return own_fabs(x) < 4503599627370496.0 ? own_signed(own_fabs((double)(int64_t)x), x) : x;
#endif
}

static inline float own_floorf(float x) {
#ifdef __aarch64__
  return __builtin_floorf(x);
#else
  const float whole = own_truncf(x);
  return whole > x ? whole - 1.0f : whole;
#endif
}

static inline double own_floor(double x) {
#ifdef __aarch64__
  return __builtin_floor(x);
#else
  const double whole = own_trunc(x);
  return whole > x ? whole - 1.0 : whole;
#endif
}

static inline float own_ceilf(float x) {
#ifdef __aarch64__
  return __builtin_ceilf(x);
#else
  const float whole = own_truncf(x);
  return whole < x ? whole + 1.0f : whole;
#endif
}

static inline double own_ceil(double x) {
#ifdef __aarch64__
  return __builtin_ceil(x);
#else
  const double whole = own_trunc(x);
  return whole < x ? whole + 1.0 : whole;
#endif
}

// Adding 2**23 leaves no bits for a fraction.
static inline float own_rintf(float x) {
#ifdef __aarch64__
  return __builtin_rintf(x);
#else
  const float large = own_signedf(8388608.0f, x);
  return own_fabsf(x) < 8388608.0f ? own_signedf(own_fabsf((x + large) - large), x) : x;
#endif
}

static inline double own_rint(double x) {
#ifdef __aarch64__
  return __builtin_rint(x);
#else
  const double large = own_signed(4503599627370496.0, x);
  return own_fabs(x) < 4503599627370496.0 ? own_signed(own_fabs((x + large) - large), x) : x;
#endif
}

#ifndef __NO_MATH_ERRNO__
// The square root of `significand * 2**bits`, digit by digit, rounded down to `bits` bits. That is
// more than the result holds, and no root is halfway between two results.
static inline uint64_t own_root(uint64_t significand, int bits) {
  uint64_t root = 0, rest = 0;
  for (int shift = bits - 2; shift >= -bits; shift -= 2) {
    const uint64_t digits = shift >= 0 ? significand >> shift & 3 : 0;
    const uint64_t trial = root << 2 | 1;
    rest = rest << 2 | digits;
    root <<= 1;
    if (rest >= trial) {
      rest -= trial;
      root |= 1;
    }
  }
  return root;
}
#endif

static inline float own_sqrtf(float x) {
#ifdef __NO_MATH_ERRNO__
  return __builtin_sqrtf(x);
#else
  if (!(x > 0.0f) || x > 3.4028235e+38f) {
    return x < 0.0f ? (x - x) / 0.0f : x;
  }
  const bool tiny = x < 1.1754944e-38f;
  const float normal = tiny ? x * 16777216.0f : x;
  uint32_t bits;
  memcpy(&bits, &normal, sizeof bits);
  const int exponent = (int)(bits >> 23) - 127;
  const int odd = exponent & 1;
  const uint64_t root = own_root((uint64_t)((bits & 8388607u) | 8388608u) << (odd + 1), 26);
  const uint32_t scale = (uint32_t)((exponent - odd) / 2 - 23 + 127 - (tiny ? 12 : 0)) << 23;
  float power;
  memcpy(&power, &scale, sizeof power);
  return (float)((root + 2) >> 2) * power;
#endif
}

static inline double own_sqrt(double x) {
#ifdef __NO_MATH_ERRNO__
  return __builtin_sqrt(x);
#else
  if (!(x > 0.0) || x > 1.7976931348623157e+308) {
    return x < 0.0 ? (x - x) / 0.0 : x;
  }
  const bool tiny = x < 2.2250738585072014e-308;
  const double normal = tiny ? x * 18014398509481984.0 : x;
  uint64_t bits;
  memcpy(&bits, &normal, sizeof bits);
  const int exponent = (int)(bits >> 52) - 1023;
  const int odd = exponent & 1;
  const uint64_t significand = (bits & 4503599627370495u) | 4503599627370496u;
  const uint64_t root = own_root(significand << odd, 54);
  const uint64_t scale = (uint64_t)((exponent - odd) / 2 - 52 + 1023 - (tiny ? 27 : 0)) << 52;
  double power;
  memcpy(&power, &scale, sizeof power);
  return (double)((root + 1) >> 1) * power;
#endif
}

// The product is exact in double; the sum is rounded to odd there, so that rounding it to float
// is the only rounding that shows. Where there is an instruction, clang's macros say so by machine.
static inline float own_fmaf(float a, float b, float c) {
#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__riscv_flen)
  return __builtin_fmaf(a, b, c);
#else
  const double product = (double)a * (double)b;
  double sum = product + (double)c;
  const double part = sum - product;
  const double error = (product - (sum - part)) + ((double)c - part);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  if ((error > 0.0 || error < 0.0) && (bits & 1) == 0) {
    bits = (error > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1;
    memcpy(&sum, &bits, sizeof sum);
  }
  return (float)sum;
#endif
}

// In double there is no wider type: only code for targets with the instruction calls it.
static inline double own_fma(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
