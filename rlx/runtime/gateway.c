/* The short way from Python into a compiled graph: a callable that takes NumPy arrays.

   `Call` does what `Executable._execute` does, for arguments that are exactly right: arrays of
   the dtypes and shapes of the graph, dense and aligned, NumPy's or of one class of buffers. For anything else it returns None, and
   has done nothing that matters; the caller then takes the long way, which converts, explains
   and raises. All addresses come from the executable, which a `Call` keeps alive. */

#include "gateway_call.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#if NPY_ABI_VERSION < 0x02000000
#define PyDataType_ELSIZE(dtype) ((dtype)->elsize) /* NumPy 1 has no function */
#endif

#define MOST_AXES 64 /* of an array, in NumPy 2 */
#define MOST_ALIGNED 16 /* bytes to which elements of any type are aligned */

/* An input or an output: what arrays must be, and its offset in the arena. */
typedef struct {
  PyArray_Descr *dtype;
  int rank;
  npy_intp extents[MOST_AXES];
  size_t bytes;
  char *place;
  int64_t *moved;       /* distance from its planned address; NULL for what is copied */
  Py_ssize_t replaced_by; /* of a donated input: the output that overwrites it; else -1 */
  bool replaces;        /* of an output: it overwrites a donated input */
  PyObject *take;       /* of an output elsewhere: gives the address to write to */
  PyObject *show;       /* ... and the array that was written */
  PyTypeObject *shown_as; /* of an output: its class; all but NumPy's own cannot be written */
} Port;

typedef struct {
  Entry entry;
  PyObject *copy_donated;
  PyTypeObject *donated_memory;
  PyTypeObject *array_class; /* what inputs may be besides NumPy's arrays */
  PyTypeObject *buffer_class; /* another library's arrays, which are read as buffers */
  PyObject *weak_name;
  Py_buffer *buffers; /* those that this call has open */
  Py_ssize_t opened;
  Py_ssize_t inputs, outputs;
  Port *ports; /* inputs, then outputs */
} Call;

/* Arguments */

static bool fits(const Call *call, const Port *port, PyObject *value) {
  if (!PyArray_CheckExact(value) && Py_TYPE(value) != call->array_class) return false;
  PyArrayObject *array = (PyArrayObject *)value;
  return PyArray_DESCR(array) == port->dtype && PyArray_NDIM(array) == port->rank &&
         PyArray_CompareLists(PyArray_DIMS(array), port->extents, port->rank) &&
         PyArray_ISCARRAY_RO(array);
}

/* Return NumPy's letter for the kind of elements of a format of the module `struct`. */
static char kind_of(const char *format) {
  if (strchr("<=@", *format) != NULL) format++;
  if (*format == '?') return 'b';
  if (*format == 'Z') return 'c';
  if (strchr("efd", *format) != NULL) return 'f';
  if (strchr("bhilq", *format) != NULL) return 'i';
  return strchr("BHILQ", *format) != NULL ? 'u' : 0;
}

static bool buffer_fits(const Port *port, const Py_buffer *buffer) {
  if (buffer->ndim != port->rank || buffer->itemsize != PyDataType_ELSIZE(port->dtype) ||
      kind_of(buffer->format) != port->dtype->kind) {
    return false;
  }
  for (int axis = 0; axis < port->rank; axis++) {
    if (buffer->shape[axis] != port->extents[axis]) return false;
  }
  return buffer->buf != NULL && (uintptr_t)buffer->buf % MOST_ALIGNED == 0;
}

static bool is_weakly_typed(const Call *call, PyObject *value) {
  PyObject *weak = PyObject_GetAttr(value, call->weak_name);
  if (weak == NULL) PyErr_Clear();
  Py_XDECREF(weak);
  return weak != Py_False;
}

/* Return the elements of another library's array, which is held until the call ends, or NULL. */
static const char *opened(Call *call, const Port *port, PyObject *value) {
  if (Py_TYPE(value) != call->buffer_class || is_weakly_typed(call, value)) return NULL;
  Py_buffer *buffer = &call->buffers[call->opened];
  if (PyObject_GetBuffer(value, buffer, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear(); /* the slow path converts or raises */
    return NULL;
  }
  call->opened++;
  return buffer_fits(port, buffer) ? buffer->buf : NULL;
}

static void close_buffers(Call *call) {
  while (call->opened > 0) PyBuffer_Release(&call->buffers[--call->opened]);
}

/* True for what `donated_copy` returned, unless there are views of it: they share its base. */
static bool may_overwrite(const Call *call, const Port *output, PyArrayObject *array) {
  PyObject *base = PyArray_BASE(array);
  if (Py_TYPE(array) != output->shown_as || base == NULL || !PyArray_CheckExact(base) || Py_REFCNT(base) != 1) return false;
  PyObject *memory = PyArray_BASE((PyArrayObject *)base);
  return memory != NULL && Py_TYPE(memory) == call->donated_memory &&
         PyArray_ISWRITEABLE((PyArrayObject *)base) &&
         (PyArray_ISWRITEABLE(array) || !PyArray_CheckExact(array));
}

/* True if `bytes` from `start` on are in an array that this call overwrites. */
static bool overlaps(const Call *call, const char *start, size_t bytes, PyObject *results) {
  const char *stop = start + bytes;
  for (Py_ssize_t i = 0; i < call->outputs; i++) {
    PyArrayObject *other = (PyArrayObject *)PyTuple_GET_ITEM(results, i);
    if (other == NULL) continue;
    const char *first = PyArray_BYTES(other);
    if (first < stop && start < first + PyArray_NBYTES(other)) return true;
  }
  return false;
}

/* Put the arrays that outputs replace into `results`: arguments themselves, or copies of them. */
static int take_donated(Call *call, PyObject *const *values, PyObject *results) {
  for (Py_ssize_t i = 0; i < call->inputs; i++) {
    Port *port = &call->ports[i];
    if (port->replaced_by < 0) continue;
    if (!fits(call, port, values[i])) return 0;
    PyObject *array = values[i];
    const Port *output = &call->ports[call->inputs + port->replaced_by];
    if (may_overwrite(call, output, (PyArrayObject *)array) &&
        !overlaps(call, PyArray_BYTES((PyArrayObject *)array), port->bytes, results)) {
      Py_INCREF(array);
    } else if ((array = PyObject_CallFunctionObjArgs(call->copy_donated, array, output->shown_as,
                                                     NULL)) == NULL) {
      return -1;
    }
    PyTuple_SET_ITEM(results, port->replaced_by, array);
    *port->moved = PyArray_BYTES((PyArrayObject *)array) - port->place;
  }
  return 1;
}

static int take_inputs(Call *call, PyObject *const *values, PyObject *results) {
  for (Py_ssize_t i = 0; i < call->inputs; i++) {
    Port *port = &call->ports[i];
    if (port->replaced_by >= 0) continue;
    const char *elements = fits(call, port, values[i])
                               ? PyArray_BYTES((PyArrayObject *)values[i])
                               : opened(call, port, values[i]);
    if (elements == NULL) return 0;
    if (port->moved != NULL && !overlaps(call, elements, port->bytes, results)) {
      *port->moved = elements - port->place;
      continue;
    }
    if (port->moved != NULL) *port->moved = 0;
    memcpy(port->place, elements, port->bytes);
  }
  return 1;
}

/* Results */

static int take_outputs(Call *call) {
  for (Port *port = call->ports + call->inputs; port < call->ports + call->inputs + call->outputs;
       port++) {
    if (port->take == NULL) continue;
    PyObject *address = PyObject_CallNoArgs(port->take);
    if (address == NULL) return -1;
    *port->moved = (char *)PyLong_AsVoidPtr(address) - port->place;
    Py_DECREF(address);
    if (PyErr_Occurred()) return -1;
  }
  return 1;
}

static PyObject *copied_out(const Port *port) {
  Py_INCREF(port->dtype);
  PyObject *array = PyArray_NewFromDescr(port->shown_as, port->dtype, port->rank, port->extents,
                                         NULL, NULL, 0, NULL);
  if (array != NULL) memcpy(PyArray_BYTES((PyArrayObject *)array), port->place, port->bytes);
  return array;
}

/* The array over memory of its own, in the class of the output. */
static PyObject *shown(const Port *port) {
  PyObject *array = PyObject_CallNoArgs(port->show);
  if (array == NULL || Py_TYPE(array) == port->shown_as) return array;
  PyObject *view = PyArray_View((PyArrayObject *)array, NULL, port->shown_as);
  Py_DECREF(array);
  return view;
}

static int give_outputs(Call *call, PyObject *results) {
  for (Py_ssize_t i = 0; i < call->outputs; i++) {
    Port *port = &call->ports[call->inputs + i];
    if (port->replaces) continue;
    PyObject *array = port->show == NULL ? copied_out(port) : shown(port);
    if (array == NULL) return -1;
    if (!PyArray_CheckExact(array)) {
      PyArray_CLEARFLAGS((PyArrayObject *)array, NPY_ARRAY_WRITEABLE);
    }
    PyTuple_SET_ITEM(results, i, array);
  }
  return 1;
}

/* The call */

static PyObject *call_locked(Entry *entry, PyObject *const *values) {
  Call *call = (Call *)entry;
  PyObject *results = PyTuple_New(call->outputs);
  if (results == NULL) return NULL;
  int state = take_outputs(call);
  if (state > 0) state = take_donated(call, values, results);
  if (state > 0) state = take_inputs(call, values, results);
  if (state > 0) state = run(entry) ? 1 : -1;
  close_buffers(call);
  if (state > 0) state = give_outputs(call, results);
  if (state > 0) return results;
  Py_DECREF(results);
  return state < 0 ? NULL : none();
}

static PyObject *call_vector(PyObject *self, PyObject *const *values, size_t count,
                             PyObject *names) {
  Call *call = (Call *)self;
  if (PyVectorcall_NARGS(count) != call->inputs || names != NULL) return none();
  return call_with_lock(&call->entry, call_locked, values);
}

/* Making one */

static bool read_kind(Port *port, PyObject *dtype, PyObject *shape) {
  if (!PyArray_DescrCheck(dtype) || !PyTuple_Check(shape) ||
      PyTuple_GET_SIZE(shape) > MOST_AXES) {
    PyErr_SetString(PyExc_TypeError, "a port is described by a dtype and a shape");
    return false;
  }
  port->dtype = (PyArray_Descr *)dtype;
  port->rank = (int)PyTuple_GET_SIZE(shape);
  port->bytes = (size_t)PyDataType_ELSIZE(port->dtype);
  for (int axis = 0; axis < port->rank; axis++) {
    port->extents[axis] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, axis));
    port->bytes *= (size_t)port->extents[axis];
  }
  return !PyErr_Occurred();
}

static bool read_input(Call *call, Port *port, PyObject *facts) {
  PyObject *dtype, *shape;
  Py_ssize_t number;
  unsigned long long place;
  if (!PyArg_ParseTuple(facts, "OOKnn", &dtype, &shape, &place, &number, &port->replaced_by) ||
      !read_kind(port, dtype, shape)) {
    return false;
  }
  port->place = (char *)(uintptr_t)place;
  port->moved = number < 0 ? NULL : call->entry.moves + number;
  if (port->replaced_by >= 0) call->ports[call->inputs + port->replaced_by].replaces = true;
  return true;
}

static bool read_output(Call *call, Port *port, PyObject *facts) {
  PyObject *dtype, *shape, *take, *show, *shown_as;
  Py_ssize_t number;
  unsigned long long place;
  if (!PyArg_ParseTuple(facts, "OOKnOOO!", &dtype, &shape, &place, &number, &take, &show,
                        &PyType_Type, &shown_as) ||
      !read_kind(port, dtype, shape)) {
    return false;
  }
  port->shown_as = (PyTypeObject *)shown_as;
  port->place = (char *)(uintptr_t)place;
  port->moved = number < 0 ? NULL : call->entry.moves + number;
  port->take = take == Py_None ? NULL : take;
  port->show = show == Py_None ? NULL : show;
  return true;
}

static bool read_ports(Call *call, PyObject *inputs, PyObject *outputs) {
  call->inputs = PyTuple_GET_SIZE(inputs);
  call->outputs = PyTuple_GET_SIZE(outputs);
  call->ports = PyMem_Calloc((size_t)(call->inputs + call->outputs + 1), sizeof(Port));
  call->buffers = PyMem_Calloc((size_t)call->inputs + 1, sizeof(Py_buffer));
  if (call->ports == NULL || call->buffers == NULL) {
    PyErr_NoMemory();
    return false;
  }
  for (Py_ssize_t i = 0; i < call->inputs; i++) {
    if (!read_input(call, &call->ports[i], PyTuple_GET_ITEM(inputs, i))) return false;
  }
  for (Py_ssize_t i = 0; i < call->outputs; i++) {
    if (!read_output(call, &call->ports[call->inputs + i], PyTuple_GET_ITEM(outputs, i))) {
      return false;
    }
  }
  return true;
}

static PyObject *call_new(PyTypeObject *type, PyObject *args, PyObject *names) {
  PyObject *entry, *inputs, *outputs;
  if (!has_no_names(names)) return NULL;
  Call *call = (Call *)type->tp_alloc(type, 0);
  if (call == NULL) return NULL;
  if (PyArg_ParseTuple(args, "O!OO!O!O!O!O!", &PyTuple_Type, &entry, &call->copy_donated,
                       &PyType_Type, &call->donated_memory, &PyType_Type, &call->array_class,
                       &PyType_Type, &call->buffer_class, &PyTuple_Type, &inputs, &PyTuple_Type,
                       &outputs) &&
      (call->weak_name = PyUnicode_InternFromString("weak_type")) != NULL &&
      read_entry(&call->entry, args, entry, call_vector) && read_ports(call, inputs, outputs)) {
    return (PyObject *)call;
  }
  Py_DECREF(call);
  return NULL;
}

static void call_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  call_clear(self);
  Py_XDECREF(((Call *)self)->weak_name);
  PyMem_Free(((Call *)self)->buffers);
  PyMem_Free(((Call *)self)->ports);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyType_Slot call_slots[] = {
    {Py_tp_new, call_new},           {Py_tp_dealloc, call_dealloc},
    {Py_tp_traverse, call_traverse}, {Py_tp_clear, call_clear},
    {Py_tp_call, PyVectorcall_Call}, {Py_tp_members, call_members},
    {0, NULL},
};

static PyType_Spec call_spec = {
    .name = "rlx_gateway.Call",
    .basicsize = sizeof(Call),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = call_slots,
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "rlx_gateway", .m_size = -1};

PyMODINIT_FUNC PyInit_rlx_gateway(void);

PyMODINIT_FUNC PyInit_rlx_gateway(void) {
  import_array();
  return module_with(&definition, &call_spec);
}
