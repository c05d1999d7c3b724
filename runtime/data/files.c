/*
 * files.c - sources that read files, one after the other
 *
 * When a source is made, every file is opened, and its beginning and its first
 * record are read: a file that is missing or of another type ends the run
 * before it begins.  After that one file is open at a time.
 */
#include "runtime/data/files.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ir/base/hash/hash.h"
#include "ir/base/io/file.h"
#include "ir/base/message.h"
#include "ir/base/minmax.h"
#include "ir/ir.h"

typedef struct Path {
    const char *path, *name;
    int64_t size; /* when the run began */
} Path;

/* The position in a file: the next record, and the file's size on disk. */
typedef struct Place {
    int64_t record, line, offset, size;
} Place;

typedef VEC(Path) Paths;

typedef struct Files {
    const RtFileFormat *format;
    Paths paths;
    Paths all;            /* of which these are, where workers divide them */
    int64_t at;           /* the file that is open, or will be next */
    RtFileDealer *dealer; /* who gives them to this worker; NULL: nobody */
    int64_t taken;        /* that were dealt to it in this pass, */
    bool has_file;        /* and whether `at` is the last of them */
    const char *names;    /* a hash of all */
    bool open;            /* `file` is */
    RtFile file;
    bool resumes; /* to go on from `place` in it, where a checkpoint stands */
    Place place;
} Files;

/* ---- which files --------------------------------------------------------- */

/* dir may contain characters that are wildcards in a path. */
static const char *
quoted(Arena *a, const char *dir)
{
    Str s = str_new(a);
    for (; *dir; dir++) {
        if (strchr("*?[\\", *dir))
            str_addc(&s, '\\');
        str_addc(&s, *dir);
    }
    return str_text(&s);
}

static int
compare_names(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static void
add_path(Files *s, Arena *a, const char *path, size_t dir)
{
    const char *copy = arena_strdup(a, path);
    VEC_PUSH(a, s->paths, ((Path){copy, copy + dir, 0}));
}

/* The files that match a wildcard, sorted by bytes in any locale. */
static Status
add_matches(RtNode *n, const char *text, const char *dir)
{
    glob_t found = {0};
    const char *pattern =
        arena_printf(n->arena, "%s%s", quoted(n->arena, dir), text);
    int result = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
    if (result != 0) {
        int error = result == GLOB_NOSPACE ? ENOMEM : errno;
        globfree(&found); /* also of a search that failed */
        if (result != GLOB_NOMATCH)
            return file_error(error, "cannot look for \"%s%s\"", dir, text);
    }
    if (result == GLOB_NOMATCH || found.gl_pathc == 0)
        return status_new(STATUS_INPUT, "no file matches \"%s%s\"", dir, text);
    qsort(found.gl_pathv, found.gl_pathc, sizeof(char *), compare_names);
    for (size_t i = 0; i < found.gl_pathc; i++)
        add_path(n->state, n->arena, found.gl_pathv[i], strlen(dir));
    globfree(&found);
    return OK;
}

/* What stands before a path of the program: the data folder, with its slash, or
 * "". */
static const char *
folder_before(const RtNode *n, const char *text, const RtDataOptions *options)
{
    bool relative = text[0] != '/' && options->dir && options->dir[0];
    return relative ? arena_printf(n->arena, "%s/", options->dir) : "";
}

/* A path of the program: unchanged, if there is such a file. */
static Status
add_paths(RtNode *n, const char *text, const char *dir)
{
    const char *path = arena_printf(n->arena, "%s%s", dir, text);
    if (!strpbrk(text, "*?[") || access(path, F_OK) == 0) {
        add_path(n->state, n->arena, path, strlen(dir));
        return OK;
    }
    return add_matches(n, text, dir);
}

/* ---- a file -------------------------------------------------------------- */

static void
close_file(Files *s)
{
    if (s->open)
        arena_release(s->file.arena);
    s->open = false;
}

static Status
has_changed(const RtFile *f, int64_t size, const char *when)
{
    return rt_file_error(f, "had %lld bytes when %s, and has %lld now",
                         (long long)size, message_part(when),
                         (long long)f->size);
}

/* Moves to the position of a checkpoint. */
static Status
go_to_place(Files *s)
{
    RtFile *f = &s->file;
    f->record = s->place.record;
    f->line = s->place.line;
    if (s->place.size != f->size)
        return has_changed(f, s->place.size,
                           MESSAGE("the checkpoint was written"));
    return s->format->seek ? s->format->seek(f)
                           : rt_stream_seek(f->stream, s->place.offset);
}

/* A file that was truncated since the run began ends too early. */
static Status
check_size(const RtFile *f, const Path *p)
{
    return f->size < p->size ? has_changed(f, p->size, MESSAGE("the run began"))
                             : OK;
}

static Status
open_file(RtNode *n)
{
    Files *s = n->state;
    const Path *p = &s->paths.data[s->at];
    s->file = (RtFile){.node = n, .path = p->path, .name = p->name};
    s->file.arena = arena_new(n->arena, "a file of a dataset");
    s->open = true;
    if (s->format->opens) {
        TRY(s->format->begin(&s->file));
        return check_size(&s->file, p);
    }
    TRY(rt_stream_open(s->file.arena, p->path, s->format->is_packed,
                       &s->file.stream));
    s->file.size = rt_stream_file_size(s->file.stream);
    TRY(check_size(&s->file, p));
    return s->format->begin(&s->file);
}

static Status
files_rewind(RtNode *n)
{
    Files *s = n->state;
    close_file(s);
    s->at = s->taken = 0;
    s->has_file = s->resumes = false;
    return OK;
}

/* All have their turn, or those that are dealt. */
static Status
find_file(RtNode *n)
{
    Files *s = n->state;
    if (!s->dealer || s->has_file)
        return OK;
    TRY(s->dealer->next(s->dealer, n->client, n->pass, s->taken, s->paths.len,
                        s->names, &s->at));
    s->taken++;
    s->has_file = true;
    return OK;
}

static Status
begin_file(RtNode *n)
{
    Files *s = n->state;
    TRY(open_file(n));
    if (s->resumes)
        TRY(go_to_place(s));
    s->resumes = false;
    return OK;
}

/* Opens the file that has its turn; *end instead when none is left. */
static Status
have_file(RtNode *n, bool *end)
{
    Files *s = n->state;
    TRY(find_file(n));
    *end = s->at >= s->paths.len;
    return *end || s->open ? OK : begin_file(n);
}

static void
leave_file(Files *s)
{
    close_file(s);
    s->at++;
    s->has_file = false;
}

/* What a disk or a packed stream says knows no line of the program. */
static Status
while_reading(const RtNode *n, Status st)
{
    if (!st || status_kind(st) == STATUS_STOPPED || *status_lines(st))
        return st;
    return status_note(rt_stage_show(n, st), "reading %s at %s",
                       ir_stage_info[n->stage->kind].name,
                       rt_stage_location(n));
}

static Status
next_of_files(RtNode *n, RtElement *e, bool *end)
{
    Files *s = n->state;
    for (;; leave_file(s)) {
        TRY(have_file(n, end));
        if (*end)
            return OK;
        TRY(s->format->next(&s->file, e, end));
        s->file.record += !*end;
        if (!*end)
            return OK;
    }
}

static Status
files_next(RtNode *n, RtElement *e, bool *end)
{
    return while_reading(n, next_of_files(n, e, end));
}

/* Leaves as many of *num records out as the file has. */
static Status
skip_records(Files *s, int64_t *num)
{
    RtFile *f = &s->file;
    int64_t skipped =
        min_i64(*num, max_i64(0, s->format->count(f) - f->record));
    f->record += skipped;
    *num -= skipped;
    if (s->format->seek)
        return s->format->seek(f);
    return rt_stream_seek(f->stream, rt_stream_at(f->stream) +
                                         skipped * f->node->bytes[0]);
}

/* A file that has no more is read to its end, where checksums are. */
static Status
skip_in_files(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    Files *s = n->state;
    for (;; leave_file(s)) {
        TRY(have_file(n, end));
        if (*end)
            return OK;
        TRY(skip_records(s, num));
        if (*num == 0)
            return OK;
        TRY(s->format->next(&s->file, e, end));
    }
}

static Status
files_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    const Files *s = n->state;
    if (!s->format->count)
        return rt_node_drop(n, num, e, end);
    return while_reading(n, skip_in_files(n, num, e, end));
}

static Place
place_in(const Files *s)
{
    const RtFile *f = &s->file;
    int64_t offset = f->stream ? rt_stream_at(f->stream) : 0;
    return (Place){f->record, f->line, offset, f->size};
}

/* Files may have been added, removed or changed since. */
static void
files_archive(RtNode *n, RtArchive *ar)
{
    Files *files = n->state;
    Place *p = &files->place;
    int64_t num = files->paths.len;
    bool within = files->open || files->resumes;
    if (files->open)
        *p = place_in(files);
    rt_archive_i64(ar, &num, 0, INT64_MAX);
    rt_archive_i64(ar, &files->at, 0, num);
    if (files->dealer) {
        rt_archive_position(ar, &files->taken);
        rt_archive_bool(ar, &files->has_file);
    }
    rt_archive_bool(ar, &within);
    rt_archive_position(ar, &p->record);
    rt_archive_position(ar, &p->line);
    rt_archive_position(ar, &p->offset);
    rt_archive_i64(ar, &p->size, 0, INT64_MAX);
    files->resumes = within && !files->open;
    if (num != files->paths.len)
        rt_archive_fail(ar, "%s: there were %lld files, and are %d now",
                        rt_stage_location(n), (long long)num, files->paths.len);
}

static const RtNodeOps files_ops = {files_next, files_rewind, files_archive,
                                    files_skip};

/* ---- making one ---------------------------------------------------------- */

/* The name in the folder of a file that is not there which is most like it, or
 * NULL. */
static const char *
file_beside(Arena *a, const char *path)
{
    FileNames names = {0};
    const char *slash = strrchr(path, '/');
    const char *folder =
        slash ? arena_printf(a, "%.*s", (int)(slash - path) + 1, path) : ".";
    if (access(path, F_OK) == 0)
        return NULL;
    Status st = file_list(a, folder, &names);
    bool is_read = !st;
    status_free(st);
    return is_read
               ? nearest_name(slash ? slash + 1 : path, names.data, names.len)
               : NULL;
}

/* The line of the stage, and a note with a file of almost that name. */
static Status
show_with_near(const RtNode *n, const char *path, Status st)
{
    Arena *scratch = arena_new(NULL, "names of files");
    Str lines = str_new(scratch);
    const char *near = file_beside(scratch, path);
    st = rt_stage_show(n, st);
    str_add(&lines, status_lines(st));
    if (near)
        str_addf(&lines, "%s: note: did you mean \"%s\"?\n",
                 rt_stage_location(n), near);
    st = status_show(st, str_text(&lines));
    arena_release(scratch);
    return st;
}

/* name is the path as the program has it. */
static Status
while_opening(const RtNode *n, const char *path, const char *name, Status st)
{
    if (!st)
        return OK;
    return status_note(show_with_near(n, path, st), "opening %s(\"%s\") at %s",
                       ir_stage_info[n->stage->kind].name, name,
                       rt_stage_location(n));
}

/* The beginning of a file, and its first record. */
static Status
check_file(RtNode *n, int i, RtElement *scratch, int64_t *room)
{
    Files *s = n->state;
    bool end;
    s->at = i;
    Status st = open_file(n);
    if (!st)
        st = s->format->next(&s->file, scratch, &end);
    s->paths.data[i].size = s->file.size;
    if (!st && s->file.stream && *room < rt_stream_footprint(s->file.stream))
        *room = rt_stream_footprint(s->file.stream);
    close_file(s);
    return while_opening(n, s->paths.data[i].path, s->paths.data[i].name, st);
}

static const RtFileFormat *
format_of(const RtNode *n)
{
    switch ((StageKind)n->stage->kind) {
    case STAGE_npy:
        return &rt_npy_format;
    case STAGE_npz:
        return &rt_npz_format;
    case STAGE_idx:
        return &rt_idx_format;
    case STAGE_bytes:
        return &rt_bytes_format;
    case STAGE_lines:
        return &rt_lines_format;
    case STAGE_csv:
        return &rt_csv_format;
    case STAGE_tfrecord:
        return &rt_tfrecord_format;
    case STAGE_range:
    case STAGE_tensors:
    case STAGE_map:
    case STAGE_filter:
    case STAGE_batch:
    case STAGE_unbatch:
    case STAGE_window:
    case STAGE_lanes:
    case STAGE_shuffle:
    case STAGE_repeat:
    case STAGE_take:
    case STAGE_skip:
    case STAGE_shard:
    case STAGE_zip:
    case STAGE_concat:
    case STAGE_cache:
    case STAGE_prefetch:
    case NUM_STAGES:
        break;
    }
    UNREACHABLE("%s reads no files", ir_stage_info[n->stage->kind].name);
}

/* A path of the plan with the values of params; NULL: it has others. */
static const char *
path_of(const RtNode *n, const char *path, const RtDataOptions *options)
{
    size_t len = strlen(IR_PATH_FORMAT);
    if (strncmp(path, IR_PATH_FORMAT, len) != 0)
        return path;
    Str s = str_new(n->arena);
    const char *format =
        format_fill(n->arena, path + len, options->texts, options->num_texts);
    if (format)
        format_text(&s, format, 0, NULL);
    return format ? str_text(&s) : NULL;
}

static Status
add_stated(RtNode *n, const char *stated, const RtDataOptions *options)
{
    const char *path = path_of(n, stated, options);
    if (!path || !*path)
        return status_new(STATUS_INPUT, "%s: a param gives it no path",
                          rt_stage_location(n));
    const char *dir = folder_before(n, path, options);
    return while_opening(n, arena_printf(n->arena, "%s%s", dir, path), path,
                         add_paths(n, path, dir));
}

Status
rt_files_new(RtNode *n, const RtDataOptions *options)
{
    int64_t room = 0;
    Files *s = NEW(n->arena, Files);
    s->format = format_of(n);
    n->state = s;
    n->ops = &files_ops;
    for (int i = 0; i < n->stage->paths.len; i++)
        TRY(add_stated(n, n->stage->paths.data[i], options));
    RtElement scratch = rt_element_new(n);
    for (int i = 0; i < s->paths.len; i++)
        TRY(check_file(n, i, &scratch, &room));
    s->all = s->paths;
    if (options->file_bytes)
        *options->file_bytes += room;
    return OK;
}

/* ---- sharding ------------------------------------------------------------ */

int64_t
rt_pipeline_num_files(const RtNode *last)
{
    int64_t n = INT64_MAX;
    for (; last->input; last = last->input)
        if (last->other)
            n = min_i64(n, rt_pipeline_num_files(last->other));
    if (last->ops != &files_ops)
        return 0;
    return min_i64(n, ((const Files *)last->state)->paths.len);
}

void
rt_pipeline_shard_files(RtNode *last, int num, int index)
{
    for (; last->input; last = last->input)
        if (last->other)
            rt_pipeline_shard_files(last->other, num, index);
    Files *s = last->state;
    s->paths = (Paths){0};
    for (int64_t i = index; index < num && i < s->all.len; i += num)
        VEC_PUSH(last->arena, s->paths, s->all.data[i]);
}

void
rt_pipeline_deal_files(RtNode *last, RtFileDealer *dealer)
{
    Str names = str_new(last->arena);
    while (last->input)
        last = last->input;
    if (last->ops != &files_ops)
        return;
    Files *s = last->state;
    for (int i = 0; i < s->all.len; i++)
        str_addn(&names, s->all.data[i].name, strlen(s->all.data[i].name) + 1);
    s->dealer = dealer;
    s->names = hash_text(last->arena, names.data, names.len);
}

void
rt_pipeline_files(const RtNode *last, RtTakeFile *take, void *data)
{
    for (; last->input; last = last->input)
        if (last->other)
            rt_pipeline_files(last->other, take, data);
    if (last->ops != &files_ops)
        return;
    const Paths *all = &((const Files *)last->state)->all;
    for (int i = 0; i < all->len; i++) {
        const Path *p = &all->data[i];
        take(data, &(RtDataFile){last->stage->loc, p->name, p->size});
    }
}
