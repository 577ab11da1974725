/* Compiled tier of the fast path: walks datums by a skip program and lays them end to end.
 *
 * The instructions are those of program.py, the judgement is that of reference.py. Every read is checked against the
 * end of its own datum. What is not sound is handed back by index, never copied; Python finds out why.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "../../ports/slices.h"

enum {
    OP_END, OP_SKIP, OP_BOOL, OP_INT, OP_LONG, OP_BYTES, OP_STRING, OP_ENUM, OP_UNION, OP_JUMP, OP_ARRAY, OP_NEXT,
    OP_CALL, OP_RET, OP_TIME_INT, OP_TIME_LONG, OP_TIME_TEXT
};

#define MAX_FRAMES 1024
#define MAX_EMPTY_ITEMS 65536

/* An open collection, or with left = 0 an open call. */
typedef struct {
    int64_t left;
    const uint8_t *stated; /* where the block says it ends, NULL if it does not say */
    int32_t body;
    int32_t behind;
} Frame;

enum { TIME_NONE, TIME_NUMBER, TIME_TEXT };

typedef struct {
    int kind;
    int64_t millis;
    const uint8_t *text;
    int64_t size;
} Time;

/* ------------------------------------------------------------------ walking */

static int
read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    const uint8_t *p = *at;
    uint64_t raw = 0;
    int shift = 0;
    for (; p < end; shift += 7) {
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1) {
            return 0;
        }
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *at = p;
            *out = raw;
            return 1;
        }
    }
    return 0;
}

static int
read_long(const uint8_t **at, const uint8_t *end, int64_t *out)
{
    uint64_t raw;
    if (!read_varint(at, end, &raw)) {
        return 0;
    }
    *out = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return 1;
}

static int
read_int(const uint8_t **at, const uint8_t *end, int64_t *out)
{
    const uint8_t *start = *at;
    uint64_t raw;
    if (!read_varint(at, end, &raw) || *at - start > 5 || raw > UINT32_MAX) {
        return 0;
    }
    *out = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return 1;
}

/* A length that the rest of the datum can hold. */
static int
read_length(const uint8_t **at, const uint8_t *end, int64_t *out)
{
    return read_long(at, end, out) && *out >= 0 && *out <= end - *at;
}

#define HIGH_BITS UINT64_C(0x8080808080808080)

/* What most texts are: without a branch for each of their bytes. */
static int
is_ascii(const uint8_t *p, const uint8_t *end)
{
    ptrdiff_t size = end - p;
    uint64_t seen = 0, word;
    if (size >= 8) {
        for (; end - p > 8; p += 8) {
            memcpy(&word, p, 8);
            seen |= word;
        }
        memcpy(&word, end - 8, 8);
        return !((seen | word) & HIGH_BITS);
    }
    if (size >= 4) {
        uint32_t head, tail;
        memcpy(&head, p, 4);
        memcpy(&tail, end - 4, 4);
        return !((head | tail) & (uint32_t)HIGH_BITS);
    }
    return !size || !((p[0] | p[size / 2] | p[size - 1]) & 0x80);
}

static int
is_wide_utf8(const uint8_t *p, const uint8_t *end)
{
    while (p < end) {
        uint64_t word;
        if (end - p >= 8) {
            memcpy(&word, p, 8);
            if (!(word & HIGH_BITS)) {
                p += 8;
                continue;
            }
        }
        uint8_t lead = *p++;
        if (lead < 0x80) {
            continue;
        }
        uint8_t low = 0x80, high = 0xBF;
        int more;
        if (lead >= 0xC2 && lead <= 0xDF) {
            more = 1;
        } else if (lead >= 0xE0 && lead <= 0xEF) {
            more = 2;
            if (lead == 0xE0) {
                low = 0xA0;
            } else if (lead == 0xED) {
                high = 0x9F;
            }
        } else if (lead >= 0xF0 && lead <= 0xF4) {
            more = 3;
            if (lead == 0xF0) {
                low = 0x90;
            } else if (lead == 0xF4) {
                high = 0x8F;
            }
        } else {
            return 0;
        }
        if (end - p < more || *p < low || *p > high) {
            return 0;
        }
        p++;
        while (--more) {
            if ((*p++ & 0xC0) != 0x80) {
                return 0;
            }
        }
    }
    return 1;
}

static int
is_utf8(const uint8_t *p, const uint8_t *end)
{
    return is_ascii(p, end) || is_wide_utf8(p, end);
}

/* Units in the order of program.UNITS. */
static int64_t
to_millis(int64_t value, int32_t unit)
{
    static const int64_t factors[] = {1, 1000, 1, 1, 86400000};
    static const int64_t divisors[] = {1, 1, 1000, 1000000, 1};
    int64_t factor = factors[unit], divisor = divisors[unit];
    if (factor > 1) {
        int64_t edge = INT64_MAX / factor;
        value = value > edge ? edge : value < -edge ? -edge : value;
        return value * factor;
    }
    if (divisor > 1) {
        return value / divisor - (value % divisor < 0);
    }
    return value;
}

/* The next block of a collection: 1 and its count (0 at the end), or 0 if it can't be. */
static int
read_block(const uint8_t **at, const uint8_t *end, int64_t *count, const uint8_t **stated)
{
    *stated = NULL;
    if (!read_long(at, end, count)) {
        return 0;
    }
    if (*count < 0) {
        int64_t size;
        if (*count == INT64_MIN || !read_length(at, end, &size)) {
            return 0;
        }
        *count = -*count;
        *stated = *at + size;
    }
    return 1;
}

/* All blocks of a collection whose items have `step` bytes each; `empty` counts those without any in the datum. */
static int
skip_items(const uint8_t **at, const uint8_t *end, int32_t step, int64_t *empty)
{
    for (;;) {
        int64_t count;
        const uint8_t *stated;
        if (!read_block(at, end, &count, &stated)) {
            return 0;
        }
        if (!count) {
            return 1;
        }
        if (step ? count > (end - *at) / step : count > MAX_EMPTY_ITEMS - *empty) {
            return 0;
        }
        if (!step) {
            *empty += count;
        }
        *at += count * step;
        if (stated && stated != *at) {
            return 0;
        }
    }
}

/* Walk one datum; 1 if it is sound. */
static int
walk(const int32_t *code, const uint8_t *p, const uint8_t *end, Frame *frames, Time *time)
{
    const int32_t *pc = code;
    int depth = 0;
    int64_t number, size, empty = 0;
    time->kind = TIME_NONE;
    for (;;) {
        switch (*pc++) {
        case OP_END:
            return p == end;
        case OP_SKIP:
            if (*pc > end - p) {
                return 0;
            }
            p += *pc++;
            break;
        case OP_BOOL:
            if (p == end || *p++ > 1) {
                return 0;
            }
            break;
        case OP_INT:
            if (!read_int(&p, end, &number)) {
                return 0;
            }
            break;
        case OP_LONG:
            if (!read_long(&p, end, &number)) {
                return 0;
            }
            break;
        case OP_BYTES:
            if (!read_length(&p, end, &size)) {
                return 0;
            }
            p += size;
            break;
        case OP_TIME_TEXT:
        case OP_STRING:
            if (!read_length(&p, end, &size) || !is_utf8(p, p + size)) {
                return 0;
            }
            if (pc[-1] == OP_TIME_TEXT) {
                time->kind = TIME_TEXT;
                time->text = p;
                time->size = size;
            }
            p += size;
            break;
        case OP_ENUM:
            if (!read_int(&p, end, &number) || number < 0 || number >= *pc++) {
                return 0;
            }
            break;
        case OP_UNION:
            if (!read_long(&p, end, &number) || number < 0 || number >= *pc) {
                return 0;
            }
            pc = code + pc[2 + number];
            break;
        case OP_JUMP:
            pc = code + *pc;
            break;
        case OP_ARRAY:
            if (*pc >= 0) {
                if (!skip_items(&p, end, *pc, &empty)) {
                    return 0;
                }
                pc = code + pc[1];
                break;
            }
            if (depth >= MAX_FRAMES) {
                /* As the reference: an empty collection is no frame. */
                const uint8_t *stated;
                if (!read_block(&p, end, &number, &stated) || number) {
                    return 0;
                }
                pc = code + pc[1];
                break;
            }
            frames[depth].left = 1;
            frames[depth].stated = NULL;
            frames[depth].body = (int32_t)(pc + 2 - code);
            frames[depth].behind = pc[1];
            depth++;
            /* fall through */
        case OP_NEXT: {
            Frame *frame = &frames[depth - 1];
            if (--frame->left == 0) {
                if (frame->stated && frame->stated != p) {
                    return 0;
                }
                if (!read_block(&p, end, &frame->left, &frame->stated) || frame->left > end - p) {
                    return 0;
                }
                if (!frame->left) {
                    depth--;
                    pc = code + frame->behind;
                    break;
                }
            }
            pc = code + frame->body;
            break;
        }
        case OP_CALL:
            if (depth >= MAX_FRAMES) {
                return 0;
            }
            frames[depth++].behind = (int32_t)(pc + 1 - code);
            pc = code + *pc;
            break;
        case OP_RET:
            pc = code + frames[--depth].behind;
            break;
        case OP_TIME_INT:
        case OP_TIME_LONG:
            if (!(pc[-1] == OP_TIME_INT ? read_int : read_long)(&p, end, &number)) {
                return 0;
            }
            time->kind = TIME_NUMBER;
            time->millis = to_millis(number, *pc++);
            break;
        default:
            return 0;
        }
    }
}

/* ------------------------------------------------------------------ packing */

typedef struct {
    const uint8_t *frame, *lead, *tail;
    Py_ssize_t frame_size, lead_size, tail_size;
    const int32_t *code; /* NULL: any content */
    int has_time, sized, utf8, refused, target;
} Route;

typedef struct {
    const uint8_t *data; /* behind the frame */
    const uint8_t *tail;
    Py_ssize_t size, tail_size, whole; /* whole: with everything that is put around it */
    const Route *route;
    Py_ssize_t next; /* next row of the same group, -1 at the end */
} Row;

typedef struct {
    Py_ssize_t head, last, count, size, fill, limit;
    int64_t least, greatest;
} Group;

typedef struct {
    int64_t start, end;
    int32_t slot, target;
} Interval;

typedef struct {
    /* arguments */
    PyObject *values, *text_time, *decode_error, *fallback, *place, *tails;
    const Slices *slices; /* of the values; NULL where they are a tuple */
    const int64_t *times;
    int64_t low, high;
    Py_ssize_t frame_size, count;
    /* state */
    Route *routes;
    Py_ssize_t route_count;
    Row *rows;
    Group *groups;
    Interval *intervals;
    Py_ssize_t group_count, interval_count;
    Frame *frames;
    int32_t *slots;
    int64_t *found; /* the time of each sound row */
    PyObject *left_over, *nulls;
} Work;

enum { ERROR = -1, SOUND, LEFT_OVER, FOREIGN };

static Py_ssize_t
length_of_length(Py_ssize_t size)
{
    uint64_t raw = (uint64_t)size << 1;
    Py_ssize_t bytes = 1;
    while (raw > 0x7F) {
        raw >>= 7;
        bytes++;
    }
    return bytes;
}

static int
append_index(PyObject *list, Py_ssize_t index)
{
    PyObject *number = PyLong_FromSsize_t(index);
    if (!number) {
        return -1;
    }
    int failed = PyList_Append(list, number);
    Py_DECREF(number);
    return failed;
}

static int
call_for_millis(PyObject *result, int64_t *millis)
{
    if (!result) {
        return -1;
    }
    int beyond; /* a time that does not fit is far out of all bounds */
    *millis = PyLong_AsLongLongAndOverflow(result, &beyond);
    Py_DECREF(result);
    if (beyond) {
        *millis = beyond > 0 ? INT64_MAX : INT64_MIN;
        return 0;
    }
    return *millis == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Time of a walked row: SOUND, LEFT_OVER or ERROR. */
static int
find_time(Work *work, Py_ssize_t index, const Route *route, Time *time, int64_t *millis)
{
    int have = 0;
    if (!route->code || !route->has_time) {
        if (!work->times) {
            PyErr_SetString(PyExc_ValueError, "the time does not come from the datum: Batch.times is needed");
            return ERROR;
        }
        *millis = work->times[index];
        have = 1;
    } else if (time->kind == TIME_NUMBER) {
        *millis = time->millis;
        have = 1;
    } else if (time->kind == TIME_TEXT) {
        have = !call_for_millis(
            PyObject_CallFunction(work->text_time, "s#", (const char *)time->text, (Py_ssize_t)time->size), millis);
        if (!have) {
            if (!PyErr_ExceptionMatches(work->decode_error)) {
                return ERROR;
            }
            PyErr_Clear();
        }
    }
    if (have && *millis >= work->low && *millis < work->high) {
        return SOUND;
    }
    if (work->fallback == Py_None) {
        return LEFT_OVER;
    }
    if (call_for_millis(PyObject_CallFunction(work->fallback, "n", index), millis)) {
        return ERROR;
    }
    return *millis >= work->low && *millis < work->high ? SOUND : LEFT_OVER;
}

/* Slot of a time, -1 on error. */
static int32_t
find_slot(Work *work, int64_t millis, int32_t target)
{
    for (Py_ssize_t i = work->interval_count; i-- > 0;) {
        const Interval *known = &work->intervals[i];
        if (millis >= known->start && millis < known->end && target == known->target) {
            return known->slot;
        }
    }
    PyObject *result = PyObject_CallFunction(work->place, "iL", (int)target, (long long)millis);
    if (!result) {
        return -1;
    }
    long long start, end;
    Py_ssize_t slot, fill, limit;
    int ok = PyArg_ParseTuple(result, "LLnnn", &start, &end, &slot, &fill, &limit);
    Py_DECREF(result);
    if (!ok) {
        return -1;
    }
    if (millis < start || millis >= end || slot < 0 || slot > work->group_count || slot >= work->count || fill < 0 ||
        fill >= limit) {
        PyErr_Format(PyExc_ValueError, "place of %lld: got [%lld, %lld), slot %zd, %zd of %zd bytes in the open block",
                     (long long)millis, start, end, slot, fill, limit);
        return -1;
    }
    if (slot == work->group_count) {
        Group *group = &work->groups[work->group_count++];
        memset(group, 0, sizeof *group);
        group->head = group->last = -1;
        group->fill = fill;
        group->limit = limit;
    }
    Interval *known = &work->intervals[work->interval_count++];
    *known = (Interval){start, end, (int32_t)slot, target};
    return (int32_t)slot;
}

static const Route *
find_route(const Work *work, const char *data, const Route *last)
{
    if (last && !memcmp(data, last->frame, (size_t)last->frame_size)) {
        return last;
    }
    for (Py_ssize_t i = 0; i < work->route_count; i++) {
        if (!memcmp(data, work->routes[i].frame, (size_t)work->routes[i].frame_size)) {
            return &work->routes[i];
        }
    }
    return NULL;
}

/* Add a sound row to its group; 0, or -1 on error. */
static int
add_row(Work *work, Py_ssize_t index, int64_t millis)
{
    Row *row = &work->rows[index];
    const Route *route = row->route;
    if (work->tails != Py_None) {
        PyObject *tail = PyTuple_GetItem(work->tails, index);
        char *data;
        if (!tail || PyBytes_AsStringAndSize(tail, &data, &row->tail_size)) {
            return -1;
        }
        row->tail = (const uint8_t *)data;
    }
    row->whole = route->lead_size + (route->sized ? length_of_length(row->size) : 0) + row->size + route->tail_size +
                 row->tail_size;
    int32_t slot = find_slot(work, millis, route->target);
    if (slot < 0) {
        return -1;
    }
    Group *group = &work->groups[slot];
    if (group->last < 0) {
        group->head = index;
        group->least = group->greatest = millis;
    } else {
        work->rows[group->last].next = index;
        group->least = millis < group->least ? millis : group->least;
        group->greatest = millis > group->greatest ? millis : group->greatest;
    }
    group->last = index;
    group->count++;
    group->size += row->whole;
    work->slots[index] = slot;
    work->found[index] = millis;
    return 0;
}

/* A value: 1, or 0 for a null value, or -1 on error. */
static int
read_value(const Work *work, Py_ssize_t index, const char **data, Py_ssize_t *size)
{
    if (work->slices) {
        const Slice *slice = &work->slices->items[index];
        *data = slice->data;
        *size = (Py_ssize_t)slice->size;
        return slice->data != NULL;
    }
    PyObject *value = PyTuple_GetItem(work->values, index);
    if (value == Py_None) {
        return 0;
    }
    return value && !PyBytes_AsStringAndSize(value, (char **)data, size) ? 1 : -1;
}

/* Values lie in memory that another thread has written: waiting for the first bytes of each would take longer than
 * walking it. */
#define ROWS_AHEAD 8
#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

static void
prefetch_row(const Work *work, Py_ssize_t index)
{
    if (work->slices && index < work->count) {
        const char *data = work->slices->items[index].data;
        if (data) {
            PREFETCH(data);
            PREFETCH(data + 64);
        }
    }
}

/* Walk all rows and sort them into groups: SOUND, FOREIGN or ERROR. */
static int
walk_rows(Work *work)
{
    const Route *route = NULL;
    for (Py_ssize_t i = 0; i < work->count; i++) {
        Row *row = &work->rows[i];
        const char *data;
        Py_ssize_t size;
        prefetch_row(work, i + ROWS_AHEAD);
        work->slots[i] = -1;
        work->found[i] = 0;
        int is_there = read_value(work, i, &data, &size);
        if (is_there < 0 || (!is_there && append_index(work->nulls, i))) {
            return ERROR;
        }
        if (!is_there) {
            continue;
        }
        int verdict = LEFT_OVER;
        int64_t millis = 0;
        if (size >= work->frame_size && (!work->frame_size || !data[0])) {
            route = find_route(work, data, route);
            if (!route) {
                return FOREIGN;
            }
            *row = (Row){(const uint8_t *)data + work->frame_size, NULL, size - work->frame_size, 0, 0, route, -1};
            Time time = {TIME_NONE, 0, NULL, 0};
            const uint8_t *end = row->data + row->size;
            if (!route->refused && (!route->code || walk(route->code, row->data, end, work->frames, &time)) &&
                (!route->utf8 || is_utf8(row->data, end))) {
                verdict = find_time(work, i, route, &time, &millis);
            }
        }
        if (verdict == ERROR || (verdict == LEFT_OVER && append_index(work->left_over, i)) ||
            (verdict == SOUND && add_row(work, i, millis))) {
            return ERROR;
        }
    }
    return SOUND;
}

static uint8_t *
put(uint8_t *to, const uint8_t *data, Py_ssize_t size)
{
    if (size) {
        memcpy(to, data, (size_t)size);
    }
    return to + size;
}

static uint8_t *
put_row(uint8_t *to, const Row *row)
{
    const Route *route = row->route;
    to = put(to, route->lead, route->lead_size);
    if (route->sized) {
        uint64_t raw = (uint64_t)row->size << 1;
        for (; raw > 0x7F; raw >>= 7) {
            *to++ = (uint8_t)(raw | 0x80);
        }
        *to++ = (uint8_t)raw;
    }
    to = put(to, row->data, row->size);
    to = put(to, route->tail, route->tail_size);
    return put(to, row->tail, row->tail_size);
}

/* One chunk from the row at `*at` on, up to the end of its block: (bytes, count). */
static PyObject *
next_chunk(const Work *work, Py_ssize_t *at, Py_ssize_t need)
{
    Py_ssize_t size = 0, count = 0, end = *at;
    while (end >= 0 && size < need) {
        size += work->rows[end].whole;
        end = work->rows[end].next;
        count++;
    }
    PyObject *data = PyBytes_FromStringAndSize(NULL, size);
    if (!data) {
        return NULL;
    }
    uint8_t *to = (uint8_t *)PyBytes_AsString(data);
    for (; *at != end; *at = work->rows[*at].next) {
        to = put_row(to, &work->rows[*at]);
    }
    return Py_BuildValue("(Nn)", data, count);
}

static PyObject *
build_group(const Work *work, const Group *group)
{
    PyObject *chunks = PyList_New(0);
    Py_ssize_t need = group->limit - group->fill;
    if (!chunks) {
        return NULL;
    }
    for (Py_ssize_t at = group->head; at >= 0; need = group->limit) {
        PyObject *chunk = next_chunk(work, &at, need);
        if (!chunk || PyList_Append(chunks, chunk)) {
            Py_XDECREF(chunk);
            Py_DECREF(chunks);
            return NULL;
        }
        Py_DECREF(chunk);
    }
    return Py_BuildValue("(nnLLN)", group->count, group->size, (long long)group->least, (long long)group->greatest,
                         chunks);
}

static PyObject *
build_result(Work *work, PyObject *slots, PyObject *found)
{
    PyObject *groups = PyList_New(0);
    if (!groups) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < work->group_count; i++) {
        PyObject *group = build_group(work, &work->groups[i]);
        if (!group || PyList_Append(groups, group)) {
            Py_XDECREF(group);
            Py_DECREF(groups);
            return NULL;
        }
        Py_DECREF(group);
    }
    return Py_BuildValue("(OONOO)", slots, found, groups, work->left_over, work->nulls);
}

static int
read_route(PyObject *item, Route *route, Py_ssize_t frame_size)
{
    const char *frame, *code, *lead, *tail;
    Py_ssize_t code_size;
    if (!PyTuple_Check(item) ||
        !PyArg_ParseTuple(item, "y#z#py#y#pppi", &frame, &route->frame_size, &code, &code_size, &route->has_time,
                          &lead, &route->lead_size, &tail, &route->tail_size, &route->sized, &route->utf8,
                          &route->refused, &route->target)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "a route is a tuple");
        }
        return -1;
    }
    if (route->frame_size != frame_size) {
        PyErr_Format(PyExc_ValueError, "a frame of %zd bytes, expected %zd", route->frame_size, frame_size);
        return -1;
    }
    route->frame = (const uint8_t *)frame;
    route->lead = (const uint8_t *)lead;
    route->tail = (const uint8_t *)tail;
    route->code = (const int32_t *)(const void *)code;
    return 0;
}

PyDoc_STRVAR(pack_doc,
"pack(values, routes, frame_size, times, fallback, text_time, decode_error, tails, low, high, place)\n"
"\n"
"values: a tuple, or a capsule as in ports/slices.h. routes, tails: tuples. A route is (frame, code or None, has_time,\n"
"lead, tail, sized, utf8, refused, target).\n"
"times: None or a buffer of 64-bit milliseconds. place(target, millis) gives (start, end, slot, fill, limit).\n"
"Returns None if a frame has no route, else (slots, times, groups, left over, nulls); slots are 32-bit numbers, times\n"
"64-bit milliseconds, a group is (count, size, least, greatest, [(bytes, count), ...]).");

static PyObject *
pack(PyObject *Py_UNUSED(module), PyObject *args)
{
    Work work;
    PyObject *routes, *times, *slots = NULL, *found = NULL, *result = NULL;
    Py_buffer buffer = {0};
    long long low, high;
    memset(&work, 0, sizeof work);
    if (!PyArg_ParseTuple(args, "OO!nOOOOOLLO", &work.values, &PyTuple_Type, &routes, &work.frame_size, &times,
                          &work.fallback, &work.text_time, &work.decode_error, &work.tails, &low, &high,
                          &work.place)) {
        return NULL;
    }
    work.low = low;
    work.high = high;
    if (PyTuple_Check(work.values)) {
        work.count = PyTuple_Size(work.values);
    } else {
        work.slices = PyCapsule_GetPointer(work.values, SLICES_NAME);
        if (!work.slices) {
            return NULL;
        }
        work.count = (Py_ssize_t)work.slices->count;
    }
    work.route_count = PyTuple_Size(routes);
    if (work.tails != Py_None && (!PyTuple_Check(work.tails) || PyTuple_Size(work.tails) != work.count)) {
        PyErr_SetString(PyExc_ValueError, "tails: expected a tuple with one item per value");
        return NULL;
    }
    if (times != Py_None) {
        if (PyObject_GetBuffer(times, &buffer, PyBUF_SIMPLE)) {
            return NULL;
        }
        work.times = buffer.buf;
        if (buffer.len != work.count * (Py_ssize_t)sizeof(int64_t)) {
            PyErr_Format(PyExc_ValueError, "times: got %zd bytes for %zd values", buffer.len, work.count);
            goto done;
        }
    }
    size_t count = (size_t)work.count + 1;
    work.routes = PyMem_Calloc((size_t)work.route_count + 1, sizeof(Route));
    work.rows = PyMem_Malloc(count * sizeof(Row));
    work.groups = PyMem_Malloc(count * sizeof(Group));
    work.intervals = PyMem_Malloc(count * sizeof(Interval));
    work.frames = PyMem_Malloc(MAX_FRAMES * sizeof(Frame));
    slots = PyBytes_FromStringAndSize(NULL, work.count * (Py_ssize_t)sizeof(int32_t));
    found = PyBytes_FromStringAndSize(NULL, work.count * (Py_ssize_t)sizeof(int64_t));
    work.left_over = PyList_New(0);
    work.nulls = PyList_New(0);
    if (!work.routes || !work.rows || !work.groups || !work.intervals || !work.frames || !slots || !found ||
        !work.left_over || !work.nulls) {
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        goto done;
    }
    work.slots = (int32_t *)(void *)PyBytes_AsString(slots);
    work.found = (int64_t *)(void *)PyBytes_AsString(found);
    for (Py_ssize_t i = 0; i < work.route_count; i++) {
        if (read_route(PyTuple_GetItem(routes, i), &work.routes[i], work.frame_size)) {
            goto done;
        }
    }
    switch (walk_rows(&work)) {
    case SOUND:
        result = build_result(&work, slots, found);
        break;
    case FOREIGN:
        result = Py_None;
        Py_INCREF(result);
        break;
    default:
        break;
    }
done:
    if (buffer.obj) {
        PyBuffer_Release(&buffer);
    }
    PyMem_Free(work.routes);
    PyMem_Free(work.rows);
    PyMem_Free(work.groups);
    PyMem_Free(work.intervals);
    PyMem_Free(work.frames);
    Py_XDECREF(slots);
    Py_XDECREF(found);
    Py_XDECREF(work.left_over);
    Py_XDECREF(work.nulls);
    return result;
}

/* ------------------------------------------------------------------ spans */

typedef struct {
    int64_t partition, first, last, count, least, greatest;
    int32_t slot;
} Span;

/* Sort one value into its span. */
static void
add_to_span(Span *spans, Py_ssize_t *known, Py_ssize_t *latest, int32_t slot, int64_t partition, int64_t offset,
            int64_t time)
{
    Py_ssize_t at = *latest;
    if (at >= *known || spans[at].slot != slot || spans[at].partition != partition) {
        for (at = 0; at < *known && (spans[at].slot != slot || spans[at].partition != partition); at++) {
        }
        if (at == *known) {
            spans[at] = (Span){partition, offset, offset, 0, time, time, slot};
            (*known)++;
        }
        *latest = at;
    }
    spans[at].last = offset;
    spans[at].count++;
    spans[at].least = time < spans[at].least ? time : spans[at].least;
    spans[at].greatest = time > spans[at].greatest ? time : spans[at].greatest;
}

/* A column of numbers: a list, or a buffer of 64-bit numbers. */
typedef struct {
    PyObject *list;
    Py_buffer buffer;
} Numbers;

static int
open_numbers(Numbers *self, PyObject *source, Py_ssize_t count)
{
    Py_ssize_t size;
    memset(self, 0, sizeof *self);
    if (PyList_Check(source)) {
        self->list = source;
        size = PyList_Size(source);
    } else if (PyObject_GetBuffer(source, &self->buffer, PyBUF_SIMPLE)) {
        return -1;
    } else {
        size = self->buffer.len % (Py_ssize_t)sizeof(int64_t) ? -1 : self->buffer.len / (Py_ssize_t)sizeof(int64_t);
    }
    if (size != count) {
        PyErr_Format(PyExc_ValueError, "%zd slots, a column of %zd numbers", count, size);
        return -1;
    }
    return 0;
}

static int
read_number(const Numbers *self, Py_ssize_t index, int64_t *out)
{
    if (!self->list) {
        *out = ((const int64_t *)self->buffer.buf)[index];
        return 0;
    }
    PyObject *item = PyList_GetItem(self->list, index);
    if (!item) {
        return -1;
    }
    *out = PyLong_AsLongLong(item);
    return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static void
close_numbers(Numbers *self)
{
    if (self->buffer.obj) {
        PyBuffer_Release(&self->buffer);
    }
}

static PyObject *
build_spans(const Span *spans, Py_ssize_t count)
{
    PyObject *result = PyList_New(0);
    for (Py_ssize_t i = 0; result && i < count; i++) {
        PyObject *item = Py_BuildValue("(iLLLLLL)", (int)spans[i].slot, (long long)spans[i].partition,
                                       (long long)spans[i].first, (long long)spans[i].last, (long long)spans[i].count,
                                       (long long)spans[i].least, (long long)spans[i].greatest);
        if (!item || PyList_Append(result, item)) {
            Py_CLEAR(result);
        }
        Py_XDECREF(item);
    }
    return result;
}

PyDoc_STRVAR(spans_doc,
"spans(slots, times, partitions, offsets)\n"
"\n"
"slots: a buffer of 32-bit numbers; times: one of 64-bit numbers; partitions, offsets: lists or buffers of 64-bit\n"
"numbers, as long. Returns one\n"
"(slot, partition, first, last, count, least, greatest) for each slot from 0 on and each partition in it.");

static PyObject *
spans(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *slots, *times, *partitions, *offsets, *result = NULL;
    Py_buffer buffer, moments;
    Numbers partition = {0}, offset = {0};
    if (!PyArg_ParseTuple(args, "OOOO", &slots, &times, &partitions, &offsets) ||
        PyObject_GetBuffer(slots, &buffer, PyBUF_SIMPLE)) {
        return NULL;
    }
    if (PyObject_GetBuffer(times, &moments, PyBUF_SIMPLE)) {
        PyBuffer_Release(&buffer);
        return NULL;
    }
    Py_ssize_t count = buffer.len / (Py_ssize_t)sizeof(int32_t), known = 0, latest = 0;
    const int32_t *slot = buffer.buf;
    const int64_t *time = moments.buf;
    Span *found = PyMem_Malloc(((size_t)count + 1) * sizeof(Span));
    if (!found) {
        PyErr_NoMemory();
        goto done;
    }
    if (moments.len != count * (Py_ssize_t)sizeof(int64_t)) {
        PyErr_Format(PyExc_ValueError, "%zd slots, %zd bytes of times", count, moments.len);
        goto done;
    }
    if (open_numbers(&partition, partitions, count) || open_numbers(&offset, offsets, count)) {
        goto done;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t number, place;
        if (slot[i] < 0) {
            continue;
        }
        if (read_number(&partition, i, &number) || read_number(&offset, i, &place)) {
            goto done;
        }
        add_to_span(found, &known, &latest, slot[i], number, place, time[i]);
    }
    result = build_spans(found, known);
done:
    PyMem_Free(found);
    close_numbers(&partition);
    close_numbers(&offset);
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&moments);
    return result;
}

static PyMethodDef methods[] = {
    {"pack", pack, METH_VARARGS, pack_doc},
    {"spans", spans, METH_VARARGS, spans_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_packer", "Compiled tier of the fast path.", 0, methods, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__packer(void)
{
    return PyModuleDef_Init(&module);
}
