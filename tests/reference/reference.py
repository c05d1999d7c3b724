#!/usr/bin/env python3
"""reference.py - docs/reference.md, and a run of every example in it

    reference.py SOURCE_ROOT TFDC TFD_RUN

The page has an entry for each builtin, layer, optimizer, metric and stage of
datasets.  entries.py reads them from the tables and the library's sources,
examples.py compiles and runs their examples, page.py writes them down together
with what the examples print.

Wrong are an entry that lacks something, an example that fails, and a page that
is not what comes of this.  TFD_BLESS=1 writes the page.
"""

import difflib
import os
import sys

import entries
import examples
import page


def tap(number, name, problems):
    print('%sok %d - %s' % ('not ' if problems else '', number, name))
    for problem in problems:
        for line in problem.splitlines():
            print('# ' + line)
    return not problems


def differences(path, want):
    with open(path, encoding='utf-8') as f:
        have = f.read()
    diff = list(difflib.unified_diff(have.splitlines(), want.splitlines(),
                                     'docs/reference.md', 'now', lineterm='',
                                     n=1))
    if diff:
        diff.append('TFD_BLESS=1 meson test reference writes it')
    return ['\n'.join(diff[:40] + diff[-1:])] if diff else []


def write(path, text):
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)


def main(root, tfdc, tfd_run):
    path = os.path.join(root, 'docs', 'reference.md')
    sections, problems = entries.read(root)
    programs = examples.programs(sections, entries.modules(root))
    print('1..%d' % (len(programs) + 2))
    good = tap(1, 'each name has an entry', problems)
    for i, program in enumerate(programs):
        failures = examples.run(program, os.path.abspath(tfdc),
                                os.path.abspath(tfd_run))
        good = tap(i + 2, 'examples: ' + program.name, failures) and good
    text = page.text(sections)
    if good and os.environ.get('TFD_BLESS'):
        write(path, text)
    stale = differences(path, text) if good else ['the above']
    good = tap(len(programs) + 2, 'docs/reference.md is up to date',
               stale) and good
    return 0 if good else 1


sys.exit(main(*sys.argv[1:]))
