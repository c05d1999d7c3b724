/*
 * use.c - files that a file uses: others beside it, and those of the library
 *
 * A file is read once however often it is used; it has a scope of its own, and
 * its variables have the file's name as a prefix: mine.w.
 *
 * It has a path, by which it is opened and which messages show, and a name,
 * which is in the plan: the path from the program's folder, as the files that
 * lead to it spell it.  So the plan does not depend on the folder or path by
 * which the program is compiled (D14).
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/toplevel/toplevel.h"

#include <string.h>
#include "frontend/lib/library.h"
#include "frontend/syntax/parse.h"
#include "ir/base/io/file.h"

/* ---- reading ------------------------------------------------------------ */

/* The path of name beside the file that uses it, whose path or name is `from`.
 */
static const char *
sibling_path(Lower *cx, const char *from, const char *name)
{
    const char *slash = strrchr(from, '/');
    if (name[0] == '/' || !slash)
        return name;
    return fe_format(cx, "%.*s/%s", (int)(slash - from), from, name);
}

/* Where the part of a path that ends at `end` begins. */
static size_t
component_start(const char *path, size_t end)
{
    while (end > 0 && path[end - 1] != '/')
        end--;
    return end;
}

static bool
is_component(const char *part, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(part, text, len) == 0;
}

/* A path without "." and without a folder that ".." leaves again.  Good for
 * names alone: a folder may be a link to elsewhere. */
static const char *
normalize_path(Lower *cx, const char *path)
{
    char *out = arena_alloc(cx->arena, strlen(path) + 2);
    size_t n = 0;
    while (*path) {
        size_t len = strcspn(path, "/"),
               last = n ? component_start(out, n - 1) : 0;
        bool up = is_component(path, len, ".."),
             known = n > 0 && !is_component(out + last, n - 1 - last, "..");
        if (up && known) {
            n = last;
        } else if (len && !is_component(path, len, ".")) {
            memcpy(out + n, path, len);
            n += len;
            out[n++] = '/';
        }
        path += len + (path[len] == '/');
    }
    out[n ? n - 1 : 0] = '\0';
    return out;
}

/* The name in the plan of a file that `user` uses: its place on the disk is
 * left out. */
static const char *
sibling_name(Lower *cx, uint16_t user, const char *name)
{
    if (name[0] == '/')
        return file_name(name);
    const char *from = diag_source_name(cx->diag, user);
    return normalize_path(cx, sibling_path(cx, from, name));
}

/* Reports why a file could not be read; frees st. */
static void
report_status(Lower *cx, Loc loc, Status st)
{
    if (st)
        fe_error(cx, loc, "%s", status_message(st));
    if (st && status_kind(st) == STATUS_MACHINE)
        diag_blame_machine(cx->diag);
    status_free(st);
}

static const char *
read_source(Lower *cx, const char *path, Loc loc, size_t *len)
{
    char *text = NULL;
    report_status(cx, loc,
                  file_read_limited(cx->arena, path, LIMIT_source, &text, len));
    return text;
}

static bool
is_same_file(Lower *cx, const char *known, const char *path, Loc loc)
{
    bool same = false;
    report_status(cx, loc, file_is_same(known, path, &same));
    return same;
}

/* ---- files -------------------------------------------------------------- */

static bool
is_library_path(const char *path)
{
    for (int i = 0; i < fe_library_len; i++)
        if (fe_library[i].file == path)
            return true;
    return false;
}

Loc
fe_user_loc(const Lower *cx, Loc loc)
{
    return ir_own_loc(cx->diag, loc, cx->module->calls);
}

/* That of a path on the disk: a file of the library of that name is another. */
static FeScope *
find_file(Lower *cx, const char *path, Loc loc)
{
    for (int i = 0; i < cx->files.len; i++) {
        const char *known = cx->files.data[i].path;
        if (!is_library_path(known) && is_same_file(cx, known, path, loc))
            return cx->files.data[i].scope;
    }
    return NULL;
}

/* "mine" of dir/mine.tfd. */
static const char *
stem_of(Lower *cx, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t n = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    return intern_n(cx->names, name, n);
}

/* Declarations that only the main file may have. */
static void
check_is_used(Lower *cx, const AstList *decls)
{
    for (int i = 0; i < decls->len; i++) {
        const AstNode *n = decls->data[i];
        bool is_main = n->kind == AST_MAIN || n->kind == AST_EVALUATE;
        if (is_main || n->kind == AST_STRATEGY)
            fe_error(cx, n->loc, "a file that is used has no %s",
                     is_main ? "main" : "strategy");
    }
}

/* A new file, parsed and bound; NULL with a message. */
static FeScope *
add_text(Lower *cx, const char *path, const char *name, const char *text,
         size_t len, Loc loc)
{
    cx->source_bytes += len;
    bool too_many = cx->files.len >= limit_value(LIMIT_files);
    if (too_many || (int64_t)cx->source_bytes > limit_value(LIMIT_source)) {
        fe_stop(cx, loc, too_many ? LIMIT_files : LIMIT_source);
        return NULL;
    }
    uint16_t file = diag_add_source(cx->diag, name, text, len);
    diag_set_path(cx->diag, file, path);
    if (is_library_path(path))
        diag_set_library(cx->diag, file);
    AstNode *tree = fe_parse(cx->arena, cx->names, cx->diag, file, text, len);
    if (!tree) {
        cx->num_errors++;
        return NULL;
    }
    FeScope *scope = fe_scope_new(cx, cx->builtins, SCOPE_FILE);
    FeFile entry = {path, scope};
    VEC_PUSH(cx->arena, cx->files, entry);
    scope->prefix = fe_format(cx, "%s.", stem_of(cx, path));
    check_is_used(cx, &tree->program.decls);
    fe_declare(cx, scope, &tree->program.decls);
    fe_evaluate(cx, scope);
    return scope;
}

static FeScope *
add_file(Lower *cx, const char *path, const char *name, Loc loc)
{
    size_t len;
    const char *text = read_source(cx, path, loc, &len);
    return text ? add_text(cx, path, name, text, len, loc) : NULL;
}

/* ---- use ---------------------------------------------------------------- */

static bool
is_used(const FeScope *scope, const FeScope *file)
{
    for (int i = 0; i < scope->used.len; i++)
        if (scope->used.data[i] == file)
            return true;
    return false;
}

/* Makes the names of a file visible, and itself by its name. */
static void
bind_file(Lower *cx, FeScope *scope, const char *name, FeScope *file, Loc loc)
{
    FeValue *space = fe_value_new(cx->arena, FE_NAMESPACE);
    space->space = file;
    fe_bind(cx, scope, name, space, loc);
    if (!is_used(scope, file))
        VEC_PUSH(cx->arena, scope->used, file);
}

static void
use_file(Lower *cx, FeScope *scope, const AstNode *module)
{
    const char *name = fe_ast_string_text(module);
    uint16_t user = module->loc.file;
    const char *path = sibling_path(cx, diag_source_path(cx->diag, user), name);
    FeScope *file = find_file(cx, path, module->loc);
    if (!file)
        file = add_file(cx, path, sibling_name(cx, user, name), module->loc);
    if (file)
        bind_file(cx, scope, stem_of(cx, path), file, module->loc);
}

static const FeLibraryFile *
find_in_library(const char *name)
{
    for (int i = 0; i < fe_library_len; i++)
        if (strcmp(fe_library[i].name, name) == 0)
            return &fe_library[i];
    return NULL;
}

static FeScope *
find_library_scope(const Lower *cx, const FeLibraryFile *f)
{
    for (int i = 0; i < cx->files.len; i++)
        if (cx->files.data[i].path == f->file)
            return cx->files.data[i].scope;
    return NULL;
}

static const char *
module_note(Lower *cx, const FeScope *scope, const char *near)
{
    const FeScope *used = find_library_scope(cx, find_in_library(near));
    if (used && is_used(scope, used))
        return fe_format(cx, "\"%s\" is used already: leave this out", near);
    return fe_format(cx, "did you mean \"%s\"?", near);
}

static void
unknown_module(Lower *cx, const FeScope *scope, const AstNode *module)
{
    VEC(const char *) names = {0};
    for (int i = 0; i < fe_library_len; i++)
        VEC_PUSH(cx->arena, names, fe_library[i].name);
    const char *name = module->name.text;
    const char *near = nearest_name(name, names.data, names.len);
    const char *note = near ? module_note(cx, scope, near) : NULL;
    fe_error_note(cx, module->loc, note,
                  "the standard library has no module \"%s\"", name);
}

static void
use_library(Lower *cx, FeScope *scope, const AstNode *module)
{
    const FeLibraryFile *f = find_in_library(module->name.text);
    if (!f) {
        unknown_module(cx, scope, module);
        return;
    }
    FeScope *file = find_library_scope(cx, f);
    if (!file)
        file = add_text(cx, f->file, f->file, f->text, f->len, module->loc);
    if (file)
        bind_file(cx, scope, module->name.text, file, module->loc);
}

void
fe_use_modules(Lower *cx, FeScope *scope, const AstNode *use)
{
    for (int i = 0; i < use->use.modules.len; i++) {
        const AstNode *module = use->use.modules.data[i];
        if (module->kind == AST_STRING)
            use_file(cx, scope, module);
        else
            use_library(cx, scope, module);
    }
}
