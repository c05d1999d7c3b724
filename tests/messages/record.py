#!/usr/bin/env python3
"""record.py - runs a test, and records its messages if messages_table asks

  TFD_RECORDS=FOLDER meson test --wrapper "python3 -SE .../record.py"

Which test it is the command and its environment say.  The record is the file
FOLDER/NAME-NUMBER, by its number among the tests of the build.  Only the suites
that messages_table reads are told to record: others count what is written.
"""

import json
import os
import sys


def is_run_here(test, command):
    return test["cmd"] == command and \
        all(os.environ.get(k) == v for k, v in test["env"].items())


def record_of(command):
    """Where the messages of a command go; None: nobody asks."""
    with open("meson-info/intro-tests.json", encoding="utf-8") as f:
        tests = json.load(f)
    asked = [name for test in tests if test["name"] == "messages_table"
             for name in test["cmd"]]
    for number, test in enumerate(tests):
        if test["name"] in asked and is_run_here(test, command):
            return os.path.join(os.environ["TFD_RECORDS"],
                                f"{test['name']}-{number}")
    return None


def main():
    command = sys.argv[1:]
    path = record_of(command)
    if path:
        os.environ["TFD_MESSAGES"] = path
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
