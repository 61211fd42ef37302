// Prints the text in a picture of one line: ./read_text line.pgm
//
// All arithmetic of the model is in recognizer.c, which export.py wrote; this program reads the
// picture, scales it to the model's height and spells what the scores say.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recognizer.h"

struct bytes {
  unsigned char *data;
  size_t count;
};

struct picture {
  int width, height;
  const unsigned char *pixels;
};

// Shapes of the model: x is [1, channels, height, width], scores are [1, steps, classes].
struct sizes {
  int channels, height, width, steps, classes;
};

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check(int status, const char *what) {
  if (status != RECOGNIZER_OK) {
    fail(what, recognizer_status_string(status));
  }
}

// Return memory with the alignment that the arena and the weights ask for.
static void *aligned(size_t bytes) {
  const size_t unit = RECOGNIZER_ARENA_ALIGNMENT;
  void *block = aligned_alloc(unit, (bytes + unit) / unit * unit);
  if (block == NULL) {
    fail("memory", "is used up");
  }
  return block;
}

// Return the bytes of a file, with a zero after the last.
static struct bytes read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    fail(path, "cannot open");
  }
  const long count = ftell(file);
  unsigned char *data = aligned((size_t)(count < 0 ? 0 : count) + 1);
  rewind(file);
  if (count < 0 || fread(data, 1, (size_t)count, file) != (size_t)count) {
    fail(path, "cannot read");
  }
  fclose(file);
  data[count] = 0;
  return (struct bytes){data, (size_t)count};
}

// The picture

// Read the next number of a header, after space and comments.
static int number(const unsigned char **at) {
  while (**at == '#' || **at == ' ' || (**at >= '\t' && **at <= '\r')) {
    *at += **at == '#' ? strcspn((const char *)*at, "\n") : 1;
  }
  int value = 0;
  for (; **at >= '0' && **at <= '9' && value < 100000; ++*at) {
    value = 10 * value + (**at - '0');
  }
  return value;
}

static struct picture read_pgm(const char *path) {
  const struct bytes file = read_file(path);
  if (file.count < 2 || memcmp(file.data, "P5", 2) != 0) {
    fail(path, "is no binary PGM image");
  }
  const unsigned char *at = file.data + 2;
  const int width = number(&at), height = number(&at), most = number(&at);
  const size_t left = file.count - (size_t)(at - file.data);
  if (width < 1 || height < 1 || most != 255 || left < 1 + (size_t)width * (size_t)height) {
    fail(path, "is damaged, or has no 8 bits a pixel");
  }
  return (struct picture){width, height, at + 1};
}

// Return the weights of a triangle around the place of pixel `to` of an axis that is scaled, from
// pixel `*first` on; a triangle is as wide as a pixel of the smaller of both axes.
static int triangle(int to, double scale, int extent, int *first, double *weights) {
  const double reach = scale > 1 ? scale : 1, center = (to + 0.5) * scale - 0.5;
  int count = 0;
  double sum = 0;
  *first = center - reach < 0 ? 0 : (int)(center - reach) + 1;
  for (int from = *first; from < extent && from < center + reach; ++from) {
    const double away = from < center ? center - from : from - center;
    weights[count] = 1 - away / reach;
    sum += weights[count++];
  }
  for (int i = 0; i < count; ++i) {
    weights[i] /= sum;
  }
  return count;
}

// Scale a picture to the model's height, and at most its width, as numbers from -1 to 1; what is
// left of the width is 0.
static void fill(const struct picture *p, const struct sizes *s, float *x) {
  const double wanted = (double)p->width * s->height / p->height + 0.5;
  const int width = wanted < 1 ? 1 : wanted < s->width ? (int)wanted : s->width;
  const double across = (double)p->width / width, down = (double)p->height / s->height;
  const size_t plane = (size_t)s->height * (size_t)s->width;
  double *horizontal = aligned(sizeof(double) * ((size_t)p->width + 2));
  double *vertical = aligned(sizeof(double) * ((size_t)p->height + 2));
  memset(x, 0, sizeof(float) * (size_t)s->channels * plane);
  for (int row = 0; row < s->height; ++row) {
    int top, left;
    const int rows = triangle(row, down, p->height, &top, vertical);
    for (int column = 0; column < width; ++column) {
      const int columns = triangle(column, across, p->width, &left, horizontal);
      double gray = 0;
      for (int i = 0; i < rows; ++i) {
        const unsigned char *line = p->pixels + (size_t)(top + i) * (size_t)p->width + left;
        for (int j = 0; j < columns; ++j) {
          gray += vertical[i] * horizontal[j] * line[j];
        }
      }
      for (int channel = 0; channel < s->channels; ++channel) {
        const size_t place = (size_t)row * (size_t)s->width + (size_t)column;
        x[(size_t)channel * plane + place] = (float)(gray / 127.5 - 1);
      }
    }
  }
  free(horizontal);
  free(vertical);
}

// The text

// Cut the alphabet, a character a line, into strings; class 0 is a gap and has none.
static const char **read_alphabet(const char *path, int classes) {
  const struct bytes file = read_file(path);
  const char **characters = aligned(sizeof(char *) * (size_t)classes);
  char *at = (char *)file.data;
  characters[0] = "";
  for (int class = 1; class < classes; ++class) {
    const size_t length = strcspn(at, "\n");
    if (at[length] == 0) {
      fail(path, "has fewer characters than the model");
    }
    characters[class] = at;
    at[length] = 0;
    at += length + 1;
  }
  return characters;
}

// Print the best class of each step; repeats are one character.
static void spell(const float *scores, const struct sizes *s, const char *const *characters) {
  int last = 0;
  for (int step = 0; step < s->steps; ++step) {
    const float *row = scores + (size_t)step * (size_t)s->classes;
    int best = 0;
    for (int class = 1; class < s->classes; ++class) {
      best = row[class] > row[best] ? class : best;
    }
    if (best != last) {
      fputs(characters[best], stdout);
    }
    last = best;
  }
  putchar('\n');
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fail("usage", "read_text line.pgm");
  }
  const struct rlx_tensor *tensors = recognizer_get_info()->tensors;
  const int64_t *given = tensors[0].shape, *made = tensors[1].shape;
  const struct sizes sizes = {(int)given[1], (int)given[2], (int)given[3], (int)made[1],
                              (int)made[2]};
  const struct picture picture = read_pgm(argv[1]);
  const char *const *characters = (const char *const *)read_alphabet("characters.txt", sizes.classes);
  const struct bytes weights = read_file("recognizer.weights");
  void *arena = aligned(RECOGNIZER_ARENA_BYTES);
  check(recognizer_init(arena, RECOGNIZER_ARENA_BYTES), "init");
  check(recognizer_load_weights(arena, weights.data, weights.count), "weights");
  check(recognizer_setup(arena), "setup");
  fill(&picture, &sizes, recognizer_arena_x(arena));
  check(recognizer_run(arena), "run");
  spell(recognizer_arena_scores(arena), &sizes, characters);
  return 0;
}
