/* The fast path of calls outside `jit`: what a function did with arguments of the same kind.

   `Replays` belongs to one function. A call looks for a `Replay` whose pattern its arguments
   match: dtypes, shapes and classes of arrays, values of other arguments. Its steps are calls of
   NumPy's functions and of reference rules, which are repeated on the arrays. For any other call,
   and where a step fails, `Replays` returns None; the caller then takes the long way, which
   converts, explains and raises. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef Py_BEGIN_CRITICAL_SECTION /* before Python 3.13 the GIL protects the table */
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

#define SLOTS 32         /* of a function's table; a power of two */
#define MOST_ARGUMENTS 16
#define MOST_VALUES 48   /* of a replay: inputs, constants, results */

/* What an argument must be. The pattern of a static one holds its value. */
typedef struct {
  PyObject *name;  /* of a keyword argument; NULL for a positional one */
  PyObject *value; /* of a static argument; NULL for an array */
  PyTypeObject *type;
  PyArray_Descr *dtype;
  int rank;
  npy_intp *extents;
  Py_ssize_t place; /* of an array: its number among the inputs */
} Pattern;

typedef struct {
  PyObject *compute;
  Py_ssize_t operands;
  Py_ssize_t *places; /* of the operands among the values */
  Py_ssize_t result, results;
} Step;

typedef struct {
  PyObject_HEAD
  PyObject *kept; /* a list that owns every object below */
  uint64_t hash;
  Py_ssize_t arguments, values, steps, output;
  Pattern *patterns;
  Step *program;
  PyObject *constants; /* a tuple: the values before the first step; None for others */
  PyTypeObject *shown_as;
  npy_intp *extents; /* of all patterns */
  Py_ssize_t *places; /* of all steps */
} Replay;

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *slots[SLOTS];
} Replays;

static PyTypeObject *replay_type;
static PyObject *array_classes;   /* a tuple: classes of immutable arrays */
static PyObject *handled;         /* a tuple: exceptions after which the long way explains */
static PyObject *settings;        /* NumPy's variable for what floating-point faults do */
static PyObject *ignoring;        /* its value where they do nothing */

static PyObject *none(void) {
  Py_INCREF(Py_None);
  return Py_None;
}

/* Arguments */

static uint64_t mixed(uint64_t hash, uint64_t part) {
  hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

static bool is_immutable(PyTypeObject *type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(array_classes); i++) {
    if ((PyObject *)type == PyTuple_GET_ITEM(array_classes, i)) return true;
  }
  return false;
}

static bool is_array(PyObject *x) { return PyArray_CheckExact(x) || is_immutable(Py_TYPE(x)); }

static bool holds_integers(PyObject *tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    if (!PyLong_CheckExact(PyTuple_GET_ITEM(tuple, i))) return false;
  }
  return true;
}

/* Mix a static argument into `hash`; false for what is not compared by value or identity. */
static bool hash_static(PyObject *x, uint64_t *hash) {
  if (PyFloat_CheckExact(x)) {
    double number = PyFloat_AS_DOUBLE(x);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    *hash = mixed(*hash, bits);
    return true;
  }
  if (x == Py_None || PyBool_Check(x) || Py_TYPE(x) == &PyType_Type) {
    *hash = mixed(*hash, (uint64_t)(uintptr_t)x);
    return true;
  }
  if (!PyLong_CheckExact(x) && !PyUnicode_CheckExact(x) &&
      !(PyTuple_CheckExact(x) && holds_integers(x))) {
    return false;
  }
  Py_hash_t own = PyObject_Hash(x);
  if (own == -1) PyErr_Clear();
  *hash = mixed(mixed(*hash, (uint64_t)own), (uint64_t)(uintptr_t)Py_TYPE(x));
  return true;
}

static bool hash_argument(PyObject *x, uint64_t *hash) {
  if (!is_array(x)) return hash_static(x, hash);
  PyArrayObject *array = (PyArrayObject *)x;
  *hash = mixed(*hash, (uint64_t)(uintptr_t)PyArray_DESCR(array));
  *hash = mixed(*hash, (uint64_t)(uintptr_t)Py_TYPE(x));
  for (int axis = 0; axis < PyArray_NDIM(array); axis++) {
    *hash = mixed(*hash, (uint64_t)PyArray_DIM(array, axis));
  }
  return true;
}

static bool equals_static(PyObject *x, PyObject *y) {
  if (x == y) return true;
  if (Py_TYPE(x) != Py_TYPE(y) || x == Py_None || PyBool_Check(x)) return false;
  if (PyFloat_CheckExact(x)) { /* NaN is found again, and -0.0 is not 0.0 */
    double numbers[] = {PyFloat_AS_DOUBLE(x), PyFloat_AS_DOUBLE(y)};
    return memcmp(&numbers[0], &numbers[1], sizeof(double)) == 0;
  }
  int equal = PyObject_RichCompareBool(x, y, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

static bool matches(const Pattern *pattern, PyObject *name, PyObject *x) {
  if (name != pattern->name) return false; /* names of keywords are interned */
  if (pattern->value != NULL) return equals_static(pattern->value, x);
  if (Py_TYPE(x) != pattern->type) return false;
  PyArrayObject *array = (PyArrayObject *)x;
  return PyArray_DESCR(array) == pattern->dtype && PyArray_NDIM(array) == pattern->rank &&
         PyArray_CompareLists(PyArray_DIMS(array), pattern->extents, pattern->rank);
}

/* Put the arguments in order, keyword arguments last; -1 where there are too many. */
static Py_ssize_t flattened(PyObject *args, PyObject *named, PyObject **names, PyObject **given,
                            uint64_t *hash) {
  Py_ssize_t count = PyTuple_GET_SIZE(args), at = 0;
  if (count + PyDict_GET_SIZE(named) > MOST_ARGUMENTS) return -1;
  *hash = 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    names[i] = NULL;
    given[i] = PyTuple_GET_ITEM(args, i);
    if (!hash_argument(given[i], hash)) return -1;
  }
  while (PyDict_Next(named, &at, &names[count], &given[count])) {
    *hash = mixed(*hash, (uint64_t)(uintptr_t)names[count]);
    if (!hash_argument(given[count], hash)) return -1;
    count++;
  }
  return count;
}

static Replay *found(Replays *replays, uint64_t hash, Py_ssize_t count, PyObject **names,
                     PyObject **given) {
  Replay *replay = (Replay *)replays->slots[hash & (SLOTS - 1)];
  if (replay == NULL || replay->hash != hash || replay->arguments != count) return NULL;
  for (Py_ssize_t i = 0; i < count; i++) {
    if (!matches(&replay->patterns[i], names[i], given[i])) return NULL;
  }
  return replay;
}

/* Steps */

static PyObject *as_array(PyObject *x) {
  if (PyArray_CheckExact(x)) {
    Py_INCREF(x);
    return x;
  }
  return PyArray_FromAny(x, NULL, 0, 0, NPY_ARRAY_ENSUREARRAY, NULL);
}

static int put(PyObject **value, PyObject *made) {
  PyObject *array = as_array(made);
  if (array == NULL) return -1;
  Py_XSETREF(*value, array);
  return 0;
}

static int put_results(const Step *step, PyObject **values, PyObject *made) {
  if (step->results == 1) {
    bool is_tuple = PyTuple_CheckExact(made) && PyTuple_GET_SIZE(made) > 0;
    return put(&values[step->result], is_tuple ? PyTuple_GET_ITEM(made, 0) : made);
  }
  PyObject *all = PySequence_Fast(made, "a rule with several results returns a sequence");
  if (all == NULL) return -1;
  int status = PySequence_Fast_GET_SIZE(all) == step->results ? 0 : -1;
  if (status < 0) PyErr_SetString(PyExc_ValueError, "a rule returns another number of results");
  for (Py_ssize_t i = 0; status == 0 && i < step->results; i++) {
    status = put(&values[step->result + i], PySequence_Fast_GET_ITEM(all, i));
  }
  Py_DECREF(all);
  return status;
}

static int compute(const Replay *replay, PyObject **values) {
  PyObject *operands[MOST_VALUES];
  for (const Step *step = replay->program; step < replay->program + replay->steps; step++) {
    for (Py_ssize_t i = 0; i < step->operands; i++) operands[i] = values[step->places[i]];
    PyObject *made = PyObject_Vectorcall(step->compute, operands, (size_t)step->operands, NULL);
    if (made == NULL) return -1;
    int status = put_results(step, values, made);
    Py_DECREF(made);
    if (status < 0) return -1;
  }
  return 0;
}

/* Like `compute`, while floating-point faults are ignored. */
static int compute_quietly(const Replay *replay, PyObject **values) {
  PyObject *token = PyContextVar_Set(settings, ignoring);
  if (token == NULL) return -1;
  int status = compute(replay, values);
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  int restored = PyContextVar_Reset(settings, token);
  Py_DECREF(token);
  if (type != NULL) PyErr_Restore(type, error, trace);
  return restored < 0 ? -1 : status;
}

/* Return the output as an immutable array; a copy where it may share memory of an operand that
   can be written. */
static PyObject *shown(const Replay *replay, PyObject **values, bool is_shared) {
  PyArrayObject *array = (PyArrayObject *)values[replay->output];
  PyArrayObject *own = array;
  if (is_shared) {
    own = (PyArrayObject *)PyArray_NewCopy(array, NPY_CORDER);
    if (own == NULL) return NULL;
  }
  PyObject *view = PyArray_View(own, NULL, replay->shown_as);
  if (own != array) Py_DECREF(own);
  if (view != NULL) PyArray_CLEARFLAGS((PyArrayObject *)view, NPY_ARRAY_WRITEABLE);
  return view;
}

static bool may_share(const Replay *replay, PyObject **values, PyObject **given) {
  PyObject *output = values[replay->output];
  bool has_base = PyArray_BASE((PyArrayObject *)output) != NULL;
  for (Py_ssize_t i = 0; i < replay->arguments; i++) {
    if (replay->patterns[i].value != NULL || !PyArray_CheckExact(given[i])) continue;
    if (has_base || given[i] == output) return true;
  }
  return false;
}

static PyObject *run(const Replay *replay, PyObject **given) {
  PyObject *values[MOST_VALUES];
  for (Py_ssize_t i = 0; i < replay->values; i++) {
    PyObject *constant = PyTuple_GET_ITEM(replay->constants, i);
    values[i] = constant == Py_None ? NULL : constant;
    Py_XINCREF(values[i]);
  }
  int status = 0;
  for (Py_ssize_t i = 0; status == 0 && i < replay->arguments; i++) {
    const Pattern *pattern = &replay->patterns[i];
    if (pattern->value != NULL) continue;
    PyObject *array = given[i];
    if (PyArray_CheckExact(array)) {
      Py_INCREF(array);
    } else if ((array = PyArray_View((PyArrayObject *)array, NULL, &PyArray_Type)) == NULL) {
      status = -1;
    }
    values[pattern->place] = array;
  }
  if (status == 0) status = compute_quietly(replay, values);
  PyObject *result =
      status < 0 ? NULL : shown(replay, values, may_share(replay, values, given));
  for (Py_ssize_t i = 0; i < replay->values; i++) Py_XDECREF(values[i]);
  if (result == NULL && PyErr_ExceptionMatches(handled)) {
    PyErr_Clear();
    return none();
  }
  return result;
}

/* Called with the positional arguments, a tuple, and the named ones, a dict. */
static PyObject *call_vector(PyObject *self, PyObject *const *both, size_t count,
                             PyObject *keywords) {
  if (PyVectorcall_NARGS(count) != 2 || keywords != NULL || !PyTuple_CheckExact(both[0]) ||
      !PyDict_CheckExact(both[1])) {
    PyErr_SetString(PyExc_TypeError, "a Replays is called with a tuple and a dict");
    return NULL;
  }
  PyObject *names[MOST_ARGUMENTS], *given[MOST_ARGUMENTS];
  uint64_t hash;
  Py_ssize_t arguments = flattened(both[0], both[1], names, given, &hash);
  if (arguments < 0) return none();
  Replay *replay;
  Py_BEGIN_CRITICAL_SECTION(self);
  replay = found((Replays *)self, hash, arguments, names, given);
  Py_XINCREF(replay); /* another thread may take its slot meanwhile */
  Py_END_CRITICAL_SECTION();
  if (replay == NULL) return none();
  PyObject *result = run(replay, given);
  Py_DECREF(replay);
  return result;
}

/* Making a replay */

static bool out_of_memory(void) {
  PyErr_NoMemory();
  return false;
}

static bool read_pattern(Replay *replay, Py_ssize_t index, npy_intp **extents, PyObject *name,
                         PyObject *x, Py_ssize_t place) {
  Pattern *pattern = &replay->patterns[index];
  pattern->name = name;
  pattern->place = place;
  if (!is_array(x)) {
    pattern->value = x;
    return true;
  }
  PyArrayObject *array = (PyArrayObject *)x;
  pattern->type = Py_TYPE(x);
  pattern->dtype = PyArray_DESCR(array);
  pattern->rank = PyArray_NDIM(array);
  pattern->extents = *extents;
  memcpy(*extents, PyArray_DIMS(array), (size_t)pattern->rank * sizeof(npy_intp));
  *extents += pattern->rank;
  if (place < 0 || place >= replay->values) {
    PyErr_SetString(PyExc_ValueError, "an array without a place among the values");
    return false;
  }
  return true;
}

static bool read_patterns(Replay *replay, PyObject *args, PyObject *named, PyObject *places) {
  PyObject *names[MOST_ARGUMENTS], *given[MOST_ARGUMENTS];
  replay->arguments = flattened(args, named, names, given, &replay->hash);
  if (replay->arguments < 0 || PyTuple_GET_SIZE(places) != replay->arguments) {
    PyErr_SetString(PyExc_ValueError, "arguments that are not compared by kind");
    return false;
  }
  npy_intp axes = 0;
  for (Py_ssize_t i = 0; i < replay->arguments; i++) {
    if (is_array(given[i])) axes += PyArray_NDIM((PyArrayObject *)given[i]);
  }
  replay->patterns = PyMem_Calloc((size_t)replay->arguments + 1, sizeof(Pattern));
  npy_intp *extents = replay->extents = PyMem_Calloc((size_t)axes + 1, sizeof(npy_intp));
  if (replay->patterns == NULL || extents == NULL) return out_of_memory();
  for (Py_ssize_t i = 0; i < replay->arguments; i++) {
    Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(places, i));
    if (PyErr_Occurred()) return false;
    if (!read_pattern(replay, i, &extents, names[i], given[i], place)) return false;
  }
  return true;
}

static bool read_step(const Replay *replay, Step *step, Py_ssize_t **places, PyObject *facts) {
  PyObject *operands;
  if (!PyArg_ParseTuple(facts, "OO!nn", &step->compute, &PyTuple_Type, &operands, &step->result,
                        &step->results)) {
    return false;
  }
  step->places = *places;
  step->operands = PyTuple_GET_SIZE(operands);
  bool is_inside = step->result >= 0 && step->result + step->results <= replay->values;
  for (Py_ssize_t i = 0; i < step->operands; i++) {
    Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(operands, i));
    is_inside = is_inside && place >= 0 && place < step->result;
    *(*places)++ = place;
  }
  if (!is_inside) PyErr_SetString(PyExc_ValueError, "a step that reads or writes no value");
  return is_inside;
}

static bool read_steps(Replay *replay, PyObject *steps) {
  Py_ssize_t operands = 0;
  replay->steps = PyTuple_GET_SIZE(steps);
  for (Py_ssize_t i = 0; i < replay->steps; i++) {
    PyObject *facts = PyTuple_GET_ITEM(steps, i);
    if (!PyTuple_Check(facts) || PyTuple_GET_SIZE(facts) != 4 ||
        !PyTuple_Check(PyTuple_GET_ITEM(facts, 1)) ||
        PyTuple_GET_SIZE(PyTuple_GET_ITEM(facts, 1)) > MOST_VALUES) {
      PyErr_SetString(PyExc_ValueError, "a step is a function, places, a place and a count");
      return false;
    }
    operands += PyTuple_GET_SIZE(PyTuple_GET_ITEM(facts, 1));
  }
  replay->program = PyMem_Calloc((size_t)replay->steps + 1, sizeof(Step));
  Py_ssize_t *places = replay->places = PyMem_Calloc((size_t)operands + 1, sizeof(Py_ssize_t));
  if (replay->program == NULL || places == NULL) return out_of_memory();
  for (Py_ssize_t i = 0; i < replay->steps; i++) {
    if (!read_step(replay, &replay->program[i], &places, PyTuple_GET_ITEM(steps, i))) return false;
  }
  return true;
}

/* Own what patterns and steps refer to; arrays of the arguments are not among it. */
static bool keep(Replay *replay, PyObject *constants, PyObject *steps, PyObject *shown_as) {
  replay->kept = Py_BuildValue("[OOO]", constants, steps, shown_as);
  if (replay->kept == NULL) return false;
  for (Py_ssize_t i = 0; i < replay->arguments; i++) {
    const Pattern *pattern = &replay->patterns[i];
    PyObject *all[] = {pattern->name, pattern->value, (PyObject *)pattern->type,
                       (PyObject *)pattern->dtype};
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
      if (all[j] != NULL && PyList_Append(replay->kept, all[j]) < 0) return false;
    }
  }
  return true;
}

/* Replay(args, named, places, constants, steps, output, shown_as) */
static PyObject *replay_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  PyObject *positional, *named, *places, *constants, *steps, *shown_as;
  Py_ssize_t output;
  (void)keywords;
  if (!PyArg_ParseTuple(args, "O!O!O!O!O!nO!", &PyTuple_Type, &positional, &PyDict_Type, &named,
                        &PyTuple_Type, &places, &PyTuple_Type, &constants, &PyTuple_Type, &steps,
                        &output, &PyType_Type, &shown_as)) {
    return NULL;
  }
  if (PyTuple_GET_SIZE(constants) > MOST_VALUES || output < 0 ||
      output >= PyTuple_GET_SIZE(constants)) {
    PyErr_SetString(PyExc_ValueError, "too many values, or an output that is none of them");
    return NULL;
  }
  Replay *replay = (Replay *)type->tp_alloc(type, 0);
  if (replay == NULL) return NULL;
  replay->values = PyTuple_GET_SIZE(constants);
  replay->constants = constants;
  replay->output = output;
  replay->shown_as = (PyTypeObject *)shown_as;
  if (read_patterns(replay, positional, named, places) && read_steps(replay, steps) &&
      keep(replay, constants, steps, shown_as)) {
    return (PyObject *)replay;
  }
  Py_DECREF(replay);
  return NULL;
}

static int replay_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((Replay *)self)->kept);
  return 0;
}

static void replay_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Replay *replay = (Replay *)self;
  PyObject_GC_UnTrack(self);
  Py_CLEAR(replay->kept);
  PyMem_Free(replay->patterns);
  PyMem_Free(replay->extents);
  PyMem_Free(replay->program);
  PyMem_Free(replay->places);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyType_Slot replay_slots[] = {
    {Py_tp_new, replay_new},
    {Py_tp_dealloc, replay_dealloc},
    {Py_tp_traverse, replay_traverse},
    {0, NULL},
};

static PyType_Spec replay_spec = {
    .name = "rlx_eager_gateway.Replay",
    .basicsize = sizeof(Replay),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = replay_slots,
};

/* The table of a function */

static PyObject *replays_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  (void)keywords;
  if (!PyArg_ParseTuple(args, "")) return NULL;
  Replays *replays = (Replays *)type->tp_alloc(type, 0);
  if (replays != NULL) replays->vectorcall = call_vector;
  return (PyObject *)replays;
}

static PyObject *replays_add(PyObject *self, PyObject *replay) {
  if (Py_TYPE(replay) != replay_type) {
    PyErr_SetString(PyExc_TypeError, "add takes a Replay");
    return NULL;
  }
  Py_INCREF(replay);
  Py_BEGIN_CRITICAL_SECTION(self);
  Py_XSETREF(((Replays *)self)->slots[((Replay *)replay)->hash & (SLOTS - 1)], replay);
  Py_END_CRITICAL_SECTION();
  return none();
}

static int replays_clear(PyObject *self) {
  for (int i = 0; i < SLOTS; i++) Py_CLEAR(((Replays *)self)->slots[i]);
  return 0;
}

static PyObject *replays_forget(PyObject *self, PyObject *nothing) {
  (void)nothing;
  Py_BEGIN_CRITICAL_SECTION(self);
  replays_clear(self);
  Py_END_CRITICAL_SECTION();
  return none();
}

static int replays_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  for (int i = 0; i < SLOTS; i++) Py_VISIT(((Replays *)self)->slots[i]);
  return 0;
}

static void replays_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  replays_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyMethodDef replays_methods[] = {
    {"add", replays_add, METH_O, "Take calls that a Replay fits; it may displace another."},
    {"forget", replays_forget, METH_NOARGS, "Forget all replays."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef replays_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Replays, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot replays_slots[] = {
    {Py_tp_new, replays_new},
    {Py_tp_dealloc, replays_dealloc},
    {Py_tp_traverse, replays_traverse},
    {Py_tp_clear, replays_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_methods, replays_methods},
    {Py_tp_members, replays_members},
    {0, NULL},
};

static PyType_Spec replays_spec = {
    .name = "rlx_eager_gateway.Replays",
    .basicsize = sizeof(Replays),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = replays_slots,
};

/* The module */

/* bind(array_classes, handled, settings, ignoring), before any other use. */
static PyObject *bind(PyObject *module, PyObject *args) {
  PyObject *classes, *exceptions, *variable, *value;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O!OO", &PyTuple_Type, &classes, &PyTuple_Type, &exceptions,
                        &variable, &value)) {
    return NULL;
  }
  if (!PyContextVar_CheckExact(variable)) {
    PyErr_SetString(PyExc_TypeError, "settings are a context variable");
    return NULL;
  }
  Py_INCREF(args); /* owns the four for as long as the process runs */
  array_classes = classes;
  handled = exceptions;
  settings = variable;
  ignoring = value;
  return none();
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, "Set what all replays share."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "rlx_eager_gateway", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_rlx_eager_gateway(void);

PyMODINIT_FUNC PyInit_rlx_eager_gateway(void) {
  import_array();
  PyObject *module = PyModule_Create(&definition);
  if (module == NULL) return NULL;
#ifdef Py_GIL_DISABLED
  PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  PyObject *replay = PyType_FromSpec(&replay_spec), *replays = PyType_FromSpec(&replays_spec);
  replay_type = (PyTypeObject *)replay;
  if (replay == NULL || replays == NULL || PyModule_AddObjectRef(module, "Replay", replay) < 0 ||
      PyModule_AddObjectRef(module, "Replays", replays) < 0) {
    Py_CLEAR(module);
  }
  Py_XDECREF(replays);
  return module; /* replay_type keeps its reference */
}
