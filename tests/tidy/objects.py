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
