/*
 * loader.c - links relocatable objects into executable memory
 *
 * The mapping has three parts, each of whole pages: code, constants, data.  It
 * is filled while it is writable, and then protected, so that no page is ever
 * both writable and executable.
 *
 *   code        a stub for each runtime function, then sections with code
 *   constants   a slot for each relocation through the GOT, then sections
 *               that are only read
 *   data        sections that may be written
 *
 * A stub jumps to an address anywhere, so that calls need to reach no farther
 * than the mapping, which is kept below 1 GB.
 */
#include "runtime/load/loader.h"

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "ir/base/fail.h"
#include "ir/base/io/file.h"
#include "ir/base/message.h"
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "ir/plan/abi.h"

enum { PAGE = 4096, MAX_MAPPING = 1 << 30, STUB_BYTES = 16, SLOT_BYTES = 8 };

/* ---- functions that objects may call ------------------------------------- */

typedef struct Outside {
    const char *name;
    uintptr_t address;
} Outside;

#define OUTSIDE_ROW(name) {#name, (uintptr_t)name},
static const Outside outside[] = {TFD_ABI_CALLS(OUTSIDE_ROW)};

enum { NUM_OUTSIDE = sizeof outside / sizeof *outside };

/* ---- objects, sections and the parts of the mapping ---------------------- */

typedef enum Part { PART_CODE, PART_CONST, PART_DATA, NUM_PARTS } Part;

static const int part_protection[NUM_PARTS] = {
    [PART_CODE] = PROT_READ | PROT_EXEC,
    [PART_CONST] = PROT_READ,
    [PART_DATA] = PROT_READ | PROT_WRITE,
};

typedef struct Section {
    Elf64_Shdr head;
    bool laid; /* has bytes in the mapping */
    Part part;
    size_t offset; /* in its part */
    char *at;      /* in the mapping */
} Section;

typedef struct Object {
    const char *name;
    const char *bytes;
    size_t size;
    Section *sections;
    uint32_t num_sections;
    const Section *symbols; /* NULL: none */
    const Section *strings; /* of the symbols */
} Object;

typedef struct Symbol {
    char *at;
    bool is_code;
} Symbol;

typedef struct Loader {
    Arena *arena;
    Object *objects;
    int num;
    Map *globals; /* name -> Symbol */
    size_t part_size[NUM_PARTS];
    char *part_at[NUM_PARTS];
    char *stubs; /* in the order of `outside` */
    char *slots; /* the next free one */
} Loader;

struct RtCode {
    Arena *arena;
    char *mapping;
    size_t size;
    Map *globals;
};

static Status bad_object(const Object *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static Status
bad_object(const Object *o, const char *format, ...)
{
    Arena *scratch = arena_new(NULL, "refusing an object");
    va_list args;
    va_start(args, format);
    const char *why = message_vprintf(scratch, format, args);
    va_end(args);
    Status st = status_new(STATUS_INPUT, "cannot load \"%s\" of the plan: %s",
                           o->name, why);
    arena_release(scratch);
    return st;
}

/* Whether bytes from .. from + n are inside something of the given size. */
static bool
is_within(uint64_t from, uint64_t n, uint64_t size)
{
    return from <= size && n <= size - from;
}

/* ---- reading headers --------------------------------------------------- */

static bool
is_our_kind(const Elf64_Ehdr *h)
{
    return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
           h->e_ident[EI_CLASS] == ELFCLASS64 &&
           h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_type == ET_REL &&
           h->e_machine == EM_X86_64 && h->e_shentsize == sizeof(Elf64_Shdr);
}

/* Sets part and laid; sections that are not needed at run time are left out. */
static Status
classify(const Object *o, Section *s)
{
    const Elf64_Shdr *h = &s->head;
    if (!(h->sh_flags & SHF_ALLOC) || h->sh_type == SHT_NOTE)
        return OK;
    if (h->sh_type != SHT_PROGBITS && h->sh_type != SHT_NOBITS &&
        h->sh_type != SHT_X86_64_UNWIND)
        return bad_object(o, "a section of type %u", h->sh_type);
    if (h->sh_flags & SHF_TLS)
        return bad_object(o, "a section of thread-local data");
    bool writes = h->sh_flags & SHF_WRITE, runs = h->sh_flags & SHF_EXECINSTR;
    if (writes && runs)
        return bad_object(o, "a section both writable and executable");
    if (h->sh_addralign > PAGE || (h->sh_addralign & (h->sh_addralign - 1)))
        return bad_object(o, "a section aligned to %llu bytes",
                          (unsigned long long)h->sh_addralign);
    s->laid = true;
    s->part = runs ? PART_CODE : writes ? PART_DATA : PART_CONST;
    return OK;
}

static Status
read_section(Object *o, const Elf64_Ehdr *h, uint32_t i)
{
    Section *s = &o->sections[i];
    memcpy(&s->head, o->bytes + h->e_shoff + i * sizeof s->head,
           sizeof s->head);
    bool in_file = s->head.sh_type != SHT_NOBITS && s->head.sh_type != SHT_NULL;
    if (in_file && !is_within(s->head.sh_offset, s->head.sh_size, o->size))
        return bad_object(o, "section %u reaches outside of the file", i);
    return classify(o, s);
}

static Status
find_symbols(Object *o)
{
    for (uint32_t i = 0; i < o->num_sections; i++) {
        const Section *s = &o->sections[i];
        if (s->head.sh_type != SHT_SYMTAB)
            continue;
        if (o->symbols)
            return bad_object(o, "two symbol tables");
        if (s->head.sh_link >= o->num_sections ||
            s->head.sh_size % sizeof(Elf64_Sym) != 0)
            return bad_object(o, "a damaged symbol table");
        o->symbols = s;
        o->strings = &o->sections[s->head.sh_link];
        const Elf64_Shdr *names = &o->strings->head;
        if (names->sh_type != SHT_STRTAB || names->sh_size == 0 ||
            o->bytes[names->sh_offset + names->sh_size - 1] != 0)
            return bad_object(o, "a damaged table of names");
    }
    return OK;
}

static Status
read_object(Arena *a, const PlanObject *from, Object *o)
{
    Elf64_Ehdr h;
    *o = (Object){.name = from->name, .bytes = from->bytes, .size = from->size};
    if (o->size < sizeof h)
        return bad_object(o, "it is no object file");
    memcpy(&h, o->bytes, sizeof h);
    if (!is_our_kind(&h))
        return bad_object(o, "it is no object file for x86-64");
    if (!is_within(h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr),
                   o->size))
        return bad_object(o, "its table of sections is outside of the file");
    o->num_sections = h.e_shnum;
    o->sections = NEW_ARRAY(a, Section, o->num_sections);
    for (uint32_t i = 0; i < o->num_sections; i++)
        TRY(read_section(o, &h, i));
    return find_symbols(o);
}

/* ---- relocations ------------------------------------------------------- */

typedef enum RelocKind {
    RELOC_NONE,
    RELOC_RELATIVE, /* 32 bits, from here */
    RELOC_ABSOLUTE, /* 64 bits */
    RELOC_SLOT      /* 32 bits, from here to a word with the address */
} RelocKind;

static const struct {
    uint32_t type;
    RelocKind kind;
} reloc_kinds[] = {
    {R_X86_64_NONE, RELOC_NONE},          {R_X86_64_PC32, RELOC_RELATIVE},
    {R_X86_64_PLT32, RELOC_RELATIVE},     {R_X86_64_64, RELOC_ABSOLUTE},
    {R_X86_64_GOTPCREL, RELOC_SLOT},      {R_X86_64_GOTPCRELX, RELOC_SLOT},
    {R_X86_64_REX_GOTPCRELX, RELOC_SLOT},
};

static bool
find_reloc_kind(uint32_t type, RelocKind *out)
{
    for (size_t i = 0; i < sizeof reloc_kinds / sizeof *reloc_kinds; i++) {
        if (reloc_kinds[i].type == type) {
            *out = reloc_kinds[i].kind;
            return true;
        }
    }
    return false;
}

typedef struct Reloc {
    RelocKind kind;
    uint64_t offset; /* in the section */
    uint32_t symbol;
    int64_t addend;
} Reloc;

/* Calls visit on each relocation of the laid sections of o, after checking that
 * its kind is supported and that it fits in its section. */
typedef Status RelocVisit(Loader *l, const Object *o, const Section *target,
                          const Reloc *r);

static Status
read_reloc(const Object *o, const Section *target, const char *from, Reloc *r)
{
    Elf64_Rela rela;
    memcpy(&rela, from, sizeof rela);
    uint32_t type = ELF64_R_TYPE(rela.r_info);
    if (!find_reloc_kind(type, &r->kind))
        return bad_object(o, "a relocation of type %u", type);
    size_t width = r->kind == RELOC_NONE       ? 0
                   : r->kind == RELOC_ABSOLUTE ? 8
                                               : 4;
    if (!is_within(rela.r_offset, width, target->head.sh_size))
        return bad_object(o, "a relocation outside of its section");
    r->offset = rela.r_offset;
    r->symbol = ELF64_R_SYM(rela.r_info);
    r->addend = rela.r_addend;
    return OK;
}

static Status
visit_table(Loader *l, const Object *o, const Section *table, RelocVisit *visit)
{
    const Section *target = &o->sections[table->head.sh_info];
    if (table->head.sh_size % sizeof(Elf64_Rela) != 0)
        return bad_object(o, "a damaged table of relocations");
    if (target->head.sh_type == SHT_NOBITS && table->head.sh_size)
        return bad_object(o, "relocations of a section without bytes");
    const char *bytes = o->bytes + table->head.sh_offset;
    for (uint64_t at = 0; at < table->head.sh_size; at += sizeof(Elf64_Rela)) {
        Reloc r = {.kind = RELOC_NONE};
        TRY(read_reloc(o, target, bytes + at, &r));
        if (r.kind != RELOC_NONE)
            TRY(visit(l, o, target, &r));
    }
    return OK;
}

static Status
visit_relocs(Loader *l, const Object *o, RelocVisit *visit)
{
    for (uint32_t i = 0; i < o->num_sections; i++) {
        const Section *s = &o->sections[i];
        uint32_t type = s->head.sh_type;
        if (type != SHT_RELA && type != SHT_REL)
            continue;
        if (s->head.sh_info >= o->num_sections)
            return bad_object(o, "relocations of no section");
        if (!o->sections[s->head.sh_info].laid)
            continue;
        if (type == SHT_REL)
            return bad_object(o, "relocations without addends");
        TRY(visit_table(l, o, s, visit));
    }
    return OK;
}

/* ---- layout ------------------------------------------------------------ */

/* Allocates n bytes in a part; false when the mapping would become too big. */
static bool
reserve(Loader *l, Part part, uint64_t n, uint64_t align, size_t *offset)
{
    size_t at = l->part_size[part];
    if (align > 1)
        at = (at + align - 1) & ~(size_t)(align - 1);
    if (n > MAX_MAPPING - PAGE || at > MAX_MAPPING - PAGE - n)
        return false;
    l->part_size[part] = at + n;
    *offset = at;
    return true;
}

static Status
too_large(const Object *o)
{
    return bad_object(o, "more than 1 GB of code");
}

static Status
count_slot(Loader *l, const Object *o, const Section *target, const Reloc *r)
{
    size_t unused;
    (void)target;
    if (r->kind == RELOC_SLOT &&
        !reserve(l, PART_CONST, SLOT_BYTES, SLOT_BYTES, &unused))
        return too_large(o);
    return OK;
}

static Status
lay_sections(Loader *l, Object *o)
{
    for (uint32_t i = 0; i < o->num_sections; i++) {
        Section *s = &o->sections[i];
        if (s->laid && !reserve(l, s->part, s->head.sh_size,
                                s->head.sh_addralign, &s->offset))
            return too_large(o);
    }
    return OK;
}

static Status
lay_out(Loader *l)
{
    l->part_size[PART_CODE] = NUM_OUTSIDE * STUB_BYTES;
    for (int i = 0; i < l->num; i++)
        TRY(visit_relocs(l, &l->objects[i], count_slot));
    for (int i = 0; i < l->num; i++)
        TRY(lay_sections(l, &l->objects[i]));
    return OK;
}

static size_t
whole_pages(size_t n)
{
    return (n + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static Status
no_memory(size_t bytes)
{
    return status_new(STATUS_MACHINE, "no memory for %zu bytes of code", bytes);
}

static Status
map_parts(Loader *l, RtCode *code)
{
    for (int i = 0; i < NUM_PARTS; i++)
        code->size += whole_pages(l->part_size[i]);
    if (code->size > MAX_MAPPING)
        return status_new(STATUS_INPUT, "the plan has more than 1 GB of code");
    char *at = fail_here(FAIL_ALLOC)
                   ? MAP_FAILED
                   : mmap(NULL, code->size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return no_memory(code->size);
    code->mapping = at;
    for (int i = 0; i < NUM_PARTS; i++) {
        l->part_at[i] = at;
        at += whole_pages(l->part_size[i]);
    }
    l->stubs = l->part_at[PART_CODE];
    l->slots = l->part_at[PART_CONST];
    return OK;
}

/* jmp *0(%rip), then the address */
static void
write_stubs(Loader *l)
{
    static const unsigned char jump[] = {0xff, 0x25, 0, 0, 0, 0};
    for (int i = 0; i < NUM_OUTSIDE; i++) {
        char *stub = l->stubs + (ptrdiff_t)i * STUB_BYTES;
        memcpy(stub, jump, sizeof jump);
        memcpy(stub + sizeof jump, &outside[i].address,
               sizeof outside[i].address);
    }
}

static void
copy_sections(Loader *l)
{
    for (int i = 0; i < l->num; i++) {
        const Object *o = &l->objects[i];
        for (uint32_t k = 0; k < o->num_sections; k++) {
            Section *s = &o->sections[k];
            if (!s->laid)
                continue;
            s->at = l->part_at[s->part] + s->offset;
            if (s->head.sh_type != SHT_NOBITS)
                memcpy(s->at, o->bytes + s->head.sh_offset, s->head.sh_size);
        }
    }
}

/* ---- symbols ----------------------------------------------------------- */

static uint64_t
num_symbols(const Object *o)
{
    return o->symbols ? o->symbols->head.sh_size / sizeof(Elf64_Sym) : 0;
}

static Elf64_Sym
symbol_at(const Object *o, uint64_t i)
{
    Elf64_Sym s;
    memcpy(&s, o->bytes + o->symbols->head.sh_offset + i * sizeof s, sizeof s);
    return s;
}

static const char *
symbol_name(const Object *o, const Elf64_Sym *s)
{
    bool inside = s->st_name < o->strings->head.sh_size;
    return inside ? o->bytes + o->strings->head.sh_offset + s->st_name : "";
}

/* The section that defines s, if it is loaded; NULL where no code can use it.
 */
static const Section *
defining_section(const Object *o, const Elf64_Sym *s)
{
    if (s->st_shndx == SHN_UNDEF || s->st_shndx >= o->num_sections)
        return NULL;
    const Section *section = &o->sections[s->st_shndx];
    bool fits = is_within(s->st_value, s->st_size, section->head.sh_size);
    return section->laid && fits ? section : NULL;
}

static Status
define_symbol(Loader *l, const Object *o, const Elf64_Sym *s)
{
    const char *name = symbol_name(o, s);
    const Section *section = defining_section(o, s);
    if (ELF64_ST_BIND(s->st_info) == STB_LOCAL || s->st_shndx == SHN_UNDEF)
        return OK;
    if (!section)
        return bad_object(o, "its symbol \"%s\" is nowhere", name);
    if (map_get(l->globals, name))
        return bad_object(o, "another object defines \"%s\", too", name);
    Symbol *symbol = NEW(l->arena, Symbol);
    *symbol = (Symbol){section->at + s->st_value, section->part == PART_CODE};
    map_set(l->globals, name, symbol);
    return OK;
}

static Status
define_symbols(Loader *l)
{
    for (int i = 0; i < l->num; i++) {
        const Object *o = &l->objects[i];
        for (uint64_t k = 0; k < num_symbols(o); k++) {
            Elf64_Sym s = symbol_at(o, k);
            TRY(define_symbol(l, o, &s));
        }
    }
    return OK;
}

static Status
find_outside(const Loader *l, const Object *o, const char *name, char **at)
{
    const Symbol *symbol = map_get(l->globals, name);
    if (symbol) {
        *at = symbol->at;
        return OK;
    }
    for (int i = 0; i < NUM_OUTSIDE; i++) {
        if (strcmp(outside[i].name, name) == 0) {
            *at = l->stubs + (ptrdiff_t)i * STUB_BYTES;
            return OK;
        }
    }
    return bad_object(o, "it needs \"%s\", which there is not", name);
}

static Status
find_symbol(const Loader *l, const Object *o, uint32_t index, char **at)
{
    if (index >= num_symbols(o))
        return bad_object(o, "a relocation to no symbol");
    Elf64_Sym s = symbol_at(o, index);
    const Section *section = defining_section(o, &s);
    if (section) {
        *at = section->at + s.st_value;
        return OK;
    }
    const char *name = symbol_name(o, &s);
    if (s.st_shndx != SHN_UNDEF)
        return bad_object(o, "it uses \"%s\", which is in none of its parts",
                          name);
    return find_outside(l, o, name, at);
}

static Status
apply_reloc(Loader *l, const Object *o, const Section *target, const Reloc *r)
{
    char *symbol = NULL, *place = target->at + r->offset;
    TRY(find_symbol(l, o, r->symbol, &symbol));
    uint64_t value = (uint64_t)(uintptr_t)symbol;
    if (r->kind == RELOC_SLOT) {
        memcpy(l->slots, &value, sizeof value);
        value = (uint64_t)(uintptr_t)l->slots;
        l->slots += SLOT_BYTES;
    }
    value += (uint64_t)r->addend;
    if (r->kind == RELOC_ABSOLUTE) {
        memcpy(place, &value, sizeof value);
        return OK;
    }
    int64_t distance = (int64_t)(value - (uint64_t)(uintptr_t)place);
    int32_t word = (int32_t)distance;
    if (word != distance)
        return bad_object(o, "a relocation that reaches too far");
    memcpy(place, &word, sizeof word);
    return OK;
}

/* ---- loading --------------------------------------------------------- */

static Status
protect(const Loader *l)
{
    for (int i = 0; i < NUM_PARTS; i++) {
        size_t size = whole_pages(l->part_size[i]);
        errno = EACCES; /* the errno of a failure on request */
        if (size && (fail_here(FAIL_IO) ||
                     mprotect(l->part_at[i], size, part_protection[i]) < 0))
            return errno == ENOMEM
                       ? no_memory(size)
                       : status_new(STATUS_MACHINE,
                                    "this system does not let us run code we "
                                    "load");
    }
    return OK;
}

/* ---- names for perf ---------------------------------------------------- */

/* The object's file without folder and suffix: the kernel, or "host". */
static const char *
stem_of(Arena *a, const Object *o)
{
    const char *slash = strrchr(o->name, '/');
    const char *name = slash ? slash + 1 : o->name;
    return arena_printf(a, "%.*s", (int)strcspn(name, "."), name);
}

/* A function that only its object knows, as the inner loops of a product, has
 * the object's name before its own. */
static void
list_functions(Arena *a, const Object *o, Str *out)
{
    for (uint64_t i = 0; i < num_symbols(o); i++) {
        Elf64_Sym s = symbol_at(o, i);
        const Section *section = defining_section(o, &s);
        bool local = ELF64_ST_BIND(s.st_info) == STB_LOCAL;
        if (!section || section->part != PART_CODE ||
            ELF64_ST_TYPE(s.st_info) != STT_FUNC)
            continue;
        str_addf(out, "%lx %lx %s%s%s\n",
                 (unsigned long)(section->at + s.st_value),
                 (unsigned long)s.st_size, local ? stem_of(a, o) : "",
                 local ? "." : "", symbol_name(o, &s));
    }
}

/* perf cannot get the names of code without a file otherwise. */
static void
write_perf_map(const Loader *l)
{
    const char *setting = getenv("TFD_PERF");
    if (!setting || strcmp(setting, "1") != 0)
        return;
    Str s = str_new(l->arena);
    for (int i = 0; i < l->num; i++)
        list_functions(l->arena, &l->objects[i], &s);
    const char *path =
        arena_printf(l->arena, "/tmp/perf-%d.map", (int)getpid());
    status_free(file_write(path, str_text(&s), s.len));
}

/* ---- all of it --------------------------------------------------------- */

static Status
link_objects(Loader *l, const PlanObject *objects, RtCode *code)
{
    for (int i = 0; i < l->num; i++)
        TRY(read_object(l->arena, &objects[i], &l->objects[i]));
    TRY(lay_out(l));
    TRY(map_parts(l, code));
    write_stubs(l);
    copy_sections(l);
    TRY(define_symbols(l));
    for (int i = 0; i < l->num; i++)
        TRY(visit_relocs(l, &l->objects[i], apply_reloc));
    return protect(l);
}

Status
rt_code_open(const PlanObject *objects, int num, RtCode **out)
{
    Arena *a = arena_new(NULL, "code");
    RtCode *code = NEW(a, RtCode);
    code->arena = a;
    code->globals = map_new(a);
    Loader l = {.arena = a, .num = num, .globals = code->globals};
    l.objects = NEW_ARRAY(a, Object, (size_t)num);
    Status st = link_objects(&l, objects, code);
    if (st) {
        rt_code_close(code);
        return st;
    }
    write_perf_map(&l);
    *out = code;
    return OK;
}

/* The address of a function, at *out, whose type the caller knows. */
static void
find_function(const RtCode *code, const char *name, void *out)
{
    const Symbol *symbol = map_get(code->globals, name);
    if (symbol && symbol->is_code)
        memcpy(out, &symbol->at, sizeof symbol->at);
}

TfdFunction *
rt_code_function(const RtCode *code, const char *name)
{
    TfdFunction *function = NULL;
    find_function(code, name, &function);
    return function;
}

TfdKernel *
rt_code_kernel(const RtCode *code, const char *name)
{
    TfdKernel *kernel = NULL;
    find_function(code, name, &kernel);
    return kernel;
}

void
rt_code_close(RtCode *code)
{
    if (!code)
        return;
    if (code->mapping)
        munmap(code->mapping, code->size);
    arena_release(code->arena);
}
