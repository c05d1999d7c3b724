#!/usr/bin/env python3
"""pages.py - what the pages of the project point to exists

    pages.py ROOT

Links and their anchors, paths of files, the functions that style.md shows, the
form of the glossary, the passes of architecture.md, that the README of a folder
has its sources, and that semantics.md has every rule of tensorflow.md and every
case that it decides otherwise, and that pages for users name every strategy.
Sources begin with their own names,
and the rulers of their sections are one line.
"""
import collections
import functools
import glob
import itertools
import os
import re
import sys

LINK = re.compile(r'\[[^\]\n]*\]\(([^)\s]+)\)')
PATH = re.compile(r'`((?:frontend|ir|passes|backend|runtime|tests|docs)/'
                  r'[\w./-]+)`')
CALL = re.compile(r'\b([a-z]\w+)\(')
FENCED = re.compile(r'^```.*?^```', re.S | re.M)
SOURCES = ('.c', '.h', '.def', '.inc')


def walk(root, endings):
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders
                      if f[0] != '.' and not f.startswith('build')]
        for name in names:
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(folder, name), root)


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8',
              errors='replace') as f:
        return f.read()


@functools.lru_cache(maxsize=None)
def anchors(root, page):
    """As GitHub makes them of headings: the second of a name ends in -1."""
    found, seen = set(), collections.Counter()
    for line in FENCED.sub('', read(root, page)).split('\n'):
        if line.startswith('#'):
            title = re.sub(r'`|\[|\]\([^)]*\)', '', line.lstrip('#').strip())
            name = re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-')
            found.add('%s-%d' % (name, seen[name]) if seen[name] else name)
            seen[name] += 1
    return found


def dead_links(root, pages):
    for page in pages:
        for link in LINK.findall(FENCED.sub('', read(root, page))):
            if re.match(r'\w+:', link):
                continue
            path, _, anchor = link.partition('#')
            to = os.path.normpath(os.path.join(os.path.dirname(page), path)) \
                if path else page
            if not os.path.exists(os.path.join(root, to)):
                yield '%s: no file for %s' % (page, link)
            elif anchor and anchor not in anchors(root, to):
                yield '%s: no heading for %s' % (page, link)


def is_pattern(path):
    """NAME and x.tfd stand for any."""
    return bool(re.search(r'[A-Z]{3,}', os.path.splitext(path)[0])) and \
        not path.endswith('.md')


def exists(root, page, path):
    """From the root or the page's folder; programs are named as built."""
    starts = (root, os.path.join(root, os.path.dirname(page)))
    return any(os.path.exists(os.path.join(s, path + end))
               for s in starts for end in ('', '.c'))


def dead_paths(root, pages):
    """messages.md has a suite of its own, roadmap.md speaks of what is not."""
    for page in pages:
        if page in ('docs/messages.md', 'docs/roadmap.md'):
            continue
        for path in set(PATH.findall(read(root, page))):
            if not is_pattern(path) and not exists(root, page, path):
                yield '%s: there is no %s' % (page, path)


def unknown_functions(root, page):
    sources = ' '.join(read(root, p) for p in walk(root, SOURCES))
    names = set(re.findall(r'\w+', sources))
    for block in FENCED.findall(read(root, page)):
        if block.startswith('```c\n'):
            code = re.sub(r'/\*.*?\*/|"(\\.|[^"\\])*"', ' ', block, flags=re.S)
            for name in sorted(set(CALL.findall(code)) - names):
                yield '%s: there is no %s' % (page, name)


def bad_rows(root, page):
    terms = []
    for line in read(root, page).split('\n'):
        if line.startswith('| ') and not line.startswith(('| term', '| ---')):
            cells = [c.strip() for c in line.strip('|').split('|')]
            if len(cells) != 3 or not all(cells):
                yield '%s: not three cells: %s' % (page, line)
            elif '`' not in cells[2] and '](' not in cells[2]:
                yield '%s: no file for %s' % (page, cells[0])
            terms.append(cells[0].lower())
    for term in sorted(set(t for t in terms if terms.count(t) > 1)):
        yield '%s: %s stands twice' % (page, term)


# sections of renamed.txt that name no thing
NO_TERMS = re.compile(r'prefix|folders|tests of|Names that are no more')


def without_entry(root, page):
    """"# glossary: A; B" in renamed.txt: the terms of a section's names."""
    terms = set(re.findall(r'^\| (.*?) \|', read(root, page), re.M))
    table = read(root, 'tests/conventions/renamed.txt')
    for section in re.findall(r'(?:^#.*\n)+(?=[^#\n])', table, re.M):
        named = re.findall(r'^# glossary: (.*)', section, re.M)
        if not named and not NO_TERMS.search(section):
            yield 'renamed.txt: no "# glossary:" after ' + section.strip()
        for term in '; '.join(named).split('; '):
            if named and term not in terms:
                yield '%s: no entry for %s of renamed.txt' % (page, term)


def terms_of(root, page):
    """Without what stands in parentheses; "a, b" is two names of one thing."""
    for term in re.findall(r'^\| ([^|]+) \|', read(root, page), re.M):
        if term not in ('term', '---'):
            yield re.sub(r'\s*\(.*?\)', '', term).strip('` ').lower()


def stem(word):
    return re.sub(r'(?<=\w{4})(ing|s|ed)$', '', word)


def foreign_terms(root, page):
    """Each word of a term is one that the sources or their READMEs have."""
    folders = ('frontend/', 'ir/', 'passes/', 'backend/', 'runtime/')
    text = ' '.join(read(root, p).lower()
                    for p in walk(root, SOURCES + ('.md', '.tfd'))
                    if p.startswith(folders))
    for term in terms_of(root, page):
        names = term.split(', ')
        if not any(all(stem(word) in text for word in re.findall(r'\w+', name))
                   for name in names):
            yield '%s: %s is nowhere in the sources' % (page, term)


def other_passes(root, page):
    have = re.findall(r'^\| `(\w+)` \|', read(root, page), re.M)
    want = re.findall(r'^PASS\((\w+),',
                      read(root, 'passes/support/passes.def'), re.M)
    if have != want:
        yield '%s: the passes are %s' % (page, ' '.join(want))


def cases_of(text):
    return set(re.findall(r'\b[A-Z]{3}-\d\d\b', text))


def unanswered(root, page):
    text, rules = read(root, page), read(root, 'docs/tensorflow.md')
    cases = read(root, 'docs/conformance.md')
    rows, decisions = text.split('\n## The decisions\n')
    for case in cases_of(text) - cases_of(cases):
        yield '%s: there is no case %s' % (page, case)
    otherwise = '\n'.join(line for line in cases.split('\n')
                          if '| tfd decides otherwise:' in line)
    for case in set(re.findall(r'^\| ([A-Z]{3}-\d\d) ', otherwise, re.M)) - \
            cases_of(decisions):
        yield '%s: no decision for %s' % (page, case)
    sections = re.findall(r'^#+ (\d+)\.(\d*) ', rules, re.M)
    split = {a for a, b in sections if b}
    for a, b in sections:
        if (b or a not in split) and a != '13' and \
                not re.search(r'^\| \[%s%s ' % (a, b and '.' + b), rows, re.M):
            yield '%s: no row for the rules of %s.%s' % (page, a, b)
    stated = re.findall(r'^\| (S\d+) \|', decisions, re.M)
    for name in set(re.findall(r'\bS\d+\b', text)) - set(stated):
        yield '%s: %s is not stated' % (page, name)
    for name in set(stated) - set(re.findall(r'\bS\d+\b', rows)):
        yield '%s: no rule leads to %s' % (page, name)


def readme_of(root, folder):
    """Its own, or that of the folder around it."""
    while not os.path.exists(os.path.join(root, folder, 'README.md')):
        folder = os.path.dirname(folder)
    return os.path.join(folder, 'README.md')


def unlisted(root):
    for path in walk(root, ('.c', '.def', '.l', '.y')):
        if path.startswith(('tests/', 'docs/')):
            continue
        folder, name = os.path.split(path)
        page = readme_of(root, folder)
        if not re.search(r'\b%s\b' % re.escape(os.path.splitext(name)[0]),
                         read(root, page)):
            yield '%s: does not have %s' % (page, path)


def unlisted_suites(root):
    page = 'tests/README.md'
    for path in glob.glob(os.path.join(root, 'tests/*/meson.build')):
        name = os.path.basename(os.path.dirname(path))
        if '| `%s/` |' % name not in read(root, page):
            yield '%s: does not have %s/' % (page, name)


def lists_nothing(root, pages):
    """Names in the first column of tables of files."""
    for page in pages:
        folder = os.path.join(root, os.path.dirname(page))
        table = ''
        for line in read(root, page).split('\n'):
            table = (table or line) if line.startswith('|') else ''
            if not re.match(r'\| (file|folder)', table):
                continue
            for name in re.findall(r'`([\w./*-]+)`', line.split('|')[1]):
                to = os.path.join(folder, name)
                if not glob.glob(to) and not glob.glob(to + '.*'):
                    yield '%s: there is no %s' % (page, name)


def other_names(root):
    for path in walk(root, SOURCES + ('.l', '.y')):
        name = re.match(r'/\*\n \* ([\w.]+\.\w+) - ', read(root, path))
        if name and name.group(1) != os.path.basename(path):
            yield '%s: its comment calls it %s' % (path, name.group(1))


def broken_rulers(root):
    """One that begins a longer comment goes on with an empty line."""
    for path in walk(root, SOURCES + ('.l', '.y')):
        lines = read(root, path).split('\n')
        for i, line in enumerate(lines):
            if not re.match(r'\s*/\* ---- ', line):
                continue
            is_whole = re.search(r'- \*/$', line) or (
                line.endswith('--') and lines[i + 1].strip() == '*'
                and re.match(r'\s*\* \w', lines[i + 2]))
            if not is_whole or len(line) > 80:
                yield '%s:%d: not one line of 80 columns: %s' % (
                    path, i + 1, line)


def unnamed_strategies(root, forms):
    """forms: of each page, how it names a strategy, with %s for the name."""
    names = re.findall(r'^STRATEGY\((\w+)', read(
        root, 'ir/device/strategies.def'), re.M)
    for page, form in forms.items():
        for name in names:
            if not re.search(form % name, read(root, page)):
                yield '%s: does not name the strategy %s' % (page, name)


def report(number, what, faults):
    faults = sorted(faults)
    for fault in faults:
        print('# ' + fault)
    print('%sok %d - %s' % ('not ' if faults else '', number, what))


def main(root):
    pages = sorted(walk(root, '.md'))
    print('1..13')
    report(1, 'links', dead_links(root, pages))
    report(2, 'paths', dead_paths(root, pages))
    report(3, 'functions of style.md',
           unknown_functions(root, 'docs/style.md'))
    report(4, 'rows of the glossary', bad_rows(root, 'docs/glossary.md'))
    report(5, 'passes', other_passes(root, 'docs/architecture.md'))
    report(6, 'rules and decisions', unanswered(root, 'docs/semantics.md'))
    report(7, 'sources and suites that no README has',
           itertools.chain(unlisted(root), unlisted_suites(root)))
    report(8, 'files that READMEs list',
           lists_nothing(root, [p for p in pages if p.endswith('README.md')]))
    report(9, 'terms of renamed.txt', without_entry(root, 'docs/glossary.md'))
    report(10, 'names of files in their comments', other_names(root))
    report(11, 'terms that the sources have',
           foreign_terms(root, 'docs/glossary.md'))
    report(12, 'rulers of sections', broken_rulers(root))
    report(13, 'strategies', unnamed_strategies(root, {
        'docs/language.md': r'`strategy %s\b',
        'docs/glossary.md': r'\| strategy \|.*`%s`'}))


main(sys.argv[1])
