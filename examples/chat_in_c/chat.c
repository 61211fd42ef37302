// Chats with SmolLM2-135M-Instruct. All arithmetic is in smollm2.c, which export.py wrote; this
// program maps the weights, turns text into tokens and back, and keeps the arena.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "smollm2.h"

enum { CONTEXT = 1023, ANSWER = 256, LINE = 4096 };

static _Alignas(64) unsigned char arena[SMOLLM2_ARENA_BYTES];
static int32_t history[CONTEXT];
static int32_t length;

struct mapping {
  const unsigned char *data;
  size_t bytes;
};

struct merge {
  int32_t left, right, rank, result;
};

// tokenizer.bin: six counts, then these arrays, then the bytes of all tokens one after the other.
struct tokenizer {
  int32_t tokens, merges, before, after, end;
  const int32_t *of_byte;      // 256: the token of a byte
  const int32_t *before_ids;   // the chat template before a question
  const int32_t *after_ids;    // and after it
  const struct merge *pairs;   // sorted by left and right
  const int32_t *ends;         // where the bytes of each token end
  const char *text;
};

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check(int status, const char *what) {
  if (status != SMOLLM2_OK) {
    fail(what, smollm2_status_string(status));
  }
}

static struct mapping map_file(const char *path) {
  struct stat info;
  const int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &info) != 0) {
    fail(path, "cannot open");
  }
  const size_t bytes = (size_t)info.st_size;
  const void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (data == MAP_FAILED) {
    fail(path, "cannot map");
  }
  return (struct mapping){data, bytes};
}

static struct tokenizer read_tokenizer(struct mapping file) {
  const int32_t *head = (const int32_t *)(const void *)file.data;
  if (file.bytes < 24 || (head[0] | head[1] | head[2] | head[3] | head[4] | head[5]) < 0) {
    fail("tokenizer.bin", "is damaged");
  }
  struct tokenizer t = {head[0], head[1], head[2], head[3], head[4], NULL, NULL, NULL, NULL, NULL, NULL};
  const size_t words = 6 + 256 + (size_t)t.before + (size_t)t.after + 4 * (size_t)t.merges +
                       (size_t)t.tokens;
  if (file.bytes != 4 * words + (size_t)head[5]) {
    fail("tokenizer.bin", "is damaged");
  }
  t.of_byte = head + 6;
  t.before_ids = t.of_byte + 256;
  t.after_ids = t.before_ids + t.before;
  t.pairs = (const struct merge *)(const void *)(t.after_ids + t.after);
  t.ends = (const int32_t *)(const void *)(t.pairs + t.merges);
  t.text = (const char *)(t.ends + t.tokens);
  return t;
}

static void print_token(const struct tokenizer *t, int32_t token) {
  const int32_t first = token == 0 ? 0 : t->ends[token - 1];
  fwrite(t->text + first, 1, (size_t)(t->ends[token] - first), stdout);
  fflush(stdout);
}

// Tokens of text

static int by_pair(const void *a, const void *b) {
  const struct merge *x = a, *y = b;
  const int32_t order = x->left != y->left ? x->left - y->left : x->right - y->right;
  return (order > 0) - (order < 0);
}

// Join the pair of least rank, until none can be joined.
static int merge_pairs(const struct tokenizer *t, int32_t *ids, int count) {
  for (;;) {
    const struct merge *best = NULL;
    int place = 0;
    for (int i = 0; i + 1 < count; ++i) {
      const struct merge wanted = {ids[i], ids[i + 1], 0, 0};
      const struct merge *found =
          bsearch(&wanted, t->pairs, (size_t)t->merges, sizeof wanted, by_pair);
      if (found != NULL && (best == NULL || found->rank < best->rank)) {
        best = found;
        place = i;
      }
    }
    if (best == NULL) {
      return count;
    }
    ids[place] = best->result;
    memmove(ids + place + 1, ids + place + 2, (size_t)(count - place - 2) * sizeof *ids);
    --count;
  }
}

enum class { SPACE, DIGIT, LETTER, OTHER };

static enum class class_of(char c) {
  if (c == ' ' || (c >= '\t' && c <= '\r')) {
    return SPACE;
  }
  if (c >= '0' && c <= '9') {
    return DIGIT;
  }
  const char lower = (char)(c | 32);
  return (lower >= 'a' && lower <= 'z') || (c & 0x80) != 0 ? LETTER : OTHER;
}

static int contraction(const char *text) {
  static const char *const known[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    if (strncmp(text, known[i], strlen(known[i])) == 0) {
      return (int)strlen(known[i]);
    }
  }
  return 0;
}

// Bytes of the next word, as GPT-2 cuts text: letters or signs with one space before them, single
// digits, or space. Letters are those of ASCII, and whatever has more than one byte.
static int word_length(const char *text) {
  int at = contraction(text);
  if (at > 0) {
    return at;
  }
  if (class_of(text[0]) == DIGIT) {
    return 1;
  }
  const int lead = text[0] == ' ' && text[1] != 0;
  const enum class kind = class_of(text[lead]);
  if (kind == LETTER || kind == OTHER) {
    for (at = lead; text[at] != 0 && class_of(text[at]) == kind;) {
      ++at;
    }
    return at;
  }
  while (text[at] != 0 && class_of(text[at]) == SPACE) {
    ++at;
  }
  // The last space goes with what follows, unless that is a digit.
  return at > 1 && text[at] != 0 && class_of(text[at]) != DIGIT ? at - 1 : at;
}

static int encode(const struct tokenizer *t, const char *text, int32_t *ids) {
  int count = 0;
  while (*text != 0) {
    const int bytes = word_length(text);
    for (int i = 0; i < bytes; ++i) {
      ids[count + i] = t->of_byte[(unsigned char)text[i]];
    }
    count += merge_pairs(t, ids + count, bytes);
    text += bytes;
  }
  return count;
}

// The model

static int32_t feed(int32_t token) {
  static float logits[SMOLLM2_Y_1_BYTES / sizeof(float)], bias[SMOLLM2_BIAS_BYTES / sizeof(float)];
  const float how[8] = {0, 0, 1, 1, 0, 1, 0, 0}; // a temperature of 0: the likeliest token
  const uint32_t seed[2] = {0, 1};
  const int32_t at[2] = {length, 0};
  int32_t next;
  if (length == CONTEXT) {
    fail("context", "is full");
  }
  check(smollm2_call(arena, length, &token, history, at, seed, at, how, bias, &next, logits), "run");
  history[length++] = token;
  return next;
}

static int32_t feed_all(const int32_t *tokens, int count) {
  int32_t next = 0;
  for (int i = 0; i < count; ++i) {
    next = feed(tokens[i]);
  }
  return next;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void answer(const struct tokenizer *t, const char *question) {
  static int32_t ids[LINE];
  if (strlen(question) > LINE) {  // a byte is a token, before they are joined
    fail("question", "is too long");
  }
  length = 0;
  feed_all(t->before_ids, t->before);
  feed_all(ids, encode(t, question, ids));
  int32_t token = feed_all(t->after_ids, t->after);
  const double begun = seconds();
  int count = 0;
  for (; token != t->end && count < ANSWER && length < CONTEXT; ++count) {
    print_token(t, token);
    token = feed(token);
  }
  printf("\n");
  fprintf(stderr, "[%.1f tokens a second]\n", count / (seconds() - begun));
}

int main(int argc, char **argv) {
  const struct tokenizer t = read_tokenizer(map_file("tokenizer.bin"));
  const struct mapping weights = map_file("smollm2.weights");
  check(smollm2_init(arena, sizeof arena), "init");
  check(smollm2_load_weights(arena, weights.data, weights.bytes), "weights");
  check(smollm2_setup(arena), "setup");
  if (argc > 1) {
    answer(&t, argv[1]);
    return 0;
  }
  static char line[LINE];
  while (printf("> ") > 0 && fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = 0;
    answer(&t, line);
  }
  return 0;
}
