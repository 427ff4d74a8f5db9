#!/usr/bin/env python3
"""What a broker costs when there is much of it: idle connections, queues, a long log.

    tests/real/scale.py [connections] [queues] [log] [--connections N] [--queues N] [--gib N] [--report]

connections  N idle native connections (10,000): at most 8 KiB of anonymous memory each, while a producer beside them is served
queues       N queues (100,000): at most 512 bytes of anonymous memory for an idle one; a start after kill -9 is ready within 5 s, with every
             queue written and with none; the broker's CPU for a send to any of them at most 1.2 times that of a send to one of 16; a stop with
             all of them dirty within 5 s. What it costs to write them all at last is printed
log          N GiB of log in sparse files (100, or what the file system can name): a start after kill -9 is ready within a second and reads
             no more than what was not flushed

Prints the figures; exit 1 when a bound does not hold. --report: exit 0 all the same (times move with what else the machine does)."""
import argparse
import os
import resource
import struct
import sys
import time
import zlib

import native
from harness import Failure, Server, WORK, clean_up, expect

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('parts', nargs='*', choices=['connections', 'queues', 'log', []])
parser.add_argument('--connections', type=int, default=10_000)
parser.add_argument('--queues', type=int, default=100_000)
parser.add_argument('--gib', type=int, default=100)
parser.add_argument('--report', action='store_true')
options = parser.parse_args()
failures = []


def bound(what, value, limit, unit):
    verdict = 'ok  ' if value <= limit else 'FAIL'
    print(f'{verdict} {what}: {value:.4g} {unit} (at most {limit:g})', flush=True)
    if value > limit:
        failures.append(what)


def anonymous_bytes(server):
    with open(f'/proc/{server.pid}/status') as f:
        values = dict(line.split(':', 1) for line in f)
    return 1024 * (int(values['RssAnon'].split()[0]) + int(values['RssShmem'].split()[0]))


def cpu_seconds(pid):
    with open(f'/proc/{pid}/stat') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def timed_start(*arguments, **options):
    """A server that is ready, and how long after exec its hello is answered."""
    begin = time.monotonic()
    server = Server(*arguments, **options).ready(seconds=120)
    with server.client(timeout=120):
        return server, time.monotonic() - begin


# --- connections ----------------------------------------------------------------------------------------------------------------------------

def connections():
    count = options.connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 8192
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), max(hard, wanted)))
    server = Server().ready()
    with server.client() as client:
        expect(client.call(native.send, 'beside', b'x').kind == native.SENT, 'a send')
        before = anonymous_bytes(server)
        idle = [server.client(timeout=30) for _ in range(count)]
        time.sleep(1)
        after = anonymous_bytes(server)
        slowest = 0.0
        for _ in range(200):
            begin = time.monotonic()
            expect(client.call(native.send, 'beside', b'x').kind == native.SENT, 'a send beside idle connections')
            slowest = max(slowest, time.monotonic() - begin)
        print(f'     beside {count} idle connections the slowest of 200 sends took {1000 * slowest:.1f} ms')
        bound(f'memory of one of {count} idle connections', (after - before) / count / 1024, 8, 'KiB')
        for connection in idle:
            connection.close()
    server.stop()


# --- queues ---------------------------------------------------------------------------------------------------------------------------------

PER_TOPIC = 1000


def send_to(server, targets, body=b'x' * 128, window=256):
    """One send to each (topic, queue), `window` in flight."""
    client = server.client(timeout=120)
    sent = received = 0
    pending = bytearray()
    for topic, queue in targets:
        pending += native.send(client.opaque(), topic, body, queue=queue)
        sent += 1
        if len(pending) > 32_768:
            client.socket.sendall(pending)
            pending.clear()
            while sent - received > window:
                reply = client.read()
                expect(reply.kind == native.SENT, f'a send: {reply}')
                received += 1
    client.socket.sendall(pending)
    while received < sent:
        reply = client.read()
        expect(reply.kind == native.SENT, f'a send: {reply}')
        received += 1
    client.close()
    return sent


def settle(server):
    """Waits until the broker is quiet: CPU seconds so far."""
    until = time.monotonic() + 300
    before, now = -1.0, cpu_seconds(server.pid)
    while now - before > 0.02 and time.monotonic() < until:
        time.sleep(2)
        before, now = now, cpu_seconds(server.pid)
    return now


def cost_of(server, targets):
    """The broker's CPU microseconds a send, with all that it does behind them until it is quiet."""
    begin = cpu_seconds(server.pid)
    count = send_to(server, targets)
    return 1e6 * (settle(server) - begin) / count


def queues():
    topics = max(1, options.queues // PER_TOPIC)
    total = topics * PER_TOPIC
    names = [f'many-{i}' for i in range(topics)]
    geometry = ['--set', 'mappedFileSizeCommitLog=268435456']
    server = Server(*geometry).ready()
    with server.client() as client:
        expect(client.call(native.create, 'few', 16, 16).kind == native.OK, 'create')
        time.sleep(1)
        before = anonymous_bytes(server)
        for name in names:
            expect(client.call(native.create, name, PER_TOPIC, PER_TOPIC).kind == native.OK, f'create {name}')
        time.sleep(1)
        bound(f'memory of one of {total} idle queues', (anonymous_bytes(server) - before) / total, 512, 'bytes')
    server.kill()
    server, took = timed_start(*geometry, directory=server.directory)
    bound(f'start after kill -9 with {total} empty queues', took, 5, 's')

    few = [('few', i % 16) for i in range(total)]
    cost_of(server, few)   # warms up
    cost_few = cost_of(server, few)
    every = [(name, queue) for queue in range(PER_TOPIC) for name in names]
    before = anonymous_bytes(server)
    first = cost_of(server, every)
    print(f'     the first message of each queue costs {first:.1f} us')
    cost_many = cost_of(server, every)
    bound(f'memory of one of {total} written queues', (anonymous_bytes(server) - before) / total, 512, 'bytes')
    print(f'     CPU for a send to one of 16 queues {cost_few:.2f} us, of {total} {cost_many:.2f} us')
    bound(f'cost of a send to one of {total} queues, times that to one of 16', cost_many / cost_few, 1.2, '')
    server.kill()
    server, took = timed_start(*geometry, directory=server.directory)
    bound(f'start after kill -9 with {total} written queues', took, 5, 's')
    begin = time.monotonic()
    server.stop(seconds=120)
    bound(f'stop with {total} dirty queues', time.monotonic() - begin, 5, 's')
    server, took = timed_start(*geometry, directory=server.directory)
    bound('start after that stop', took, 5, 's')
    with server.client(timeout=60) as client:
        for name in (names[0], names[-1]):
            held = following = 0
            most = 1
            while following < most:
                code, count, following, least, most = client.call(native.pull, name, PER_TOPIC - 1, following).pulled()
                held += count
            expect(held == 2, f'{name} holds {held} messages in its last queue, 2 were acknowledged')

    # Rounds are put off; at last, or when memory fills, they come.
    server.kill()
    server, took = timed_start(*geometry, '--set', 'flushConsumeQueueThoroughInterval=1000', directory=server.directory)
    print(f'     the first writing of each queue takes {1e6 * settle(server) / total:.1f} us of CPU')
    server.stop(seconds=120)
    expect(not os.path.exists(os.path.join(server.store, 'abort')), 'every queue is written')
    server, took = timed_start(*geometry, directory=server.directory)
    bound(f'start after a clean stop with the files of {total} queues', took, 5, 's')
    send_to(server, every)
    server.kill()
    server, took = timed_start(*geometry, directory=server.directory)
    bound(f'start after kill -9 with the files of {total} queues', took, 5, 's')
    print(f'     under a lasting load a send to one of {total} queues costs {cost_of(server, every * 8):.2f} us, with the rounds that memory asks for')
    server.stop(seconds=120)


# --- a long log -----------------------------------------------------------------------------------------------------------------------------

GIB = 1 << 30
FILLER = 0xCBD43194


def log():
    # A record of our own is repeated: one at the begin of each file, with a filler to its end. Without the checksum of the whole record only
    # its places need to be changed.
    plain = ['--set', 'enabledAppendPropCRC=false', '--set', f'mappedFileSizeCommitLog={GIB}', '--set', 'diskFreeBytesMin=0']
    directory = os.path.join(WORK, 'long')
    server = Server(*plain, directory=directory, verb='broker').ready()
    with server.client() as client:
        expect(client.call(native.create, 'long', 1, 1).kind == native.OK, 'create')
        expect(client.call(native.send, 'long', b'x' * 1000, queue=0).kind == native.SENT, 'a send')
    server.stop()
    logs = os.path.join(directory, 'commitlog')
    first = os.path.join(logs, f'{0:020}')
    with open(first, 'rb') as f:
        head = f.read(1 << 20)
    at = end = 0
    while struct.unpack_from('>i', head, end)[0] > 0:
        at, end = end, end + struct.unpack_from('>i', head, end)[0]
    record = bytearray(head[at:end])
    for name in os.listdir(logs):
        if name != f'{0:020}':
            os.unlink(os.path.join(logs, name))
    offset = struct.unpack_from('>q', record, 20)[0] + 1
    with open(first, 'r+b') as f:
        f.seek(end)
        f.write(struct.pack('>II', GIB - end, FILLER))
    for number in range(1, options.gib):
        struct.pack_into('>q', record, 20, offset)
        struct.pack_into('>q', record, 28, number * GIB)
        offset += 1
        with open(os.path.join(logs, f'{number * GIB:020}'), 'wb') as f:
            f.write(record)
            if number + 1 < options.gib:
                f.write(struct.pack('>II', GIB - len(record), FILLER))
            f.truncate(GIB)
    # What a broker that wrote all of this would have left: the log is flushed to its end; queues and index follow from where they were.
    path = os.path.join(directory, 'checkpoint')
    with open(path, 'rb') as f:
        page = bytearray(f.read())
    for slot in (1024, 2048):
        struct.pack_into('>I', page, slot + 12, 0)   # not a clean stop
        struct.pack_into('>QQ', page, slot + 24, (options.gib - 1) * GIB + len(record), options.gib * GIB)
        struct.pack_into('>I', page, slot + 88, zlib.crc32(page[slot:slot + 88]))
    with open(path, 'wb') as f:
        f.write(page)
    server, took = timed_start(*plain, directory=directory, verb='broker')
    print(f'     the first start, which fills queues and index over {options.gib} GiB, took {took:.2f} s')
    with server.client() as client:
        for i in range(100):
            expect(client.call(native.send, 'long', b'y' * 1000, queue=0).kind == native.SENT, 'a send')
        time.sleep(7)   # the table of queues is written every five seconds
        for i in range(100):
            expect(client.call(native.send, 'long', b'z' * 1000, queue=0).kind == native.SENT, 'a send')
    server.kill()
    server, took = timed_start(*plain, directory=directory, verb='broker')
    bound(f'start after kill -9 with {options.gib} GiB of log', took, 1, 's')
    with open(f'/proc/{server.pid}/io') as f:
        io = dict(line.split(':') for line in f)
    with open(f'/proc/{server.pid}/smaps') as f:
        name, resident = '', 0
        for line in f:
            fields = line.split()
            if '-' in fields[0] and not fields[0].endswith(':'):
                name = fields[-1]
            elif fields[0] == 'Rss:' and '/commitlog/' in name:
                resident += int(fields[1])
    print(f'     it used {cpu_seconds(server.pid):.2f} s of CPU, read {int(io["rchar"]) >> 10} KiB by calls and has touched {resident} KiB of the log')
    # Behind what is flushed records may stand up to the append limit, asyncUnflushedBytesMax (64 MiB) further on.
    bound('of the log touched', resident, 80 * 1024, 'KiB')
    with server.client() as client:
        code, count, following, least, most = client.call(native.pull, 'long', 0, offset + 199).pulled()
        expect((count, most) == (1, offset + 200), f'the last acknowledged message: {(count, most)}, wanted {(1, offset + 200)}')
    server.stop()


try:
    for part in options.parts or ['connections', 'queues', 'log']:
        try:
            globals()[part]()
        except Failure as failure:
            print(f'FAIL {part}: {failure}', flush=True)
            failures.append(part)
finally:
    clean_up()
print(f'{len(failures)} bounds do not hold: {", ".join(failures)}' if failures else 'every bound holds')
sys.exit(1 if failures and not options.report else 0)
