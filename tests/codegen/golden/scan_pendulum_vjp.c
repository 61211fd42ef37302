// mul, add, neg, mul, mul, mul, mul, add, add -> %6.0
static void scan_scalar_2(
    const double *restrict d_output, const double *restrict d_speed, const double *restrict d_k,
    const double *restrict k, const double *restrict saved_sin, const double *restrict saved_cos,
    double *restrict y_0, double *restrict y_1, double *restrict y_2) {
  double d_angle = d_output[0];
  double d_speed_2 = d_speed[0];
  double d_k_2 = d_k[0];
  const double k_2 = k[0];
  for (int64_t step = 0; step < 1000; ++step) {
    const int64_t row = 999 - step;
    const double saved_sin_2 = saved_sin[row];
    const double saved_cos_2 = saved_cos[row];
    const double add = d_speed_2 + d_angle * 0.01;
    const double mul = -add * 0.01;
    const double add_2 = d_angle + mul * k_2 * saved_cos_2;
    const double add_3 = d_k_2 + mul * saved_sin_2;
    d_angle = add_2;
    d_speed_2 = add;
    d_k_2 = add_3;
  }
  y_0[0] = d_angle;
  y_1[0] = d_speed_2;
  y_2[0] = d_k_2;
}
