#!/usr/bin/env python3
"""The purity check: the core calls nothing that is not on a list.

  purity.py LIBRARY…                          every undefined symbol of every object must be defined by another of the libraries or match
                                              allowed_symbols.txt, and so must every static that can change; exit 1 with
                                              one line per finding
  purity.py --self-test COMPILER LIBRARY…     plants a clock call and its like, one at a time, and expects each to be found

A node that could read a clock, draw entropy, start a thread or touch a file by itself would not replay. Sources can hide a call behind
a macro or a library; objects cannot.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys
import tempfile

import objects

HERE = pathlib.Path(__file__).resolve().parent


def read_allowed(path):
    """Sections '[object globs]' of regular expressions -> [(globs, compiled)]."""
    out, globs = [], ['*']
    for line in path.read_text().splitlines():
        line = line.strip()
        if not line or line.startswith('#'):
            continue
        if line.startswith('['):
            globs = line.strip('[]').split()
        else:
            out.append((globs, re.compile(line)))
    return out


def is_allowed(name, symbol, is_mutable, allowed):
    return any(('mutable' in globs) == is_mutable and pattern.fullmatch(symbol) and any(fnmatch.fnmatch(name, glob) for glob in globs)
               for globs, pattern in allowed)


def findings(libraries, allowed):
    all_objects = [(library, item) for library in libraries for item in objects.objects(library)]
    defined = set().union(*(item.defined for _, item in all_objects))
    out = []
    for library, item in all_objects:
        for symbol in sorted(item.undefined - defined):
            if not is_allowed(item.name, symbol, False, allowed):
                out.append(f'{pathlib.Path(library).name}({item.name}) needs {symbol}')
    for library in libraries:
        for name, symbol in objects.mutable_statics(library):
            if not is_allowed(name, symbol, True, allowed):
                out.append(f'{pathlib.Path(library).name}({name}) holds a static that can change: {symbol}')
    return out


PLANTED = {
    'clock_gettime': '#include <time.h>\nlong f() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_nsec; }',
    'std::chrono': '#include <chrono>\nlong f() { return std::chrono::steady_clock::now().time_since_epoch().count(); }',
    'std::random_device': '#include <random>\nunsigned f() { return std::random_device()(); }',
    'getenv': '#include <stdlib.h>\nchar* f() { return getenv("HOME"); }',
    'open': '#include <fcntl.h>\nint f() { return open("x", O_RDONLY); }',
    'pthread_create': '#include <pthread.h>\nint f(pthread_t* t, void* (*g)(void*)) { return pthread_create(t, nullptr, g, nullptr); }',
    'rand': '#include <stdlib.h>\nint f() { return rand(); }',
    'can change': 'int counter; int f() { return ++counter; }',
    'f()::seen': 'int f() { static int seen = 3; return seen++; }',
    'per_thread': 'thread_local int per_thread; int* f() { return &per_thread; }',
    '__cxa_throw': 'int f() { throw 1; }',
}


def self_test(compiler, libraries, allowed):
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for symbol, source in PLANTED.items():
            planted = pathlib.Path(folder) / 'planted.cc'
            planted.write_text(source + '\n')
            subprocess.run([*compiler.split(';'), '-std=c++20', '-O1', '-c', planted.name, '-o', 'planted.cc.o'], check=True, cwd=folder)
            found = findings([*libraries, f'{folder}/planted.cc.o'], allowed)
            if not any(line.startswith('planted.cc.o') and symbol in line for line in found):
                out.append(f'a call of {symbol} was not found')
    return out


def main():
    allowed = read_allowed(HERE / 'allowed_symbols.txt')
    if sys.argv[1] == '--self-test':
        found = self_test(sys.argv[2], sys.argv[3:], allowed)
    else:
        found = findings(sys.argv[1:], allowed)
    print('\n'.join(found) if found else 'purity: clean')
    return 1 if found else 0


sys.exit(main())
