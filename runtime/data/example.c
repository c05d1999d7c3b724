/*
 * example.c - tf.train.Example, in TFRecord files
 *
 * Of example.proto and feature.proto (tensorflow/core/example):
 *
 *   Example { Features features = 1; }
 *   Features { map<string, Feature> feature = 1; }
 *   Feature { oneof: BytesList 1; FloatList 2; Int64List 3; }
 *   ...List { repeated value = 1; }, numbers packed or one by one
 *
 * A map is its entries, messages { key = 1; value = 2; }.  We look for the
 * features that the program names and step over the rest; of two with one name
 * the last one counts.
 */
#include "runtime/data/files.h"

#include <endian.h>
#include <string.h>
#include "ir/base/io/protobuf.h"

/* ---- protocol buffers ---------------------------------------------------- */

typedef struct Wire {
    const char *at, *end;
} Wire;

/* A field of a message: its bytes, or its number. */
typedef struct Part {
    uint64_t field;
    WireType wire;
    Wire bytes;
    uint64_t number;
} Part;

static bool
take_varint(Wire *w, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && w->at < w->end; shift += 7) {
        unsigned char byte = (unsigned char)*w->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool
take_bytes(Wire *w, uint64_t n, Wire *out)
{
    if (n > (uint64_t)(w->end - w->at))
        return false;
    *out = (Wire){w->at, w->at + n};
    w->at += n;
    return true;
}

static uint32_t
word_at(const char *at)
{
    uint32_t x;
    memcpy(&x, at, sizeof x);
    return le32toh(x);
}

/* The next field; false if it is not sound. */
static bool
take_part(Wire *w, Part *p)
{
    uint64_t key, n;
    if (!take_varint(w, &key))
        return false;
    p->field = key >> 3;
    p->wire = (WireType)(key & 7);
    p->bytes = (Wire){NULL, NULL};
    p->number = 0;
    switch (p->wire) {
    case WIRE_VARINT:
        return take_varint(w, &p->number);
    case WIRE_64:
        return take_bytes(w, 8, &p->bytes);
    case WIRE_32:
        return take_bytes(w, 4, &p->bytes);
    case WIRE_BYTES:
        return take_varint(w, &n) && take_bytes(w, n, &p->bytes);
    case WIRE_GROUP:
    case WIRE_END_GROUP:
    case WIRE_NONE_6:
    case WIRE_NONE_7:
        break;
    }
    return false;
}

/* ---- a feature ----------------------------------------------------------- */

typedef enum ListKind {
    LIST_NONE,
    LIST_BYTES,
    LIST_FLOATS,
    LIST_INTS
} ListKind;

static const char *const list_texts[] = {"nothing", "bytes", "floats",
                                         "integers"};

/* The feature that a component is read from. */
typedef struct Feature {
    const RtFile *file;
    int component;
    DType dtype;
    int64_t room; /* elements */
    char *to;
    ListKind kind; /* of the list at hand */
    int64_t count; /* elements that it has had */
} Feature;

static const char *
name_of(const RtFile *f, int component)
{
    return f->node->stage->names.data[component];
}

static Status
not_sound(const RtFile *f)
{
    return rt_record_error(f, "it is no tf.train.Example; a type in place of "
                              "features reads its bytes");
}

static Status
of_another_type(const Feature *x)
{
    return rt_record_error(x->file, "feature \"%s\" holds %s, which are no %s",
                           name_of(x->file, x->component), list_texts[x->kind],
                           dtype_info[x->dtype].name);
}

/* Whether the declared dtype accepts the list's kind. */
static bool
takes_list(const Feature *x)
{
    if (x->kind == LIST_FLOATS)
        return dtype_is_float(x->dtype);
    return x->kind != LIST_INTS || !dtype_is_float(x->dtype);
}

static void
add_float(Feature *x, const char *at)
{
    uint32_t word = word_at(at);
    float value;
    memcpy(&value, &word, sizeof value);
    if (x->count < x->room)
        scalar_store(x->dtype, x->to, x->count, scalar_float(DT_f64, value));
    x->count++;
}

static Status
add_int(Feature *x, uint64_t word)
{
    int64_t value = (int64_t)word;
    bool fits = x->dtype == DT_bool ? value == 0 || value == 1
                                    : int_fits(x->dtype, value);
    if (!fits)
        return rt_record_error(x->file, "%lld in feature \"%s\" is no %s",
                               (long long)value, name_of(x->file, x->component),
                               dtype_info[x->dtype].name);
    if (x->count < x->room)
        scalar_store(x->dtype, x->to, x->count, scalar_int(x->dtype, value));
    x->count++;
    return OK;
}

/* The elements as stored in memory (tf.io.decode_raw). */
static Status
add_bytes(Feature *x, Wire bytes)
{
    size_t width = dtype_info[x->dtype].bytes;
    size_t len = (size_t)(bytes.end - bytes.at);
    if (x->count > 0)
        return rt_record_error(x->file,
                               "feature \"%s\" has several strings of bytes, "
                               "and one is read",
                               name_of(x->file, x->component));
    if (len % width != 0)
        return of_another_type(x);
    x->count = (int64_t)(len / width);
    if (x->count <= x->room)
        memcpy(x->to, bytes.at, len);
    if (x->dtype == DT_bool && x->count <= x->room)
        rt_normalise_bools(x->to, x->count);
    return OK;
}

static Status
add_floats(Feature *x, Part p)
{
    if ((p.wire != WIRE_BYTES && p.wire != WIRE_32) ||
        (p.bytes.end - p.bytes.at) % 4 != 0)
        return not_sound(x->file);
    for (; p.bytes.at < p.bytes.end; p.bytes.at += 4)
        add_float(x, p.bytes.at);
    return OK;
}

static Status
add_ints(Feature *x, Part p)
{
    uint64_t word;
    if (p.wire == WIRE_VARINT)
        return add_int(x, p.number);
    if (p.wire != WIRE_BYTES)
        return not_sound(x->file);
    while (p.bytes.at < p.bytes.end) {
        if (!take_varint(&p.bytes, &word))
            return not_sound(x->file);
        TRY(add_int(x, word));
    }
    return OK;
}

static Status
add_value(Feature *x, Part p)
{
    if (x->kind == LIST_FLOATS)
        return add_floats(x, p);
    if (x->kind == LIST_INTS)
        return add_ints(x, p);
    return p.wire == WIRE_BYTES ? add_bytes(x, p.bytes) : not_sound(x->file);
}

static Status
read_list(Feature *x, Wire list)
{
    Part p;
    if (!takes_list(x))
        return of_another_type(x);
    while (list.at < list.end) {
        if (!take_part(&list, &p))
            return not_sound(x->file);
        if (p.field == 1)
            TRY(add_value(x, p));
    }
    return OK;
}

/* Fills the missing elements of the list. */
static Status
fill_up(Feature *x)
{
    Scalar missing;
    bool stated = rt_file_default(x->file, x->component, &missing);
    if (x->count > x->room || (x->count < x->room && !stated))
        return rt_record_error(
            x->file, "feature \"%s\" has %lld values, and %s takes %lld%s",
            name_of(x->file, x->component), (long long)x->count,
            rt_file_type_text(x->file, x->component), (long long)x->room,
            x->count > x->room ? ""
                               : "; tfrecord(..., missing = 0) fills it up");
    for (; x->count < x->room; x->count++)
        scalar_store(x->dtype, x->to, x->count, missing);
    return OK;
}

/* A list may be in several pieces of the same kind. */
static Status
read_feature(Feature *x, Wire feature)
{
    Part p;
    while (feature.at < feature.end) {
        if (!take_part(&feature, &p))
            return not_sound(x->file);
        if (p.field < LIST_BYTES || p.field > LIST_INTS)
            continue;
        if (p.wire != WIRE_BYTES)
            return not_sound(x->file);
        if (p.field != (uint64_t)x->kind)
            x->count = 0;
        x->kind = (ListKind)p.field;
        TRY(read_list(x, p.bytes));
    }
    return OK;
}

/* ---- features by name ---------------------------------------------------- */

static bool
is_named(Wire key, const char *name)
{
    size_t len = strlen(name);
    return (size_t)(key.end - key.at) == len && memcmp(key.at, name, len) == 0;
}

/* The key and the value of an entry of the map. */
static bool
read_entry(Wire entry, Wire *key, Wire *value)
{
    Part p;
    *key = *value = (Wire){"", ""};
    while (entry.at < entry.end) {
        if (!take_part(&entry, &p))
            return false;
        if ((p.field == 1 || p.field == 2) && p.wire != WIRE_BYTES)
            return false;
        if (p.field == 1)
            *key = p.bytes;
        else if (p.field == 2)
            *value = p.bytes;
    }
    return true;
}

typedef struct Example {
    const RtFile *file;
    bool *seen;
    RtElement *element;
    Str *keys; /* those found are listed there, if it is not NULL */
} Example;

static Status
read_component(const Example *x, int i, Wire value)
{
    const RtFile *f = x->file;
    Feature feature = {.file = f,
                       .component = i,
                       .dtype = rt_file_type(f, i)->dtype,
                       .room = rt_file_count(f, i),
                       .to = x->element->data[i]};
    TRY(read_feature(&feature, value));
    if (feature.kind == LIST_NONE)
        return OK;
    x->seen[i] = true;
    return fill_up(&feature);
}

static Status
take_entry(const Example *x, Wire entry)
{
    Wire key, value;
    if (!read_entry(entry, &key, &value))
        return not_sound(x->file);
    if (x->keys) {
        str_add(x->keys, x->keys->len ? ", " : "");
        str_add_quoted(x->keys, key.at, (size_t)(key.end - key.at));
        return OK;
    }
    for (int i = 0; i < x->file->node->stage->names.len; i++)
        if (is_named(key, name_of(x->file, i)))
            TRY(read_component(x, i, value));
    return OK;
}

static Status
walk_features(const Example *x, Wire features)
{
    Part p;
    while (features.at < features.end) {
        if (!take_part(&features, &p) || (p.field == 1 && p.wire != WIRE_BYTES))
            return not_sound(x->file);
        if (p.field == 1)
            TRY(take_entry(x, p.bytes));
    }
    return OK;
}

static Status
walk_example(const Example *x, Wire example)
{
    Part p;
    while (example.at < example.end) {
        if (!take_part(&example, &p) || (p.field == 1 && p.wire != WIRE_BYTES))
            return not_sound(x->file);
        if (p.field == 1)
            TRY(walk_features(x, p.bytes));
    }
    return OK;
}

static Status
no_feature(const Example *x, Wire example, int i)
{
    Arena *scratch = arena_new(NULL, "names of features");
    Str keys = str_new(scratch);
    Example names = *x;
    names.keys = &keys;
    Status st = walk_example(&names, example);
    Str quoted = str_new(scratch);
    str_add_quoted(&quoted, name_of(x->file, i), strlen(name_of(x->file, i)));
    if (!st && strstr(str_text(&keys), str_text(&quoted)))
        st =
            rt_record_error(x->file, "its feature \"%s\" has no list of values",
                            name_of(x->file, i));
    else if (!st)
        st = rt_record_error(x->file, "it has no feature \"%s\"; it has %.400s",
                             name_of(x->file, i),
                             keys.len ? str_text(&keys) : "none");
    arena_release(scratch);
    return st;
}

Status
rt_example_read(const RtFile *f, const char *bytes, size_t len, bool *seen,
                RtElement *e)
{
    Example x = {f, seen, e, NULL};
    Wire example = {bytes, bytes + len};
    int n = f->node->stage->types.len;
    memset(seen, 0, (size_t)n * sizeof *seen);
    TRY(walk_example(&x, example));
    for (int i = 0; i < n; i++) {
        Scalar missing;
        if (seen[i])
            continue;
        if (!rt_file_default(f, i, &missing))
            return no_feature(&x, example, i);
        for (int64_t k = 0; k < rt_file_count(f, i); k++)
            scalar_store(missing.dtype, e->data[i], k, missing);
    }
    return OK;
}
