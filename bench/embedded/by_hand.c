// by_hand.c: the network as a person writes it, one loop nest per layer.

#include "weights.h"

static float first[32], second[32];

void by_hand(const float *x, float *y) {
  for (int j = 0; j < 32; j++) first[j] = b1[j];
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 32; j++) first[j] += x[i] * w1[i * 32 + j];
  for (int j = 0; j < 32; j++) first[j] = first[j] > 0 ? first[j] : 0;
  for (int j = 0; j < 32; j++) second[j] = b2[j];
  for (int i = 0; i < 32; i++)
    for (int j = 0; j < 32; j++) second[j] += first[i] * w2[i * 32 + j];
  for (int j = 0; j < 32; j++) second[j] = second[j] > 0 ? second[j] : 0;
  for (int j = 0; j < 4; j++) y[j] = b3[j];
  for (int i = 0; i < 32; i++)
    for (int j = 0; j < 4; j++) y[j] += second[i] * w3[i * 4 + j];
}
