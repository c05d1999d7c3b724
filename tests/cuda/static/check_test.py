#!/usr/bin/env python3
"""That check.py sees what it looks for: logs of ptxas, loops, figures that
became worse, misses without a reason."""
import sys

sys.dont_write_bytecode = True

import assembler
import check
import gpus
import model

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k_a' for 'sm_90'
ptxas info    : Function properties for k_a
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 16 bytes cumulative stack size, 2048 bytes smem
ptxas info    : Compiling entry function 'k_b' for 'sm_90'
ptxas info    : Function properties for k_b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""

SASS = """\
	.section	.text.k_a,"ax",@progbits
k_a:
.text.k_a:
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_1:
        /*0010*/                   LDG.E.128 R4, desc[UR6][R4.64] ;
.L_x_2:
        /*0020*/                   LDS.128 R8, [R0] ;
        /*0030*/                   FFMA R1, R2, R3, R1 ;
        /*0040*/                   FFMA R1, R2, R3, R1 ;
        /*0050*/                   NOP ;
        /*0060*/              @!P0 BRA `(.L_x_2) ;
        /*0070*/                   FFMA R1, R2, R3, R1 ;
        /*0080*/                   FFMA R1, R2, R3, R1 ;
        /*0090*/                   FFMA R1, R2, R3, R1 ;
        /*00a0*/               @P1 BRA `(.L_x_1) ;
        /*00b0*/                   EXIT ;
.L_x_3:
        /*00c0*/                   BRA `(.L_x_3);
	.section	.text.k_b,"ax",@progbits
k_b:
        /*0000*/                   EXIT ;
"""


class Fake:
    """A program as check.Measured has it."""

    def __init__(self, **figures):
        row = dict(program="p", kernel="k", line=1, form="contraction",
                   sm_80=64, sm_90=64, sm_100=64, ffma=0.9, ffma_lds=16.0,
                   wide=None, moved=1.0)
        self.name, self.errors, self.local = "p", [], {}
        self.rows = [check.Row(**{**row, **figures})]
        self.usage = {"sm_90": assembler.read_usage(LOG)}


def logs_are_read():
    usage = assembler.read_usage(LOG)
    assert usage["k_a"] == (128, 1, 2048, 16, 8, 12), usage
    assert usage["k_b"] == (10, 0, 0, 0, 0, 0), usage


def spills_are_told():
    problems = list(check.spills_of(Fake()))
    assert len(problems) == 1 and "k_a spills 8 bytes" in problems[0], problems
    fake = Fake()
    fake.usage["sm_90"] = {"k_a": assembler.Usage(9, 0, 0, 16, 0, 0)}
    assert "16 bytes of local memory" in next(check.spills_of(fake))
    fake.local = {"k_a": 16}
    assert not list(check.spills_of(fake))


def main_loops_are_innermost():
    kernels = assembler.read_sass(SASS)
    loop = assembler.main_loop(kernels["k_a"])
    assert loop == (4, 2, 1), loop
    assert assembler.main_loop(kernels["k_b"]) is None


def worse_figures_are_told():
    pins = {("p", "k"): Fake().rows[0]}
    measures = ["sm_90", "ffma", "moved"]
    assert not list(check.worse_than(pins, Fake(), measures))
    assert not list(check.worse_than(pins, Fake(sm_90=60, ffma=0.95), measures))
    for worse in [{"sm_90": 65}, {"ffma": 0.85}, {"moved": 1.2}]:
        assert len(list(check.worse_than(pins, Fake(**worse), measures))) == 1
    assert "TFD_BLESS" in next(check.worse_than({}, Fake(), measures))


def misses_need_reasons():
    key, m = ("p", "k", "ffma"), Fake(ffma=0.6)
    assert len(list(check.unlisted({}, m, ["ffma"]))) == 1
    assert not list(check.unlisted({}, m, ["moved"]))
    assert not list(check.unlisted({key: "small"}, m, ["ffma"]))
    assert not list(check.unlisted({("p", "*", "ffma"): "all"}, m, ["ffma"]))
    assert len(list(check.unlisted({key: "small"}, Fake(), ["ffma"]))) == 1
    gone = {("p", "k_gone", "ffma"): "small"}
    assert len(list(check.unlisted(gone, Fake(), ["ffma"]))) == 1


def occupancy_is_nvidias():
    """Figures of NVIDIA's occupancy calculator."""
    a100, h100 = gpus.GPUS["A100"], gpus.GPUS["H100"]
    assert gpus.blocks_of_processor(a100, 256, 32, 0) == 8
    assert gpus.blocks_of_processor(a100, 256, 33, 0) == 6
    assert gpus.blocks_of_processor(a100, 256, 128, 0) == 2
    assert gpus.blocks_of_processor(a100, 256, 168, 0) == 1
    assert gpus.blocks_of_processor(a100, 32, 16, 0) == 32
    assert gpus.blocks_of_processor(a100, 256, 16, 48 * 1024) == 3
    assert gpus.blocks_of_processor(h100, 256, 16, 48 * 1024) == 4
    assert gpus.occupancy(h100, 256, 90, 16384) == 0.25


def bounds_are_those_of_the_formula():
    h100 = gpus.GPUS["H100"]
    usage = assembler.Usage(32, 0, 0, 0, 0, 0)
    zero = dict.fromkeys(("doubles", "special", "barriers", "shared_bytes",
                          "fma", "floats", "branches", "shared_accesses",
                          "mma"), 0)
    copy = {**zero, "threads": 256, "instructions": 800, "loads": 8,
            "stores": 8, "requested": 8 * 2 * 4096, "needed": 8 * 2 * 4096}
    assert model.predict(h100, usage, copy, 1 << 20, 1 << 30).bound == "memory"
    assert model.predict(h100, usage, copy, 1, 1 << 10).bound == "launch"
    sums = {**zero, "threads": 256, "instructions": 10 ** 7, "fma": 9 * 10 ** 6,
            "floats": 9 * 10 ** 6, "loads": 8, "stores": 8,
            "requested": 4096, "needed": 4096}
    got = model.predict(h100, usage, sums, 1 << 20, 1 << 20)
    assert got.bound == "issue", got
    full = 10 ** 7 * 8 / 4 / h100.clock
    assert abs(got.seconds - h100.launch - full) < 0.01 * full, got
    products = {**sums, "instructions": 10 ** 6, "fma": 0,
                "floats": 0, "mma": 10 ** 6}
    got = model.predict(h100, usage, products, 1 << 20, 1 << 20)
    full = 10 ** 6 * h100.mma * 8 / h100.clock
    assert abs(got.seconds - h100.launch - full) < 0.01 * full, got
    alone = model.predict(h100, usage, sums, 1, 1 << 20)
    assert alone.bound == "latency", alone


def main():
    tap = check.Tap()
    for test in (logs_are_read, spills_are_told, main_loops_are_innermost,
                 worse_figures_are_told, misses_need_reasons,
                 occupancy_is_nvidias, bounds_are_those_of_the_formula):
        try:
            test()
            tap.case(test.__name__, [])
        except AssertionError as e:
            tap.case(test.__name__, [f"line {e.__traceback__.tb_next.tb_lineno}: {e}"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
