#!/usr/bin/env python3
"""messages.py - every message of the programs, and the test that provokes it

  messages.py SOURCE_ROOT BUILD_ROOT SUITE...

The rows are read from the sources: a call of a reporter with its format, or a
sentence marked MESSAGE("...").  A reporter is whoever formats with
message_vprintf, or hands its format on to a reporter, so none is listed here.

The suites are run with TFD_MESSAGES, unless record.py has a record of them in
the folder TFD_RECORDS, and what they were told is compared with the rows; one
that the page names for a message that nobody said is run again.
Wrong are a message that no test provokes, one that is written in two
places, one that is said but not found in the sources, and a page
docs/messages.md that has other rows.  Which test is named beside a row, and with
which example, may be chance, so that is only told.  TFD_BLESS=1 writes the page.
"""

import difflib
import functools
import bisect
import collections
import concurrent.futures
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

LAYERS = ["frontend", "ir", "passes", "backend", "runtime"]

# The chapters of the page: the longest beginning of a file's path decides.
CHAPTERS = [
    ("Command lines",
     ["frontend/tfdc", "runtime/tfd_run", "ir/base/io/options",
      "runtime/hal/driver", "runtime/exec/params",
      "ir/device/device", "frontend/dist/cross_device",
      "backend/llvm/target", "backend/backend"]),
    ("Reading a program", ["frontend/syntax/"]),
    ("Strategies, contexts and variables",
     ["frontend/dist/", "frontend/vars/", "frontend/context/scope"]),
    ("Checking a program", ["frontend/"]),
    ("Gradients and other passes", ["passes/"]),
    ("Types and shapes", ["ir/rules/"]),
    ("Modules as text", ["ir/text/"]),
    ("Verifying a module", ["ir/"]),
    ("Kernels and code", ["backend/"]),
    ("Plans", ["ir/plan/", "runtime/load/"]),
    ("Datasets", ["runtime/data/"]),
    ("Checkpoints",
     ["runtime/checkpoint/", "runtime/ops/save",
      "runtime/exec/checkpoint"]),
    ("Running a plan", ["runtime/"]),
    ("Files and memory", ["ir/base/"]),
]


class Row:
    """A message: the format it is made from, and where."""

    def __init__(self, path, line, format):
        self.path, self.line, self.format = path, line, format
        self.suites = set()
        self.example = None

    def where(self):
        return f"{self.path}:{self.line}"


# ---- the rows ----------------------------------------------------------------

TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
                   r"""|[A-Za-z_]\w*|\s+|.""", re.S)
DEFINED = re.compile(r"^([^\n]+)\n(\w+)(\([^;{}]*?\))\s*\n\{\n(.*?)^\}",
                     re.S | re.M)
NAME = re.compile(r"\w+")
MACRO = re.compile(r"#define (\w+)\(([^)]*)\.\.\.\)[ \\\n]*(\w+)\(")
FORMATS = {"message_vprintf": 1, "message_printf": 1, "message_part": 0,
           "message_said": 0, "fatal_error": 1}


def tokens_from(text, at):
    """Tokens without space and comments."""
    for m in TOKEN.finditer(text, at):
        if not m[0].isspace() and not m[0].startswith(("/*", "//")):
            yield m[0]


def arguments_at(text, at):
    """The arguments of the call whose "(" is at; lists of tokens."""
    depth, arguments = 0, [[]]
    for token in tokens_from(text, at):
        if token in "([{":
            depth += 1
            if depth == 1:
                continue
        elif token in ")]}":
            depth -= 1
            if depth == 0:
                break
        elif token == "," and depth == 1:
            arguments.append([])
            continue
        arguments[-1].append(token)
    return arguments


def calls_of(text, names):
    """(name, line, arguments) of each call of names.  (Only what follows a name
    is read as C: the patterns of a scanner have quotes of their own.)"""
    for m in re.finditer(r"\b(\w+) *\(", text):
        if m[1] in names:
            yield (m[1], text.count("\n", 0, m.start()) + 1,
                   arguments_at(text, m.end() - 1))


def parameters_of(text):
    return [p[-1] for p in arguments_at(text, 0) if p]


Function = collections.namedtuple(
    "Function", "name parameters is_static first last body words")


def of_tests(root):
    """Failures that tests make up themselves."""
    found = []
    for folder, _, names in os.walk(os.path.join(root, "tests")):
        for name in names:
            if name.endswith(".c"):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    found += re.findall(r'status_new\(\w+, "([^"%]*)"', f.read())
    return found


class Sources:
    def __init__(self, root):
        self.texts = {}
        for layer in LAYERS:
            for folder, _, names in os.walk(os.path.join(root, layer)):
                for name in sorted(names):
                    if name.endswith((".c", ".h", ".y", ".l", ".def")):
                        path = os.path.join(folder, name)
                        with open(path, encoding="utf-8") as f:
                            self.texts[os.path.relpath(path, root)] = f.read()
        self.functions = {p: self.functions_of(t)
                          for p, t in self.texts.items() if p.endswith(".c")}
        self.of_tests = of_tests(root)
        self.reporters = {}
        self.local = collections.defaultdict(dict)
        self.forwards = set()
        self.hidden = []
        self.frames = set()  # formats that say no more than where
        self.find_reporters()

    @staticmethod
    def functions_of(text):
        found = []
        for m in DEFINED.finditer(text):
            first = text.count("\n", 0, m.start(4)) + 1
            found.append(Function(m[2], m[3], "static" in m[1],
                                  first, first + m[4].count("\n"),
                                  m[4], set(NAME.findall(m[4]))))
        return found

    def known(self, path):
        return {**self.reporters, **self.local[path]}

    def find_reporters(self):
        """Functions that hand a parameter on as the text of a message."""
        self.reporters = dict(FORMATS)
        for text in self.texts.values():
            for name, before, callee in MACRO.findall(text):
                if callee in FORMATS:
                    self.reporters[name] = before.count(",")
        grown = True
        while grown:
            grown = False
            for path, functions in self.functions.items():
                for function in functions:
                    grown |= self.learn(path, function)

    def learn(self, path, function):
        name = function.name
        if function.words.isdisjoint(self.known(path)):
            return False
        parameters = parameters_of(function.parameters)
        for callee, _, arguments in calls_of(function.body, self.known(path)):
            at = self.known(path)[callee]
            if at >= len(arguments):
                continue
            given = arguments[at]
            if given == ['"%s"'] and at + 1 < len(arguments):
                given = arguments[at + 1]
            if len(given) == 1 and given[0] in parameters:
                self.forwards.add((path, function.first))
                table = self.local[path] if function.is_static else self.reporters
                if name not in table:
                    table[name] = parameters.index(given[0])
                    return True
        return False

    def is_forward(self, path, line):
        """Whether a line is in a function that hands a message on."""
        return any(f.first <= line <= f.last and (path, f.first) in self.forwards
                   for f in self.functions.get(path, []))

    def calls(self, path):
        names = {**self.known(path), "MESSAGE": 0}
        for name, line, arguments in calls_of(self.texts[path], names):
            if names[name] < len(arguments):
                yield name, line, arguments[names[name]]

    def rows(self):
        found = []
        for path in self.texts:
            if path == "ir/base/message.h":
                continue
            for name, line, given in self.calls(path):
                format = literal(given)
                if hides_text(given):
                    self.hidden.append(f"{path}:{line}: what {name} says is "
                                       "put together elsewhere")
                if not format or format == "%s":
                    continue
                if name != "MESSAGE" and self.is_forward(path, line):
                    self.frames.add(format)
                else:
                    found.append(Row(path, line, format))
        return found


def hides_text(tokens):
    """Whether a message is made by a call that knows nothing of messages."""
    return any(t.startswith('"') for t in tokens) and \
        literal(tokens) is None and \
        not {"MESSAGE", "message_printf"} & set(tokens)


WORDS = {"PRId64": "ld", "PRIu64": "lu", "PRIx64": "lx"}


def literal(tokens):
    """The string that adjacent literals are; None: the tokens are no string."""
    text = ""
    for token in tokens:
        if token.startswith('"'):
            text += json.loads(re.sub(r"\\x([0-9a-f]{2})", r"\\u00\1", token))
        elif token in WORDS:
            text += WORDS[token]
        else:
            return None
    return text


# ---- the messages of the suites

PLACE = re.compile(r"%%|%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?"
                   r"(?:hh|ll|[hlzjt])?[a-zA-Z]|\$[a-z]|\{(?::n)?\}")


def pattern_of(format):
    parts, at = [], 0
    for m in PLACE.finditer(format):
        parts.append(re.escape(format[at:m.start()]))
        parts.append("%" if m[0] == "%%" else ".*?")
        at = m.end()
    return re.compile("".join(parts) + re.escape(format[at:]), re.S)


def longest_part(format):
    """What all messages of the format have, but for the paths of folders."""
    return max(PLACE.split(format), key=len).rpartition("/")[2]


def shown_format(format):
    return PLACE.sub(lambda m: "%" if m[0] == "%%" else "…", format)


CONDITIONS = re.compile(r"(?:\{:[?!]\})+")  # ir/base/number/format.h


def alternatives(part):
    """What is said with a part: its text up to the first condition, alone or
    with that behind one of them."""
    begin, *conditional = CONDITIONS.split(part)
    return {begin, *(begin + text for text in conditional)}


class Log:
    """The records of the suites."""

    def __init__(self):
        self.said = collections.defaultdict(set)   # format -> texts
        self.suites = collections.defaultdict(set)  # format -> suites
        self.shown = set()
        self.parts = set()
        self.whole = set()  # said with the format "%s", or one without places

    def read(self, suite, path):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                records = f.read().split("\x1e")
        except FileNotFoundError:
            return
        for record in records[:-1]:
            kind, format, text = record.split("\x1f", 2)
            if kind == "shown":
                self.shown.add(text.rstrip("\n"))
            else:
                self.said[format].add(text)
                self.suites[format].add(suite)
                if kind == "part":
                    self.parts |= alternatives(text)
                elif format == text:
                    self.whole.add(text)


def tests_of(build):
    """The tests of each name: several suites may have an "errors"."""
    tests = collections.defaultdict(list)
    with open(os.path.join(build, "meson-info", "intro-tests.json"),
              encoding="utf-8") as f:
        for number, test in enumerate(json.load(f)):
            tests[test["name"]].append({**test, "number": number})
    return tests


def run_suite(test, path):
    """Runs one, told to path.  Returns whether it passed, and its seconds."""
    env = {**os.environ, **test["env"], "TFD_MESSAGES": path}
    env.pop("TFD_BLESS", None)
    env.pop("TFD_RECORDS", None)
    begin = time.monotonic()
    try:
        done = subprocess.run(test["cmd"], env=env, stdin=subprocess.DEVNULL,
                              cwd=test["workdir"] or sys.argv[2],
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False)
        passed = done.returncode == 0
    except OSError:
        passed = False
    return passed, time.monotonic() - begin


def read_records(jobs, log):
    """Returns the jobs of which there is no record."""
    folder, missing = os.environ.get("TFD_RECORDS"), []
    for name, test in jobs:
        path = os.path.join(folder or "", f"{name}-{test['number']}")
        if folder and os.path.exists(path):
            log.read(name, path)
        else:
            missing.append((name, test))
    if folder:
        print(f"# {len(jobs) - len(missing)} of {len(jobs)} were recorded")
    return missing


def run_suites(build, names):
    log, tests = Log(), tests_of(build)
    jobs = read_records([(n, t) for n in names for t in tests[n]], log)
    return log, run_jobs(jobs, log)


def run_jobs(jobs, log):
    """Returns what is wrong with the suites."""
    failed = []
    with tempfile.TemporaryDirectory(prefix="tfd-messages-") as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = [os.path.join(folder, str(i)) for i in range(len(jobs))]
        results = pool.map(run_suite, [t for _, t in jobs], paths)
        for (name, _), path, (passed, seconds) in zip(jobs, paths, results):
            print(f"# {seconds:6.2f} s  {name}")
            if not passed:
                failed.append(f"the suite {name} fails, or is not built")
            log.read(name, path)
    return failed


AGAIN = 3


def run_again(build, rows, page, log):
    """A message whose moment hangs on who is faster (a process that is lost
    while it joins, say) may be missed by a run on a busy machine: the suites
    that the page names for messages that nobody said are run again."""
    tests = tests_of(build)
    named = {m[2]: m[4] for m in ENTRY.finditer(page)}
    for _ in range(AGAIN):
        missed = [r for r in rows if not r.example]
        names = sorted({named.get(shown_format(r.format)) for r in missed} - {None})
        if not names:
            return
        for row in missed:
            print(f"# missed: {shown_format(row.format)}")
        run_jobs([(n, t) for n in names for t in tests[n]], log)
        find_examples(rows, log)


# ---- examples ----------------------------------------------------------------


# A place in the standard library, and the number of the line that is shown.
IN_LIBRARY = re.compile(r"\b((?:floats|metrics|nn|optim)\.tfd):\d+:\d+"
                        r"(:.*)(?:\n( *\d+)( \|))?")


@functools.lru_cache(maxsize=None)
def without_folders(text):
    """Folders of tests and temporary files have other names each time; who
    edits the library changes no page."""
    text = IN_LIBRARY.sub(
        lambda m: m[1] + m[2] + (m[3] and "\n" + " " * len(m[3]) + m[4] or ""),
        text)
    if "/" in text:
        text = re.sub(r"(?<![\w.])/(?:[^/\s\"':]+/)+", "", text)
    text = re.sub(r"(rank \d+ \()%s(?=[,)])" % re.escape(socket.gethostname()),
                  r"\1h", text)
    return re.sub(r"\.tmp-\d+-\d+", ".tmp-1-0", text)


FEW = 8  # texts of a format that are looked for


def but_for_chance(text):
    """Which of several devices was the first to fail is chance, and where in a
    loop without end somebody was."""
    text = re.sub(r"on replica \d+, device cpu:\d+", "on a replica", text)
    return re.sub(r"at the \w+ of line \d+", "somewhere in it", text)


def smallest(texts):
    return min(texts, key=lambda t: (len(t), t), default=None)


def is_program(text):
    return "\n" in text


class Shown:
    """The messages shown, to be searched for what they say."""

    def __init__(self, messages):
        self.messages = sorted(set(map(without_folders, messages)),
                               key=lambda t: (len(t), t))
        self.starts, at = [], 0
        for message in self.messages:
            self.starts.append(at)
            at += len(message) + 1
        self.all = "\x1e".join(self.messages)

    def with_text(self, text):
        at = self.all.find(text)
        while at >= 0:
            i = bisect.bisect_right(self.starts, at) - 1
            yield self.messages[i]
            if i + 1 == len(self.starts):
                return
            at = self.all.find(text, self.starts[i + 1])

    def fitting(self, format):
        pattern = pattern_of(format)
        return (t for t in self.with_text(longest_part(format))
                if pattern.search(t))


def find_examples(rows, log):
    """The smallest message shown that each row made, of a program if there is
    one."""
    shown = Shown(log.shown)
    for row in rows:
        row.suites = log.suites.get(row.format, set())
        texts = {without_folders(t) for t in log.said.get(row.format, ())}
        fits = []
        for text in sorted(texts, key=lambda t: (len(t), t))[:FEW]:
            fits += shown.with_text(text)
        if texts and not fits: # a part of what was said
            fits = list(shown.fitting(row.format))
        row.example = smallest([t for t in fits if is_program(t)] or fits)


# ---- the page ----------------------------------------------------------------

OPENING = """# Messages

Every message of `tfdc` and `tfd-run`: what it says, with … for what differs,
and the smallest example that a test provokes, as users see it. The notes
below a message are its repair, or the calls that led to it. Generated from
the sources and the tests by `tests/messages/messages.py`; see
[CONTRIBUTING](../CONTRIBUTING.md#add-a-diagnostic).

"""


def chapter_of(path):
    best = max(((len(p), i) for i, (_, prefixes) in enumerate(CHAPTERS)
                for p in prefixes if path.startswith(p)))
    return best[1]


ENTRY = re.compile(r"^\*\*(`+)(.*?)\1\*\*  \n`(.*?)`, tested by (\S+)\n"
                   r"(?:\n```\n(.*?)\n```\n)?", re.S | re.M)


def quoted(text):
    ticks = "``" if "`" in text else "`"
    return ticks + text + ticks


def keep_choices(rows, page, log):
    """What the page has stays while it holds: that it changes with a message,
    and not with every new test."""
    shown = {but_for_chance(without_folders(t)) for t in log.shown}
    old = {m[2]: m for m in ENTRY.finditer(page)}
    for row in rows:
        row.suite = min(row.suites, default=None)
        m = old.get(shown_format(row.format))
        if not m or not row.example:
            continue
        if m[4] in row.suites:
            row.suite = m[4]
        holds = m[5] and (but_for_chance(m[5]) in shown
                          if is_program(m[5]) else
                          pattern_of(row.format).search(m[5]) and
                          not is_program(row.example))
        if holds:
            row.example = m[5]


def entry(row):
    text = f"**{quoted(shown_format(row.format))}**  \n"
    text += f"`{row.path}`, tested by {row.suite}\n"
    return text + f"\n```\n{row.example}\n```\n"


def page_of(rows):
    chapters = [[] for _ in CHAPTERS]
    for row in sorted(rows, key=lambda r: (r.path, r.format)):
        if row.example:
            chapters[chapter_of(row.path)].append(entry(row))
    return OPENING + "\n".join(
        f"## {title}\n\n" + "\n".join(entries)
        for (title, _), entries in zip(CHAPTERS, chapters) if entries)


# ---- the report


def untested(rows):
    return [f"{r.where()}: no test provokes: {r.format}"
            for r in rows if not r.example]


def twice(rows):
    """A sentence is written in one place, so that its test is its own."""
    places = collections.defaultdict(list)
    for row in rows:
        places[row.format].append(row.where())
    return [f"{', '.join(where)}: one sentence, several places: {format}"
            for format, where in places.items() if len(where) > 1]


def unknown(sources, rows, log):
    """Sentences said whose words are in no row: one is not marked MESSAGE."""
    known = {r.format for r in rows} | sources.frames
    made = {t for f in known for t in log.said.get(f, ())}
    filled = [pattern_of(f) for f in known if "$" in f]
    filled += [pattern_of(f) for f in log.parts]
    known |= set(sources.of_tests)
    return [f"said, but not marked MESSAGE: {text}"
            for text in sorted(log.whole - known - made)
            if not any(p.fullmatch(text) for p in filled)]


REPAIR = "TFD_BLESS=1 meson test messages_table writes it"


def difference(old, new):
    return list(difflib.unified_diff(old, new, "docs/messages.md", "seen",
                                     n=0, lineterm=""))


def headings_of(page):
    """What of a page follows from the sources alone."""
    return [f"{m[2]}  ({m[3]})" for m in ENTRY.finditer(page)]


def out_of_date(old, page):
    lines = difference(headings_of(old), headings_of(page))
    return [*lines, REPAIR] if lines else []


def unknown_suites(page, suites):
    return [f"tested by {m[4]}, which is not run here: {m[2]}"
            for m in ENTRY.finditer(page) if m[4] not in suites]


def tell_other_examples(old, page):
    lines = difference(old.splitlines(), page.splitlines())
    if lines:
        print(f"# {len(lines)} lines of docs/messages.md would be others; "
              + REPAIR)


def report(checks):
    """TAP.  Returns the exit status."""
    print(f"1..{len(checks)}")
    for i, (name, problems) in enumerate(checks, 1):
        print(f"{'not ok' if problems else 'ok'} {i} - {name}")
        for problem in problems:
            print("#   " + problem.replace("\n", "\\n"))
    return any(problems for _, problems in checks)


def main():
    root, build, suites = sys.argv[1], sys.argv[2], sys.argv[3:]
    sources = Sources(root)
    rows = sources.rows()
    log, failed = run_suites(build, suites)
    find_examples(rows, log)
    path = os.path.join(root, "docs", "messages.md")
    old = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            old = f.read()
    run_again(build, rows, old, log)
    keep_choices(rows, old, log)
    page = page_of(rows)
    if os.environ.get("TFD_BLESS"):
        with open(path, "w", encoding="utf-8") as f:
            f.write(page)
        old = page
    print(f"# {len(rows)} messages in the sources, "
          f"{sum(1 for r in rows if r.example)} provoked, "
          f"{len(ENTRY.findall(old))} in docs/messages.md")
    tell_other_examples(old, page)
    return report([
        ("the suites pass", failed),
        ("each message is in one place", twice(rows)),
        ("each message is written where it is said", sources.hidden),
        ("each message has a test", untested(rows)),
        ("what is said is in the sources", unknown(sources, rows, log)),
        ("docs/messages.md has each message, at its file",
         out_of_date(old, page)),
        ("docs/messages.md names suites that are run",
         unknown_suites(old, suites)),
    ])


if __name__ == "__main__":
    sys.exit(main())
