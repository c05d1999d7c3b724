"""entries.py - what the page says of each name, from where it is defined

A row of builtins.def is followed by a comment that begins with `/*:`; in the
library's sources lines that begin with `#:` stand between the comment of a
definition and the definition.  Their lines are

    in: np.exp, torch.exp     its names elsewhere, or none
    op: exp                   the operation whose shape, dtype and gradient it has
    shape: dtype: grad:       else what they are
    call: zip(x, y, ...)      the signature, where the table has none
    devices: 2                what the example is compiled for
    strategy: parameter_server   and with which strategy
    > print(exp(1.0))         the example: statements of main; or declarations,
                              then main { ... }
    internal                  no entry: only the library calls it

What follows a section's heading at once, or a file's, is so for all its
entries that do not say otherwise.  What the head of a library's file says, and
its example, begin the section.
"""

import collections
import os
import re

FACTS = ('shape', 'dtype', 'grad')
TAGS = FACTS + ('in', 'op', 'call', 'devices', 'strategy')

GRADIENTS = {'zero': '0', 'none': 'none: no loss may depend on it so'}

# The beginnings of names elsewhere, and whose they are.
ORIGINS = [
    ('NumPy', ('np.', 'scipy.', 'pandas.', 'sklearn.', 'builtins.',
               'itertools.', 'math.', 'list.', 'MPI_', 'jax.', 'optax.')),
    ('PyTorch', ('torch.', 'F.', 'torchvision.', 'torcheval.',
                 'torchmetrics.', 'torch_scatter.')),
    ('TensorFlow', ('tf.', 'keras_hub.')),
]

# The functions of a module that programs call.
METHODS = ('call', 'apply', 'update', 'result', 'reset', 'flush', 'value', 'weights',
           'scaled')


class Entry:
    """One name: what is said of it, its example, and what that prints."""

    def __init__(self, key, signature, doc, where):
        self.key, self.signature, self.doc = key, signature, doc
        self.where = where  # file:line
        self.context = ''
        self.operands = None  # of one that is just an operation
        self.methods = []
        self.details = []
        self.tags = {}
        self.code = []
        self.internal = False
        self.output = None

    def names_in(self, origin):
        return [n for n in self.names() if origin_of(n) == origin]

    def names(self):
        said = self.tags.get('in', 'none')
        return [] if said == 'none' else [n.strip() for n in said.split(',')]


class Section:
    def __init__(self, title):
        self.title = title
        self.head = Entry(title, '', '', '')  # what is said before the entries
        self.defaults = {}
        self.entries = []

    def examples(self):
        return [e for e in [self.head] + self.entries if e.code]


def origin_of(name):
    for origin, prefixes in ORIGINS:
        if name.startswith(prefixes):
            return origin
    return None


def read_lines(root, *path):
    with open(os.path.join(root, *path), encoding='utf-8') as f:
        return f.read().splitlines()


def read_tag(line, tags, code, problems, where):
    """One line of what is said of an entry."""
    tag, colon, rest = line.partition(':')
    if line.startswith('>'):
        code.append(line[2:])
    elif colon and tag in TAGS:
        tags[tag] = rest.strip()
    elif line and line != 'internal':
        problems.append('%s: "%s" is none of %s, > and internal' %
                        (where, line, ', '.join(t + ':' for t in TAGS)))


def cells_of(row):
    """The cells of a row NAME(a, "b, c", d)."""
    inside = row[row.index('(') + 1:row.rindex(')')]
    return re.findall(r'\s*("(?:[^"\\]|\\.)*"|[^,"\s][^,]*?)\s*(?:,|$)', inside)


def text_of(cell):
    return cell[1:-1].replace('\\"', '"') if cell.startswith('"') else cell


# ---- operations ----------------------------------------------------------


def words(root, table):
    """The meanings of the words of a column of ops.def."""
    source = '\n'.join(read_lines(root, 'ir', 'ops', 'gen_ops_doc.c'))
    body = re.search(r'static const Word %s\[\] = \{(.*?)\n\};' % table,
                     source, re.S).group(1)
    rows = re.findall(r'\{"(\w+)",\s*((?:"[^"]*"\s*)+)\}', body)
    return {word: ''.join(re.findall(r'"([^"]*)"', meaning))
            for word, meaning in rows}


def operations(root):
    """What each operation's row says of shape, dtype and gradient."""
    shapes, dtypes = words(root, 'shapes'), words(root, 'dtypes')
    facts = {}
    for line in read_lines(root, 'ir', 'ops', 'ops.def'):
        if line.startswith('OP('):
            cells = cells_of(line)
            facts[cells[0]] = {
                'operands': int(cells[1]), 'shape': shapes[cells[4]], 'dtype': dtypes[cells[5]],
                'grad': GRADIENTS.get(cells[10], 'yes')}
    return facts


# ---- builtins ------------------------------------------------------------

CONTEXTS = {'REPLICA': 'in a step that runs on the replicas',
            'CROSS': 'in main and merge', 'MAIN': 'in main'}


def entry_of_row(row, where):
    kind, cells = row[:row.index('(')], [text_of(c) for c in cells_of(row)]
    name, doc = cells[0], cells[-1]
    if kind in ('VALUE', 'NOTATION'):
        return Entry(name, name, doc, where)
    key = 'dataset.' + name if kind == 'METHOD' else name
    entry = Entry(key, '%s(%s)' % (key, cells[1]), doc, where)
    if kind == 'OPERATION':
        entry.tags['op'] = cells[3]
    if kind == 'OPERATION' and cells[2] == 'elementwise':
        entry.operands = len(cells[1].split(','))
    if kind == 'BUILTIN':
        entry.context = CONTEXTS.get(cells[2], '')
    return entry


def read_builtins(root, problems):
    """The sections of builtins.def, with what the comments below rows say."""
    path = ('frontend', 'builtins', 'builtins.def')
    sections, entry, inside, started = [], None, False, False
    for number, line in enumerate(read_lines(root, *path), 1):
        where = '%s:%d' % ('/'.join(path), number)
        started = started or 'clang-format off' in line
        stripped = line.strip()
        heading = re.match(r'/\* (.*) \*/$', line)
        if not started or 'clang-format' in line:
            continue
        if re.match(r'(OPERATION|BUILTIN|METHOD|VALUE|NOTATION)\(', line):
            entry = entry_of_row(line, where)
            sections[-1].entries.append(entry)
        elif heading:
            title = heading.group(1)
            sections.append(Section(title))
            entry = None
        elif stripped.startswith('/*:') or inside:
            inside = not stripped.endswith('*/')
            said = re.sub(r'^/\*:|\*/$', '', stripped).strip()
            tags = entry.tags if entry else sections[-1].defaults
            read_tag(said, tags, entry.code if entry else [], problems, where)
            if entry and said == 'internal':
                entry.internal = True
    return sections


# How workers divide what a stage reads.
READS = {'ROWS': 'several workers divide each batch',
         'STREAM': 'several workers divide it file by file'}


def read_stages(root, sections, problems):
    """A stage is a row of stages.def, and a function or a method."""
    of_key = {e.key: e for s in sections for e in s.entries}
    for number, line in enumerate(
            read_lines(root, 'ir', 'dataset', 'stages.def'), 1):
        if not line.startswith('STAGE('):
            continue
        cells = cells_of(line)
        source = cells[1] == '1'
        key = cells[0] if source else 'dataset.' + cells[0]
        if key not in of_key:
            problems.append('ir/dataset/stages.def:%d: the stage %s has no '
                            'row in builtins.def' % (number, key))
        elif cells[3] in READS:
            of_key[key].details.append(READS[cells[3]])


# ---- the library ---------------------------------------------------------


def comment_above(lines, i):
    """The lines of the comment that ends above line i."""
    begin = i
    while begin > 0 and lines[begin - 1].startswith('#') \
            and not lines[begin - 1].startswith('# ----'):
        begin -= 1
    return lines[begin:i]


def methods_of(lines, i):
    """The functions that programs call of the module that begins at line i."""
    found = []
    for line in lines[i + 1:]:
        if line.startswith('}'):
            break
        m = re.match(r'  fn ((?:%s)\(.*?\))(?: =| \{)' % '|'.join(METHODS),
                     line)
        if m:
            found.append(m.group(1))
    return found


def doc_of(comment):
    text = ' '.join(c[2:].strip() for c in comment if c.startswith('# '))
    return re.sub('  +', ' ', text)


def signature_of(line):
    """NAME(params) of a definition: up to the bracket that closes."""
    text = line.split(' ', 1)[1]
    depth = 0
    for at, c in enumerate(text):
        depth += (c == '(') - (c == ')')
        if c == ')' and depth == 0:
            return text[:at + 1]
    return re.match(r'\w+', text).group(0) + '()'


def read_definition(lines, i, where, problems):
    signature = signature_of(lines[i])
    comment = comment_above(lines, i)
    entry = Entry(signature.split('(')[0], signature, doc_of(comment),
                  where)
    if lines[i].startswith('module'):
        entry.methods = methods_of(lines, i)
    for line in comment:
        if line.startswith('#:'):
            said = line[2:].strip()
            entry.internal = entry.internal or said == 'internal'
            read_tag(line[3:], entry.tags, entry.code, problems, where)
    return entry


def modules(root):
    """The names of the library's modules, in the order of the build."""
    build = '\n'.join(read_lines(root, 'frontend', 'lib', 'meson.build'))
    return re.findall(r"'(\w+)\.tfd'", build)


def read_library(root, name, problems):
    """A file of the library; its first line has the section's title."""
    lines = read_lines(root, 'frontend', 'lib', name + '.tfd')
    section = Section('%s (`use %s`)' % (lines[0].split(': ', 1)[1], name))
    header = 0
    while lines[header].startswith('#'):
        if lines[header].startswith('#:'):
            read_tag(lines[header][3:], section.defaults, section.head.code,
                     problems, 'frontend/lib/%s.tfd:%d' % (name, header + 1))
        header += 1
    section.head.doc = doc_of(lines[1:header])
    for i, line in enumerate(lines):
        if re.match(r'(fn|module) ', line):
            where = 'frontend/lib/%s.tfd:%d' % (name, i + 1)
            section.entries.append(read_definition(lines, i, where, problems))
    return section


# ---- what is not here ----------------------------------------------------


def read_absent(root, problems):
    """The section of what people look for in vain: absent.txt."""
    path = ('frontend', 'builtins', 'absent.txt')
    section = Section('Not here')
    section.head.doc = 'What people look for, and what to write instead.'
    for number, line in enumerate(read_lines(root, *path), 1):
        where = '%s:%d' % ('/'.join(path), number)
        if line.startswith('  '):
            entry, said = section.entries[-1], line[2:]
            if entry.doc:
                read_tag(said, entry.tags, entry.code, problems, where)
            else:
                entry.doc = said
        elif line and not line.startswith('#'):
            section.entries.append(Entry(line, '', '', where))
    return section


# ---- all -----------------------------------------------------------------


def complete(section, entry, facts):
    """Adds what the operation and the section say."""
    op = entry.tags.get('op')
    known = {**section.defaults, **facts.get(op, {}), **entry.tags}
    entry.tags = known
    entry.signature = known.get('call', entry.signature)


def lacks(entry, facts):
    """What is wrong with an entry."""
    op = entry.tags.get('op')
    if op and op not in facts:
        yield 'there is no operation "%s"' % op
    elif entry.operands and entry.operands != facts[op]['operands']:
        yield 'has %d parameters, and the operation "%s" %d operands: ' \
            'write a BUILTIN row' % (entry.operands, op,
                                     facts[op]['operands'])
    if not entry.doc:
        yield 'has no description'
    if 'in' not in entry.tags:
        yield 'lacks "in:", its names in NumPy, PyTorch and TensorFlow'
    if '(...)' in entry.signature and 'call' not in entry.tags:
        yield 'lacks "call:", as the table has no parameters'
    for name in entry.names():
        if not origin_of(name):
            yield 'whose is "%s"? (ORIGINS in entries.py)' % name
    if not entry.signature:
        return  # it is not here
    if not entry.code:
        yield 'has no example (a line "> …")'
    for fact in FACTS:
        if fact not in entry.tags:
            yield 'lacks "%s:", or "op:"' % fact


def read(root):
    """The sections of the page, and what is wrong with them."""
    problems = []
    facts = operations(root)
    sections = read_builtins(root, problems)
    read_stages(root, sections, problems)
    sections += [read_library(root, name, problems)
                 for name in modules(root)]
    sections.append(read_absent(root, problems))
    for section in sections:
        section.entries = [e for e in section.entries if not e.internal]
        for entry in section.entries:
            complete(section, entry, facts)
            problems += ['%s: %s %s' % (entry.where, entry.key, what)
                         for what in lacks(entry, facts)]
    keys = collections.Counter(e.key for s in sections for e in s.entries)
    problems += ['%s has %d entries' % row for row in keys.items()
                 if row[1] > 1]
    return [s for s in sections if s.entries], problems
