#!/usr/bin/env python3
"""folders.py - how much stands side by side in each folder, and which is above

    folders.py [ROOT]          files, lines and the largest file of each folder
    folders.py --tap ROOT      TAP: for each layer, that no folder has too many
                               sources, and that its README lists the folders
                               from the bottom up: none includes one above it
"""
import collections
import os
import re
import sys

LAYERS = ['frontend', 'ir', 'passes', 'backend', 'runtime']
SOURCES = ('.c', '.h', '.def', '.l', '.y')
MOST = 30

# These join folders and belong to none.
PROGRAMS = ['frontend/tfdc.c', 'frontend/tfdc_options.c',
            'runtime/tfd_run.c', 'runtime/tfd_run_options.c',
            'runtime/tfd_run_uses.c', 'ir/ops/gen_ops_doc.c']

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
FOLDER = re.compile(r'`([\w/]+/|\.)`')

File = collections.namedtuple('File', 'lines name')


# ---- how much ----------------------------------------------------------------

def count_lines(path):
    with open(path, 'rb') as f:
        return sum(1 for _ in f)


def read_folders(root, layer):
    """(folder, its sources), from the top down."""
    for folder, folders, names in sorted(os.walk(os.path.join(root, layer))):
        files = [File(count_lines(os.path.join(folder, name)), name)
                 for name in names if name.endswith(SOURCES)]
        if files:
            yield os.path.relpath(folder, root), files


def print_table(root):
    print('%-24s %5s %7s   %s' % ('folder', 'files', 'lines', 'largest'))
    for layer in LAYERS + ['tests']:
        for folder, files in read_folders(root, layer):
            largest = max(files)
            print('%-24s %5d %7d   %s, %d' % (
                folder, len(files), sum(f.lines for f in files), largest.name,
                largest.lines))


def crowded(root, layer):
    for folder, files in read_folders(root, layer):
        if len(files) > MOST:
            yield '%s has %d sources side by side, over %d' % (
                folder, len(files), MOST)


# ---- the order ----------------------------------------------------------------

def listed_folders(root, layer):
    """Those of the table in the layer's README, from the bottom up; the layer's
    own files are on top unless a row says otherwise."""
    listed = []
    with open(os.path.join(root, layer, 'README.md'), encoding='utf-8') as f:
        for line in f:
            if line.startswith('| '):
                names = FOLDER.findall(line.split('|')[1])
                listed += [os.path.normpath(os.path.join(layer, name))
                           for name in names]
    return listed if layer in listed else listed + [layer]


def place_of(listed, folder):
    """A folder in a listed one that is not listed itself has its place."""
    while folder and folder not in listed:
        folder = os.path.dirname(folder)
    return listed.index(folder) if folder else None


def upward(root, layer):
    listed = listed_folders(root, layer)
    for folder, files in read_folders(root, layer):
        if folder != layer and place_of(listed, folder) == place_of(
                listed, layer):
            yield '%s is not in the table of %s/README.md' % (folder, layer)
        for file in files:
            path = '%s/%s' % (folder, file.name)
            if path in PROGRAMS:
                continue
            with open(os.path.join(root, path), encoding='utf-8') as f:
                included = INCLUDE.findall(f.read())
            for to in included:
                if to.startswith(layer + '/') and \
                        place_of(listed, os.path.dirname(to)) > \
                        place_of(listed, folder):
                    yield '%s includes %s, which stands above it' % (path, to)


# ---- the answer ---------------------------------------------------------------

def print_tap(root):
    tests = [('%s: at most %d sources side by side' % (layer, MOST),
              crowded(root, layer)) for layer in LAYERS + ['tests']]
    tests += [('%s: from the bottom up' % layer, upward(root, layer))
              for layer in LAYERS]
    print('1..%d' % len(tests))
    for number, (what, faults) in enumerate(tests, 1):
        faults = list(faults)
        for fault in faults:
            print('# ' + fault)
        print('%sok %d - %s' % ('not ' if faults else '', number, what))


if sys.argv[1:2] == ['--tap']:
    print_tap(sys.argv[2])
else:
    print_table(sys.argv[1] if len(sys.argv) > 1 else '.')
