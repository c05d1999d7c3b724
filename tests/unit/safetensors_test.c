/*
 * safetensors_test.c - files of tensors that are damaged, or from other
 * programs
 *
 * What other programs read of our files is in tests/e2e/save_test.c.
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"
#include "tests/unit/work_dir.h"

#include <endian.h>
#include <sys/mman.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "runtime/checkpoint/safetensors.h"

static const char *path;
static int memory; /* a file that no disk waits for */
static const char *in_memory;

/* The message about a file of these bytes; "" if it is read. */
static const char *
said_of(const char *bytes, size_t len)
{
    RtTensor *tensors;
    int n = 0;
    assert_int_equal(ftruncate(memory, 0), 0);
    assert_int_equal(pwrite(memory, bytes, len, 0), len);
    Status st = rt_tensors_read(arena, in_memory, &(RtTensorsUser){0}, &tensors, &n);
    const char *said = st ? arena_printf(arena, "%s", status_message(st)) : "";
    for (int i = 0; !st && i < n; i++)
        for (size_t k = 0; k < tensors[i].bytes; k++)
            (void)*(volatile const char *)&tensors[i].data[k];
    status_free(st);
    return said;
}

/* The file of a header and 8 bytes of data. */
static const char *
file_of(const char *header, size_t *len)
{
    size_t n = strlen(header);
    uint64_t length = htole64(n);
    *len = sizeof length + n + 8;
    char *bytes = arena_alloc(arena, *len);
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + sizeof length, header, n);
    return bytes;
}

#define ENTRY(dtype, shape, from, to)                                          \
    "{\"a\": {\"dtype\": " dtype ", \"shape\": " shape                         \
    ", \"data_offsets\": [" from ", " to "]}}"

#define ABOUT(members)                                                         \
    "{\"__metadata__\": {" members                                             \
    "}, \"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, "    \
    "8]}}"

/* As we write it. */
#define COMPACT(members)                                                       \
    "{\"__metadata__\":{" members "},\"a\":{\"dtype\":\"F32\",\"shape\":[2],"  \
    "\"data_offsets\":[0,8]}}"

#define MD5 "d41d8cd98f00b204e9800998ecf8427e"

#define TWO(a, b, c, d)                                                        \
    "{\"a\": {\"dtype\": \"F32\", \"shape\": [], \"data_offsets\": [" a ", " b \
    "]}, \"b\": {\"dtype\": \"F32\", \"shape\": [], \"data_offsets\": [" c     \
    ", " d "]}}"

static const struct {
    const char *header, *message;
} headers[] = {
    {ENTRY("\"F32\"", "[2]", "0", "8"), ""},
    {ENTRY("\"C64\"", "[1]", "0", "8"), ""},
    {ABOUT("\"format\": \"pt\""), ""},
    {ABOUT("\"format\": \"tfd\""), ""},
    {ABOUT("\"format\": \"pt\", \"by\": \"me\""), ""},
    {ABOUT("\"format\": \"tfd\", \"by\": \"me\""), "its metadata are damaged"},
    {ABOUT("\"format\": \"tfd\", \"checksum\": \"0\""),
     "it is damaged (checksum)"},
    /* checksums of other programs */
    {ABOUT("\"format\": \"pt\", \"checksum\": \"" MD5 "\""), ""},
    {ABOUT("\"checksum\": \"" MD5 "\", \"by\": \"me\""), ""},
    {ABOUT("\"checksum\": 1"), ""},
    {COMPACT("\"format\":\"pt\",\"checksum\":\"" MD5 "\""), ""},
    {COMPACT("\"format\":\"mlx\",\"checksum\":\"" MD5 "\""), ""},
    {TWO("0", "4", "4", "8"), ""},
    {TWO("4", "8", "0", "4"), ""},
    {TWO("0", "4", "0", "4"), "\"b\" shares bytes with another tensor"},
    {TWO("2", "6", "0", "4"), "\"a\" shares bytes with another tensor"},
    {"{}", "8 bytes at its end belong to no tensor"},
    {"{\"__metadata__\": {\"format\": \"pt\"}}",
     "8 bytes at its end belong to no tensor"},
    {ENTRY("\"F32\"", "[]", "0", "4"),
     "4 bytes at its end belong to no tensor"},
    {ENTRY("\"F32\"", "[]", "4", "8"),
     "\"a\" has bytes of no tensor before it"},
    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [4, 4]}, "
     "\"b\": {\"dtype\": \"F64\", \"shape\": [], \"data_offsets\": [0, 8]}}",
     "\"a\" shares bytes with another tensor"},
    {"{\"a\": {\"dtype\": \"F64\", \"shape\": [], \"data_offsets\": [0, 8]}, "
     "\"b\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [0, 0]}, "
     "\"c\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [8, 8]}}",
     ""},
    {"[]", "its header is no JSON object"},
    {" {}", "its header is no JSON object"},
    {"{", "its header is no JSON object"},
    {"{\"a\": 1, \"a\": 1}", "its header is no JSON object"},
    {"{\"a\": 1}", "its header is damaged at \"a\""},
    {ENTRY("1", "[2]", "0", "8"), "its header is damaged at \"a\""},
    {ENTRY("\"F32\"", "2", "0", "8"), "its header is damaged at \"a\""},
    {ENTRY("\"F32\"", "[-2]", "0", "8"), "its header is damaged at \"a\""},
    {ENTRY("\"F32\"", "[2.0]", "0", "8"), "its header is damaged at \"a\""},
    {ENTRY("\"F32\"", "[2]", "0", "9"), "its header is damaged at \"a\""},
    {ENTRY("\"F32\"", "[2]", "8", "0"), "its header is damaged at \"a\""},
    {ENTRY("\"F32\"", "[2]", "-8", "0"), "its header is damaged at \"a\""},
    {ENTRY("\"F32\"", "[2]", "0, 4", "8"), "its header is damaged at \"a\""},
    {ENTRY("\"F32\"", "[3]", "0", "8"),
     "\"a\" has not as many bytes as its shape says"},
    {ENTRY("\"F32\"", "[4611686018427387904, 4]", "0", "0"),
     "\"a\" has not as many bytes as its shape says"},
};

static void
headers_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        size_t len;
        const char *bytes = file_of(headers[i].header, &len);
        const char *said = said_of(bytes, len);
        const char *want = headers[i].message;
        if (!strstr(said, want) || !*said != !*want)
            fail_msg("%s\nwanted: %s\nsaid: %s", headers[i].header, want, said);
    }
}

static void
lengths_are_checked(void **state)
{
    static const char far[16] = "\xff\xff\xff\xff\xff\xff\xff\x7f{}";
    (void)state;
    assert_non_null(strstr(said_of("short", 5), "it is no safetensors file"));
    assert_non_null(strstr(said_of(far, sizeof far),
                           "it is no safetensors file, or cut short"));
}

static void
names_are_different_texts(void **state)
{
    const RtTensor twice[] = {{.name = "a", .dtype = "F32", .data = ""},
                              {.name = "a", .dtype = "F32", .data = ""}};
    const RtTensor none[] = {{.name = "\xff", .dtype = "F32", .data = ""}};
    (void)state;
    const struct {
        const RtTensor *tensors;
        int n;
    } cases[] = {{twice, 2}, {none, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Status st = rt_tensors_write(path, cases[i].tensors, cases[i].n);
        assert_non_null(st);
        assert_non_null(strstr(status_message(st),
                               "the names of its tensors are no text, or not "
                               "different"));
        status_free(st);
    }
}

/* A file of tensors of two widths and one without elements, as a program
 * saves them. */
static char *
file_of_ours(size_t *len)
{
    static const RtTensor tensors[] = {
        {.name = "first",
         .dtype = "F32",
         .rank = 2,
         .dims = {2, 1},
         .data = "12345678",
         .bytes = 8},
        {.name = "none", .dtype = "F32", .rank = 1, .data = ""},
        {.name = "second",
         .dtype = "BOOL",
         .rank = 1,
         .dims = {3},
         .data = "\0\1",
         .bytes = 3},
    };
    char *bytes;
    assert_null(rt_tensors_write(path, tensors, 3));
    assert_null(file_read(arena, path, &bytes, len));
    assert_string_equal(said_of(bytes, *len), "");
    return bytes;
}

/* In an arena of its own: there are thousands. */
static void
expect_refused(const char *bytes, size_t len, size_t bit)
{
    Arena *all = arena;
    arena = arena_new(all, "damage");
    if (!*said_of(bytes, len))
        fail_msg("%zu bytes, bit %zu of byte %zu: read", len, bit % 8, bit / 8);
    arena_release(arena);
    arena = all;
}

static void
each_bit_counts(void **state)
{
    size_t len;
    char *bytes = file_of_ours(&len);
    (void)state;
    for (size_t bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        expect_refused(bytes, len, bit);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t keep = 0; keep < len; keep++)
        expect_refused(bytes, keep, 0);
    bytes = memcpy(arena_alloc(arena, len + 1), bytes, len);
    expect_refused(bytes, len + 1, 0);
}

/* With a valid checksum, damaged data are read within their bounds or
 * refused. */
static void
damaged_files_are_survived(void **state)
{
    static const unsigned char flips[] = {0x01, 0x20, 0x80, 0xff};
    size_t len;
    char *bytes = file_of_ours(&len);
    (void)state;
    setenv("TFD_CHECKSUMS", "0", 1);
    for (size_t i = 0; i < len; i++) {
        Arena *all = arena;
        arena = arena_new(all, "damage");
        for (size_t k = 0; k < sizeof flips; k++) {
            bytes[i] = (char)(bytes[i] ^ flips[k]);
            said_of(bytes, len);
            bytes[i] = (char)(bytes[i] ^ flips[k]);
        }
        assert_string_not_equal(said_of(bytes, i), "");
        arena_release(arena);
        arena = all;
    }
    unsetenv("TFD_CHECKSUMS");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(headers_are_checked, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(lengths_are_checked, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(names_are_different_texts, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(each_bit_counts, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(damaged_files_are_survived, new_arena,
                                        release_arena),
    };
    Arena *a = arena_new(NULL, "folder");
    path = arena_printf(a, "%s/a.safetensors", work_dir(a));
    memory = memfd_create("a.safetensors", 0);
    in_memory = arena_printf(a, "/proc/self/fd/%d", memory);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close(memory);
    arena_release(a);
    return failed;
}
