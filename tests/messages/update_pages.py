#!/usr/bin/env python3
"""update_pages.py - writes the pages of docs/ that the build makes

    update_pages.py DOCS PAGE... [-- COMMAND...]...

Each page is copied into DOCS under its name; the commands, suites that make
a page each, are told by TFD_BLESS=1 to write it.
"""
import os
import shutil
import subprocess
import sys


def copy_page(docs, page):
    to = os.path.join(docs, os.path.basename(page))
    with open(page, 'rb') as new, open(to, 'rb') as old:
        same = new.read() == old.read()
    if not same:
        shutil.copyfile(page, to)
    print('%s %s' % (to, 'is up to date' if same else 'is written anew'),
          flush=True)


def split_at(mark, items):
    parts = [[]]
    for item in items:
        if item == mark:
            parts.append([])
        else:
            parts[-1].append(item)
    return parts


def main(docs, *rest):
    pages, *commands = split_at('--', rest)
    for page in pages:
        copy_page(docs, page)
    env = {**os.environ, 'TFD_BLESS': '1'}
    return max(subprocess.run(c, env=env).returncode for c in commands)


sys.exit(main(*sys.argv[1:]))
