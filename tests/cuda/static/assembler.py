"""ptxas and nvdisasm: what NVIDIA's assembler makes of kernels.

PTX is read twice: `ptxas -v` says registers, spills, local and shared memory,
`nvdisasm` the instructions of the machine.
"""
import collections
import os
import re
import shutil
import subprocess

PLACES = ["", "/usr/local/cuda/bin/", "/usr/lib/nvidia-cuda-toolkit/bin/"]


def find_tool(name, root):
    """The path of a tool of CUDA's, or None."""
    local = [os.path.join(root, "build", "cuda-tools", "nvidia", "cu13", "bin", "")]
    told = os.environ.get("TFD_" + name.upper())
    for path in [told] if told else [place + name for place in PLACES + local]:
        if shutil.which(path):
            return path
    return None


def version_of(tool):
    text = subprocess.run([tool, "--version"], capture_output=True, text=True,
                          check=True).stdout
    found = re.search(r"release (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


# The first release of ptxas that knows a target, if it is new.
FIRST = {"sm_100": (12, 8)}

Usage = collections.namedtuple(
    "Usage", "registers barriers shared stack spill_stores spill_loads")


def start_assembling(ptxas, path, target, cubin):
    return subprocess.Popen([ptxas, "-v", "-arch=" + target, "-o", cubin, path],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)


def read_usage(text):
    """Usage of each kernel, by its name."""
    found, name, frame = {}, None, (0, 0, 0)
    for line in text.splitlines():
        if m := re.search(r"Function properties for (\w+)", line):
            name = m[1]
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill "
                            r"stores, (\d+) bytes spill loads", line):
            frame = tuple(map(int, m.groups()))
        elif m := re.search(r"Used (\d+) registers(?:, used (\d+) barriers)?",
                            line):
            shared = re.search(r"(\d+) bytes smem", line)
            found[name] = Usage(int(m[1]), int(m[2] or 0),
                                int(shared[1]) if shared else 0, *frame)
    return found


# ---- instructions -----------------------------------------------------------

Loop = collections.namedtuple("Loop", "instructions multiply_adds shared_loads")


def read_sass(text):
    """Of each kernel, by its name: lines that are ("label", name) or
    ("instruction", opcode, operands)."""
    kernels, lines = {}, None
    for line in text.splitlines():
        if m := re.match(r"\s*\.section\s+\.text\.(\w+)", line):
            lines = kernels.setdefault(m[1], [])
        elif lines is None:
            continue
        elif m := re.match(r"(\.L_\w+):", line):
            lines.append(("label", m[1]))
        elif m := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?"
                           r"([A-Z][\w.]*)\s*([^;]*);", line):
            lines.append(("instruction", m[1], m[2]))
    return kernels


def loops_of(lines):
    """The innermost loops, as lists of opcodes: from a label to the last branch
    back to it."""
    labels = {line[1]: i for i, line in enumerate(lines) if line[0] == "label"}
    spans = []
    for i, line in enumerate(lines):
        if line[0] == "instruction" and line[1].startswith("BRA"):
            target = re.search(r"\.L_\w+", line[2])
            begin = labels.get(target[0], i) if target else i
            if begin < i and lines[begin + 1:i] != []:
                spans.append((begin, i))
    inner = [s for s in spans
             if not any(t != s and s[0] <= t[0] and t[1] <= s[1] for t in spans)]
    return [[line[1] for line in lines[begin:end + 1]
             if line[0] == "instruction" and line[1] != "NOP"]
            for begin, end in inner]


def main_loop(lines):
    """The innermost loop with most multiply-adds, or None.  Loads from shared
    memory are those of 16 bytes if there are any."""
    best = None
    for loop in loops_of(lines):
        fma = sum(op.startswith(("FFMA", "DFMA")) for op in loop)
        loads = (sum(op == "LDS.128" for op in loop) or
                 sum(op.startswith("LDS") for op in loop))
        if fma and (not best or fma > best.multiply_adds):
            best = Loop(len(loop), fma, loads)
    return best


def disassemble(nvdisasm, cubin):
    text = subprocess.run([nvdisasm, "-c", cubin], capture_output=True,
                          text=True, check=True).stdout
    return read_sass(text)
