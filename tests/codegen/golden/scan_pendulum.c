// sin, mul x3, sub, add -> %3.0
static void scan_scalar(
    const double *restrict first_angle, const double *restrict first_speed,
    const double *restrict k, double *restrict last_angle, double *restrict last_speed) {
  double angle = first_angle[0];
  double speed = first_speed[0];
  const double k_2 = k[0];
  for (int64_t step = 0; step < 1000; ++step) {
    double sine = near_sin_f64(angle);
    if (fabs(angle) > 1048576.0) {
      sine = sin_f64(angle);
    }
    const double sub = speed - k_2 * sine * 0.01;
    angle += sub * 0.01;
    speed = sub;
  }
  last_angle[0] = angle;
  last_speed[0] = speed;
}
