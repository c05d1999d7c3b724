#!/usr/bin/env python3
"""symbols.py - what libraries and object files define and need

    symbols.py SOURCE_ROOT BUILD_ROOT

Asked of nm: every external function begins with its library's prefix, and
neither folders nor the files of the folders listed here need each other in a
circle.  (layers_test has the arrows between libraries, and circles that
includes make; a call needs no include of its own to lead upward.)
"""
import collections
import json
import os
import subprocess
import sys

# Library, the folder of its sources, what its external functions begin with.
LIBRARIES = [
    ('ir/base/libbase.a', 'ir/base', ()),
    ('ir/libir.a', 'ir', ('ir_',)),
    ('ir/plan/libplan.a', 'ir/plan', ('plan_', 'target_')),
    ('runtime/librt.a', 'runtime', ('rt_',)),
    ('frontend/libfrontend.a', 'frontend', ('fe_',)),
    ('passes/libpasses.a', 'passes', ('pass_',)),
    ('backend/libbackend.a', 'backend', ('be_',)),
]

# Layers in which no two folders need each other, directly or through others,
# and folders in which no two files do.  (The front end is one recursion over the
# tree, and layers_test sees to its headers.)
LAYERED = ['ir', 'passes', 'backend', 'runtime']
LAYERED_FILES = ['backend', 'backend/codegen', 'backend/cpu', 'backend/depthwise',
                 'backend/gemm',
                 'backend/host', 'backend/kernel', 'backend/llvm', 'backend/ptx',
                 'runtime/checkpoint', 'runtime/coll/algorithm', 'runtime/data',
                 'runtime/exec', 'runtime/hal', 'runtime/hal/cpu',
                 'runtime/hal/cuda', 'runtime/load', 'runtime/ops', 'runtime/run']

FUNCTION, DEFINED = 'T', 'TDBRVW'


# ---- symbols ------------------------------------------------------------------

def read_symbols(paths):
    """(path, kind, name) of each external symbol of objects or libraries."""
    out = subprocess.run(['nm', '-g', '-A', *paths], check=True,
                         capture_output=True, text=True).stdout
    for line in out.split('\n'):
        path, _, symbol = line.rpartition(':')
        words = symbol.split()
        if len(words) >= 2:
            yield path, words[-2], words[-1]


def is_ours(name):
    """Sanitizers add symbols of their own, and so does the fuzzer."""
    return not name.startswith('__')


def wrong_prefixes(build, library, prefixes):
    for _, kind, name in read_symbols([os.path.join(build, library)]):
        if kind == FUNCTION and is_ours(name) and not name.startswith(prefixes):
            yield '%s has %s, which begins with none of %s' % (
                library, name, ', '.join(prefixes))


# ---- which library needs which

def read_objects(root, build):
    """Path of the object to that of the source, of the libraries' files; what
    is generated counts where it would stand."""
    with open(os.path.join(build, 'compile_commands.json')) as f:
        commands = json.load(f)
    objects = {}
    for c in commands:
        source = os.path.normpath(os.path.join(build, c['file']))
        archive = c['output'].split('.p/')[0]
        if any(archive == library for library, _, _ in LIBRARIES):
            top = build if source.startswith(build + '/') else root
            objects[os.path.join(build, c['output'])] = \
                os.path.relpath(source, top)
    return objects


def read_needs(objects):
    """For each file the files that it needs, each with one symbol."""
    home, undefined = {}, collections.defaultdict(set)
    for path, kind, name in read_symbols(objects):
        if kind in DEFINED:
            home[name] = objects[path]
        elif kind == 'U':
            undefined[objects[path]].add(name)
    return {source: {home[n]: n for n in sorted(undefined[source])
                     if home.get(n, source) != source}
            for source in objects.values()}


def find_circle(needs):
    """The members of one circle, in its order, or nothing."""
    state, path = {}, []

    def visit(node):
        state[node] = 'on the path'
        path.append(node)
        for to in sorted(needs.get(node, ())):
            if state.get(to) == 'on the path':
                return path[path.index(to):]
            if to not in state:
                found = visit(to)
                if found:
                    return found
        state[node] = 'done'
        path.pop()
        return []

    for node in sorted(needs):
        found = [] if node in state else visit(node)
        if found:
            return found
    return []


def told_circle(needs):
    """A circle as lines: who needs what of whom."""
    circle = find_circle(needs)
    for node, to in zip(circle, circle[1:] + circle[:1]):
        yield '%s needs %s of %s' % (node, needs[node][to], to)


def between_folders(needs, layer):
    out = collections.defaultdict(dict)
    for source, of in needs.items():
        if not source.startswith(layer + '/'):
            continue
        for to, name in of.items():
            here, there = os.path.dirname(source), os.path.dirname(to)
            if here != there:
                out[here][there] = name
    return out


def within(needs, folder):
    return {source: {to: name for to, name in of.items()
                     if os.path.dirname(to) == folder}
            for source, of in needs.items()
            if os.path.dirname(source) == folder}


# ---- the answer ---------------------------------------------------------------

def main(root, build):
    sys.setrecursionlimit(10000)
    needs = read_needs(read_objects(root, build))
    tests = [('external functions of %s begin with %s' % (
                  folder, ' or '.join(prefixes)),
              wrong_prefixes(build, library, prefixes))
             for library, folder, prefixes in LIBRARIES if prefixes]
    tests += [('no circle between folders of ' + layer,
               told_circle(between_folders(needs, layer))) for layer in LAYERED]
    tests += [('no circle between files of ' + folder,
               told_circle(within(needs, folder))) for folder in LAYERED_FILES]
    print('1..%d' % len(tests))
    for number, (what, faults) in enumerate(tests, 1):
        faults = list(faults)
        for fault in faults:
            print('# ' + fault)
        print('%sok %d - %s' % ('not ' if faults else '', number, what))


main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
