/*
 * layers_test.c - which libraries and folders may use which (D22)
 *
 * Asked of three witnesses: the includes, the symbols that each library leaves
 * undefined, and the shared libraries that tfd-run loads.  Within a layer the
 * folders are in an order, too: no two include files of each other, directly
 * or through others.
 *
 *   layers_test SOURCE_ROOT BUILD_ROOT
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

#include "ir/base/io/file.h"
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "tests/conventions/tree.h"

typedef enum LayerId {
    BASE,
    IR,
    PLAN,
    RT,
    FRONTEND,
    PASSES,
    BACKEND,
    NUM_LAYERS
} LayerId;

#define ONE(layer) (1u << (layer))

typedef struct Layer {
    const char *name;
    const char *folder; /* the longest that begins a path decides */
    const char *library;
    unsigned knows; /* ONE(layer) of each, itself too */
} Layer;

static const Layer layers[NUM_LAYERS] = {
    [BASE] = {"base", "ir/base/", "ir/base/libbase.a", ONE(BASE)},
    [IR] = {"ir", "ir/", "ir/libir.a", ONE(BASE) | ONE(IR)},
    [PLAN] = {"plan", "ir/plan/", "ir/plan/libplan.a",
              ONE(BASE) | ONE(IR) | ONE(PLAN)},
    [RT] = {"rt", "runtime/", "runtime/librt.a",
            ONE(BASE) | ONE(IR) | ONE(PLAN) | ONE(RT)},
    [FRONTEND] = {"frontend", "frontend/", "frontend/libfrontend.a",
                  ONE(BASE) | ONE(IR) | ONE(FRONTEND)},
    [PASSES] = {"passes", "passes/", "passes/libpasses.a",
                ONE(BASE) | ONE(IR) | ONE(PASSES)},
    [BACKEND] = {"backend", "backend/", "backend/libbackend.a",
                 ONE(BASE) | ONE(IR) | ONE(PLAN) | ONE(BACKEND)},
};

/* These link several layers and belong to none. */
static const char *const programs[] = {"frontend/tfdc.c", "runtime/tfd_run.c",
                                       "runtime/tfd_run_options.c",
                                       "ir/ops/gen_ops_doc.c"};

static const char *source_root, *build_root;
static int num_faults; /* of one test; each is printed */

static int
set_up(void **state)
{
    new_arena(state);
    num_faults = 0;
    return 0;
}

static void
fault(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_error("%s\n", arena_vprintf(arena, format, args));
    va_end(args);
    num_faults++;
}

static bool
begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* The layer of a path, or NUM_LAYERS. */
static LayerId
layer_of(const char *path)
{
    LayerId best = NUM_LAYERS;
    for (int i = 0; i < NUM_LAYERS; i++) {
        const char *folder = layers[i].folder;
        if (begins_with(path, folder) &&
            (best == NUM_LAYERS ||
             strlen(folder) > strlen(layers[best].folder)))
            best = (LayerId)i;
    }
    return best;
}

static bool
is_program(const char *path)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(path, programs[i]) == 0)
            return true;
    return false;
}

static void
check_include(const char *path, LayerId layer, const char *included)
{
    LayerId other = layer_of(included);
    if (begins_with(included, "llvm-c/") || begins_with(included, "llvm/")) {
        if (layer != BACKEND)
            fault("%s includes LLVM's %s", path, included);
    } else if (begins_with(included, "tests/")) {
        fault("%s includes %s", path, included);
    } else if (other != NUM_LAYERS && !(layers[layer].knows & ONE(other))) {
        fault("%s includes %s: %s may not know %s", path, included,
              layers[layer].name, layers[other].name);
    }
}

/* Calls check for each #include of the text, whichever quotes it has. */
static void
check_includes(const char *path, LayerId layer, char *text)
{
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char name[256];
        if (sscanf(line, " # include %*[\"<]%255[^\">]", name) == 1)
            check_include(path, layer, name);
    }
}

static void
includes_follow_the_arrows(void **state)
{
    (void)state;
    int num_files = 0;
    TreePaths paths = tree_sources(arena, source_root);
    for (int i = 0; i < paths.len; i++) {
        const char *path = paths.data[i];
        LayerId layer = layer_of(path);
        char *text;
        size_t len;
        if (layer == NUM_LAYERS || is_program(path))
            continue;
        const char *full = arena_printf(arena, "%s/%s", source_root, path);
        assert_null(file_read(arena, full, &text, &len));
        check_includes(path, layer, text);
        num_files++;
    }
    assert_true(num_files > 10);
    assert_int_equal(num_faults, 0);
}

/* ---- folders ------------------------------------------------------------ */

/* One folder that includes files of another. */
typedef struct FolderUse {
    int folder;
    const char *file, *included; /* by which, the first that does */
} FolderUse;

typedef enum Visit { UNSEEN, ON_PATH, DONE } Visit;

typedef struct Folder {
    const char *name;
    VEC(FolderUse) uses;
    Visit visit;
} Folder;

typedef VEC(Folder) Folders;

static int
folder_of(Folders *folders, const char *path)
{
    size_t len = (size_t)(strrchr(path, '/') - path);
    for (int i = 0; i < folders->len; i++) {
        const char *name = folders->data[i].name;
        if (strlen(name) == len && strncmp(name, path, len) == 0)
            return i;
    }
    Folder new = {.name = arena_strndup(arena, path, len)};
    VEC_PUSH(arena, *folders, new);
    return folders->len - 1;
}

static void
add_use(Folders *folders, const char *path, const char *included)
{
    if (layer_of(included) == NUM_LAYERS || !strchr(included, '/'))
        return;
    int from = folder_of(folders, path), to = folder_of(folders, included);
    Folder *f = &folders->data[from];
    for (int i = 0; i < f->uses.len; i++)
        if (f->uses.data[i].folder == to)
            return;
    if (from != to)
        VEC_PUSH(arena, f->uses, ((FolderUse){to, path, included}));
}

/* The folders that f uses come before it, or there is a circle. */
static void
visit_folder(Folders *folders, int number)
{
    Folder *f = &folders->data[number];
    f->visit = ON_PATH;
    for (int i = 0; i < f->uses.len; i++) {
        const FolderUse *use = &f->uses.data[i];
        Folder *to = &folders->data[use->folder];
        if (to->visit == ON_PATH)
            fault("%s and %s use each other: %s includes %s", f->name, to->name,
                  use->file, use->included);
        else if (to->visit == UNSEEN)
            visit_folder(folders, use->folder);
    }
    f->visit = DONE;
}

static void
folders_have_no_circle(void **state)
{
    (void)state;
    Folders folders = {0};
    TreePaths paths = tree_sources(arena, source_root);
    for (int i = 0; i < paths.len; i++) {
        const char *path = paths.data[i];
        if (layer_of(path) == NUM_LAYERS || is_program(path))
            continue;
        char *text, *rest;
        size_t len;
        const char *full = arena_printf(arena, "%s/%s", source_root, path);
        assert_null(file_read(arena, full, &text, &len));
        for (char *line = strtok_r(text, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest)) {
            char name[256];
            if (sscanf(line, " # include \"%255[^\"]", name) == 1)
                add_use(&folders, path, arena_strdup(arena, name));
        }
    }
    assert_true(folders.len > 20);
    for (int i = 0; i < folders.len; i++)
        if (folders.data[i].visit == UNSEEN)
            visit_folder(&folders, i);
    assert_int_equal(num_faults, 0);
}

/* ---- symbols ------------------------------------------------------------ */

/* Sets of names: maps whose values only have to be non-NULL. */
typedef struct Symbols {
    bool built;
    Map *defined;
    Map *undefined;
} Symbols;

static char present;

static const char *
library_path(LayerId layer)
{
    return arena_printf(arena, "%s/%s", build_root, layers[layer].library);
}

/* Parses lines "0000 T name" and "U name" of nm, under the names of the
 * members. */
static Symbols
read_symbols(LayerId layer)
{
    Symbols s = {.defined = map_new(arena), .undefined = map_new(arena)};
    const char *path = library_path(layer);
    char line[512], name[400], kind;
    s.built = access(path, R_OK) == 0;
    if (!s.built)
        return s;
    FILE *nm = popen(arena_printf(arena, "nm -g '%s' 2>&1", path), "r");
    assert_non_null(nm);
    while (fgets(line, sizeof line, nm)) {
        if (sscanf(line, " U %399s", name) == 1)
            map_set(s.undefined, name, &present);
        else if (sscanf(line, "%*x %c %399s", &kind, name) == 2)
            map_set(s.defined, name, &present);
    }
    assert_int_equal(pclose(nm), 0);
    return s;
}

static void
check_symbol(LayerId layer, const char *name, const Symbols all[])
{
    if (begins_with(name, "LLVM") && layer != BACKEND)
        fault("%s needs %s of LLVM", layers[layer].name, name);
    for (int other = 0; other < NUM_LAYERS; other++)
        if (!(layers[layer].knows & ONE(other)) &&
            map_get(all[other].defined, name))
            fault("%s needs %s of %s", layers[layer].name, name,
                  layers[other].name);
}

static void
libraries_need_only_what_they_may_know(void **state)
{
    (void)state;
    Symbols all[NUM_LAYERS];
    for (int i = 0; i < NUM_LAYERS; i++)
        all[i] = read_symbols((LayerId)i);
    assert_true(all[BASE].built && map_count(all[BASE].defined) > 20);
    for (int i = 0; i < NUM_LAYERS; i++) {
        if (!all[i].built)
            fault("%s is not built", layers[i].library);
        for (int k = 0; k < map_count(all[i].undefined); k++)
            check_symbol((LayerId)i, map_key(all[i].undefined, k), all);
    }
    assert_int_equal(num_faults, 0);
}

/* What it opens by name where a run needs it, and what only tfdc needs. */
static const char *const not_of_the_runner[] = {
    "LLVM", "zmq", "mpi", "ucp", "uct", "ucs", "nccl", "cuda", "sodium"};

static void
check_loaded(const char *line)
{
    size_t n = sizeof not_of_the_runner / sizeof *not_of_the_runner;
    for (size_t i = 0; i < n; i++)
        if (strstr(line, arena_printf(arena, "lib%s", not_of_the_runner[i])))
            fault("tfd-run loads %s", line);
}

static void
the_runner_loads_no_library_of_a_compiler_or_a_cluster(void **state)
{
    (void)state;
    char line[1024];
    int num_lines = 0;
    const char *command =
        arena_printf(arena, "ldd '%s/tfd-run' 2>&1", build_root);
    FILE *ldd = popen(command, "r");
    assert_non_null(ldd);
    for (; fgets(line, sizeof line, ldd); num_lines++)
        check_loaded(line);
    assert_int_equal(pclose(ldd), 0);
    assert_true(num_lines > 0);
    assert_int_equal(num_faults, 0);
}

#define HOUSE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, release_arena)

int
main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: layers_test SOURCE_ROOT BUILD_ROOT\n");
        return 2;
    }
    source_root = argv[1];
    build_root = argv[2];
    const struct CMUnitTest tests[] = {
        HOUSE_TEST(includes_follow_the_arrows),
        HOUSE_TEST(folders_have_no_circle),
        HOUSE_TEST(libraries_need_only_what_they_may_know),
        HOUSE_TEST(the_runner_loads_no_library_of_a_compiler_or_a_cluster),
    };
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
