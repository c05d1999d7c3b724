#!/usr/bin/env python3
"""damage.py - damaged plans and checkpoints, each in one place

    damage.py plan TFP FOLDER EXPECTED
    damage.py checkpoint CKPT FOLDER EXPECTED

Writes one file a row into FOLDER, and what its reader has to say of it into
EXPECTED (replay --expect).  All are made of a file of this build, so that their
versions are those that the readers know, whatever these are.
"""
import io
import json
import os
import shutil
import struct
import sys
import zipfile

DATE = (1980, 1, 1, 0, 0, 0)
MANIFEST, IR = 'manifest.json', 'placed.tir'


# ---- plans: entries by their names -------------------------------------------

def read_entries(path):
    with zipfile.ZipFile(path) as z:
        return [(name, z.read(name)) for name in z.namelist()]


def zipped(entries, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w', method) as z:
        for name, data in entries:
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type = method
            z.writestr(info, data)
    return out.getvalue()


def listed(entries):
    """With a manifest that lists the files that are there."""
    manifest = json.loads(dict(entries)[MANIFEST])
    names = [name for name, _ in entries if name != MANIFEST]
    manifest['files'] = {name: '0' * 32 for name in names}
    return [(name, json.dumps(manifest).encode() if name == MANIFEST else data)
            for name, data in entries]


def without(entries, is_out):
    return listed([e for e in entries if not is_out(e[0])])


def with_manifest(**keys):
    def edit(entries):
        manifest = {**json.loads(dict(entries)[MANIFEST]), **keys}
        return zipped([(name, json.dumps(manifest).encode()
                        if name == MANIFEST else data)
                       for name, data in entries])
    return edit


def with_entry(name, data):
    return lambda entries: zipped([(n, data if n == name else old)
                                   for n, old in entries])


def with_ir(old, new):
    """The first place of old in the module is new."""
    def edit(entries):
        text = dict(entries)[IR].decode()
        assert old in text, 'no "%s" in the module:\n%s' % (old, text)
        return zipped([(n, text.replace(old, new, 1).encode()
                        if n == IR else data) for n, data in entries])
    return edit


def with_object(change):
    """The host's object is what change makes of it."""
    def edit(entries):
        return zipped([(n, bytes(change(bytearray(data)))
                        if n.endswith('/host.o') else data)
                       for n, data in entries])
    return edit


def renamed(entries, old, new):
    return listed([(n.replace(old, new), data) for n, data in entries])


def kernels(entries):
    """The names of the kernels for GPUs."""
    return [n for n, _ in entries if n.endswith('.ptx')]


def with_ptx(change):
    """The first kernel for GPUs is what change makes of it."""
    return lambda entries: zipped([(n, change(data)
                                    if n == kernels(entries)[0] else data)
                                   for n, data in entries])


# ---- ELF: its header, a section's header, an element of a section ------------

EHDR = {'e_machine': (18, 'H'), 'e_shoff': (40, 'Q'), 'e_shnum': (60, 'H')}
SHDR = {'sh_name': (0, 'I'), 'sh_type': (4, 'I'), 'sh_offset': (24, 'Q'),
        'sh_size': (32, 'Q'), 'sh_link': (40, 'I'), 'sh_info': (44, 'I'),
        'sh_addralign': (48, 'Q')}
PROGBITS, SYMTAB, RELA = 1, 2, 4


def get(data, at, field):
    return struct.unpack_from('<' + field[1], data, at + field[0])[0]


def put(data, at, field, value):
    struct.pack_into('<' + field[1], data, at + field[0], value)
    return data


def find_section(data, kind):
    """Where the header of the first section of that kind is that has bytes."""
    first = get(data, 0, EHDR['e_shoff'])
    for i in range(get(data, 0, EHDR['e_shnum'])):
        at = first + 64 * i
        if get(data, at, SHDR['sh_type']) == kind and \
                get(data, at, SHDR['sh_size']):
            return at
    raise AssertionError('no section of type %d' % kind)


def header(field, value):
    return with_object(lambda d: put(d, 0, EHDR[field], value))


def section(kind, field, value):
    return with_object(
        lambda d: put(d, find_section(d, kind), SHDR[field], value))


def element(kind, index, size, field, value):
    """Field (its offset and format) of element `index` of a section."""
    return with_object(lambda d: put(
        d, get(d, find_section(d, kind), SHDR['sh_offset']) + index * size,
        field, value))


PLANS = [
    ('tiny', zipped, 'valid'),
    # the zip
    ('cut_in_the_directory', lambda e: zipped(e)[:-30],
     'the plan is damaged ('),
    ('compressed', lambda e: zipped(e, zipfile.ZIP_DEFLATED),
     'it is a zip, but not one that tfdc made'),
    # the manifest
    ('no_manifest', lambda e: zipped(e[1:]),
     'it is a zip without the manifest of a plan'),
    ('manifest_is_a_list', with_entry(MANIFEST, b'[]'),
     'its manifest has no number "format"'),
    ('manifest_cut_short', with_entry(MANIFEST, b'{"format": 1,\n'),
     'its manifest cannot be read: line 2'),
    ('newer_format', with_manifest(format=10 ** 6), 'it needs a newer tfd-run'),
    ('older_abi', with_manifest(abi=0), 'an older tfdc made it (abi 0'),
    ('unlisted_file', lambda e: zipped(e + [('source/1/x.tfd', b'')]),
     'its manifest does not list "source/1/x.tfd"'),
    ('missing_file', lambda e: zipped(e[:-1]), 'the plan is damaged ('),
    # the code, as a whole
    ('no_code', lambda e: zipped(without(e, lambda n: n.startswith('code/'))),
     'the plan is damaged (it has no code)'),
    ('code_for_another_machine',
     lambda e: zipped(renamed(e, 'code/x86-64-v3/', 'code/z80/')),
     'valid'),
    ('code_of_no_target',
     lambda e: zipped(renamed(e, 'code/sm_80/', 'code/')),
     '.ptx", which is code of no target'),
    ('object_for_a_gpu',
     lambda e: zipped(renamed(e, 'code/x86-64-v3/', 'code/sm_90/')),
     'it has "code/sm_90/host.o", which is code of no target'),
    ('kernel_missing_for_gpus',
     lambda e: zipped(without(e, lambda n: n == kernels(e)[0])),
     'and that for sm_80 has not)'),
    ('kernel_missing_for_cpus',
     lambda e: zipped(without(e, lambda n: n.startswith('code/x86-64-v3/k_'))),
     'and that for x86-64-v3 has not)'),
    ('kernel_missing',
     lambda e: zipped(without(e, lambda n: kernels(e)[0][11:-4] in n)),
     'it has no code for kernel k_'),
    ('kernel_of_another_name',
     lambda e: zipped(renamed(e, kernels(e)[0], 'code/sm_80/k_0.ptx')),
     'its code for sm_80 has "k_0", and that for x86-64-v3'),
    ('ptx_of_nothing', with_ptx(lambda d: b''), '.ptx" is no PTX for sm_80'),
    ('ptx_cut_short', with_ptx(lambda d: d[:d.index(b'.visible')]),
     '.ptx" does not define k_'),
    ('ptx_for_a_newer_gpu',
     with_ptx(lambda d: d.replace(b'.target sm_80', b'.target sm_90')),
     '.ptx" is no PTX for sm_80'),
    ('ptx_with_a_zero_byte', with_ptx(lambda d: d[:9] + b'\0' + d[10:]),
     '.ptx" is no text'),
    ('object_of_nothing', with_object(lambda d: b''), 'it is no object file'),
    ('object_cut_short', with_object(lambda d: d[:len(d) // 2]),
     'its table of sections is outside of the file'),
    # the module
    ('no_ir', lambda e: zipped(without(e, lambda n: n == IR)),
     'it has no placed.tir'),
    ('twice_the_ir',
     lambda e: with_entry(IR, dict(e)[IR] * 2)(e),
     'expected a declaration or func, not tfd'),
    ('ir_phase', with_ir('phase placed', 'phase ir'),
     'its program is not placed'),
    ('newer_ir', with_ir('tfd-ir 1', 'tfd-ir 1000000'),
     'this is version 1000000 of the text'),
    ('place_beyond_memory', with_ir('[arena+0]', '[arena+9223372036854775804]'),
     'the variable "w" has no place'),
    ('operation_of_no_name', with_ir(' = add', ' = ad'),
     'there is no operation ad'),
    ('operand_of_no_value', with_ir('yield %', 'yield %no'),
     'there is no value %no4 here'),
    ('variable_of_no_name', with_ir('var=@w', 'var=@v'),
     'there is no variable "v"'),
    ('main_is_a_program', with_ir(' main ', ' program '),
     '%3 is written as f32, but constant gives f32 mirrored'),
    # the code: what loader.c follows
    ('object_of_another_machine', header('e_machine', 3),
     'it is no object file for x86-64'),
    ('sections_outside', header('e_shoff', 2 ** 64 - 8),
     'its table of sections is outside of the file'),
    ('section_outside', section(PROGBITS, 'sh_offset', 2 ** 64 - 8),
     'reaches outside of the file'),
    ('alignment_of_three', section(PROGBITS, 'sh_addralign', 3),
     'a section aligned to 3 bytes'),
    ('names_of_no_section', section(SYMTAB, 'sh_link', 60000),
     'a damaged symbol table'),
    ('half_a_symbol', section(SYMTAB, 'sh_size', 25), 'a damaged symbol table'),
    ('symbol_of_no_section', element(SYMTAB, 2, 24, (6, 'H'), 65000),
     'is nowhere'),
    ('relocations_of_no_section', section(RELA, 'sh_info', 60000),
     'relocations of no section'),
    ('relocations_outside', section(RELA, 'sh_size', 2 ** 64 - 24),
     'reaches outside of the file'),
    ('relocation_outside', element(RELA, 0, 24, (0, 'Q'), 2 ** 64 - 2),
     'a relocation outside of its section'),
    ('relocation_of_type_255', element(RELA, 0, 24, (8, 'Q'), 255),
     'a relocation of type 255'),
    ('relocation_too_far', element(RELA, 0, 24, (16, 'q'), 2 ** 63 - 1),
     'a relocation that reaches too far'),
]


# ---- checkpoints: a header, then the state -----------------------------------

HEADER = struct.Struct('<8sIIqQ32s32s32s')


def with_header(**keys):
    names = ['magic', 'format', 'num_replicas', 'step', 'len', 'plan', 'state',
             'header']

    def edit(data):
        fields = dict(zip(names, HEADER.unpack_from(data)))
        return HEADER.pack(*{**fields, **keys}.values()) + data[HEADER.size:]
    return edit


def with_state(change):
    """A header that fits what change makes of the state."""
    def edit(data):
        state = change(data[HEADER.size:])
        return with_header(len=len(state))(data[:HEADER.size]) + state
    return edit


def with_word(at, word):
    """The eight bytes of the state from there (from its end if negative)."""
    def change(state):
        begin = at % len(state)
        return state[:begin] + struct.pack('<q', word) + state[begin + 8:]
    return with_state(change)


CHECKPOINTS = [
    ('undamaged', bytes, 'valid'),
    ('other_magic', with_header(magic=b'tfd-ckpx'), 'it is no checkpoint'),
    ('other_format', with_header(format=10 ** 6),
     'it is damaged, or another tfd-run made it (format 1000000'),
    ('cut_in_header', lambda d: d[:HEADER.size - 40], 'it is cut short: '),
    ('cut_in_state', lambda d: d[:-1], 'it is cut short: '),
    ('too_long', lambda d: d + b'x', 'it is too long: '),
    ('no_state', with_state(lambda s: b''), 'it ends too early'),
    ('half_the_state', with_state(lambda s: s[:len(s) // 2]),
     'it ends before '),
    ('state_without_its_end', with_state(lambda s: s[:-1]),
     'it ends before '),
    ('more_state', with_state(lambda s: s + b'x'),
     'it is longer than it should be'),
    # the state; the words are integers of pipelines, cursors and buffers
    ('iterator_not_open', with_word(0, -1), 'an iterator that was not opened'),
    ('part_negative', with_word(20, -1),
     '-1 is not from 0 to 9223372036854775807'),
    ('position_at_the_end', with_word(506, 2 ** 63 - 1),
     '9223372036854775807 is not from 0 to 4611686018427387904'),
    ('position_far_away', with_word(506, 2 ** 62), 'valid'),
    ('part_of_another_length', with_word(22, 2 ** 62),
     'a part of it is of another length'),
    ('rounds_negative', with_word(489, -1),
     '-1 is not from 0 to 4611686018427387904'),
    ('position_negative', with_word(506, -1),
     '-1 is not from 0 to 4611686018427387904'),
    ('flag_of_64', with_word(498, 2 ** 62), '64 is neither true nor false'),
] + [('over_%d' % most, with_word(at, 2 ** 62),
      '4611686018427387904 is not from 0 to %d' % most)
     for at, most in ((29, 3), (126, 5), (264, 4), (314, 35), (404, 2),
                      (472, 9), (523, 12))]


# ---- the files ---------------------------------------------------------------

def main(kind, source, folder, expected):
    if kind == 'plan':
        made, rows = read_entries(source), PLANS
    else:
        with open(source, 'rb') as f:
            made, rows = f.read(), CHECKPOINTS
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, damage, _ in rows:
        with open(os.path.join(folder, name), 'wb') as f:
            f.write(damage(made))
    with open(expected, 'w') as f:
        f.writelines('%s: %s\n' % (name, said) for name, _, said in rows)


main(*sys.argv[1:])
