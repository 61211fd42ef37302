/* What calls of both gateways do: their lock, the native run, its faults, and their life as objects
   of Python. A gateway's `Call` begins with an `Entry`; its addresses come from the executable. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *kept; /* a tuple that owns every object below; NULL once it is cleared */
  PyObject *enter, *acquire, *release;
  PyObject *is_held; /* returns True if this thread is in a call already */
  PyObject *fault;
  void *run;
  char *arena;
  int64_t *moves;
  char ready; /* params are set, and `setup` has run since */
} Entry;

static PyObject *none(void) {
  Py_INCREF(Py_None);
  return Py_None;
}

/* The call */

static int run_native(const Entry *entry) {
  int status;
  Py_BEGIN_ALLOW_THREADS
  if (entry->moves == NULL) {
    status = ((int (*)(char *))entry->run)(entry->arena);
  } else {
    status = ((int (*)(char *, const int64_t *))entry->run)(entry->arena, entry->moves);
  }
  Py_END_ALLOW_THREADS
  return status;
}

/* Run through `enter`, which runs on several threads, or directly. */
static bool run(const Entry *entry) {
  long status;
  if (entry->enter == Py_None) {
    status = run_native(entry);
  } else {
    PyObject *returned = PyObject_CallNoArgs(entry->enter);
    if (returned == NULL) return false;
    status = PyLong_AsLong(returned);
    Py_DECREF(returned);
    if (PyErr_Occurred()) return false;
  }
  if (status == 0) return true;
  PyObject *exception = PyObject_CallFunction(entry->fault, "l", status);
  if (exception == NULL) return false;
  PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
  Py_DECREF(exception);
  return false;
}

typedef PyObject *Body(Entry *entry, PyObject *const *values);

/* Return what `body` returns under the executable's lock; None where the slow path has to run. */
static PyObject *call_with_lock(Entry *entry, Body *body, PyObject *const *values) {
  if (entry->kept == NULL) return none(); /* cleared garbage, called by other garbage */
  PyObject *held = PyObject_CallNoArgs(entry->is_held);
  if (held == NULL) return NULL;
  Py_DECREF(held);
  if (held == Py_True) return none(); /* the slow path raises ReentryError */
  held = PyObject_CallNoArgs(entry->acquire);
  if (held == NULL) return NULL;
  Py_DECREF(held);
  PyObject *results = entry->ready ? body(entry, values) : none();
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyObject *released = PyObject_CallNoArgs(entry->release);
  if (released == NULL) Py_CLEAR(results);
  Py_XDECREF(released);
  if (type != NULL) PyErr_Restore(type, error, trace);
  return results;
}

/* The object */

/* Read (run, arena, moves, enter, acquire, release, is_held, fault); `args` owns them. */
static bool read_entry(Entry *entry, PyObject *args, PyObject *facts, vectorcallfunc called) {
  unsigned long long run, arena, moves;
  if (!PyArg_ParseTuple(facts, "KKKOOOOO", &run, &arena, &moves, &entry->enter, &entry->acquire,
                        &entry->release, &entry->is_held, &entry->fault)) {
    return false;
  }
  entry->vectorcall = called;
  entry->run = (void *)(uintptr_t)run;
  entry->arena = (char *)(uintptr_t)arena;
  entry->moves = (int64_t *)(uintptr_t)moves;
  Py_INCREF(args);
  entry->kept = args;
  return true;
}

static bool has_no_names(PyObject *names) {
  if (names == NULL || PyDict_GET_SIZE(names) == 0) return true;
  PyErr_SetString(PyExc_TypeError, "Call takes no keyword arguments");
  return false;
}

static int call_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((Entry *)self)->kept);
  return 0;
}

static int call_clear(PyObject *self) {
  ((Entry *)self)->ready = false;
  Py_CLEAR(((Entry *)self)->kept);
  return 0;
}

static PyMemberDef call_members[] = {
    {"ready", T_BOOL, offsetof(Entry, ready), 0, "Whether params are set and set up."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Entry, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* Return the module of `definition`, with the class of `spec`. */
static PyObject *module_with(struct PyModuleDef *definition, PyType_Spec *spec) {
  PyObject *module = PyModule_Create(definition);
  if (module == NULL) return NULL;
#ifdef Py_GIL_DISABLED
  PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED); /* calls take the executable's lock */
#endif
  PyObject *type = PyType_FromSpec(spec);
  if (type == NULL || PyModule_AddObject(module, "Call", type) < 0) {
    Py_XDECREF(type);
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
