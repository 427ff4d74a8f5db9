#!/usr/bin/env python3
"""Bad input against real processes: over the network, in the store, on the command line, from the machine. In every case the servers stay
up for others or refuse to start with one sentence, and what was acknowledged beside it is there at the end.

    tests/real/badinput.py [PART OF A CASE'S NAME]     the binary: $FULMAR_BIN or build/release/bin/fulmar

One line a case, then `N passed, M failed`; exit 1 when any failed."""
import os
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
import badinput_cli
import badinput_start
import badinput_wire
from harness import SMALL, TIME_FACTOR, Failure, Server, Witness, clean_up, expect, run

wanted = sys.argv[1] if len(sys.argv) > 1 else ''
passed = failed = 0


def judge(name, function, *arguments):
    begin = time.monotonic()
    try:
        word = function(*arguments)
        return True, f'ok   {name} ({time.monotonic() - begin:.1f} s){": " + word if word else ""}'
    except Failure as failure:
        return False, f'FAIL {name}: {failure}'
    except Exception as error:  # the server broke off, or the test is wrong: both count
        where = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(where) if 'badinput' in f.filename), 0)
        return False, f'FAIL {name}: line {line}: {type(error).__name__}: {str(error)[:400]}'


def account(verdict):
    global passed, failed
    passed, failed = passed + verdict[0], failed + (not verdict[0])
    print(verdict[1], flush=True)


def wire_cases():
    """One server for all of them, with the witness beside."""
    cases = [c for c in badinput_wire.CASES if wanted in c[0] or not wanted]
    if not cases:
        return
    server = Server('--set', 'mappedFileSizeCommitLog=67108864').ready()
    witness = Witness(server)
    silent = badinput_wire.keep_silent(server) if not wanted else None

    def case(function):
        word = function(server)
        expect(server.is_running(), f'the server is gone: {server.said()[-1500:]}')
        expect(witness.lost_connection is None, f'the witness lost its connection: {witness.lost_connection!r}')
        return word

    def others():
        if silent:
            silent['thread'].join()
            expect('failure' not in silent and 8 < silent['took'] < 12 * TIME_FACTOR, f'a peer that never greets: {silent}')
        witness.finish()
        expect(not witness.refused, f'refused: {witness.refused[:3]}')
        expect(len(witness.acked) > 100 / TIME_FACTOR, f'only {len(witness.acked)} acknowledged')
        expect(witness.slowest < 3 * TIME_FACTOR, f'a send took {witness.slowest:.1f} s')
        with server.client() as client:
            witness.check(client)
        server.stop()
        run('store', 'verify', server.store, status=0)
        again = Server(directory=server.directory).ready()
        with again.client() as client:
            witness.check(client)
        again.stop()
        return f'{len(witness.acked)} acknowledged, all there after a restart, the slowest took {1000 * witness.slowest:.0f} ms'

    for name, function in cases:
        account(judge(name, case, function))
        if not server.is_running():
            print(server.said()[-3000:])
            break
    account(judge('the witness beside all of these', others))


def start_cases():
    """Each has its own store; a few at a time."""
    cases = [c for c in badinput_start.CASES + badinput_cli.CASES if wanted in c[0] or not wanted]
    with ThreadPoolExecutor(max_workers=3) as pool:
        for verdict in pool.map(lambda c: judge(c[0], c[1]), cases):
            account(verdict)


try:
    wire_cases()
    start_cases()
finally:
    clean_up()
print(f'{passed} passed, {failed} failed')
sys.exit(1 if failed or not passed else 0)
