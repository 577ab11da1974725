/* Messages of librdkafka, taken from its own queue in batches, without a Python object for each.
 *
 * A `Queue` is made of the addresses of librdkafka's functions and of one of its queues; `fetch` gives `Messages`. They
 * stay in librdkafka's memory until the object dies, or the queue is closed, whatever comes first; nothing of them can
 * be reached from then on. Columns and records are copies. `slices` alone hands out addresses, in a capsule that keeps
 * the messages alive: as long as it lives, closing the queue is refused.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "../../ports/slices.h"

#define MOST_MESSAGES 1048576

/* rd_kafka_message_t; `librdkafka.py` proves that the library at hand has the same. */
typedef struct {
    int err;
    void *topic;
    int32_t partition;
    void *payload;
    size_t size;
    void *key;
    size_t key_size;
    int64_t offset;
    void *opaque;
} Message;

typedef struct {
    Py_ssize_t (*consume)(void *queue, int timeout, Message **out, size_t most);
    void (*destroy)(Message *message);
    int64_t (*timestamp)(const Message *message, int *kind);
    int (*headers)(const Message *message, void **headers);
    int (*header)(const void *headers, size_t index, const char **name, const void **value, size_t *size);
    const char *(*errstr)(const Message *message);
    const char *(*topic)(const void *topic);
} Functions;

typedef struct MessagesObject MessagesObject;

typedef struct {
    PyObject_HEAD
    Functions call;
    void *queue;
    MessagesObject *first; /* all that live */
    int closed, busy;
} QueueObject;

struct MessagesObject {
    PyObject_HEAD
    QueueObject *queue;
    MessagesObject *previous, *next;
    Message **items;
    Py_ssize_t count, errors, pins;
    int released;
};

typedef struct {
    PyObject *messages;
} Module;

/* ------------------------------------------------------------------ messages */

static int
is_released(const MessagesObject *self)
{
    if (self->released) {
        PyErr_SetString(PyExc_ValueError, "the reader of these messages is closed");
    }
    return self->released;
}

static void
let_go(MessagesObject *self)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        self->queue->call.destroy(self->items[i]);
    }
    PyMem_Free(self->items);
    self->items = NULL;
    self->count = self->errors = 0;
    self->released = 1;
}

static void
messages_dealloc(PyObject *object)
{
    MessagesObject *self = (MessagesObject *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->queue) {
        let_go(self);
        if (self->previous) {
            self->previous->next = self->next;
        } else {
            self->queue->first = self->next;
        }
        if (self->next) {
            self->next->previous = self->previous;
        }
        Py_DECREF((PyObject *)self->queue);
    }
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF((PyObject *)type);
}

static Py_ssize_t
messages_length(PyObject *object)
{
    return ((MessagesObject *)object)->count;
}

/* Rows that a method is about: all for None. On success `rows` is NULL or has to be freed. */
static int
read_rows(const MessagesObject *self, PyObject *wanted, Py_ssize_t **rows, Py_ssize_t *count)
{
    *rows = NULL;
    *count = self->count;
    if (is_released(self)) {
        return -1;
    }
    if (wanted == Py_None) {
        return 0;
    }
    Py_ssize_t size = PySequence_Size(wanted);
    if (size < 0) {
        return -1;
    }
    Py_ssize_t *found = PyMem_Malloc(((size_t)size + 1) * sizeof(Py_ssize_t));
    if (!found) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PySequence_GetItem(wanted, i);
        found[i] = item ? PyLong_AsSsize_t(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred()) {
            PyMem_Free(found);
            return -1;
        }
    }
    /* Only now: items may have run code of their own. */
    for (Py_ssize_t i = 0; i < size; i++) {
        if (found[i] < 0 || found[i] >= self->count) {
            PyErr_Format(PyExc_IndexError, "row %zd of %zd messages", found[i], self->count);
            PyMem_Free(found);
            return -1;
        }
    }
    if (is_released(self)) {
        PyMem_Free(found);
        return -1;
    }
    *rows = found;
    *count = size;
    return 0;
}

static const Message *
message_at(const MessagesObject *self, PyObject *index)
{
    Py_ssize_t row = PyLong_AsSsize_t(index);
    if ((row == -1 && PyErr_Occurred()) || is_released(self)) {
        return NULL;
    }
    if (row < 0 || row >= self->count) {
        PyErr_Format(PyExc_IndexError, "row %zd of %zd messages", row, self->count);
        return NULL;
    }
    return self->items[row];
}

static PyObject *
bytes_of(const void *data, size_t size)
{
    if (!data) {
        Py_RETURN_NONE;
    }
    return PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
}

static PyObject *
topic_of(const MessagesObject *self, const Message *message)
{
    if (!message->topic) {
        Py_RETURN_NONE;
    }
    return PyUnicode_FromString(self->queue->call.topic(message->topic));
}

PyDoc_STRVAR(value_doc, "value(row): the value of a message, None for a null value.");

static PyObject *
messages_value(PyObject *object, PyObject *index)
{
    const Message *message = message_at((MessagesObject *)object, index);
    return message ? bytes_of(message->payload, message->size) : NULL;
}

PyDoc_STRVAR(topics_doc, "topics(): a list with the topic of each message.");

static PyObject *
messages_topics(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    MessagesObject *self = (MessagesObject *)object;
    PyObject *result = is_released(self) ? NULL : PyList_New(self->count), *name = NULL;
    for (Py_ssize_t i = 0; result && i < self->count; i++) {
        if (!name || self->items[i]->topic != self->items[i - 1]->topic) {
            Py_XDECREF(name);
            name = topic_of(self, self->items[i]);
        }
        if (!name) {
            Py_CLEAR(result);
            break;
        }
        Py_INCREF(name);
        PyList_SetItem(result, i, name);
    }
    Py_XDECREF(name);
    return result;
}

enum { PARTITIONS, OFFSETS, TIMESTAMPS };

static PyObject *
column(PyObject *object, int which)
{
    MessagesObject *self = (MessagesObject *)object;
    if (is_released(self)) {
        return NULL;
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, self->count * (Py_ssize_t)sizeof(int64_t));
    if (!result) {
        return NULL;
    }
    int64_t *out = (int64_t *)(void *)PyBytes_AsString(result);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        const Message *message = self->items[i];
        int kind;
        switch (which) {
        case PARTITIONS:
            out[i] = message->partition;
            break;
        case OFFSETS:
            out[i] = message->offset;
            break;
        default:
            out[i] = self->queue->call.timestamp(message, &kind);
        }
    }
    return result;
}

PyDoc_STRVAR(partitions_doc, "partitions(): the partition of each message, as 64-bit numbers.");
PyDoc_STRVAR(offsets_doc, "offsets(): the offset of each message, as 64-bit numbers.");
PyDoc_STRVAR(timestamps_doc, "timestamps(): milliseconds of each message, -1 for none, as 64-bit numbers.");

static PyObject *
messages_partitions(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    return column(object, PARTITIONS);
}

static PyObject *
messages_offsets(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    return column(object, OFFSETS);
}

static PyObject *
messages_timestamps(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    return column(object, TIMESTAMPS);
}

/* A list; None if a name is no text. */
static PyObject *
headers_of(const MessagesObject *self, const Message *message)
{
    PyObject *result = PyList_New(0);
    void *headers = NULL;
    if (!result || self->queue->call.headers(message, &headers) || !headers) {
        return result;
    }
    const char *name;
    const void *value;
    size_t size;
    for (size_t i = 0; !self->queue->call.header(headers, i, &name, &value, &size); i++) {
        PyObject *pair = Py_BuildValue("(sN)", name, bytes_of(value, size));
        if (!pair || PyList_Append(result, pair)) {
            Py_XDECREF(pair);
            Py_DECREF(result);
            if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
                return NULL;
            }
            PyErr_Clear();
            Py_RETURN_NONE;
        }
        Py_DECREF(pair);
    }
    return result;
}

PyDoc_STRVAR(record_doc,
"record(row): (topic, partition, offset, milliseconds, type of the timestamp, key, value, [(name, value), ...]);\n"
"None for the headers if a name among them is not UTF-8.");

static PyObject *
messages_record(PyObject *object, PyObject *index)
{
    MessagesObject *self = (MessagesObject *)object;
    const Message *message = message_at(self, index);
    if (!message) {
        return NULL;
    }
    int kind = 0;
    long long millis = self->queue->call.timestamp(message, &kind);
    return Py_BuildValue("(NiLLiNNN)", topic_of(self, message), (int)message->partition, (long long)message->offset,
                         millis, kind, bytes_of(message->key, message->key_size),
                         bytes_of(message->payload, message->size), headers_of(self, message));
}

static PyObject *
text_of(const char *text)
{
    return PyUnicode_DecodeUTF8(text ? text : "", text ? (Py_ssize_t)strlen(text) : 0, "replace");
}

PyDoc_STRVAR(errors_doc,
"errors(): (row, code, text, topic or None, partition, offset) of each message that is no record but an event.");

static PyObject *
messages_errors(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    MessagesObject *self = (MessagesObject *)object;
    PyObject *result = is_released(self) ? NULL : PyList_New(0);
    for (Py_ssize_t i = 0; result && self->errors && i < self->count; i++) {
        const Message *message = self->items[i];
        if (!message->err) {
            continue;
        }
        PyObject *item = Py_BuildValue("(niNNiL)", i, message->err, text_of(self->queue->call.errstr(message)),
                                       topic_of(self, message), (int)message->partition, (long long)message->offset);
        if (!item || PyList_Append(result, item)) {
            Py_CLEAR(result);
        }
        Py_XDECREF(item);
    }
    return result;
}

PyDoc_STRVAR(keep_doc, "keep(rows): forget all messages but these; rows ascend.");

static PyObject *
messages_keep(PyObject *object, PyObject *wanted)
{
    MessagesObject *self = (MessagesObject *)object;
    Py_ssize_t *rows, count;
    if (read_rows(self, wanted, &rows, &count)) {
        return NULL;
    }
    if (self->pins) {
        PyMem_Free(rows);
        PyErr_SetString(PyExc_RuntimeError, "slices of these messages are in use");
        return NULL;
    }
    for (Py_ssize_t i = 1; rows && i < count; i++) {
        if (rows[i] <= rows[i - 1]) {
            PyMem_Free(rows);
            PyErr_SetString(PyExc_ValueError, "rows must ascend");
            return NULL;
        }
    }
    Py_ssize_t kept = 0, errors = 0;
    for (Py_ssize_t i = 0; rows && i < self->count; i++) {
        if (kept < count && rows[kept] == i) {
            errors += self->items[i]->err != 0;
            self->items[kept++] = self->items[i];
        } else {
            self->queue->call.destroy(self->items[i]);
        }
    }
    if (rows) {
        self->count = kept;
        self->errors = errors;
    }
    PyMem_Free(rows);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ runs */

typedef struct {
    const void *topic;
    int32_t partition;
    int64_t first, last, count, size;
} Run;

/* Whether two handles are of one topic, also where the client has made it a new one. */
static int
is_same(const MessagesObject *self, const void *one, const void *other)
{
    return one == other ||
           (one && other && !strcmp(self->queue->call.topic(one), self->queue->call.topic(other)));
}

static Py_ssize_t
find_runs(const MessagesObject *self, const Py_ssize_t *rows, Py_ssize_t count, Run *runs)
{
    Py_ssize_t known = 0, at = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        const Message *message = self->items[rows ? rows[i] : i];
        if (at >= known || runs[at].partition != message->partition || runs[at].topic != message->topic) {
            for (at = 0; at < known; at++) {
                if (runs[at].partition == message->partition && is_same(self, runs[at].topic, message->topic)) {
                    break;
                }
            }
            if (at == known) {
                runs[known++] = (Run){message->topic, message->partition, message->offset, 0, 0, 0};
            }
        }
        runs[at].last = message->offset;
        runs[at].count++;
        runs[at].size += message->payload ? (int64_t)message->size : 0;
    }
    return known;
}

PyDoc_STRVAR(runs_doc,
"runs(rows): (topic, partition, first offset, last offset, how many, bytes of their values) for each partition, in\n"
"the order in which they are met; rows: None for all.");

static PyObject *
messages_runs(PyObject *object, PyObject *wanted)
{
    MessagesObject *self = (MessagesObject *)object;
    Py_ssize_t *rows, count;
    if (read_rows(self, wanted, &rows, &count)) {
        return NULL;
    }
    Run *runs = PyMem_Malloc(((size_t)count + 1) * sizeof(Run));
    PyObject *result = runs ? PyList_New(0) : PyErr_NoMemory();
    Py_ssize_t known = result ? find_runs(self, rows, count, runs) : 0;
    for (Py_ssize_t i = 0; result && i < known; i++) {
        PyObject *name = runs[i].topic ? PyUnicode_FromString(self->queue->call.topic(runs[i].topic)) : Py_BuildValue("");
        PyObject *item = Py_BuildValue("(NiLLLL)", name, (int)runs[i].partition, (long long)runs[i].first,
                                       (long long)runs[i].last, (long long)runs[i].count, (long long)runs[i].size);
        if (!item || PyList_Append(result, item)) {
            Py_CLEAR(result);
        }
        Py_XDECREF(item);
    }
    PyMem_Free(runs);
    PyMem_Free(rows);
    return result;
}

/* ------------------------------------------------------------------ slices */

static void
free_slices(PyObject *capsule)
{
    MessagesObject *messages = PyCapsule_GetContext(capsule);
    PyMem_Free(PyCapsule_GetPointer(capsule, SLICES_NAME));
    if (messages) {
        messages->pins--;
        Py_DECREF((PyObject *)messages);
    }
}

PyDoc_STRVAR(slices_doc,
"slices(rows): a capsule with the places of values in memory, see ports/slices.h; rows: None for all.");

static PyObject *
messages_slices(PyObject *object, PyObject *wanted)
{
    MessagesObject *self = (MessagesObject *)object;
    Py_ssize_t *rows, count;
    if (read_rows(self, wanted, &rows, &count)) {
        return NULL;
    }
    Slices *slices = PyMem_Malloc(sizeof(Slices) + (size_t)count * sizeof(Slice));
    PyObject *capsule = slices ? PyCapsule_New(slices, SLICES_NAME, free_slices) : PyErr_NoMemory();
    if (!capsule) {
        PyMem_Free(slices);
        PyMem_Free(rows);
        return NULL;
    }
    slices->count = (size_t)count;
    for (Py_ssize_t i = 0; i < count; i++) {
        const Message *message = self->items[rows ? rows[i] : i];
        slices->items[i] = (Slice){message->payload, message->payload ? message->size : 0};
    }
    PyMem_Free(rows);
    if (PyCapsule_SetContext(capsule, self)) {
        Py_DECREF(capsule);
        return NULL;
    }
    self->pins++;
    Py_INCREF(object);
    return capsule;
}

static PyMethodDef messages_methods[] = {
    {"value", messages_value, METH_O, value_doc},
    {"topics", messages_topics, METH_NOARGS, topics_doc},
    {"partitions", messages_partitions, METH_NOARGS, partitions_doc},
    {"offsets", messages_offsets, METH_NOARGS, offsets_doc},
    {"timestamps", messages_timestamps, METH_NOARGS, timestamps_doc},
    {"record", messages_record, METH_O, record_doc},
    {"errors", messages_errors, METH_NOARGS, errors_doc},
    {"keep", messages_keep, METH_O, keep_doc},
    {"runs", messages_runs, METH_O, runs_doc},
    {"slices", messages_slices, METH_O, slices_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot messages_slots[] = {
    {Py_tp_doc, "Messages of one fetch."},
    {Py_tp_dealloc, messages_dealloc},
    {Py_tp_methods, messages_methods},
    {Py_sq_length, messages_length},
    {0, NULL},
};

static PyType_Spec messages_spec = {
    "airflow_kafka_hdfs.adapters.kafka._messages.Messages", sizeof(MessagesObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, messages_slots,
};

/* ------------------------------------------------------------------ queue */

static int
queue_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    QueueObject *self = (QueueObject *)object;
    unsigned long long queue, at[7];
    if ((kwargs && PyDict_Size(kwargs)) ||
        !PyArg_ParseTuple(args, "K(KKKKKKK)", &queue, &at[0], &at[1], &at[2], &at[3], &at[4], &at[5], &at[6])) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "Queue takes no keywords");
        }
        return -1;
    }
    for (int i = 0; i < 7; i++) {
        if (!at[i] || !queue || self->queue) {
            PyErr_SetString(PyExc_ValueError, "a queue is made once, of addresses that are not 0");
            return -1;
        }
    }
    self->queue = (void *)(uintptr_t)queue;
    self->call.consume = (Py_ssize_t(*)(void *, int, Message **, size_t))(uintptr_t)at[0];
    self->call.destroy = (void (*)(Message *))(uintptr_t)at[1];
    self->call.timestamp = (int64_t(*)(const Message *, int *))(uintptr_t)at[2];
    self->call.headers = (int (*)(const Message *, void **))(uintptr_t)at[3];
    self->call.header =
        (int (*)(const void *, size_t, const char **, const void **, size_t *))(uintptr_t)at[4];
    self->call.errstr = (const char *(*)(const Message *))(uintptr_t)at[5];
    self->call.topic = (const char *(*)(const void *))(uintptr_t)at[6];
    return 0;
}

static void
queue_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF((PyObject *)type);
}

/* What lies in the queue; only if it is empty, wait for the first message. */
static Py_ssize_t
consume(const QueueObject *self, Message **items, Py_ssize_t most, int timeout)
{
    Py_ssize_t got = self->call.consume(self->queue, 0, items, (size_t)most);
    if (got || !timeout) {
        return got;
    }
    got = self->call.consume(self->queue, timeout, items, 1);
    if (got == 1 && most > 1) {
        Py_ssize_t more = self->call.consume(self->queue, 0, items + 1, (size_t)most - 1);
        got += more > 0 ? more : 0;
    }
    return got;
}

PyDoc_STRVAR(fetch_doc,
"fetch(most, timeout): up to so many messages that are there, or after at most so many milliseconds what came first;\n"
"None if the client refuses, and tells by its last error why.");

static PyObject *
queue_fetch(PyObject *object, PyTypeObject *type, PyObject *const *args, Py_ssize_t given, PyObject *names)
{
    QueueObject *self = (QueueObject *)object;
    Module *module = PyType_GetModuleState(type);
    if (given != 2 || (names && PyTuple_Size(names))) {
        PyErr_SetString(PyExc_TypeError, "fetch(most, timeout)");
        return NULL;
    }
    Py_ssize_t most = PyLong_AsSsize_t(args[0]), timeout = PyLong_AsSsize_t(args[1]), got;
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (self->closed || !self->queue || self->busy) {
        PyErr_SetString(PyExc_ValueError, self->busy ? "the queue is in use" : "the reader is closed");
        return NULL;
    }
    if (most < 1 || most > MOST_MESSAGES || timeout < 0 || timeout > 60000) {
        PyErr_Format(PyExc_ValueError, "fetch of %zd messages in %zd ms", most, timeout);
        return NULL;
    }
    /* Everything that may fail comes first: messages that were taken from the queue must not get lost. */
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)module->messages, Py_tp_alloc);
    MessagesObject *found = (MessagesObject *)allocate((PyTypeObject *)module->messages, 0);
    if (!found) {
        return NULL;
    }
    found->items = PyMem_Malloc((size_t)most * sizeof(Message *));
    if (!found->items) {
        Py_DECREF((PyObject *)found);
        return PyErr_NoMemory();
    }
    found->queue = self;
    Py_INCREF(object);
    found->next = self->first;
    if (found->next) {
        found->next->previous = found;
    }
    self->first = found;
    self->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    got = consume(self, found->items, most, (int)timeout);
    for (Py_ssize_t i = 0; i < got; i++) {
        found->errors += found->items[i]->err != 0;
    }
    Py_END_ALLOW_THREADS
    self->busy = 0;
    if (got < 0) {
        Py_DECREF((PyObject *)found);
        Py_RETURN_NONE;
    }
    found->count = got;
    return (PyObject *)found;
}

PyDoc_STRVAR(close_doc,
"close(): let go of all messages and fetch no more. Raises RuntimeError while slices of some are in use.");

static PyObject *
queue_close(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    QueueObject *self = (QueueObject *)object;
    int pins = self->busy;
    for (MessagesObject *one = self->first; one; one = one->next) {
        pins += one->pins > 0;
    }
    if (pins) {
        PyErr_SetString(PyExc_RuntimeError, "messages of this queue are in use");
        return NULL;
    }
    for (MessagesObject *one = self->first; one; one = one->next) {
        if (!one->released) {
            let_go(one);
        }
    }
    self->closed = 1;
    Py_RETURN_NONE;
}

static PyMethodDef queue_methods[] = {
    {"fetch", (PyCFunction)(void (*)(void))queue_fetch, METH_METHOD | METH_FASTCALL | METH_KEYWORDS, fetch_doc},
    {"close", queue_close, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(queue_doc,
"Queue(queue, functions)\n"
"\n"
"queue: address of a queue of librdkafka. functions: addresses of rd_kafka_consume_batch_queue,\n"
"rd_kafka_message_destroy, rd_kafka_message_timestamp, rd_kafka_message_headers, rd_kafka_header_get_all,\n"
"rd_kafka_message_errstr and rd_kafka_topic_name. For one thread at a time.");

static PyType_Slot queue_slots[] = {
    {Py_tp_doc, (void *)queue_doc},
    {Py_tp_init, queue_init},
    {Py_tp_dealloc, queue_dealloc},
    {Py_tp_methods, queue_methods},
    {0, NULL},
};

static PyType_Spec queue_spec = {
    "airflow_kafka_hdfs.adapters.kafka._messages.Queue", sizeof(QueueObject), 0, Py_TPFLAGS_DEFAULT, queue_slots,
};

/* ------------------------------------------------------------------ module */

static int
add_types(PyObject *module)
{
    Module *state = PyModule_GetState(module);
    state->messages = PyType_FromModuleAndSpec(module, &messages_spec, NULL);
    if (!state->messages) {
        return -1;
    }
    PyObject *queue = PyType_FromModuleAndSpec(module, &queue_spec, NULL);
    if (!queue || PyModule_AddType(module, (PyTypeObject *)queue)) {
        Py_XDECREF(queue);
        return -1;
    }
    Py_DECREF(queue);
    return PyModule_AddType(module, (PyTypeObject *)state->messages);
}

static void
free_module(void *module)
{
    Module *state = PyModule_GetState(module);
    if (state) {
        Py_CLEAR(state->messages);
    }
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, add_types}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_messages", "Messages of librdkafka without a Python object for each.", sizeof(Module),
    NULL, module_slots, NULL, NULL, free_module,
};

PyMODINIT_FUNC
PyInit__messages(void)
{
    return PyModuleDef_Init(&module);
}
