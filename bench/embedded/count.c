// count.c: a plugin of QEMU that counts executed instructions, and prints them at exit.
//
//   cc -shared -fPIC count.c -o count.so; qemu-aarch64 -plugin ./count.so program
//
// QEMU's header is not installed with it, so what it declares is repeated here (version 1).

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
struct qemu_info_t;
typedef void (*on_block)(uint64_t id, struct qemu_plugin_tb *block);
typedef void (*on_exit)(uint64_t id, void *data);
enum { INLINE_ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, on_block function);
void qemu_plugin_register_vcpu_tb_exec_inline(
    struct qemu_plugin_tb *block, int op, void *counter, uint64_t added);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_atexit_cb(uint64_t id, on_exit function, void *data);

int qemu_plugin_version = 1;
static uint64_t executed;

static void count_block(uint64_t id, struct qemu_plugin_tb *block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(
      block, INLINE_ADD_U64, &executed, qemu_plugin_tb_n_insns(block));
}

static void print_count(uint64_t id, void *data) {
  (void)id;
  (void)data;
  fprintf(stderr, "instructions %llu\n", (unsigned long long)executed);
}

int qemu_plugin_install(uint64_t id, const struct qemu_info_t *info, int argc, char **argv) {
  (void)info;
  (void)argc;
  (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
  qemu_plugin_register_atexit_cb(id, print_count, NULL);
  return 0;
}
