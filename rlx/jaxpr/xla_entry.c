/* A handler of XLA's FFI: copies the operands of a custom call into the arena of a program of rlx,
   runs it, and copies its results out. The attribute `program` is the address of a `Program`. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

typedef struct {
  uint8_t *memory;
  int64_t bytes;
} Region;

typedef struct {
  int (*run)(uint8_t *arena);
  uint8_t *arena;
  int64_t input_count;
  int64_t output_count;
  const Region *inputs;
  const Region *outputs;
  pthread_mutex_t *lock;
} Program;

int64_t rlx_mutex_bytes(void) { return (int64_t)sizeof(pthread_mutex_t); }

int rlx_mutex_init(pthread_mutex_t *lock) { return pthread_mutex_init(lock, NULL); }

static const Program *program_of(const XLA_FFI_Attrs *attrs) {
  for (int64_t i = 0; i < attrs->size; ++i) {
    if (attrs->types[i] == XLA_FFI_AttrType_SCALAR) {
      const XLA_FFI_Scalar *scalar = attrs->attrs[i];
      return (const Program *)(intptr_t)*(const int64_t *)scalar->value;
    }
  }
  return NULL;
}

static XLA_FFI_Error *failed(const XLA_FFI_CallFrame *frame, int status) {
  char message[80];
  snprintf(message, sizeof message, "a program of rlx returned status %d", status);
  XLA_FFI_Error_Create_Args args;
  memset(&args, 0, sizeof args);
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = XLA_FFI_Error_Code_INTERNAL;
  return frame->api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error *rlx_run(XLA_FFI_CallFrame *frame) {
  XLA_FFI_Extension_Base *extension = frame->extension_start;
  if (extension != NULL && extension->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return NULL;
  }
  const Program *program = program_of(&frame->attrs);
  if (program == NULL) return failed(frame, -1);
  pthread_mutex_lock(program->lock);
  for (int64_t i = 0; i < program->input_count; ++i) {
    const XLA_FFI_Buffer *buffer = frame->args.args[i];
    memcpy(program->inputs[i].memory, buffer->data, (size_t)program->inputs[i].bytes);
  }
  int status = program->run(program->arena);
  for (int64_t i = 0; status == 0 && i < program->output_count; ++i) {
    const XLA_FFI_Buffer *buffer = frame->rets.rets[i];
    memcpy(buffer->data, program->outputs[i].memory, (size_t)program->outputs[i].bytes);
  }
  pthread_mutex_unlock(program->lock);
  return status == 0 ? NULL : failed(frame, status);
}
