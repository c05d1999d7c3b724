"""examples.py - the examples of many entries as one program

One program for each section, number of devices and strategy, and one for each example that
states its strategy itself: to compile and run two hundred programs would take a minute.  Each example is a block of main after a
line that says whose it is; the names that it declares at top level get the
entry's name as an end, so that examples need not know of each other.
"""

import os
import re
import struct
import subprocess
import tempfile
import zipfile

MARK = '== example '

DECLARED = re.compile(
    r'^(?:var|let|fn|dataset|const|param|module|non_slot var) (\w+)', re.M)


class Program:
    def __init__(self, name, options):
        self.name, self.options = name, options
        self.entries = []
        self.owners = []  # the entry that each line of the text is from
        self.text = ''


def states_strategy(entry):
    return any(line.startswith('strategy ') for line in entry.code or [])


def compiler_options(entry):
    if states_strategy(entry):
        return []
    devices = int(entry.tags.get('devices', 1))
    options = ['--devices', 'cpu:0-%d' % (devices - 1)]
    if 'strategy' in entry.tags:
        options += ['--strategy', entry.tags['strategy']]
    return options


def programs(sections, modules):
    """One for each section and its compiler's options, which has examples."""
    found = {}
    for section in sections:
        for entry in section.examples():
            options = compiler_options(entry)
            name = '%s, %s' % (section.title, ' '.join(options))
            if states_strategy(entry):
                name = entry.key
            program = found.setdefault(name, Program(name, options))
            program.entries.append(entry)
    for program in found.values():
        compose(program, modules)
    return list(found.values())


def parts(entry):
    """The declarations of an example, and its statements of main."""
    if 'main {' not in entry.code:
        return [], entry.code
    at = entry.code.index('main {')
    return entry.code[:at], [line[2:] for line in entry.code[at + 1:-1]]


def renamed(entry, lines):
    """With names of the entry's own for what the example declares."""
    declared = DECLARED.findall('\n'.join(parts(entry)[0]))
    end = '_' + re.sub(r'\W', '_', entry.key)
    for name in declared:
        lines = [re.sub(r'(?<![.\w])%s(?!\w)' % name, name + end, line)
                 for line in lines]
    return lines


def add(program, entry, lines):
    for line in lines:
        program.text += line + '\n'
        program.owners.append(entry)


def compose(program, modules):
    add(program, None, ['use ' + ', '.join(modules), ''])
    for entry in program.entries:
        add(program, entry, renamed(entry, parts(entry)[0]))
    add(program, None, ['main {'])
    for entry in program.entries:
        statements = renamed(entry, parts(entry)[1])
        add(program, entry, ['  print("%s%s")' % (MARK, quoted(entry.key)),
                             '  if true {'])
        add(program, entry, ['    ' + line for line in statements])
        add(program, entry, ['  }'])
    add(program, None, ['}'])


def quoted(key):
    return key.replace('{', '{{').replace('}', '}}').replace('"', '\\"')


# ---- the files that examples read ----------------------------------------


def npy(dtype, shape, data):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (
        dtype, shape)
    header += ' ' * (63 - (len(header) + 10) % 64) + '\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + \
        header.encode() + data


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def tfrecord(data):
    length = struct.pack('<Q', len(data))
    return length + struct.pack('<I', crc32c(length)) + data + \
        struct.pack('<I', crc32c(data))


def write_data(folder):
    floats = npy('<f4', '(3,)', struct.pack('<3f', 0.5, 1.5, 2.5))
    integers = npy('<i4', '(3,)', struct.pack('<3i', 1, 2, 3))
    files = {
        'numbers.npy': floats,
        'labels.idx': bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]),
        'table.csv': b'x,y\n0.5,1\n1.5,2\n',
        'words.txt': b'one\ntwo\n',
        'records.tfrecord': tfrecord(bytes([1, 2, 3])),
    }
    for name, data in files.items():
        with open(os.path.join(folder, name), 'wb') as f:
            f.write(data)
    with zipfile.ZipFile(os.path.join(folder, 'arrays.npz'), 'w') as z:
        z.writestr('x.npy', floats)
        z.writestr('y.npy', integers)


# ---- running -------------------------------------------------------------


def owner_of(program, message):
    """Says whose example the lines of an error are from."""
    found = re.findall(r'examples\.tfd:(\d+):', message)
    owners = [program.owners[int(n) - 1] for n in found
              if int(n) <= len(program.owners)]
    keys = list(dict.fromkeys(o.key for o in owners if o))
    return 'example of %s: ' % ', '.join(keys) if keys else ''


def call(folder, program, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=120)
    if done.returncode:
        return '', ['%s%s: exit status %d\n%s' % (
            owner_of(program, done.stderr), os.path.basename(command[0]),
            done.returncode, done.stderr)]
    return done.stdout, []


def take_output(program, output):
    """Gives each entry what its example printed."""
    pieces = re.split(r'^%s(.*)\n' % re.escape(MARK), output, flags=re.M)
    printed = dict(zip(pieces[1::2], pieces[2::2]))
    for entry in program.entries:
        entry.output = printed[entry.key].splitlines()


def run(program, tfdc, tfd_run):
    """What is wrong with the program's examples; gives each its output."""
    with tempfile.TemporaryDirectory() as folder:
        write_data(folder)
        with open(os.path.join(folder, 'examples.tfd'), 'w',
                  encoding='utf-8') as f:
            f.write(program.text)
        _, problems = call(folder, program, tfdc, 'examples.tfd',
                           *program.options)
        if problems:
            return problems
        output, problems = call(folder, program, tfd_run, 'examples.tfp',
                                '--quiet')
        if not problems:
            take_output(program, output)
        return problems
