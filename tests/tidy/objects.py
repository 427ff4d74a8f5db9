"""Looking into object files, archives and programs with binutils."""

import collections
import os
import re
import subprocess
import sys

Object = collections.namedtuple('Object', 'name defined undefined')  # sets of demangled symbols


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def objects(path, nm='nm'):
    """The objects of an archive, or the one object of a file."""
    if not os.path.exists(path):
        sys.exit(f'{path} is not built')
    out, current = [], Object(path.rsplit('/', 1)[-1], set(), set())
    for line in run(nm, '-C', path).splitlines():
        member = re.fullmatch(r'(\S+\.o):', line)
        if member:
            current = Object(member.group(1), set(), set())
            out.append(current)
            continue
        symbol = re.fullmatch(r'[0-9a-f ]{16,17} ?([A-Za-z]) (.*)', line)
        if symbol:
            kind, name = symbol.groups()
            (current.undefined if kind in 'Uvw' else current.defined).add(name)
    return out or [current]


def loaded_bytes(path, scratch, objcopy='objcopy'):
    """The file without debug information: what a process could see."""
    run(objcopy, '-g', path, scratch)
    with open(scratch, 'rb') as file:
        return file.read()


def mutable_statics(path, objdump='objdump'):
    """(object, symbol) for each named object in a section that a program may write after it has been loaded."""
    name, out = path.rsplit('/', 1)[-1], []
    for line in run(objdump, '-t', '-C', path).splitlines():
        member = re.match(r'(\S+\.o):', line)
        symbol = re.fullmatch(r'[0-9a-f]{16} .{7} (\.(?:bss|data|tbss|tdata)\S*)\t[0-9a-f]{16} +(?:\.hidden |0x\w\w )?(.*)', line)
        if member:
            name = member.group(1).rsplit('/', 1)[-1]
        elif symbol and not symbol.group(1).startswith('.data.rel.ro') and not symbol.group(2).startswith(('.', 'DW.ref.', 'guard variable for ')):
            out.append((name, symbol.group(2)))
    return out
