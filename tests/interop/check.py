#!/usr/bin/env python3
"""Whether what consumers printed ("key-7 right 0 12": key, whether it came as it was sent, queue, offset) is every message once, and unchanged.

    check.py FIRST COUNT FILE…     exit 1 with one line for each message that is lost, doubled, changed or a stranger
    check.py --self-test
"""
import collections
import sys
import tempfile


def problems(first, count, files):
    times = collections.Counter()
    out = []
    for file in files:
        for line in open(file, encoding='utf-8'):
            if line.startswith('key-'):
                key, how = line.split()[:2]
                times[key] += 1
                if how != 'right':
                    out.append(f'changed: {line.strip()}')
    wanted = [f'key-{i}' for i in range(first, first + count)]
    out += [f'{key} came {times[key]} times' for key in wanted if times[key] != 1]
    return out + [f'{key} was not expected' for key in times if key not in set(wanted)]


def self_test():
    lines = [f'key-{i} right 0 {i}\n' for i in range(10)]
    cases = {'what is right': (lines, 0), 'a lost message': (lines[:5] + lines[6:], 1), 'a doubled one': (lines + lines[5:6], 1),
             'a changed one': ([line.replace('right', 'wrong') if 'key-5' in line else line for line in lines], 1), 'a stranger': (lines + ['key-10 right 0 10\n'], 1)}
    for name, (text, wanted) in cases.items():
        with tempfile.NamedTemporaryFile('w') as file:
            file.writelines(text)
            file.flush()
            found = problems(0, 10, [file.name])
        if len(found) != wanted:
            sys.exit(f'FAIL self-test: {name}: {found}')
    print('PASS self-test: lost, doubled, changed and strange messages are seen')


if sys.argv[1:] == ['--self-test']:
    self_test()
else:
    found = problems(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    print('\n'.join(found[:20]))
    sys.exit(1 if found else 0)
