// sin, mul, mul, sub, mul, add -> %3.0
static void scan_scalar(
    const double *restrict angle, const double *restrict speed, const double *restrict k,
    double *restrict y_0, double *restrict y_1) {
  double angle_2 = angle[0];
  double speed_2 = speed[0];
  const double k_2 = k[0];
  for (int64_t step = 0; step < 1000; ++step) {
    double sine = near_sin_f64(angle_2);
    if (fabs(angle_2) > 1048576.0) {
      sine = sin_f64(angle_2);
    }
    const double sub = speed_2 - k_2 * sine * 0.01;
    const double add = angle_2 + sub * 0.01;
    angle_2 = add;
    speed_2 = sub;
  }
  y_0[0] = angle_2;
  y_1[0] = speed_2;
}
