#!/usr/bin/env python3
"""renamed.py - names that were replaced do not come back

    renamed.py ROOT            TAP: a test for identifiers, for files, for the IR
    renamed.py --apply ROOT    renames in a tree that has old names still

renamed.txt beside this file has the table.  A row of ir: and a word is about the
text of the IR, in .tir files and all that have such text in them: an operation,
or with = an attribute.  Pages (.md) name identifiers too;
what has no _ there may be English and stays.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ('.c', '.h', '.def', '.inc', '.l', '.y')
TEXTS = SOURCES + ('.md', '.py', '.build', '.txt', '.tfd', '.tir')
# The name of a file is no identifier of C, though its stem may be one.
WORD = re.compile(r'[A-Za-z_]\w*(?!\w|\.(?:c|h|def|inc)\b)')
# in a page, where it is no part of a path
NAME = re.compile(r'(?<![\w/.-])[A-Za-z]\w*_\w*(?![\w/]|\.[a-z])')


def read_table():
    with open(os.path.join(HERE, 'renamed.txt')) as f:
        rows = [line.split() for line in f if line.strip() and line[0] != '#']
    words = {old[3:]: new[3:] for old, new in rows if old.startswith('ir:')}
    rows = [row for row in rows if not row[0].startswith('ir:')]
    files = {old: new for old, new in rows if '/' in old}
    names = {old: new for old, new in rows if '/' not in old}
    return names, files, words


def list_files(root):
    out = subprocess.run(['git', '-C', root, 'ls-files'], check=True,
                         capture_output=True, text=True).stdout.split('\n')
    return [p for p in out if p and os.path.exists(os.path.join(root, p))]


def walk_files(root):
    """Without git, as in a tree that was unpacked."""
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f[0] != '.' and f != 'build']
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root)


def is_kept(path):
    return path.startswith(('docs/examples/', 'build')) or \
        path.endswith('renamed.txt')


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8',
              errors='replace') as f:
        return f.read()


def without_comments(text):
    return re.sub(r'/\*.*?\*/|"(\\.|[^"\\\n])*"', ' ', text, flags=re.S)


# ---- the test ----------------------------------------------------------------

def without_stems(names, paths):
    """A page may mean the file, not the function that was called like it."""
    stems = {os.path.splitext(os.path.basename(p))[0] for p in paths}
    return {old: new for old, new in names.items() if old not in stems}


def identifiers(root, path):
    if path.endswith('.md'):
        return set(NAME.findall(read(root, path)))
    return set(WORD.findall(without_comments(read(root, path))))


def old_identifiers(root, paths, names):
    paths = list(paths)
    in_pages = without_stems(names, paths)
    for path in paths:
        if path.endswith(SOURCES + ('.md',)) and not is_kept(path):
            old = in_pages if path.endswith('.md') else names
            for name in sorted(identifiers(root, path) & old.keys()):
                yield '%s: %s is %s now' % (path, name, names[name])


def old_files(root, files):
    for old, new in files.items():
        if os.path.exists(os.path.join(root, old)):
            yield '%s is %s now' % (old, new)


def word_pattern(words):
    """An attribute ends in =, an operation where no letter follows."""
    return re.compile(r'(?<![\w.%@])(' + '|'.join(
        re.escape(w) + ('' if w.endswith('=') else r'(?![\w.=])')
        for w in sorted(words)) + ')')


def has_ir(path, text):
    return path.endswith('.tir') or \
        path.endswith(TEXTS) and 'tfd-ir ' in text and \
        not is_kept(path) and path != 'docs/messages.md' # made by a test


def old_words(root, paths, words):
    pattern = word_pattern(words)
    for path in paths:
        if not path.endswith(TEXTS):
            continue
        text = read(root, path)
        if has_ir(path, text) and not path.endswith('renamed.py'):
            for word in sorted(set(pattern.findall(text))):
                yield '%s: %s is %s now' % (path, word, words[word])


def report(number, what, faults):
    faults = list(faults)
    for fault in faults:
        print('# ' + fault)
    print('%sok %d - %s' % ('not ' if faults else '', number, what))


# ---- renaming ----------------------------------------------------------------

def renamed_prose(text, names):
    return NAME.sub(lambda m: names.get(m.group(), m.group()), text)


def renamed(text, names):
    """In comments, words that are English too stay."""
    def new(m):
        in_comment = m.string.startswith('/*')
        plain = m.group().isalpha()
        return m.group() if in_comment and plain else \
            names.get(m.group(), m.group())
    pieces = re.split(r'(/\*.*?\*/)', text, flags=re.S)
    return ''.join(WORD.sub(new, piece) for piece in pieces)


def new_path(path, files):
    for old, new in files.items():
        if path == old or path.startswith(old + '/'):
            return new + path[len(old):]
    return path


def rename(root, paths, names, files):
    folders = {os.path.dirname(p) for p in [*paths, *files.values()]}
    stems = {os.path.splitext(o)[0]: os.path.splitext(n)[0]
             for o, n in files.items()
             if os.path.splitext(o)[0] not in folders}
    # the stem of a file may be the name of a folder too
    parts = re.compile(r'(?<![\w/])(' + '|'.join(
        re.escape(p) + (r'(?!\w)' if p in files else r'(?![\w/])')
        for p in sorted({**stems, **files}, key=len, reverse=True)) + ')')
    for path in paths:
        if is_kept(path) or not path.endswith(TEXTS) or \
                path.endswith('renamed.py'):
            continue
        text = read(root, path)
        new = parts.sub(lambda m: {**stems, **files}[m.group()], text)
        if path.endswith(SOURCES):
            new = renamed(new, names)
        elif path.endswith('.md'):
            new = renamed_prose(new, without_stems(names, paths))
        if new != text:
            with open(os.path.join(root, path), 'w') as f:
                f.write(new)
    for path in paths:
        if new_path(path, files) != path:
            to = os.path.join(root, new_path(path, files))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            os.rename(os.path.join(root, path), to)


def rename_words(root, paths, words):
    pattern = word_pattern(words)
    for path in paths:
        text = read(root, path) if path.endswith(TEXTS) else ''
        if not has_ir(path, text) or path.endswith('renamed.py'):
            continue
        new = pattern.sub(lambda m: words[m.group()], text)
        if new != text:
            with open(os.path.join(root, path), 'w') as f:
                f.write(new)


def main(args):
    root = args[-1]
    names, files, words = read_table()
    if args[0] == '--apply':
        rename(root, list_files(root), names, files)
        rename_words(root, list_files(root), words)
        return
    print('1..3')
    report(1, 'identifiers', old_identifiers(root, walk_files(root), names))
    report(2, 'files', old_files(root, files))
    report(3, 'words of the IR', old_words(root, walk_files(root), words))


main(sys.argv[1:])
