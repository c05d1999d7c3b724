/*
 * targets_test.c - plans with code for several kinds of devices
 *
 * Kernels and programs are found by number, in every target's code; a plan for
 * GPUs is run by CPUs; code that lacks something is refused.
 */
#include "tests/devices/runs.h"

#include "ir/base/str.h"
#include "runtime/load/tables.h"

/* Two programs, with two different kernels, and a mirrored sum of both. */
static const char two_programs[] =
    "func @main() main {\n"
    "  run {\n"
    "    %id: i32 per_replica = replica_id\n"
    "    %x: i32[100] per_replica = broadcast %id {dims=[100]}\n"
    "    %s: i32 per_replica = sum %x {axes=[0]}\n"
    "    %all: i32 mirrored = all_reduce %s {op=sum}\n"
    "    print %all {format=\"sum {}\"}\n"
    "    yield\n"
    "  }\n"
    "  print {format=\"between\"}\n"
    "  run {\n"
    "    %i: i32 per_replica = replica_id\n"
    "    %q: i32 per_replica = mul %i, %i\n"
    "    %most: i32 mirrored = all_reduce %q {op=max}\n"
    "    print %most {format=\"most {}\"}\n"
    "    yield\n"
    "  }\n"
    "  return\n"
    "}\n";

static const char all_targets[] = "x86-64-v3,x86-64-v4,sm_80,sm_90";

static Plan *
plan_for(const char *targets)
{
    return build_plan_for(arena, program(2, two_programs), targets);
}

static const PlanCode *
code_for(const Plan *p, const char *target)
{
    for (int i = 0; i < p->num_codes; i++)
        if (strcmp(p->codes[i].name, target) == 0)
            return &p->codes[i];
    fail_msg("no code for %s", target);
    return NULL;
}

/* ---- host code ----------------------------------------------------------- */

static void
functions_are_found_by_number(void **state)
{
    (void)state;
    Plan *p = plan_for(all_targets);
    assert_true(p->num_kernels >= 2);
    assert_int_equal(p->num_programs, 2);
    for (int i = 1; i < p->num_kernels; i++)
        assert_true(strcmp(p->kernels[i - 1], p->kernels[i]) < 0);
    for (int i = 0; i < p->num_codes; i++) {
        RtCode *code;
        RtCodeTables tables;
        const PlanCode *from = &p->codes[i];
        if (from->target->device != DEVICE_cpu)
            continue;
        assert_null(rt_code_open(from->objects, from->num_objects, &code));
        assert_null(rt_code_tables(arena, p, code, false, &tables));
        for (int k = 0; k < p->num_kernels; k++)
            assert_true(tables.kernels[k] &&
                        tables.kernels[k] ==
                            rt_code_kernel(code, p->kernels[k]));
        for (int k = 0; k < p->num_programs; k++) {
            const char *name =
                arena_printf(arena, "p_%s", p->programs[k]->name);
            assert_true(tables.programs[k] &&
                        tables.programs[k] == rt_code_function(code, name));
        }
        rt_code_close(code);
    }
}

/* Numbers are those of the text, from the first program on. */
static void
programs_are_numbered_in_the_order_of_the_text(void **state)
{
    (void)state;
    Plan *p = plan_for("native");
    int next = 0;
    for (IrFunc *fn = p->module->first; fn; fn = fn->next) {
        int number = plan_program_number(p, fn);
        assert_int_equal(number, fn->kind == FUNC_PROGRAM ? next++ : -1);
    }
    assert_int_equal(next, 2);
}

typedef struct Kernels {
    const Plan *plan;
    int num;
    unsigned seen; /* a bit a number */
} Kernels;

static void
check_number(IrOp *op, void *data)
{
    Kernels *k = data;
    if (op->kind != OP_kernel)
        return;
    int number = plan_kernel_number(k->plan, op);
    assert_in_range(number, 0, k->plan->num_kernels - 1);
    assert_string_equal(ir_text(op, A_symbol), k->plan->kernels[number]);
    k->seen |= 1u << number;
    k->num++;
}

/* Those that combine operands of collectives. */
static void
check_combined(IrOp *op, void *data)
{
    Kernels *k = data;
    int count;
    if (op->kind != OP_all_reduce_start)
        return;
    const char *const *names = ir_names(op, A_kernels, &count);
    assert_int_equal(count, op->num_operands);
    for (int i = 0; i < count; i++) {
        int number = plan_kernel_named(k->plan, names[i]);
        assert_in_range(number, 0, k->plan->num_kernels - 1);
        k->seen |= 1u << number;
        k->num++;
    }
}

/* Operations say which kernel they are, and all kernels are some operation's.
 */
static void
operations_know_their_kernels(void **state)
{
    (void)state;
    Plan *p = plan_for(all_targets);
    Kernels k = {.plan = p};
    for (IrFunc *fn = p->module->first; fn; fn = fn->next)
        ir_walk(fn->body, check_number, &k);
    int of_operations = k.num;
    for (IrFunc *fn = p->module->first; fn; fn = fn->next)
        ir_walk(fn->body, check_combined, &k);
    assert_true(k.num > of_operations);
    assert_true(k.num >= p->num_kernels);
    assert_int_equal(k.seen, (1u << p->num_kernels) - 1);
}

static void
kernels_need_code(void **state)
{
    RtCode *code;
    RtCodeTables tables;
    (void)state;
    Plan *p = plan_for("native");
    const PlanCode *from = &p->codes[0];
    const char *names[] = {p->kernels[0], "k_none"};
    Plan other = *p;
    assert_null(rt_code_open(from->objects, from->num_objects, &code));
    other.kernels = names;
    other.num_kernels = 2;
    assert_status_says(rt_code_tables(arena, &other, code, false, &tables),
                       STATUS_INPUT, "it has no code for kernel k_none");
    rt_code_close(code);
}

/* ---- PTX ----------------------------------------------------------------- */

static void
texts_are_found_by_number(void **state)
{
    (void)state;
    Plan *p = plan_for(all_targets);
    static const char *const gpus[] = {"sm_80", "sm_90"};
    for (int i = 0; i < 2; i++) {
        const PlanObject *texts;
        const PlanCode *code = code_for(p, gpus[i]);
        assert_int_equal(code->num_objects, p->num_kernels);
        assert_null(rt_kernel_texts(p, code, &texts));
        for (int k = 0; k < p->num_kernels; k++) {
            const char *entry =
                arena_printf(arena, ".visible .entry %s(", p->kernels[k]);
            assert_non_null(strstr(texts[k].bytes, entry));
            assert_int_equal(strlen(texts[k].bytes), texts[k].size);
        }
    }
}

/* Kernel 0 of a plan for sm_80 has this text. */
static void
assert_text_refused(const char *text, size_t size, const char *part)
{
    const PlanObject *texts;
    Plan *p = plan_for("native,sm_80");
    PlanCode code = *code_for(p, "sm_80");
    PlanObject *kernels = arena_copy(arena, code.kernels,
                                     sizeof *kernels * (size_t)p->num_kernels);
    kernels[0].bytes = text;
    kernels[0].size = size;
    code.kernels = kernels;
    assert_status_says(rt_kernel_texts(p, &code, &texts), STATUS_INPUT, part);
}

static void
other_texts_are_refused(void **state)
{
    (void)state;
    Plan *p = plan_for(all_targets);
    const PlanObject *right = code_for(p, "sm_80")->kernels;
    const PlanObject *newer = code_for(p, "sm_90")->kernels;
    char *cut = arena_copy(arena, right->bytes, right->size + 1);
    cut[right->size / 2] = '\0';
    assert_text_refused(newer->bytes, newer->size,
                        ".ptx\" is no PTX for sm_80");
    assert_text_refused(
        right[1].bytes, right[1].size,
        arena_printf(arena, ".ptx\" does not define %s", p->kernels[0]));
    assert_text_refused(cut, right->size, ".ptx\" is no text");
    assert_text_refused("", 0, ".ptx\" is no PTX for sm_80");
}

/* ---- runs ---------------------------------------------------------------- */

static void
more_targets_change_no_result(void **state)
{
    (void)state;
    static const char *const lists[] = {"native", all_targets,
                                        "x86-64-v3,sm_90"};
    for (int i = 0; i < 3; i++) {
        Result r = build_run(arena, plan_for(lists[i]), (RtOptions){0});
        assert_null(r.st);
        assert_string_equal(r.out, "sum 100\nbetween\nmost 1\n");
    }
}

static void
kinds_without_code_are_named(void **state)
{
    (void)state;
    Result r = build_run(arena, plan_for("x86-64-v3"),
                         (RtOptions){.devices = "cuda:0-1"});
    assert_status_says(r.st, STATUS_INPUT,
                       "its code is for x86-64-v3, and none of it for GPUs; "
                       "tfdc --target x86-64-v3,sm_80 makes a plan that fits");
}

/* Where the code is for CPUs alone, programs are one function. */
static void
programs_enqueue_where_a_target_needs_it(void **state)
{
    (void)state;
    setenv("TFD_PROGRAMS", "enqueue", 1);
    Result r = build_run(arena, plan_for("native,sm_80"), (RtOptions){0});
    assert_null(r.st);
    assert_string_equal(r.out, "sum 100\nbetween\nmost 1\n");
    r = build_run(arena, plan_for("native"), (RtOptions){0});
    unsetenv("TFD_PROGRAMS");
    assert_status_says(r.st, STATUS_INPUT,
                       "does not enqueue kernels, as devices with code of "
                       "their own need it; tfdc --target native,sm_80 makes a "
                       "plan that fits");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_found_by_number),
        cmocka_unit_test(programs_are_numbered_in_the_order_of_the_text),
        cmocka_unit_test(operations_know_their_kernels),
        cmocka_unit_test(kernels_need_code),
        cmocka_unit_test(texts_are_found_by_number),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(more_targets_change_no_result),
        cmocka_unit_test(kinds_without_code_are_named),
        cmocka_unit_test(programs_enqueue_where_a_target_needs_it),
    };
    if (!target_here()) {
        printf("1..0 # SKIP this CPU runs none of our targets\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
