/* The fast path from Python into a compiled graph for tensors of another framework.

   A framework exports the C functions of DLPack's exchange API (DLPack 1.2) as an attribute of its
   tensor class; they read a tensor's address, shape and strides, and make tensors, in some tens of
   nanoseconds and without headers of the framework. `Call` runs one executable on
   arguments. For arguments of other classes, dtypes or shapes it returns None, and has done
   nothing; the caller then takes the slow path, which converts, explains and raises. */

#include "gateway_call.h"

#include <stdatomic.h>
#include <stdlib.h>

#define MAX_RANK 64
#define ALIGNMENT 64
#define POOLED 65536            /* bytes of a block from which on it is kept */
#define MAX_POOL_BYTES (128 << 20)
#define MAX_BLOCKS 1024
#define SAMPLES 16 /* words of a resident tensor that are compared at every call */

/* DLPack's ABI, version 1 */

enum { CPU = 1, DLPACK_MAJOR = 1 };

typedef struct {
  uint32_t major, minor;
} Version;

typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} ElementType;

typedef struct {
  void *data;
  int32_t device_type, device_id;
  int32_t rank;
  ElementType type;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;

typedef struct Managed {
  Version version;
  void *context;
  void (*deleter)(struct Managed *);
  uint64_t flags;
  Tensor tensor;
} Managed;

typedef struct {
  Version version;
  void *older;
  void *allocate, *managed_from_object;
  int (*object_from_managed)(Managed *, void **);
  int (*tensor_from_object)(void *, Tensor *);
  void *stream;
} Exchange;

/* An input or output. `place` is its planned address, `moved` the distance from there, or NULL. */
typedef struct {
  Py_ssize_t argument; /* of an input: its number in the list */
  ElementType type;
  int rank;
  int64_t *shape, *strides; /* in elements */
  size_t bytes, item;
  char *place;
  int64_t *moved;
} Port;

/* A tensor that `setup` has read: where it was, which version, and a sample of its values. */
typedef struct {
  Py_ssize_t argument;
  size_t bytes;
  void *data;
  long long version;
  uint64_t sample;
} Resident;

typedef struct {
  Entry entry;
  PyObject *results; /* what each result is: the number of an output, or what is returned as is */
  PyTypeObject *tensor_class, *param_class;
  const Exchange *exchange;
  Py_ssize_t arguments, inputs, outputs, residents;
  Port *ports; /* inputs, then outputs */
  Resident *resident;
  int64_t *axes; /* shapes and strides of all ports */
  PyObject *version_name;
} Call;

/* Arguments */

/* Read a tensor; false for an object that is none, or is not in the memory of the CPU. */
static bool read_tensor(const Call *call, PyObject *object, Tensor *tensor) {
  if (Py_TYPE(object) != call->tensor_class && Py_TYPE(object) != call->param_class) return false;
  if (call->exchange->tensor_from_object(object, tensor) != 0) {
    PyErr_Clear(); /* the slow path says what it is */
    return false;
  }
  tensor->data = (char *)tensor->data + tensor->byte_offset;
  return tensor->device_type == CPU;
}

static bool has_shape(const Port *port, const Tensor *tensor) {
  return tensor->rank == port->rank && tensor->type.code == port->type.code &&
         tensor->type.bits == port->type.bits && tensor->type.lanes == port->type.lanes &&
         memcmp(tensor->shape, port->shape, sizeof(int64_t) * (size_t)port->rank) == 0;
}

static bool has_strides(const Port *port, const Tensor *tensor) {
  if (tensor->strides == NULL || (uintptr_t)tensor->data % port->item != 0) return false;
  for (int axis = 0; axis < port->rank; axis++) {
    if (port->shape[axis] != 1 && tensor->strides[axis] != port->strides[axis]) return false;
  }
  return true;
}

/* Copy a tensor of any strides into the order of elements that a port has. */
static void copy_strided(char *to, const char *from, const Port *port, const int64_t *strides,
                         int axis) {
  const size_t item = port->item;
  if (axis == port->rank) {
    memcpy(to, from, item);
    return;
  }
  const int64_t count = port->shape[axis];
  const ptrdiff_t far = (ptrdiff_t)port->strides[axis] * (ptrdiff_t)item;
  const ptrdiff_t near = (ptrdiff_t)strides[axis] * (ptrdiff_t)item;
  if (axis == port->rank - 1 && item == 4 && (uintptr_t)from % 4 == 0) {
    for (int64_t i = 0; i < count; i++) {
      *(uint32_t *)(to + i * far) = *(const uint32_t *)(from + i * near);
    }
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    copy_strided(to + i * far, from + i * near, port, strides, axis + 1);
  }
}

static bool take_inputs(Call *call, PyObject *const *values) {
  for (Port *port = call->ports; port < call->ports + call->inputs; port++) {
    Tensor tensor;
    if (!read_tensor(call, values[port->argument], &tensor) ||
        !has_shape(port, &tensor)) {
      return false;
    }
    const bool dense = has_strides(port, &tensor);
    if (port->moved != NULL && dense) {
      *port->moved = (char *)tensor.data - port->place;
      continue;
    }
    if (port->moved != NULL) *port->moved = 0;
    if (port->bytes == 0) continue;
    if (dense) {
      memcpy(port->place, tensor.data, port->bytes);
    } else if (tensor.strides == NULL) {
      return false;
    } else {
      copy_strided(port->place, tensor.data, port, tensor.strides, 0);
    }
  }
  return true;
}

/* Residents */

static uint64_t sample_of(const char *data, size_t bytes) {
  uint64_t mixed = bytes, word;
  if (bytes < sizeof word) {
    word = 0;
    memcpy(&word, data, bytes);
    return mixed ^ word;
  }
  const size_t last = bytes - sizeof word, step = last / (SAMPLES - 1);
  for (size_t i = 0; i < SAMPLES; i++) {
    const size_t at = i == SAMPLES - 1 ? last : i * step;
    memcpy(&word, data + at, sizeof word);
    mixed = (mixed ^ word) * 0x9E3779B97F4A7C15u;
    mixed ^= mixed >> 29;
  }
  return mixed;
}

/* Read where a resident is, its version and sample; false if it has none. */
static bool look_at(const Call *call, PyObject *object, Resident *found) {
  Tensor tensor;
  if (!read_tensor(call, object, &tensor)) return false;
  PyObject *version = PyObject_GetAttr(object, call->version_name);
  found->version = version == NULL ? -1 : PyLong_AsLongLong(version);
  Py_XDECREF(version);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  found->data = tensor.data;
  found->sample = found->bytes == 0 ? 0 : sample_of(tensor.data, found->bytes);
  return true;
}

static bool are_unchanged(const Call *call, PyObject *const *values) {
  for (const Resident *each = call->resident; each < call->resident + call->residents; each++) {
    Resident found = *each;
    if (!look_at(call, values[each->argument], &found) ||
        found.data != each->data || found.version != each->version ||
        found.sample != each->sample) {
      return false;
    }
  }
  return true;
}

/* Remember what `setup` has read: `remember(values)`; False where a tensor has no version. */
static PyObject *call_remember(PyObject *self, PyObject *values) {
  Call *call = (Call *)self;
  call->entry.ready = false;
  if (!PyList_CheckExact(values) || PyList_GET_SIZE(values) != call->arguments) {
    PyErr_SetString(PyExc_TypeError, "remember takes the list of arguments");
    return NULL;
  }
  for (Resident *each = call->resident; each < call->resident + call->residents; each++) {
    if (!look_at(call, PyList_GET_ITEM(values, each->argument), each)) {
      Py_RETURN_FALSE;
    }
  }
  call->entry.ready = true;
  Py_RETURN_TRUE;
}

/* Memory of results

   Fresh memory costs a page fault for every 4 KiB, more than most kernels take to fill it. So large
   blocks that are released are kept for the next result of their size. A thread that finds the pool
   in use by another takes fresh memory, or frees: none waits, also not in a forked child. */

typedef struct {
  void *block;
  size_t bytes;
} Block;

static Block pool[MAX_BLOCKS]; /* the block released last comes last */
static size_t pool_count, pool_bytes;
static atomic_flag pool_in_use = ATOMIC_FLAG_INIT;

static void *taken_from_pool(size_t bytes) {
  void *found = NULL;
  if (bytes < POOLED || atomic_flag_test_and_set_explicit(&pool_in_use, memory_order_acquire)) {
    return NULL;
  }
  for (size_t i = pool_count; i-- > 0 && found == NULL;) {
    if (pool[i].bytes != bytes) continue;
    found = pool[i].block;
    memmove(pool + i, pool + i + 1, (pool_count - i - 1) * sizeof(Block));
    pool_count--;
    pool_bytes -= bytes;
  }
  atomic_flag_clear_explicit(&pool_in_use, memory_order_release);
  return found;
}

/* Return memory of `bytes`, aligned. */
static void *new_block(size_t bytes) {
  void *block = taken_from_pool(bytes);
  return block != NULL || posix_memalign(&block, ALIGNMENT, bytes) == 0 ? block : NULL;
}

static void release_block(void *block, size_t bytes) {
  if (bytes < POOLED || bytes > MAX_POOL_BYTES ||
      atomic_flag_test_and_set_explicit(&pool_in_use, memory_order_acquire)) {
    free(block);
    return;
  }
  size_t freed = 0;
  while (pool_count - freed == MAX_BLOCKS || pool_bytes + bytes > MAX_POOL_BYTES) {
    free(pool[freed].block);
    pool_bytes -= pool[freed++].bytes;
  }
  pool_count -= freed;
  memmove(pool, pool + freed, pool_count * sizeof(Block));
  pool[pool_count++] = (Block){block, bytes};
  pool_bytes += bytes;
  atomic_flag_clear_explicit(&pool_in_use, memory_order_release);
}

/* Results */

static void release_memory(Managed *managed) { release_block(managed, (size_t)managed->context); }

/* Return memory for a result: one block that holds what describes the tensor, and its elements. */
static Managed *new_tensor(const Port *port) {
  const size_t axes = 2 * sizeof(int64_t) * (size_t)port->rank;
  const size_t head = (sizeof(Managed) + axes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  void *block = new_block(head + port->bytes);
  if (block == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  Managed *managed = block;
  int64_t *shape = (int64_t *)(managed + 1);
  memcpy(shape, port->shape, axes / 2);
  memcpy(shape + port->rank, port->strides, axes / 2);
  *managed = (Managed){
      .version = {DLPACK_MAJOR, 1},
      .context = (void *)(head + port->bytes),
      .deleter = release_memory,
      .tensor = {.data = (char *)block + head,
                 .device_type = CPU,
                 .rank = port->rank,
                 .type = port->type,
                 .shape = shape,
                 .strides = shape + port->rank},
  };
  return managed;
}

static void release_all(Managed **made, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; i++) {
    if (made[i] != NULL) made[i]->deleter(made[i]);
  }
}

static bool make_outputs(Call *call, Managed **made) {
  for (Py_ssize_t i = 0; i < call->outputs; i++) {
    const Port *port = &call->ports[call->inputs + i];
    if ((made[i] = new_tensor(port)) == NULL) return false;
    if (port->moved != NULL) *port->moved = (char *)made[i]->tensor.data - port->place;
  }
  return true;
}

/* Return the list of results. A tensor that is made owns its memory from then on. */
static PyObject *give_results(Call *call, PyObject *const *values, Managed **made) {
  const Py_ssize_t count = PyTuple_GET_SIZE(call->results);
  PyObject *tensors[call->outputs + 1];
  memset(tensors, 0, sizeof tensors);
  PyObject *results = PyList_New(count);
  bool fine = results != NULL;
  for (Py_ssize_t i = 0; fine && i < call->outputs; i++) {
    const Port *port = &call->ports[call->inputs + i];
    if (port->moved == NULL) memcpy(made[i]->tensor.data, port->place, port->bytes);
    fine = call->exchange->object_from_managed(made[i], (void **)&tensors[i]) == 0;
    if (fine) made[i] = NULL;
  }
  for (Py_ssize_t i = 0; fine && i < count; i++) {
    PyObject *what = PyTuple_GET_ITEM(call->results, i); /* (output, argument, other) */
    const Py_ssize_t output = PyLong_AsSsize_t(PyTuple_GET_ITEM(what, 0));
    const Py_ssize_t argument = PyLong_AsSsize_t(PyTuple_GET_ITEM(what, 1));
    PyObject *found = output >= 0     ? tensors[output]
                      : argument >= 0 ? values[argument]
                                      : PyTuple_GET_ITEM(what, 2);
    Py_INCREF(found);
    PyList_SET_ITEM(results, i, found);
  }
  for (Py_ssize_t i = 0; i < call->outputs; i++) Py_XDECREF(tensors[i]);
  if (fine) return results;
  Py_XDECREF(results);
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "the framework made no tensor");
  return NULL;
}

/* The call */

static PyObject *call_locked(Entry *entry, PyObject *const *values) {
  Call *call = (Call *)entry;
  if (!are_unchanged(call, values) || !take_inputs(call, values)) return none();
  Managed *made[call->outputs + 1];
  memset(made, 0, sizeof made);
  PyObject *results = NULL;
  if (make_outputs(call, made) && run(entry)) results = give_results(call, values, made);
  if (results == NULL) release_all(made, call->outputs);
  return results;
}

static PyObject *call_vector(PyObject *self, PyObject *const *given, size_t count,
                             PyObject *names) {
  Call *call = (Call *)self;
  if (PyVectorcall_NARGS(count) != call->arguments || names != NULL || !call->entry.ready) {
    return none();
  }
  return call_with_lock(&call->entry, call_locked, given);
}

/* Making one */

static bool read_axes(PyObject *given, int64_t *to, int rank) {
  if (PyTuple_GET_SIZE(given) != rank) {
    PyErr_SetString(PyExc_ValueError, "shape and strides have one rank");
    return false;
  }
  for (int axis = 0; axis < rank; axis++) {
    to[axis] = PyLong_AsLongLong(PyTuple_GET_ITEM(given, axis));
  }
  return !PyErr_Occurred();
}

/* Read (argument, code, bits, shape, strides, place, number of its move or -1). */
static bool read_port(Call *call, Port *port, PyObject *facts, int64_t **axes) {
  PyObject *shape, *strides;
  Py_ssize_t number;
  unsigned long long place;
  int code, bits;
  if (!PyArg_ParseTuple(facts, "niiO!O!Kn", &port->argument, &code, &bits, &PyTuple_Type, &shape,
                        &PyTuple_Type, &strides, &place, &number)) {
    return false;
  }
  port->type = (ElementType){(uint8_t)code, (uint8_t)bits, 1};
  port->item = (size_t)bits / 8;
  port->rank = (int)PyTuple_GET_SIZE(shape);
  port->shape = *axes;
  port->strides = *axes + port->rank;
  *axes += 2 * port->rank;
  if (!read_axes(shape, port->shape, port->rank) ||
      !read_axes(strides, port->strides, port->rank)) {
    return false;
  }
  port->bytes = port->item;
  for (int axis = 0; axis < port->rank; axis++) port->bytes *= (size_t)port->shape[axis];
  port->place = (char *)(uintptr_t)place;
  port->moved = number < 0 ? NULL : call->entry.moves + number;
  return true;
}

static bool read_ports(Call *call, PyObject *ports, Py_ssize_t inputs) {
  const Py_ssize_t count = PyTuple_GET_SIZE(ports);
  call->inputs = inputs;
  call->outputs = count - inputs;
  call->ports = PyMem_Calloc((size_t)count + 1, sizeof(Port));
  call->axes = PyMem_Calloc((size_t)count + 1, 2 * MAX_RANK * sizeof(int64_t));
  if (call->ports == NULL || call->axes == NULL) {
    PyErr_NoMemory();
    return false;
  }
  int64_t *axes = call->axes;
  for (Py_ssize_t i = 0; i < count; i++) {
    if (!read_port(call, &call->ports[i], PyTuple_GET_ITEM(ports, i), &axes)) return false;
  }
  return true;
}

static bool read_residents(Call *call, PyObject *residents) {
  call->residents = PyTuple_GET_SIZE(residents);
  call->resident = PyMem_Calloc((size_t)call->residents + 1, sizeof(Resident));
  if (call->resident == NULL) {
    PyErr_NoMemory();
    return false;
  }
  for (Py_ssize_t i = 0; i < call->residents; i++) {
    Resident *each = &call->resident[i];
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(residents, i), "nn", &each->argument, &each->bytes)) {
      return false;
    }
  }
  return true;
}

static bool read_exchange(Call *call, PyObject *capsule) {
  call->exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  if (call->exchange == NULL) return false;
  if (call->exchange->version.major == DLPACK_MAJOR && call->exchange->tensor_from_object != NULL) {
    return true;
  }
  PyErr_SetString(PyExc_NotImplementedError, "the exchange API is not that of DLPack 1");
  return false;
}

static PyObject *call_new(PyTypeObject *type, PyObject *args, PyObject *names) {
  PyObject *entry, *capsule, *ports, *residents;
  Py_ssize_t inputs;
  if (!has_no_names(names)) return NULL;
  Call *call = (Call *)type->tp_alloc(type, 0);
  if (call == NULL) return NULL;
  if (PyArg_ParseTuple(args, "O!OO!O!nO!nO!O!", &PyTuple_Type, &entry, &capsule, &PyType_Type,
                       &call->tensor_class, &PyType_Type, &call->param_class, &call->arguments,
                       &PyTuple_Type, &ports, &inputs, &PyTuple_Type, &residents, &PyTuple_Type,
                       &call->results) &&
      read_entry(&call->entry, args, entry, call_vector) &&
      (call->version_name = PyUnicode_InternFromString("_version")) != NULL &&
      read_exchange(call, capsule) && read_ports(call, ports, inputs) &&
      read_residents(call, residents)) {
    return (PyObject *)call;
  }
  Py_DECREF(call);
  return NULL;
}

static void call_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Call *call = (Call *)self;
  PyObject_GC_UnTrack(self);
  call_clear(self);
  Py_CLEAR(call->version_name);
  PyMem_Free(call->ports);
  PyMem_Free(call->axes);
  PyMem_Free(call->resident);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyMethodDef call_methods[] = {
    {"remember", call_remember, METH_O, "Remember which versions of residents `setup` has read."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot call_slots[] = {
    {Py_tp_new, call_new},           {Py_tp_dealloc, call_dealloc},
    {Py_tp_traverse, call_traverse}, {Py_tp_clear, call_clear},
    {Py_tp_call, PyVectorcall_Call}, {Py_tp_members, call_members},
    {Py_tp_methods, call_methods},   {0, NULL},
};

static PyType_Spec call_spec = {
    .name = "rlx_tensor_gateway.Call",
    .basicsize = sizeof(Call),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = call_slots,
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "rlx_tensor_gateway", .m_size = -1};

PyMODINIT_FUNC PyInit_rlx_tensor_gateway(void);

PyMODINIT_FUNC PyInit_rlx_tensor_gateway(void) {
  return module_with(&definition, &call_spec);
}
