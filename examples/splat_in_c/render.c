/* Draw a .ply file of Gaussian splats: ./render scene.ply image.ppm [x y z  tx ty tz  fov]
 *
 * Everything is computed by the function that rlx exported (see export.py); this program reads
 * the file, places the camera and writes the image. */
#include "splat_render.h"
#include "splat_sizes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROPERTIES = 128 };

static float positions[SPLATS][3], scales[SPLATS][3], rotations[SPLATS][4], logits[SPLATS];
static float base[SPLATS][1][3], view[23];
static unsigned char image[HEIGHT][WIDTH][3];

static int fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

/* Return the column of a property, or -1. */
static int column(char names[][32], int count, const char *name) {
  for (int i = 0; i < count; ++i) {
    if (strcmp(names[i], name) == 0) {
      return i;
    }
  }
  return -1;
}

/* Read the splats of a binary little-endian file of floats; return how many, or -1. */
static long read_ply(const char *path) {
  static const char *wanted[] = {"x",       "y",       "z",       "scale_0", "scale_1",
                                 "scale_2", "rot_0",   "rot_1",   "rot_2",   "rot_3",
                                 "opacity", "f_dc_0",  "f_dc_1",  "f_dc_2"};
  char line[256], names[PROPERTIES][32];
  int count = 0, at[14];
  long splats = -1;
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return -1;
  }
  while (fgets(line, sizeof line, file) != NULL && strncmp(line, "end_header", 10) != 0) {
    (void)sscanf(line, "element vertex %ld", &splats);
    if (count < PROPERTIES && sscanf(line, "property float %31s", names[count]) == 1) {
      ++count;
    }
  }
  for (int i = 0; i < 14; ++i) {
    at[i] = column(names, count, wanted[i]);
    if (at[i] < 0) {
      fclose(file);
      return -1;
    }
  }
  for (long i = 0; i < SPLATS; ++i) {
    float row[PROPERTIES];
    logits[i] = -50.0f;
    rotations[i][0] = 1.0f;
    if (i >= splats) {
      continue;
    }
    if (fread(row, sizeof(float), (size_t)count, file) != (size_t)count) {
      fclose(file);
      return -1;
    }
    for (int k = 0; k < 3; ++k) {
      positions[i][k] = row[at[k]];
      scales[i][k] = row[at[3 + k]];
      base[i][0][k] = row[at[11 + k]];
    }
    for (int k = 0; k < 4; ++k) {
      rotations[i][k] = row[at[6 + k]];
    }
    logits[i] = row[at[10]];
  }
  fclose(file);
  return splats;
}

int main(int argc, char **argv) {
  static const float place[7] = {3.6f, 1.9f, 1.6f, 0.0f, 0.25f, 0.0f, 45.0f};
  if (argc != 3 && argc != 10) {
    return fail("usage: render scene.ply image.ppm [x y z  tx ty tz  fov]");
  }
  const long splats = read_ply(argv[1]);
  if (splats < 0) {
    return fail("this is no .ply file of splats");
  }
  if (splats > SPLATS) {
    return fail("there are more splats than this renderer was exported for");
  }
  for (int i = 0; i < 6; ++i) {
    view[i] = argc == 10 ? (float)atof(argv[3 + i]) : place[i];
  }
  view[7] = -1.0f; /* down in the image is down in the world */
  view[9] = argc == 10 ? (float)atof(argv[9]) : place[6];
  void *arena = aligned_alloc(SPLAT_RENDER_ARENA_ALIGNMENT, SPLAT_RENDER_ARENA_BYTES);
  if (arena == NULL) {
    return fail("out of memory");
  }
  int status = splat_render_init(arena, SPLAT_RENDER_ARENA_BYTES);
  status = status ? status : splat_render_setup(arena);
  status = status ? status : splat_render_call(arena, positions[0], scales[0], rotations[0], logits,
                                               base[0][0], view, image[0][0]);
  free(arena);
  if (status != 0) {
    return fail(splat_render_status_string(status));
  }
  FILE *file = fopen(argv[2], "wb");
  if (file == NULL || fprintf(file, "P6\n%d %d\n255\n", WIDTH, HEIGHT) < 0 ||
      fwrite(image, 1, sizeof image, file) != sizeof image || fclose(file) != 0) {
    return fail("the image cannot be written");
  }
  printf("%ld splats: %s\n", splats, argv[2]);
  return 0;
}
