#!/usr/bin/env python3
"""Plantable bugs and coverage marks stay where they belong.

  mutants.py source ROOT          each name of mutants.def stands exactly once in core/ as MUTANT(Name), and no other name does
  mutants.py absent ROOT FILE…    no production library or program holds the name of a mutant or a mark, or their machinery
  mutants.py present ROOT FILE…   the self-test of `absent`: the instrumented libraries hold every mutant, a mark and the machinery
"""

import pathlib
import re
import sys
import tempfile

import objects
import source_text

MACHINERY = ('fulmar::mutants::', 'fulmar::marks::')


def declared(root):
    return re.findall(r'^FULMAR_MUTANT\((\w+),', (root / 'core/base/mutants.def').read_text(), re.M)


def core_sources(root):
    return [p for p in source_text.files(root, 'core') if p.name != 'marks.h']


def check_source(root):
    names, out = declared(root), []
    places = {}
    for file in core_sources(root):
        for name in re.findall(r'\bMUTANT\((\w+)\)', source_text.bare(file.read_text())):
            places.setdefault(name, []).append(file.relative_to(root).as_posix())
    out += [f'{name} is declared twice' for name in sorted({n for n in names if names.count(n) > 1})]
    for name in names:
        if len(places.get(name, [])) != 1:
            out.append(f'MUTANT({name}) stands {len(places.get(name, []))} times in core/, not once: {", ".join(places.get(name, []))}')
    out += [f'MUTANT({name}) in {", ".join(files)} is not declared in mutants.def' for name, files in places.items() if name not in names]
    return out


def mark_names(root):
    marks = set()
    for file in core_sources(root):
        marks |= set(re.findall(r'\b(?:SOMETIMES|ALWAYS|NEVER)\("([^"]+)"', file.read_text()))
    return sorted(marks)


def contents(files):
    """Per file: its bytes without debug information, and its symbols."""
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            symbols = set()
            for item in objects.objects(file):
                symbols |= item.defined | item.undefined
            yield file, objects.loaded_bytes(file, folder + '/stripped'), symbols


def machinery_of(symbols):
    return sorted(s for s in symbols if any(m in s for m in MACHINERY))


def check_absent(root, files):
    words = [(f'mutant {name}', name.encode()) for name in declared(root)] + [(f'mark "{mark}"', mark.encode()) for mark in mark_names(root)]
    out = []
    for file, data, symbols in contents(files):
        out += [f'{file} holds the name of {what}' for what, word in words if word in data]
        out += [f'{file} holds {symbol}' for symbol in machinery_of(symbols)]
    return out


def check_present(root, files):
    data, symbols = b'', set()
    for _, file_data, file_symbols in contents(files):
        data += file_data
        symbols |= file_symbols
    out = [f'mutant {name} was not found in the instrumented flavour' for name in declared(root) if name.encode() not in data]
    out += [f'mark "{mark}" was not found in the instrumented flavour' for mark in mark_names(root) if mark.encode() not in data]
    out += [f'no symbol of {m} was found in the instrumented flavour' for m in MACHINERY if not any(m in s for s in symbols)]
    return out


def main():
    verb, root, files = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    found = check_source(root) if verb == 'source' else {'absent': check_absent, 'present': check_present}[verb](root, files)
    print('\n'.join(found) if found else f'mutants {verb}: clean ({len(declared(root))} mutants, {len(mark_names(root))} marks)')
    return 1 if found else 0


sys.exit(main())
