/*
 * use.c - files that a file uses: others beside it, and those of the library
 *
 * A file is read once however often it is used; it has a scope of its own, and
 * what it declares is named with the file's name before it: mine.w.
 */
#include "frontend/eval.h"

#include <string.h>
#include "frontend/library.h"
#include "frontend/parse.h"
#include "runtime/base/file.h"

enum { MAX_USES = 256 };

/* ---- reading ------------------------------------------------------------ */

/* name beside the file that uses it. */
static const char *
path_beside(Lower *cx, uint16_t user, const char *name)
{
    const char *from = diag_source_name(cx->diag, user);
    const char *slash = strrchr(from, '/');
    if (name[0] == '/' || !slash)
        return name;
    return fe_format(cx, "%.*s/%s", (int)(slash - from), from, name);
}

static const char *
read_source(Lower *cx, const char *path, Loc loc, size_t *len)
{
    char *text = NULL;
    Status st = file_read(cx->arena, path, &text, len);
    if (st)
        fe_error(cx, loc, "%s", status_message(st));
    if (st && status_kind(st) == STATUS_MACHINE)
        diag_blame_machine(cx->diag);
    status_free(st);
    return text;
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

static bool
is_in_library(const Lower *cx, Loc loc)
{
    size_t len;
    const char *text = diag_source_text(cx->diag, loc.file, &len);
    for (int i = 0; i < fe_library_len; i++)
        if (fe_library[i].text == text)
            return true;
    return false;
}

Loc
fe_user_loc(const Lower *cx, Loc loc)
{
    const IrCall *call = cx->module->calls;
    for (; call && is_in_library(cx, loc); call = call->caller)
        loc = call->loc;
    return loc;
}

/* That of a path on the disk: a file of the library of that name is another. */
static FeScope *
find_file(const Lower *cx, const char *path)
{
    for (int i = 0; i < cx->files.len; i++) {
        const char *known = cx->files.data[i].path;
        if (!is_library_path(known) && strcmp(known, path) == 0)
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

/* What only the main file has. */
static void
check_is_used(Lower *cx, const AstList *decls)
{
    for (int i = 0; i < decls->len; i++) {
        const AstNode *n = decls->data[i];
        if (n->kind == AST_MAIN || n->kind == AST_STRATEGY)
            fe_error(cx, n->loc, "a file that is used has no %s",
                     n->kind == AST_MAIN ? "main" : "strategy");
    }
}

/* A new file, parsed and bound; NULL with a message. */
static FeScope *
add_text(Lower *cx, const char *path, const char *text, size_t len, Loc loc)
{
    if (cx->files.len >= MAX_USES) {
        fe_error(cx, loc, "more than %d files", MAX_USES);
        return NULL;
    }
    uint16_t file = diag_add_source(cx->diag, path, text, len);
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
add_file(Lower *cx, const char *path, Loc loc)
{
    size_t len;
    const char *text = read_source(cx, path, loc, &len);
    return text ? add_text(cx, path, text, len, loc) : NULL;
}

/* ---- use ---------------------------------------------------------------- */

/* Makes the names of a file visible, and itself by its name. */
static void
bind_file(Lower *cx, FeScope *scope, const char *name, FeScope *file, Loc loc)
{
    FeValue *space = fe_value_new(cx->arena, FE_SPACE);
    space->space = file;
    fe_bind(cx, scope, name, space, loc);
    VEC_PUSH(cx->arena, scope->used, file);
}

static void
use_file(Lower *cx, FeScope *scope, const AstNode *module)
{
    const char *name = ast_string_text(module);
    const char *path = path_beside(cx, module->loc.file, name);
    FeScope *file = find_file(cx, path);
    if (!file)
        file = add_file(cx, path, module->loc);
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

static void
unknown_module(Lower *cx, const AstNode *module)
{
    VEC(const char *) names = {0};
    for (int i = 0; i < fe_library_len; i++)
        VEC_PUSH(cx->arena, names, fe_library[i].name);
    const char *name = module->name.text;
    const char *near = nearest_name(name, names.data, names.len);
    const char *note =
        near ? fe_format(cx, "did you mean \"%s\"?", near) : NULL;
    fe_error_note(cx, module->loc, note,
                  "the standard library has no module \"%s\"", name);
}

static FeScope *
find_library_scope(const Lower *cx, const FeLibraryFile *f)
{
    for (int i = 0; i < cx->files.len; i++)
        if (cx->files.data[i].path == f->file)
            return cx->files.data[i].scope;
    return NULL;
}

static void
use_library(Lower *cx, FeScope *scope, const AstNode *module)
{
    const FeLibraryFile *f = find_in_library(module->name.text);
    if (!f) {
        unknown_module(cx, module);
        return;
    }
    FeScope *file = find_library_scope(cx, f);
    if (!file)
        file = add_text(cx, f->file, f->text, f->len, module->loc);
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
