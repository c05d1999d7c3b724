#!/usr/bin/env python3
"""order.py - no two calls with effects in an order that C leaves open

C does not say in which order the arguments of a call, the operands of + or =,
or the elements of an initialiser are computed: gcc takes the last first, clang
the first.  Where two of them emit an instruction, add to a text or count, the
plan depends on who built tfdc (D14).

Reads the sources as tokens and finds of each function what it may change: what
a parameter leads to, or anything else.  A function changes what the functions
it calls change, unless it gives them something of its own.  Then it looks for
two calls that change more than that, in an expression without a sequence point
(, && || ?:) between them.

    order.py ROOT FOLDER...     TAP: a test for each folder
    order.py --why NAME ROOT FOLDER...    what NAME is thought to change
"""
import collections
import glob
import os
import re
import sys

# Changes that do not count: the memory of an arena, tables that only remember
# computed values, and functions that end the process.
PURE = set('''
    assert offsetof sizeof UNREACHABLE memory_exhausted MESSAGE NEW NEW_ARRAY
    arena_new arena_release arena_alloc arena_array arena_strdup arena_strndup
    arena_printf arena_vprintf
    message_printf message_vprintf message_part intern intern_n
    nearest_name pass_fuse_cluster ir_forwarded K IK POLY T COUNT LENGTH
    memchr memcmp strlen strcmp strncmp strchr strrchr strstr strspn strcspn
    abs llabs fabs isnan isinf isfinite floor ceil trunc fmin fmax pow sqrt
    ldexp exp2 isdigit isalpha isspace isalnum isprint getenv
    __builtin_mul_overflow __builtin_add_overflow __builtin_sub_overflow
    __builtin_popcount __builtin_ctz __builtin_clz __builtin_clzll
'''.split())
PURE_BEGINNINGS = ('LLVMConst', 'LLVMGet', 'LLVMIs', 'LLVMTypeOf', 'LLVMInt',
                   'LLVMPointerType', 'LLVMFunctionType', 'LLVMVectorType',
                   'LLVMArrayType', 'LLVMVoid', 'LLVMFloat', 'LLVMDouble',
                   'LLVMHalf', 'LLVMBFloat', 'LLVMCount', 'LLVMStruct',
                   'LLVMValueAsMetadata', 'LLVMMDString')

# Changed through an argument: by C's library, and by macros.
WRITES = {'VEC_PUSH': {1}, 'VEC_POP': {0}, 'VEC_RESERVE': {1}, 'memcpy': {0},
          'memmove': {0}, 'memset': {0}, 'qsort': {0}, 'snprintf': {0},
          'strtoll': {1}, 'strtod': {1}, 'frexp': {1}}
ANYTHING = 'anything'

KEYWORDS = set('''if while for switch return sizeof do else case default break
    continue goto static const struct enum union typedef extern inline void
    unsigned volatile'''.split())
STATEMENTS = set('''if while for switch return sizeof do else case default
    break continue goto'''.split())
CONDITIONS = ('if', 'while', 'for', 'switch')
CLOSING = {'(': ')', '[': ']', '{': '}'}
ASSIGNMENTS = {'=', '+=', '-=', '*=', '/=', '%=', '&=', '|=', '^=', '<<=',
               '>>=', '++', '--'}

TOKEN = re.compile(r'''
  (?P<space>[ \t\r\f]+|\\\n) | (?P<newline>\n)
| (?P<comment>/\*.*?\*/|//[^\n]*)
| (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
| (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
| (?P<name>[A-Za-z_]\w*)
| (?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
''', re.X | re.S)
Token = collections.namedtuple('Token', 'kind text line')
Place = collections.namedtuple('Place', 'file line function calls')


# ---- reading ----------------------------------------------------------------

def read_tokens(text):
    """The tokens of a file without comments and preprocessor lines."""
    out, line, begins, directive = [], 1, True, False
    for m in TOKEN.finditer(text):
        if m.lastgroup == 'newline':
            begins, directive = True, False
        elif m.lastgroup not in ('space', 'comment'):
            directive = directive or (begins and m.group() == '#')
            begins = False
            if not directive:
                out.append(Token(m.lastgroup, m.group(), line))
        line += m.group().count('\n')
    return out


class File:
    """Tokens and, for each bracket, the one that belongs to it."""

    def __init__(self, path, name):
        with open(path, encoding='utf-8') as f:
            text = f.read()
        self.lines, self.tokens = text.split('\n'), read_tokens(text)
        self.name = name
        self.end, self.begin, stack = {}, {}, []
        for i, t in enumerate(self.tokens):
            if t.kind != 'sign':
                continue
            if t.text in CLOSING:
                stack.append(i)
            elif t.text in CLOSING.values() and stack:
                self.end[stack[-1]] = i
                self.begin[i] = stack.pop()

    def text(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ''

    def is_name(self, i):
        return self.tokens[i].kind == 'name'

    def is_call(self, i):
        return (self.is_name(i) and self.text(i + 1) == '(' and
                self.text(i) not in KEYWORDS and i + 1 in self.end)

    def split(self, begin, end):
        """What commas separate in tokens[begin:end], as pairs of indices."""
        parts, start, i = [], begin, begin
        while i < end:
            if self.text(i) == ',' and self.tokens[i].kind == 'sign':
                parts.append((start, i))
                start = i + 1
            i = self.end.get(i, i) + 1
        return parts + [(start, end)] if start < end else parts

    def functions(self):
        """Those defined here: the indices of name and opening brace."""
        i = 0
        while i < len(self.tokens):
            body = self.end[i + 1] + 1 if self.is_call(i) else None
            if body and self.text(body) == '{':
                yield Function(self, i, body)
                i = body
            i = self.end.get(i, i) + 1


# ---- the effects of a function

class Function:
    def __init__(self, file, at, body):
        self.file, self.name = file, file.text(at)
        self.begin, self.end = body + 1, file.end[body]
        self.params = [self.declared(a, b)
                       for a, b in file.split(at + 2, file.end[at + 1])]
        self.calls = [i for i in range(self.begin, self.end)
                      if file.is_call(i)]
        self.own = self.find_own()
        self.writes = self.find_writes()

    def declared(self, begin, end):
        """The name that a declaration of a parameter gives."""
        names = [self.file.text(i) for i in range(begin, end)
                 if self.file.is_name(i)]
        return names[-1] if names else ''

    def find_own(self):
        """Locals that are structs or arrays, or pointers to new memory."""
        f, own = self.file, {p for p in self.params if p}
        own -= set(self.pointers())
        for i in range(self.begin, self.end):
            if f.text(i - 1) in ('{', '}', ';', ':') or \
                    (f.text(i - 1) == '(' and f.text(i - 2) == 'for'):
                own |= set(self.declared_own(i))
        return own

    def declarators(self, i):
        """Where those of a declaration that begins at i begin; None if a
        statement does."""
        f = self.file
        while f.text(i) in KEYWORDS and f.text(i) not in STATEMENTS:
            i += 1
        if not f.is_name(i) or f.text(i) in KEYWORDS:
            return None
        i = f.end[i + 1] + 1 if f.text(i) == 'VEC' else i + 1
        while f.text(i) in ('long', 'const', 'int'):
            i += 1
        return i if f.is_name(i) or f.text(i) == '*' else None

    def declared_own(self, i):
        f, i = self.file, self.declarators(i)
        end = i or 0
        while i and end < self.end and f.text(end) not in (';', ':'):
            end = f.end.get(end, end) + 1
        for a, b in f.split(i, end) if i else []:
            name = next((k for k in range(a, b) if f.is_name(k) and
                         f.text(k) != 'const'), a)
            if name == a or f.text(name + 1) == '[' or self.is_new(name + 2):
                yield f.text(name)

    def pointers(self):
        """Parameters that lead to what is not the function's."""
        f = self.file
        at = self.begin - 2
        begin = f.begin[at]
        for (a, b), name in zip(f.split(begin + 1, at), self.params):
            if any(f.text(i) in ('*', '[') for i in range(a, b)):
                yield name

    def is_new(self, i):
        """Whether an initialiser is memory that nobody else has yet."""
        text = self.file.text(i)
        return text in ('NEW', 'NEW_ARRAY', 'arena_alloc', 'arena_array',
                        'str_new') or text.endswith('_new')

    def target(self, i):
        """Of an lvalue that ends at i its first name, and whether a pointer
        was followed.  None for a designated initialiser."""
        f, followed = self.file, False
        while True:
            if f.text(i) == ']':
                i, followed = f.begin[i] - 1, True
            elif f.text(i) == ')':
                return '', True
            elif f.text(i - 1) in ('->', '.'):
                followed = followed or f.text(i - 1) == '->'
                if f.text(i - 1) == '.' and f.text(i - 2) in ('{', ',', '('):
                    return None, False
                i -= 2
            elif f.text(i) in ('{', ',', '('):
                return None, False
            elif f.is_name(i):
                star = f.text(i - 1) == '*' and not f.is_name(i - 2) \
                    and f.text(i - 2) != ','           # int x, *y = ...
                return f.text(i), followed or star
            else:
                return '', True

    def lvalue_end(self, i):
        """Where the lvalue of the assignment at i ends."""
        f = self.file
        if f.text(i) not in ('++', '--') or f.is_name(i - 1) or \
                f.text(i - 1) in (']', ')'):
            return i - 1
        while f.is_name(i + 1) or f.text(i + 1) in ('->', '.', '[', '*', '('):
            i = f.end.get(i + 1, i + 1)
        return i

    def reached(self, name, followed):
        """What an assignment to a name, or through it, changes."""
        if name is None or name in self.own or not followed:
            return set()
        if name in self.params:
            return {self.params.index(name)}
        return {ANYTHING}

    def find_writes(self):
        out, f = set(), self.file
        for i in range(self.begin, self.end):
            if f.text(i) in ASSIGNMENTS and f.tokens[i].kind == 'sign':
                out |= self.reached(*self.target(self.lvalue_end(i)))
        return out

    def given(self, begin, end):
        """What a call changes that changes what this argument leads to."""
        f = self.file
        if f.text(begin) == '(' and f.end[begin] == end - 1:
            begin, end = begin + 1, end - 1
        address = f.text(begin) == '&'
        names = [i for i in range(begin, end) if f.is_name(i)]
        if not names:
            return set() if end <= begin + 1 else {ANYTHING}
        if f.text(end - 1) == ')' and not f.is_call(names[0]):
            return {ANYTHING}
        if f.is_call(names[0]):
            return set() if self.is_new(names[0]) else {ANYTHING}
        followed = any(f.text(i) == '->' for i in range(begin, end))
        return self.reached(f.text(names[0]), followed or not address or
                            f.text(names[0]) not in self.own)


class Program:
    """All functions, and what each changes."""

    def __init__(self, files):
        self.files = files
        self.functions = [fn for f in files for fn in f.functions()]
        self.by_name = collections.defaultdict(list)
        for fn in self.functions:
            self.by_name[fn.name].append(fn)
        while any([self.spread(fn) for fn in self.functions]):
            pass

    def spread(self, fn):
        """Adds what the calls of a function change; whether that was more."""
        before = len(fn.writes)
        for i in fn.calls:
            fn.writes |= self.changed_by(fn, i)
        return len(fn.writes) > before

    def callees(self, fn, name):
        found = self.by_name.get(name, [])
        return [x for x in found if x.file is fn.file] or found

    def changed_by(self, fn, i):
        """What the call at i changes, as fn sees it."""
        f, name = fn.file, fn.file.text(i)
        pointer = f.text(i - 1) in ('->', '.') or name in fn.params
        if pointer or name in ('DO', 'UNLESS'):
            return {ANYTHING}
        if name in PURE or name.startswith(PURE_BEGINNINGS):
            return set()
        writes = WRITES.get(name)
        if writes is None:
            writes = set()
            for callee in self.callees(fn, name):
                writes |= callee.writes
            if name.startswith('LLVM'):
                writes = {ANYTHING}
        if ANYTHING in writes:
            return {ANYTHING}
        args = f.split(i + 2, f.end[i + 1])
        out = set()
        for w in writes:
            out |= fn.given(*args[w]) if w < len(args) else {ANYTHING}
        return out


# ---- where the order is open ------------------------------------------------

class Search:
    """The calls of a function that meet in an expression."""

    def __init__(self, program, fn):
        self.program, self.fn, self.f = program, fn, fn.file
        self.found = []
        self.sequence(fn.begin, fn.end)

    def meet(self, groups):
        """Groups of calls, each from an operand: any order of them may be."""
        groups = [g for g in groups if g]
        if len(groups) > 1:
            names = tuple(self.f.text(g[0]) for g in groups)
            line = self.f.tokens[groups[0][0]].line
            self.found.append(Place(self.f.name, line, self.fn.name, names))
        return [call for g in groups for call in g]

    def arguments(self, begin, end):
        return self.meet([self.sequence(a, b)
                          for a, b in self.f.split(begin, end)])

    def bracket(self, i):
        """The calls between the bracket at i and its end."""
        f, before = self.f, self.f.text(i - 1)
        end = f.end[i]
        if f.text(i) == '(' and f.is_call(i - 1):
            inner = self.arguments(i + 1, end)
            own = self.program.changed_by(self.fn, i - 1)
            return inner + ([i - 1] if own else [])
        if f.text(i) == '{' and (before in ('=', ',', '{', '(', 'return') or
                                 self.is_compound_literal(i)):
            return self.arguments(i + 1, end)
        return self.sequence(i + 1, end)

    def is_compound_literal(self, i):
        f = self.f
        if f.text(i - 1) != ')':
            return False
        before = f.text(f.begin[i - 1] - 1)
        return before not in CONDITIONS and not f.is_call(f.begin[i - 1] - 1)

    def sequence(self, begin, end):
        """The calls of tokens[begin:end], which sequence points divide."""
        f, calls, groups, i = self.f, [], [], begin
        while i < end:
            text = f.text(i)
            if i in f.end:
                groups.append(self.bracket(i))
                is_statement = text == '{' or f.text(i - 1) in CONDITIONS
                i = f.end[i]
                text = ';' if is_statement else text
            if text in (';', ',', '&&', '||', '?', ':'):
                calls += self.meet(groups)
                groups = []
            i += 1
        return calls + self.meet(groups)


# ---- the answer -------------------------------------------------------------

def read_files(root, folders):
    out = []
    for folder in folders:
        for ending in ('c', 'h', 'inc'):
            pattern = os.path.join(root, folder, '**', '*.' + ending)
            for path in sorted(glob.glob(pattern, recursive=True)):
                out.append(File(path, os.path.relpath(path, root)))
    return out


def marked_lines(files):
    """Those of the samples that say what is to be found."""
    return {(f.name, n) for f in files for n, line in
            enumerate(f.lines, 1) if '/* order is open */' in line}


def report(folders, files, found):
    print('1..%d' % len(folders))
    marked = marked_lines(files)
    missed = marked - {(p.file, p.line) for p in found}
    for n, folder in enumerate(folders, 1):
        bad = [p for p in found if p.file.startswith(folder + '/') and
               (p.file, p.line) not in marked]
        for p in bad:
            print('# %s:%d: %s: the order of %s is the C compiler\'s' %
                  (p.file, p.line, p.function, ' and '.join(p.calls)))
        for file, line in sorted(missed):
            if file.startswith(folder + '/'):
                print('# %s:%d: not found' % (file, line))
                bad.append(line)
        print('%sok %d - %s' % ('not ' if bad else '', n, folder))


def main(args):
    why = args[1] if args[0] == '--why' else None
    root, folders = args[0 if not why else 2], args[1 if not why else 3:]
    program = Program(read_files(root, folders))
    for fn in program.by_name.get(why, []):
        print(fn.file.name, fn.name, fn.writes, 'own:', sorted(fn.own))
        for i in fn.calls:
            print('   ', fn.file.tokens[i].line, fn.file.text(i),
                  program.changed_by(fn, i))
    if not why:
        found = {p for fn in program.functions
                 for p in Search(program, fn).found}
        report(folders, program.files, sorted(found))


main(sys.argv[1:])
