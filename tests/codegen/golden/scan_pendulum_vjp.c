// mul x5, add x3, neg -> %6.0
static void scan_scalar_2(
    const double *restrict d_output, const double *restrict k, const double *restrict saved_sin,
    const double *restrict saved_cos, double *restrict last_d_angle, double *restrict last_d_speed,
    double *restrict last_d_k) {
  double d_angle = d_output[0];
  double d_speed = 0.0;
  double d_k = 0.0;
  const double k_2 = k[0];
  for (int64_t step = 0; step < 1000; ++step) {
    const int64_t row = 999 - step;
    const double saved_sin_2 = saved_sin[row];
    const double saved_cos_2 = saved_cos[row];
    const double add = d_speed + d_angle * 0.01;
    const double mul = -add * 0.01;
    const double add_2 = d_angle + mul * k_2 * saved_cos_2;
    const double add_3 = d_k + mul * saved_sin_2;
    d_angle = add_2;
    d_speed = add;
    d_k = add_3;
  }
  last_d_angle[0] = d_angle;
  last_d_speed[0] = d_speed;
  last_d_k[0] = d_k;
}
