/*
 * format_support.c - what formats ask of the file that is read
 */
#include <stdarg.h>
#include <string.h>
#include "ir/base/message.h"
#include "ir/ir.h"
#include "ir/type_text.h"
#include "runtime/data/files.h"

/* About `what` number of the file, or about the whole (NULL). */
static Status
file_error_at(const RtFile *f, const char *what, int64_t number,
              const char *format, va_list args)
{
    Arena *scratch = arena_new(NULL, "a file's error");
    const char *where =
        what ? arena_printf(scratch, ", %s %lld:", what, (long long)number)
             : "";
    const char *text = message_vprintf(scratch, format, args);
    Loc loc = f->node->stage->loc;
    Status st = status_new(STATUS_INPUT, "%s:%u:%u: \"%s\"%s %s",
                           diag_source_name(f->node->module->diag, loc.file),
                           loc.line, loc.col, f->name, where, text);
    arena_release(scratch);
    return rt_stage_show(f->node, st);
}

Status
rt_file_error(const RtFile *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Status st = file_error_at(f, NULL, 0, format, args);
    va_end(args);
    return st;
}

Status
rt_line_error(const RtFile *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Status st = file_error_at(f, "line", f->line, format, args);
    va_end(args);
    return st;
}

Status
rt_record_error(const RtFile *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Status st = file_error_at(f, "record", f->record, format, args);
    va_end(args);
    return st;
}

const IrType *
rt_file_type(const RtFile *f, int component)
{
    return &f->node->stage->types.data[component];
}

const char *
rt_file_type_text(const RtFile *f, int component)
{
    return ir_type_text(f->node->module, rt_file_type(f, component));
}

const char *
rt_file_widened(const RtFile *f, int component, bool has_f32)
{
    if (!has_f32 || rt_file_type(f, component)->dtype != DT_f64)
        return "";
    return message_part("; f64 is what the program states, or tfdc --widen "
                        "made of f32");
}

int64_t
rt_file_count(const RtFile *f, int component)
{
    const IrType *t = rt_file_type(f, component);
    return f->node->bytes[component] / (int64_t)dtype_info[t->dtype].bytes;
}

bool
rt_file_default(const RtFile *f, int component, Scalar *out)
{
    const char *data = f->node->stage->data;
    if (!data)
        return false;
    for (int i = 0; i < component; i++)
        data += dtype_info[rt_file_type(f, i)->dtype].bytes;
    *out = scalar_load(rt_file_type(f, component)->dtype, data, 0);
    return true;
}

Status
rt_file_take(const RtFile *f, RtStream *s, void *to, size_t n)
{
    const char *data;
    size_t have = 1, done = 0;
    while (done < n && have > 0) {
        TRY(rt_stream_peek(s, 1, &data, &have));
        size_t piece = have < n - done ? have : n - done;
        memcpy((char *)to + done, data, piece);
        rt_stream_skip(s, piece);
        done += piece;
    }
    if (done < n)
        return rt_record_error(f, "it is cut short: %zu bytes of %zu", done, n);
    return OK;
}

Status
rt_check_bytes_left(const RtFile *f, const char *of, int64_t have, int64_t all)
{
    if (all <= have)
        return OK;
    if (all == INT64_MAX)
        return rt_file_error(f,
                             "%sis cut short: it has %lld bytes of elements, "
                             "and its header states more than any file has",
                             of, (long long)have);
    return rt_file_error(f,
                         "%sis cut short: it has %lld bytes of elements, and "
                         "its header states %lld, so %lld are missing",
                         of, (long long)have, (long long)all,
                         (long long)(all - have));
}

Status
rt_file_finish(RtStream *s)
{
    const char *data;
    size_t have;
    return rt_stream_peek(s, 1, &data, &have);
}

bool
rt_is_gzip(const unsigned char *head, size_t len)
{
    return len >= 2 && head[0] == 0x1f && head[1] == 0x8b;
}

void
rt_normalise_bools(void *elements, int64_t n)
{
    unsigned char *x = elements;
    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] != 0;
}
