#!/usr/bin/env python3
"""update_pages.py - writes the pages of docs/ that the build makes

    update_pages.py DOCS PAGE... -- COMMAND...

Each page is copied into DOCS under its name; the command, which makes the page
of messages, is told by TFD_BLESS=1 to write it.
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


def main(docs, *rest):
    split = rest.index('--')
    for page in rest[:split]:
        copy_page(docs, page)
    return subprocess.run(rest[split + 1:],
                          env={**os.environ, 'TFD_BLESS': '1'}).returncode


sys.exit(main(*sys.argv[1:]))
