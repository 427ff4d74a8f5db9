#!/usr/bin/env python3
"""Who may know whom, and what the core may not know at all.

  includes.py ROOT          checks core/, sim/, net/ and cmd/ below ROOT; exit 1 with one line per finding
  includes.py --self-test   plants each kind of violation in a small tree and expects it to be found

The link graph keeps a folder from calling what it does not link; this check keeps it from including it. Determinism rules are checked by
words, on the text without comments and literals. Exceptions with their reasons: exceptions.txt beside this file.
"""

import pathlib
import re
import sys
import tempfile

import source_text

CORE = ['base', 'model', 'io', 'wire', 'store', 'consume', 'route', 'client', 'node']
STORE = {'base', 'model', 'io', 'store'}
KNOWS = {
    'core/base': set(), 'core/model': {'base'}, 'core/io': {'base', 'model'}, 'core/wire': {'base', 'model', 'io'},
    'core/store': {'base', 'model', 'io'}, 'core/consume': STORE, 'core/route': STORE, 'core/client': STORE,
    'core/node': set(CORE),
}
KNOWS = {folder: {folder} | {'core/' + name for name in names} for folder, names in KNOWS.items()}
ALL_CORE = {'core/' + name for name in CORE}
KNOWS['sim'] = ALL_CORE | {'sim'}
KNOWS['net'] = ALL_CORE | {'net'}
KNOWS['cmd/common'] = {'core/base', 'cmd/common'}
KNOWS['cmd/fulmar'] = ALL_CORE | {'net', 'cmd/common', 'cmd/fulmar'}
KNOWS['cmd/fulmar-sim'] = ALL_CORE | {'sim', 'cmd/common', 'cmd/fulmar-sim'}

# Standard headers that core/ and sim/ may include. A list of what is allowed: a new header is looked at once, and then added here.
STANDARD = set('''algorithm array bit cctype charconv climits compare concepts cstddef cstdint cstdio cstdlib cstring deque functional initializer_list
iterator limits list map memory new numeric optional set span string string_view tuple type_traits utility variant vector'''.split())
LIBRARIES = ('tl/expected.hpp', 'fmt/', 'rapidjson/', 'libdeflate.h', 'lz4frame.h', 'zstd.h', 'zlib.h')

INSTEAD = {
    'thread': 'a node is stepped by one thread; work off the loop is asked for in the outbox',
    'mutex': 'a node never shares memory; tell it by Told',
    'atomic': 'a node never shares memory; tell it by Told',
    'condition_variable': 'waiting is a state of a machine',
    'future': 'waiting is a state of a machine',
    'random': 'core/base/prng.h, whose ranges are the same in every library',
    'chrono': 'core/base/time.h and the Moment of the step',
    'ctime': 'the Moment of the step',
    'time.h': 'the Moment of the step',
    'filesystem': 'the outbox: list, map, rename, remove',
    'fstream': 'the outbox: read, replace, map',
    'iostream': 'core/io/trace.h for events; fmt for text',
    'sstream': 'fmt::format',
    'unordered_map': 'core/base/sorted_map.h or std::map, which are walked in order (lookup only: name it in exceptions.txt)',
    'unordered_set': 'std::set or a sorted vector (lookup only: name it in exceptions.txt)',
    'uv.h': 'the outbox; libuv lives in net/',
    'cmath': 'integers; floats differ between compilers',
}

WORDS = [
    (r'std\s*::\s*hash\b', 'std::hash differs between libraries: hash_text or mix64 of core/base/prng.h'),
    (r'std\s*::\s*(shuffle|sample)\b', 'differs between libraries: Prng::shuffle'),
    (r'\b\w+_distribution\b', 'differs between libraries: Prng::below, between, chance, log_between'),
    (r'\b(mt19937(_64)?|random_device|default_random_engine)\b', 'core/base/prng.h'),
    (r'\b(s?rand|drand48|getrandom|arc4random)\s*\(', 'core/base/prng.h, seeded by the driver'),
    (r'\b(clock_gettime|gettimeofday|steady_clock|system_clock|localtime(_r)?|gmtime(_r)?|strftime)\b', 'the Moment of the step'),
    (r'(?<![\w.>:])(time|clock)\s*\(\s*(0|NULL|nullptr)?\s*\)', 'the Moment of the step'),
    (r'\b(getenv|setlocale|getpid)\s*\(', 'a key of core/model/config.h'),
    (r'\b(float|double)\b', 'integers or core/base/prng.h Ratio; floats differ between compilers'),
    (r'\bunordered_(multi)?(map|set)\b', 'an ordered container: what is walked must be ordered (lookup only: name it in exceptions.txt)'),
    (r'\bshared_ptr\b|\bmake_shared\b', 'one owner: values in containers, unique_ptr in node/'),
    (r'\breinterpret_cast\s*<\s*(std\s*::\s*)?u?intptr_t\b', 'nothing is ordered or hashed by address'),
    (r'\bconst_cast\s*<\s*volatile|\bvolatile\s+(?!\()', 'one loop, one thread: nothing is shared'),
]


def folder_of(path):
    """'core/wire/native/codec.cc' -> 'core/wire'; 'sim/oracles/o1.cc' -> 'sim'."""
    parts = path.split('/')
    return '/'.join(parts[:2]) if parts[0] in ('core', 'cmd') else parts[0]


def header_findings(path, header, is_quoted):
    folder = folder_of(path)
    own = re.match(r'(core/\w+|sim|net|cmd/[\w-]+)/', header)
    if own:
        if own.group(1) not in KNOWS.get(folder, set()):
            allowed = ', '.join(sorted(KNOWS.get(folder, set()) - {folder})) or 'nothing'
            yield f'{folder} may not know {own.group(1)}; it may know {allowed}. State a fact and let node/ carry it'
        return
    if not folder.startswith('core') and folder != 'sim':
        return
    if is_quoted:
        yield f'include by the path from the root of the tree: "{header}" is neither core/ nor sim/'
    elif header in INSTEAD:
        yield f'<{header}> is not for {folder}: use {INSTEAD[header]}'
    elif header in STANDARD or header.startswith(LIBRARIES):
        return
    elif header.startswith(('capnp/', 'kj/')):
        if not path.startswith('core/wire/native/'):
            yield f'<{header}>: only core/wire/native sees Cap\'n Proto; use core/model/command.h'
    else:
        yield f'<{header}> is not known here; operating-system headers belong to net/ (a portable one: add it to STANDARD of includes.py)'


def read_exceptions(path):
    """Lines 'file: word  reason' -> {(file, word)}."""
    out = set()
    for line in path.read_text().splitlines():
        if line and not line.startswith('#'):
            file, word, reason = line.split(None, 2)
            assert reason
            out.add((file.rstrip(':'), word))
    return out


def check(root, exceptions):
    findings, used = [], set()
    for file in source_text.files(root, 'core', 'sim', 'net', 'cmd'):
        path = file.relative_to(root).as_posix()
        text = file.read_text()
        bare = source_text.bare(text)

        def excepted(word):
            used.add((path, word))
            return (path, word) in exceptions

        for number, line in enumerate(text.splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if include and not excepted(include.group(2)):
                findings += [f'{path}:{number}: {why}' for why in header_findings(path, include.group(2), include.group(1) == '"')]
        if path.startswith(('core/', 'sim/')):
            for number, line in enumerate(bare.splitlines(), 1):
                if line.lstrip().startswith('#'):
                    continue
                for pattern, instead in WORDS:
                    word = re.search(pattern, line)
                    if word and not excepted(word.group(0).strip()):
                        findings.append(f'{path}:{number}: {word.group(0).strip()}: {instead}')
    findings += [f'exceptions.txt: {path} {word} is not needed any more' for path, word in sorted(exceptions - used)]
    return findings


PLANTED = [
    ('core/base/a.h', '#include "core/model/ids.h"', 'may not know core/model'),
    ('core/store/a.cc', '#include "core/wire/framer.h"', 'may not know core/wire'),
    ('core/consume/a.cc', '#include "core/route/topics.h"', 'may not know core/route'),
    ('core/node/a.cc', '#include "sim/world.h"', 'may not know sim'),
    ('sim/a.cc', '#include "net/uv_driver.h"', 'may not know net'),
    ('net/a.cc', '#include "sim/world.h"', 'may not know sim'),
    ('cmd/fulmar/a.cc', '#include "sim/world.h"', 'may not know sim'),
    ('core/io/a.cc', '#include <uv.h>', 'libuv lives in net/'),
    ('core/io/a.cc', '#include <sys/mman.h>', 'belong to net/'),
    ('core/io/a.cc', '# include <thread>', 'stepped by one thread'),
    ('sim/a.cc', '#include <chrono>', 'Moment of the step'),
    ('core/store/a.cc', '#include <capnp/message.h>', 'only core/wire/native'),
    ('core/store/a.cc', '#include "record.h"', 'by the path from the root'),
    ('core/store/a.cc', 'std::unordered_map<int, int> m;', 'ordered container'),
    ('core/store/a.cc', 'auto h = std::hash<int>()(1);', 'std::hash'),
    ('core/store/a.cc', 'std::shuffle(a, b, c);', 'Prng::shuffle'),
    ('core/store/a.cc', 'std::uniform_int_distribution<int> d;', 'Prng::below'),
    ('core/store/a.cc', 'double ratio = 1;', 'floats differ'),
    ('core/store/a.cc', 'auto t = time(nullptr);', 'Moment of the step'),
    ('core/store/a.cc', 'auto t = ::clock_gettime(0, &x);', 'Moment of the step'),
    ('sim/a.cc', 'if (rand() % 2) x();', 'seeded by the driver'),
    ('core/store/a.cc', 'std::shared_ptr<int> p;', 'one owner'),
]
CLEAN = [
    ('core/store/a.cc', '#include "core/io/outbox.h"\n#include <vector>\n#include <fmt/format.h>\n// a double flush, std::hash\nauto s = "double";'),
    ('core/wire/native/a.cc', '#include <capnp/message.h>'),
    ('net/a.cc', '#include <uv.h>\n#include <thread>\ndouble load;'),
    ('core/store/a.cc', "auto n = 1'000'000; auto c = '\\''; /* float */ timers.time(); now.wall;"),
]


def self_test():
    failures = []
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)

        def run(path, text):
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + '\n')
            findings = check(root, set())
            file.unlink()
            return findings

        for path, text, expected in PLANTED:
            if not any(expected in finding for finding in run(path, text)):
                failures.append(f'not found: {path}: {text}')
        for path, text in CLEAN:
            failures += [f'found in clean text: {finding}' for finding in run(path, text)]
        if not any('not needed' in finding for finding in check(root, {('core/base/x.cc', 'double')})):
            failures.append('an exception without a cause was not found')
    return failures


def main():
    if sys.argv[1:] == ['--self-test']:
        findings = self_test()
    else:
        here = pathlib.Path(__file__).resolve().parent
        findings = check(pathlib.Path(sys.argv[1]).resolve(), read_exceptions(here / 'exceptions.txt'))
    print('\n'.join(findings) if findings else 'includes: clean')
    return 1 if findings else 0


sys.exit(main())
