/*
 * measure.c - the kernels of a program, as text and on the emulator
 *
 *   measure [--tf32] SOURCE_ROOT OUT PROGRAM DEVICES [NAME=VALUE...]
 *
 * Compiles PROGRAM (a path from SOURCE_ROOT; with --tf32 its products are for
 * tensor cores), writes the texts of its kernels
 * as OUT.sm_80.ptx and OUT.sm_90.ptx and prints a row for each:
 *
 *   kernel NAME LINE FORM ITEMS BLOCKS BYTES RUNS
 *
 * BLOCKS is the most blocks of a launch that have work, BYTES the sum of its
 * arrays, RUNS how often the program's largest device program launches it.  A
 * kernel in two launches has a row for each.
 * After "end" it reads lines
 *
 *   NAME GPU GRID BLOCKS
 *
 * executes the first BLOCKS blocks (0: all) of such a launch and prints
 *
 *   launch NAME GPU and a word NAME=NUMBER for each count
 *
 * Batches are full.  Floats of inputs are numbers around 1, integers small:
 * slow paths for exceptional operands are not taken.  Nothing is checked here;
 * kernels_test compares results.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "backend/codegen/emit.h"
#include "backend/ptx/ptx.h"
#include "ir/analysis/cost.h"
#include "ir/base/io/file.h"
#include "ir/plan/abi.h"
#include "tests/codegen/code_cache.h"
#include "tests/codegen/sources.h"
#include "tests/cuda/ptx/mix.h"
#include "tests/cuda/ptx/ptx.h"

enum { MAX_WORDS = 64, MAX_ARRAYS = 1024, SECTOR = 32, APART = 40 };
static const char *const gpus[] = {"sm_80", "sm_90"};
enum { NUM_GPUS = sizeof gpus / sizeof *gpus };

static void
must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "measure: %s\n", what);
        exit(1);
    }
}

/* ---- kernels ------------------------------------------------------------ */

static const char *
form_of(const BeKernel *k)
{
    if (be_kernel_contains(&k->body, K_CONTRACT))
        return "contraction";
    if (be_kernel_contains(&k->body, K_REDUCE))
        return "reduction";
    if (be_kernel_contains(&k->body, K_SCAN) ||
        be_kernel_contains(&k->body, K_SORT))
        return "scan";
    return be_kernel_contains(&k->body, K_PICK) ? "gather" : "elementwise";
}

static int64_t
bytes_of(const BeKernel *k, const KArray *x)
{
    return be_dim_bound(k, x->size) * (int64_t)dtype_info[x->dtype].bytes;
}

static int64_t
bytes_of_arrays(const BeKernel *k)
{
    int64_t sum = 0;
    for (int role = K_IN; role <= K_OUT; role++)
        for (int i = 0; i < k->arrays[role].len; i++)
            sum += bytes_of(k, k->arrays[role].data[i]);
    return sum;
}

/* Equal kernels have one name, and are one in a plan. */
static bool
is_of(const BeKernels *all, const IrOp *op, const BeKernel *k)
{
    return !strcmp(be_kernel_of(all, op)->name, k->name);
}

static int
count_in_block(const BeKernels *all, const IrBlock *b, const BeKernel *k)
{
    int n = 0;
    for (const IrOp *op = b->first; op; op = op->next) {
        if (op->kind == OP_kernel)
            n += is_of(all, op, k);
        for (int r = 0; op->kind != OP_kernel && r < op->num_regions; r++)
            n += count_in_block(all, op->regions[r], k);
    }
    return n;
}

static const IrFunc *
largest_program(const IrModule *m)
{
    const IrFunc *found = NULL;
    double most = -1.0;
    const IrMachine *machine = ir_machine_of(m);
    for (const IrFunc *fn = m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_PROGRAM)
            continue;
        double seconds = ir_program_seconds(m, fn, machine, 1);
        if (seconds > most) {
            most = seconds;
            found = fn;
        }
    }
    return found;
}

static int
line_of_block(const BeKernels *all, const IrBlock *b, const BeKernel *k)
{
    int line = 0;
    for (const IrOp *op = b->first; op && !line; op = op->next) {
        if (op->kind == OP_kernel && is_of(all, op, k))
            line = (int)op->loc.line;
        for (int r = 0; op->kind != OP_kernel && r < op->num_regions; r++)
            line = line ? line : line_of_block(all, op->regions[r], k);
    }
    return line;
}

static int
line_of(const IrModule *m, const BeKernels *all, const BeKernel *k)
{
    int line = 0;
    for (const IrFunc *fn = m->first; fn && !line; fn = fn->next)
        line = line_of_block(all, fn->body, k);
    return line;
}

static const BeTarget *
target_of_launches(const BeKernel *k)
{
    const BeTarget *target;
    int num;
    must(!be_targets_parse(k->arena, gpus[0], &target, &num), "no target");
    return target;
}

/* The first launch writes parts for the second one; who does what with other
 * arrays is not told apart. */
static void
print_kernel(const BeKernel *k, int line, int runs)
{
    BePtxLaunches l = be_ptx_launches(k, target_of_launches(k));
    long long bytes = (long long)(bytes_of_arrays(k) + l.scratch);
    long long items = be_items_bound(k);
    printf("kernel %s %d %s %lld %lld %lld %d\n", k->name, line, form_of(k),
           l.rest_blocks ? (long long)l.blocks : items, (long long)l.blocks,
           bytes, runs);
    if (l.rest_blocks)
        printf("kernel %s%s %d sum %lld %lld %lld %d\n", k->name, TFD_REST,
               line, (long long)l.rest_blocks, (long long)l.rest_blocks, bytes,
               runs);
}

static void
print_kernels(const IrModule *m, const BeKernels *all)
{
    const IrFunc *program = largest_program(m);
    for (int i = 0; i < all->len; i++) {
        const BeKernel *k = all->data[i];
        print_kernel(k, line_of(m, all, k),
                     program ? count_in_block(all, program->body, k) : 0);
    }
    puts("end");
    fflush(stdout);
}

/* ---- memory ------------------------------------------------------------- */

/* Inputs repeat a piece of a file, so that an array of any size takes none of
 * the host's memory before it is written. */
enum { PIECE = 1 << 21 };

static int
piece_of(DType t)
{
    static int files[NUM_DTYPES];
    static char bytes[PIECE];
    if (files[t])
        return files[t];
    size_t num = PIECE / dtype_info[t].bytes;
    for (size_t i = 0; i < num; i++) {
        uint64_t r = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
        scalar_store(t, bytes, (int64_t)i,
                     dtype_is_float(t)
                         ? scalar_float(t, 0.5 + (double)r / (1 << 24))
                         : scalar_int(t, (int64_t)(r % 48)));
    }
    files[t] = memfd_create("piece", 0);
    must(files[t] > 0 && write(files[t], bytes, PIECE) == PIECE, "no file");
    return files[t];
}

static size_t
rounded(size_t bytes)
{
    return (bytes + PIECE) / PIECE * PIECE;
}

static void *
reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(p != MAP_FAILED, "no memory");
    return p;
}

/* What a block has touched of 32 bytes of an array. */
typedef struct Sector {
    uint32_t block; /* its number, from 1 */
    uint32_t bytes; /* a bit for each */
} Sector;

typedef struct Array {
    size_t bytes;
    uint8_t *host;
    Sector *sectors;
    uint64_t touched; /* sectors, over all blocks */
} Array;

/* One launch. */
typedef struct Run {
    Array arrays[MAX_ARRAYS];
    int num;
    uint64_t moved;     /* bytes: sectors, each once for a block */
    uint64_t needed;    /* bytes of those */
    uint64_t requested; /* bytes: sectors, each time a warp asks for them */
    uint64_t accessed, accessed_128; /* bytes that warps ask for */
} Run;

static uint64_t
address_of(int i)
{
    return ((uint64_t)i + 1) << APART;
}

static bool
find_array(void *context, uint64_t address, PtxRange *out)
{
    const Run *run = context;
    uint64_t i = (address >> APART) - 1;
    if (i >= (uint64_t)run->num)
        return false;
    const Array *x = &run->arrays[i];
    uint64_t begin = address_of((int)i);
    *out = (PtxRange){.begin = begin, .end = begin + x->bytes, .host = x->host};
    return address < out->end;
}

static void
open_array(Array *x, size_t bytes, DType dtype)
{
    x->bytes = bytes;
    size_t size = rounded(x->bytes);
    x->host = reserve(size);
    x->sectors = reserve(size / SECTOR * sizeof(Sector));
    for (size_t at = 0; at < size; at += PIECE)
        must(mmap(x->host + at, PIECE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, piece_of(dtype),
                  0) != MAP_FAILED,
             "no memory");
}

static void
close_array(Array *x)
{
    size_t size = rounded(x->bytes);
    munmap(x->host, size);
    munmap(x->sectors, size / SECTOR * sizeof(Sector));
}

/* ---- traffic ------------------------------------------------------------ */

static void
touch_sector(Run *run, uint64_t address, uint32_t bytes, uint64_t block)
{
    Array *x = &run->arrays[(address >> APART) - 1];
    uint64_t offset = address & ((UINT64_C(1) << APART) - 1);
    Sector *s = &x->sectors[offset / SECTOR];
    uint32_t mask = (uint32_t)(((UINT64_C(1) << bytes) - 1) << offset % SECTOR);
    if (s->block != block + 1) {
        *s = (Sector){(uint32_t)block + 1, 0};
        run->moved += SECTOR;
        x->touched++;
    }
    run->needed += (uint64_t)__builtin_popcount(mask & ~s->bytes);
    s->bytes |= mask;
}

/* Sectors of one access; neighbouring lanes have neighbouring ones, most of the
 * time. */
static uint64_t
count_sectors(const PtxTraffic *t)
{
    uint64_t seen[32];
    int num = 0;
    for (int l = 0; l < 32; l++) {
        uint64_t sector = t->addresses[l] / SECTOR;
        if (!(t->lanes >> l & 1))
            continue;
        int i = num;
        while (i > 0 && seen[i - 1] != sector)
            i--;
        if (i == 0)
            seen[num++] = sector;
    }
    return (uint64_t)num;
}

/* Of neighbouring lanes that have one address, one counts. */
static uint64_t
count_bytes(const PtxTraffic *t)
{
    uint64_t bytes = 0, last = UINT64_MAX;
    for (int l = 0; l < 32; l++) {
        if (!(t->lanes >> l & 1))
            continue;
        bytes += t->addresses[l] == last ? 0 : t->bytes;
        last = t->addresses[l];
    }
    return bytes;
}

static void
observe(void *context, const PtxTraffic *t)
{
    Run *run = context;
    uint64_t bytes = count_bytes(t);
    if (t->addresses[__builtin_ctz(t->lanes)] >> APART > (uint64_t)run->num)
        return; /* a table of the kernel */
    run->accessed += bytes;
    run->accessed_128 += t->bytes == 16 ? bytes : 0;
    run->requested += SECTOR * count_sectors(t);
    for (int l = 0; l < 32; l++)
        if (t->lanes >> l & 1)
            touch_sector(run, t->addresses[l], t->bytes, t->block);
}

/* ---- launches ----------------------------------------------------------- */

static int
set_words(const BeKernel *k, uint64_t *words)
{
    for (int i = 0; i < k->pairs.len; i++) {
        const KPair *p = &k->pairs.data[i];
        int64_t all = p->total < 0 ? p->bound : p->total;
        words[ir_batch_word(i, BATCH_n)] = (uint64_t)p->bound;
        words[ir_batch_word(i, BATCH_N)] = (uint64_t)all;
        words[ir_batch_word(i, BATCH_ROW_START)] = 0;
    }
    if (k->uses_replica)
        words[be_kernel_replica_word(k)] = 0;
    return be_kernel_replica_word(k) + k->uses_replica;
}

static void
open_arrays(Run *run, const BeKernel *k)
{
    for (int role = K_IN; role <= K_OUT; role++) {
        for (int i = 0; i < k->arrays[role].len; i++) {
            must(run->num < MAX_ARRAYS, "too many arrays");
            const KArray *x = k->arrays[role].data[i];
            open_array(&run->arrays[run->num++], (size_t)bytes_of(k, x),
                       x->dtype);
        }
    }
    BePtxLaunches l = be_ptx_launches(k, target_of_launches(k));
    must(run->num < MAX_ARRAYS, "too many arrays");
    if (l.rest_blocks)
        open_array(&run->arrays[run->num++], (size_t)l.scratch, DT_f32);
}

static void
print_launch(const Run *run, const PtxMix *mix, uint64_t load_groups,
             const PtxKernelInfo *info, const char *gpu)
{
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {
        {"threads", info->reqntid[0]},
        {"shared", info->static_shared},
        {"instructions", mix->all},
        {"fma", mix->fma_f32},
        {"floats", mix->float_arithmetic},
        {"doubles", mix->double_arithmetic},
        {"special", mix->divisions},
        {"mma", mix->mma},
        {"branches", mix->branches},
        {"barriers", mix->barriers},
        {"loads", mix->loads_global + mix->copies_async},
        {"load_groups", load_groups},
        {"stores", mix->stores_global},
        {"shared_accesses", mix->loads_shared + mix->stores_shared},
        {"shared_bytes", mix->shared_bytes},
        {"accessed", run->accessed},
        {"accessed_128", run->accessed_128},
        {"requested", run->requested},
        {"moved", run->moved},
        {"needed", run->needed},
    };
    printf("launch %s %s", info->name, gpu);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf(" %s=%llu", rows[i].name, (unsigned long long)rows[i].count);
    putchar('\n');
    fflush(stdout);
}

static void
launch(PtxMachine *machine, const PtxModule *module, const BeKernel *k,
       const char *name, const char *gpu, uint32_t grid, uint64_t blocks)
{
    static Run run;
    uint64_t params[MAX_ARRAYS + MAX_WORDS];
    const PtxKernel *kernel = ptx_module_find(module, name);
    must(kernel != NULL, "a kernel is not in its text");
    const PtxKernelInfo *info = ptx_kernel_info(kernel);
    size_t num = (size_t)info->num_instructions;
    uint64_t *executed = calloc(num + 1, sizeof *executed);
    must(executed != NULL, "no memory");
    run = (Run){.num = 0};
    open_arrays(&run, k);
    for (int i = 0; i < run.num; i++)
        params[i] = address_of(i);
    int words = set_words(k, params + run.num);
    PtxLaunch l = {.kernel = kernel,
                   .grid = {grid, 1, 1},
                   .block = {info->reqntid[0], 1, 1},
                   .only_blocks = blocks,
                   .params = params,
                   .param_bytes = (size_t)(run.num + words) * sizeof *params,
                   .memory = {find_array, &run},
                   .executed = executed,
                   .observe = observe,
                   .observer = &run};
    PtxReport report;
    if (!ptx_launch(machine, &l, &report))
        must(false, report.text);
    PtxMix mix = ptx_kernel_mix(kernel, executed);
    print_launch(&run, &mix, ptx_kernel_load_groups(kernel, executed), info,
                 gpu);
    for (int i = 0; i < run.num; i++)
        close_array(&run.arrays[i]);
    free(executed);
}

/* ---- all ---------------------------------------------------------------- */

static PtxModule *
open_texts(Arena *a, const BeKernels *kernels, const char *out, const char *gpu)
{
    Str text = str_new(a);
    BeOptions options = {
        .targets = gpu, .level = 2, .cache = code_cache(), .by_module = true};
    Status st = be_print_ptx(&text, kernels, &options);
    if (!st)
        st = file_write(arena_printf(a, "%s.%s.ptx", out, gpu), str_text(&text),
                        text.len);
    if (st)
        exit(status_report(st, out, stderr));
    PtxError error;
    PtxModule *m =
        ptx_module_open(str_text(&text), text.len, UINT64_C(1) << 60, &error);
    must(m != NULL, error.text);
    return m;
}

/* Of one of its functions. */
static const BeKernel *
kernel_named(const BeKernels *kernels, const char *name)
{
    for (int i = 0; i < kernels->len; i++) {
        size_t n = strlen(kernels->data[i]->name);
        if (!strncmp(kernels->data[i]->name, name, n) &&
            (!name[n] || !strcmp(name + n, TFD_REST)))
            return kernels->data[i];
    }
    return NULL;
}

static void
answer(PtxMachine *machine, PtxModule *const *modules, const BeKernels *kernels)
{
    char name[128], gpu[16];
    unsigned grid;
    unsigned long long blocks;
    while (scanf("%127s %15s %u %llu", name, gpu, &grid, &blocks) == 4) {
        const BeKernel *k = kernel_named(kernels, name);
        must(k != NULL, "no such kernel");
        launch(machine, modules[strcmp(gpu, gpus[0]) != 0], k, name, gpu, grid,
               blocks);
    }
}

int
main(int argc, char **argv)
{
    PassOptions how = {.level = 2};
    bool tf32 = argc > 1 && !strcmp(argv[1], "--tf32");
    how.precision = tf32 ? PASS_TF32 : PASS_EXACT;
    argv += tf32;
    argc -= tf32;
    if (argc < 5) {
        fputs("measure [--tf32] SOURCE_ROOT OUT PROGRAM DEVICES "
              "[NAME=VALUE...]\n",
              stderr);
        return 2;
    }
    Arena *a = arena_new(NULL, "measure");
    FeOptions options = {.path = argv[3],
                         .devices = argv[4],
                         .defines = (const char *const *)argv + 5,
                         .num_defines = argc - 5};
    IrModule *m;
    BeKernels kernels = program_read(a, argv[1], &options, &how, &m);
    PtxModule *modules[NUM_GPUS];
    for (int i = 0; i < NUM_GPUS; i++)
        modules[i] = open_texts(a, &kernels, argv[2], gpus[i]);
    print_kernels(m, &kernels);
    PtxMachine *machine = ptx_machine_new();
    answer(machine, modules, &kernels);
    ptx_machine_free(machine);
    for (int i = 0; i < NUM_GPUS; i++)
        ptx_module_close(modules[i]);
    arena_release(a);
    return 0;
}
