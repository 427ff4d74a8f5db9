"""Bad input over the network: each case gets the server that the witness uses too."""
import random
import socket
import struct
import threading
import time

import native as n
from harness import MEMORY_FACTOR, TIME_FACTOR, Failure, expect, wait_for
from native import Client, Closed

CASES = []
NAME_BYTES = 127


def case(function):
    CASES.append((function.__doc__, function))
    return function


def dial(port, timeout=5):
    s = socket.create_connection(('127.0.0.1', port), timeout=timeout * TIME_FACTOR)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def rest_of(s):
    """Everything until the server closes; Failure when it does not."""
    out = b''
    try:
        while True:
            more = s.recv(65536)
            if not more:
                return out
            out += more
    except ConnectionResetError:
        return out
    except socket.timeout:
        raise Failure(f'not closed; got {out[:60]!r}')


def closes(port, data, seconds=1, greet=False):
    """The server closes after `data`, within a second. What it said."""
    s = dial(port, seconds + 0.5)
    try:
        if greet:
            s.sendall(n.PREAMBLE + n.hello())
        begin = time.monotonic()
        try:
            s.sendall(data)
        except (ConnectionResetError, BrokenPipeError):
            pass
        said = rest_of(s)
        expect(time.monotonic() - begin < (seconds + 0.3) * TIME_FACTOR, f'closed only after {time.monotonic() - begin:.2f} s')
        return said
    finally:
        s.close()


def refused(reply, *words):
    expect(reply.kind == n.REFUSAL, f'not refused: {reply}')
    text = str(reply)
    expect(len(text) < 1000, f'a refusal of {len(text)} bytes')
    for word in words:
        expect(word in text, f'{word!r} is missing in: {text}')


def all_ports(server):
    return [server.port, server.namesrv]


@case
def garbage(server):
    """garbage on both ports: one line, closed within a second"""
    r = random.Random(1)
    heads = [b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', b'SSH-2.0-x\r\n', b'\x16\x03\x01\x02\x00\x01', b'\xff' * 64, b'\n', b'fulmar\0\1', b'FULMAX\0\1', b'FULMA\0\0\1']
    heads += [bytes([2 + r.randrange(68)]) + r.randbytes(r.randrange(1, 100_000)) for _ in range(20)]
    for port in all_ports(server):
        for data in heads:
            said = closes(port, data)
            expect(said == b'' or said.endswith(b'\r\n'), f'said {said[:80]!r} to {data[:8]!r}')
            expect(said != b'' or len(data) > 1000, f'nothing said to {data[:8]!r}')


def remoting(header, body=b'', encoding=0):
    return struct.pack('>II', 4 + len(header) + len(body), len(header) | encoding << 24) + header + body


@case
def remoting_garbage(server):
    """frames of RocketMQ's protocol that are none: closed within a second; requests that lack something are told what"""
    broken = [b'\x01\0\0\0', b'\0\0\0\x03', b'\0\0\0\x08\0\0\0\x09', remoting(b'{}', encoding=2), remoting(b'{}'), remoting(b'x'), remoting(b'{"code":1,"opaque":1'),
              remoting(b'{"code":1,"opaque":1,"x":' + b'[' * 10_000), remoting(b'{"code":1,"opaque":99999999999}'), remoting(b'\0' * 10, encoding=1), remoting(b'\xff' * 40, encoding=1)]
    asked = {b'{"code":105,"opaque":5}': b"field 'topic' is missing", b'{"code":200050,"opaque":5}': b'"code":3,', b'{"code":30,"opaque":5,"extFields":{"topic":"t","queueId":"x"}}': b"'queueId'",
             b'{"code":34,"opaque":5,"language":"KLINGON"}': b'no JSON', b'{"code":10,"opaque":5,"flag":2}': b''}
    for port in all_ports(server):
        for data in broken:
            expect(closes(port, data) == b'', f'said something to {data[:20]!r}')
        s = dial(port)
        for header, wanted in asked.items():
            s.sendall(remoting(header) + remoting(b'{"code":9999,"opaque":6}'))   # whose answer ends the wait
            said = b''
            while b'"opaque":6' not in said:
                more = s.recv(65536)
                expect(more != b'', f'closed after {header!r}')
                said += more
            expect(wanted in said and (b'"opaque":5' in said) == (wanted != b''), f'said {said!r} to {header!r}')
        s.close()


@case
def versions(server):
    """unknown versions of the protocol: a sentence, closed"""
    for port in all_ports(server):
        for version in (0, 2, 255, 65535):
            expect(b'version' in closes(port, b'FULMAR' + struct.pack('>H', version)), 'no word about the version')
        for version in (0, 2, 65535):
            s = dial(port)
            s.sendall(n.PREAMBLE + n.hello(7, version))
            said = rest_of(s)
            expect(b'version' in said, f'said {said!r}')
            refused(n.Reply(said), 'version')


@case
def order(server):
    """a request before hello, a second hello, an unknown method, a reply as request"""
    for port in all_ports(server):
        s = dial(port)
        s.sendall(n.PREAMBLE + n.status(3))
        refused(n.Reply(rest_of(s)), 'hello')
        with Client(port) as c:
            expect(c.call(n.hello).kind == n.R_HELLO, 'a second hello')
            for method in (64, 100, 65535):
                refused(c.call(lambda o: n.frame(n.request(o, method))), str(method))
            expect(c.call(n.status).kind == n.R_STATUS, 'status')


@case
def lengths(server):
    """frame and header lengths that are huge, zero, negative or contradict each other: closed within a second"""
    pairs = [(0, 0), (1, 0), (3, 0), (4, 1), (11, 1), (2**32 - 1, 0), (2**31, 1), (2**31 - 1, 1), (8 * 2**20 + 1, 1), (100, 8193), (2**23, 2**32 - 1), (2**23, 2**31), (100, 13)]
    for port in all_ports(server):
        for length, words in pairs:
            closes(port, struct.pack('<II', length, words), greet=True)
        # A header of no words is a frame, not a request.
        closes(port, struct.pack('<II', 4, 0), greet=True)


@case
def cuts(server):
    """a frame cut at every place, then closed, half closed or reset"""
    whole = n.PREAMBLE + n.hello() + n.send(2, 'cuts', b'never', queue=0)
    first = n.PREAMBLE + n.hello()
    for cut in range(len(whole)):
        s = dial(server.port)
        s.sendall(whole[:cut])
        if cut % 3 == 1:
            s.shutdown(socket.SHUT_WR)
        elif cut % 3 == 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        s.close()
    with Client(server.port) as c:
        reply = c.call(n.query_queue, 'cuts', 0)
        expect(reply.kind == n.REFUSAL or reply.value == 0 or len(first) > len(whole), f'a cut frame was taken: {reply}')


@case
def dribble(server):
    """frames byte by byte and in odd pieces: answered as if whole"""
    for port in all_ports(server):
        s = dial(port)
        data = n.PREAMBLE + n.hello(5) + n.status(6)
        for byte in data:
            s.sendall(bytes([byte]))
        c = Client.__new__(Client)
        c.socket, c.buffer, c.waiting, c.next_opaque = s, bytearray(), {}, 100
        expect([c.read().opaque, c.read().opaque] == [5, 6], 'wrong answers')
        r = random.Random(2)
        many = b''.join(n.status(1000 + i) for i in range(40))
        while many:
            size = r.randrange(1, 90)
            s.sendall(many[:size])
            many = many[size:]
        expect([c.read().opaque for _ in range(40)] == list(range(1000, 1040)), 'wrong order')
        s.close()


@case
def hello_then_garbage(server):
    """a valid hello, then noise: answered or closed, never more"""
    r = random.Random(3)
    for port in all_ports(server):
        for size in (1, 7, 8, 9, 100, 5000, 300_000):
            s = dial(port, 2)
            s.sendall(n.PREAMBLE + n.hello())
            try:
                s.sendall(r.randbytes(size))
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            rest_of(s)
            s.close()


def headers_that_bite():
    """Cap'n Proto headers meant to make a reader run, recurse or allocate."""
    head = n.struct_pointer(0, 2, 1)
    def of(method, pointer, tail=b'', word0=5):
        return head + struct.pack('<IHH', word0, 0, method) + bytes(8) + pointer + tail
    loops = [struct.pack('<iHH', -1 << 2, 0xFFFF, 0xFFFF), n.struct_pointer(-4, 2, 1), n.struct_pointer(2**29 - 1, 1, 1), n.struct_pointer(-2**29, 1, 1)]
    for method in (n.HELLO, n.SEND, n.PULL, n.REGISTER, n.CREATE):
        for pointer in loops:
            yield of(method, pointer)
        for size in range(8):
            for count in (0, 1, 2**29 - 1, 2**28):
                yield of(method, n.list_pointer(0, size, count), bytes(64))
        yield of(method, struct.pack('<II', (2**29 - 1) << 3 | 2, 2**32 - 1))        # a far pointer to another segment
        yield of(method, struct.pack('<II', 2, 0))                                   # a far pointer to itself
        yield of(method, struct.pack('<II', 3, 7))                                   # a capability
    for method in (n.ROUTE, n.DELETE, n.DESCRIBE):
        for size in range(8):
            for count in (0, 1, 64, 2**29 - 1):
                yield of(method, n.list_pointer(0, size, count), b'x' * 64)           # text of another type, without its NUL
    # One text of 60 KB that every pointer of the struct names: amplification.
    content = b'y' * 60_000 + bytes(8)
    yield head + struct.pack('<IHH', 5, 0, n.REGISTER) + bytes(8) + n.struct_pointer(0, 3, 3) + bytes(24) + b''.join(n.list_pointer(2 - i, 2, 60_001) for i in range(3)) + content
    # Structs nested until the header ends.
    depth = 4000
    yield head + struct.pack('<IHH', 5, 0, n.HELLO) + bytes(8) + b''.join(n.struct_pointer(0, 0, 1) for _ in range(depth)) + bytes(8)
    # A list of structs of no size that claims 2^29 of them.
    yield of(n.REGISTER, n.list_pointer(0, 7, 0), struct.pack('<iHH', (2**29 - 1) << 2, 0, 0))
    yield n.struct_pointer(0, 0, 0)
    yield bytes(8)
    yield bytes(8 * 8192)
    yield b'\xff' * (8 * 8192)


@case
def bombs(server):
    """Cap'n Proto bombs, nesting, loops, amplification: refused or closed, memory as before"""
    before = server.memory()
    for port in all_ports(server):
        begin = time.monotonic()
        for header in headers_that_bite():
            survives(port, n.frame(header))
        expect(time.monotonic() - begin < 8 * TIME_FACTOR, f'{time.monotonic() - begin:.1f} s for a few hundred headers')
    expect(server.memory() < before + 64 * MEMORY_FACTOR, f'{before} MiB became {server.memory()}')


CONNECTIONS = {}


def survives(port, frame):
    """Sends one frame on a kept connection and waits until it was looked at: by a status request behind it, or by the close."""
    c = CONNECTIONS.get(port) or Client(port)
    CONNECTIONS[port] = c
    try:
        c.socket.sendall(frame + n.status(0xABCDEF))
        while c.read().opaque != 0xABCDEF:
            pass
    except (Closed, ConnectionResetError, BrokenPipeError):
        CONNECTIONS.pop(port).close()


@case
def mutations(server):
    """3,000 valid requests with bits flipped, words swapped, ends cut: nothing but refusals"""
    r = random.Random(4)
    seeds = [n.send(9, 'mutant', b'b' * 40, b'KEYS\1k\2'), n.send_batch(9, 'mutant', b'\0' * 60), n.pull(9, 'mutant', 0, 0, suspend_ms=1), n.commit(9, 'mutant', 0, 0), n.query_offset(9, 'mutant', 0),
             n.query_queue(9, 'mutant', 0), n.list_topics(9), n.query(9, 'mutant', 'k'), n.view(9, 5), n.text_request(9, n.ROUTE, 'mutant'), n.text_request(9, n.DESCRIBE, 'mutant'),
             n.hello(9), n.register(9, 'c', 'b', 'h', 1, b'\0\1a' + bytes(12), 1), n.status(9)]
    for i in range(1500):
        frame = bytearray(r.choice(seeds))
        for _ in range(r.randrange(1, 6)):
            at = r.randrange(8, len(frame))
            frame[at] = r.choice([frame[at] ^ (1 << r.randrange(8)), 0, 0xFF, r.randrange(256)])
        for port in all_ports(server):
            survives(port, bytes(frame))


def bad_names():
    yield from ['', 'a/b', '/', '..', '../../etc/passwd', '.', 'a b', ' ', 'a\tb', 'a\nb', 'a\\b', 'é', '\udcff\udcfe', 'a\x7f', 'x' * 128, 'x' * 255, 'x' * 10_240, '%RETRY%' + 'x' * 249, '*', 'a:b', '<script>']


@case
def topic_names(server):
    """topic names with / .. NUL blanks, not UTF-8, 128, 255 and 10 KiB long: refused everywhere, nothing created"""
    with server.client() as c:
        for name in bad_names():
            refused(c.call(n.send, name, b'x'))
            refused(c.call(n.create, name, 1, 1))
            refused(c.call(n.pull, name, 0, 0))
            refused(c.call(n.commit, name, 0, 0))
            refused(c.call(n.query_offset, name, 0))
            refused(c.call(n.query_queue, name, 0))
            refused(c.call(n.query, name, 'k'))
            for method in (n.ROUTE, n.DELETE, n.DESCRIBE):
                refused(c.call(n.text_request, method, name))
        refused(c.call(n.send, 'a\0b', b'x'), 'NUL')
        refused(c.call(n.create, 'a\0b', 1, 1), 'NUL')
        for name in ('rmq_sys_fulmar_meta', 'rmq_sys_x', 'TBW102', 'SCHEDULE_TOPIC_XXXX'):
            refused(c.call(n.send, name, b'x'), name)
            refused(c.call(n.create, name, 1, 1), name)
            refused(c.call(n.text_request, n.DELETE, name))
        expect(c.call(n.send, 'y' * NAME_BYTES, b'x').kind == n.SENT, 'a name of 127 bytes')
        for name in bad_names():
            refused(c.call(n.pull, 'y' * NAME_BYTES, 0, 0, group=name))
            refused(c.call(n.commit, 'y' * NAME_BYTES, 0, 0, group=name))
            refused(c.call(n.query_offset, 'y' * NAME_BYTES, 0, group=name))
        listed = c.call(n.list_topics).attachment
        expect(b'/' not in listed and b'..' not in listed and b' ' not in listed, 'a bad name was created')


@case
def queue_counts(server):
    """queue counts 0, -1, huge; permissions out of range"""
    with server.client() as c:
        for count in (-1, -2**31, 1025, 65536, 2**31 - 1):
            refused(c.call(n.create, 'counts', count, 1))
            refused(c.call(n.create, 'counts', 1, count))
            refused(c.call(n.create, 'counts', count, count))
        refused(c.call(n.create, 'counts', 0, 0))
        for perm in (8, 2**31, 2**32 - 1):
            refused(c.call(n.create, 'counts', 1, 1, perm), 'perm')
        expect(c.call(n.create, 'counts', 0, 1).kind == n.OK and c.call(n.create, 'counts', 1, 0).kind == n.OK, 'counts of which one is 0')
        refused(c.call(n.send, 'counts', b'x'))
        for queue in (1, 1024, 2**31 - 1):
            refused(c.call(n.send, 'counts', b'x', queue=queue))
        for queue in (-1, -2**31, 1, 2**31 - 1):
            refused(c.call(n.pull, 'counts', queue, 0))
            refused(c.call(n.commit, 'counts', queue, 0))
            refused(c.call(n.query_queue, 'counts', queue))
            refused(c.call(n.query_offset, 'counts', queue))


@case
def bodies(server):
    """bodies of 0, 4 MiB, 4 MiB + 1 and of a whole frame"""
    with server.client(timeout=20) as c:
        refused(c.call(n.send, 'bodies', b''), 'empty')
        expect(c.call(n.send, 'bodies', b'b' * (4 << 20)).kind == n.SENT, '4 MiB were refused')
        refused(c.call(n.send, 'bodies', b'b' * ((4 << 20) + 1)), '4194305', '4194304')
        refused(c.call(n.send, 'bodies', b'b' * ((8 << 20) - 400)), 'maxMessageSize')
        refused(c.call(n.send_batch, 'bodies', b''), 'empty')
        refused(c.call(n.send_batch, 'bodies', b'b' * ((4 << 20) + 1)))
        item = lambda total, magic, body, props, tail=b'': struct.pack('>iiiii', total, magic, 0, 0, body) + tail + struct.pack('>h', props)
        for packed in (b'x', bytes(22), item(2**31 - 1, 0, 0, 0), item(-1, 0, 0, 0), item(22, 0, -1, 0), item(22, 0, 2**31 - 1, 0), item(22, 0, 0, -1), item(23, 0, 1, 0, b'b') * 3 + b'z', item(22, 0, 0, 32767)):
            refused(c.call(n.send_batch, 'bodies', packed))
        for sys_flag in (4, 8, 12, 0xFFFFFFFF):
            refused(c.call(n.send, 'bodies', b'x', sys_flag=sys_flag))
        for values in ({'born': -2**63}, {'born': 2**63 - 1}, {'reconsume': -1}, {'reconsume': 2**31 - 1}, {'flag': -1}, {'sys_flag': 0x30}, {'sys_flag': 3}, {'sys_flag': 0xFFFFFFF3}):
            reply = c.call(n.send, 'bodies', b'x', queue=0, **values)
            expect(reply.kind in (n.SENT, n.REFUSAL), f'{values}: {reply}')


@case
def properties(server):
    """properties with separators in odd places, 32,767 and 32,768 bytes, thousands of keys: stored as sent or refused"""
    with server.client() as c:
        expect(c.call(n.create, 'props', 1, 1).kind == n.OK, 'create')
        odd = [b'\1', b'\2', b'\1\2', b'\1\1\1', b'\2\2\2', b'KEYS', b'KEYS\1', b'KEYS\1\2', b'KEYS\1a', b'\1a\2', b'KEYS\1a\2\1\2KEYS\1b\2', b'\0\1\0\2', b'\xff\xfe\1\xfd\2', b'KEYS\1' + b' ' * 300 + b'\2',
               b'DELAY\1' + b'9' * 400 + b'\2', b'WAIT\1false\2', b'TAGS\1' + b't' * 30_000 + b'\2', b'UNIQ_KEY\1' + b'u' * 30_000 + b'\2', b'__CRC32#\0010000000000\2', b'a\1b\2' * 5000]
        stored = 0
        for value in odd:
            reply = c.call(n.send, 'props', b'body %d' % stored, value, queue=0)
            expect(reply.kind in (n.SENT, n.REFUSAL), f'{value[:20]!r}: {reply}')
            stored += reply.kind == n.SENT
        reply = c.call(n.send, 'props', b'just fits', b'p\1' + b'v' * (32_767 - 3) + b'\2', queue=0)
        expect(reply.kind in (n.SENT, n.REFUSAL), str(reply))
        stored += reply.kind == n.SENT
        refused(c.call(n.send, 'props', b'too much', b'p\1' + b'v' * (32_768 - 3) + b'\2', queue=0), '32768')
        many_keys = b'KEYS\1' + b' '.join(b'%x' % i for i in range(6000)) + b'\2'
        for i in range(30):
            stored += c.call(n.send, 'props', b'many keys', many_keys[:32_000] + b'\2', queue=0).kind == n.SENT
        wait_for(lambda: c.call(n.query_queue, 'props', 0).kind == n.QUEUE, 1, 'no queue')
        offset = 0
        begin = time.monotonic()
        while offset < stored:
            expect(time.monotonic() - begin < 10 * TIME_FACTOR, f'{offset} of {stored} came back')
            reply = c.call(n.pull, 'props', 0, offset)
            expect(reply.kind == n.PULLED, str(reply))
            offset = reply.pulled()[2]
            list(n.records(reply.attachment))
        for key in ('a', 'b', '1', '', 'u' * 30_000, '\udcff'):
            expect(c.call(n.query, 'props', key).kind in (n.MESSAGES, n.REFUSAL), f'query {key[:5]!r}')


@case
def offsets(server):
    """offsets negative, overflowing, beyond the end; absurd counts, waits, subscriptions, times"""
    with server.client(timeout=20) as c:
        c.call(n.create, 'offsets', 2, 2)
        for i in range(5):
            c.call(n.send, 'offsets', b'%d' % i, queue=0)
        huge = (2**31, 2**32, 2**40, 2**62, 2**63 - 1)
        for offset in huge:
            reply = c.call(n.pull, 'offsets', 0, offset)
            expect(reply.kind == n.PULLED and reply.pulled()[1] == 0 and 0 <= reply.pulled()[2] <= 5, f'pull at {offset}: {reply} {reply.kind == n.PULLED and reply.pulled()}')
            refused(c.call(n.commit, 'offsets', 0, offset), 'outside')
            expect(c.call(n.view, offset).kind in (n.REFUSAL,), f'view {offset}')
        for offset in (-1, -2**63):
            refused(c.call(n.pull, 'offsets', 0, offset), 'negative')
            refused(c.call(n.commit, 'offsets', 0, offset))
            refused(c.call(n.view, offset), 'negative')
        for at in range(1, 300, 7):
            expect(c.call(n.view, at).kind in (n.REFUSAL, n.MESSAGES), f'view {at}')
        refused(c.call(n.query_offset, 'offsets', 0))
        for count in (0, 1, 2**31 - 1):
            for size in (0, 1, 2**31 - 1):
                reply = c.call(n.pull, 'offsets', 0, 0, count=count, bytes_max=size)
                expect(reply.kind == n.PULLED and reply.pulled()[1] >= 1, f'count {count} bytes {size}: {reply}')
        for count, size in ((-1, 1), (1, -1), (-2**31, -2**31)):
            refused(c.call(n.pull, 'offsets', 0, 0, count=count, bytes_max=size), 'negative')
        for text in ('||', ' || || ', 'a||' * 200, 'a' * 9000, '*||*', '\udcff', 'a\nb'):
            expect(c.call(n.pull, 'offsets', 0, 0, subscription=text).kind in (n.PULLED, n.REFUSAL), f'subscription {text[:10]!r}')
        for begin, end in ((5, 1), (-2**63, 2**63 - 1), (2**63 - 1, -2**63), (-5, -1)):
            expect(c.call(n.query, 'offsets', 'k', begin=begin, end=end).kind in (n.MESSAGES, n.REFUSAL), 'query times')
        for count in (0, 2**31 - 1):
            expect(c.call(n.query, 'offsets', 'k', count=count).kind == n.MESSAGES, 'query count')
            expect(c.call(n.list_topics, '', count).kind == n.TOPICS, 'list count')
        refused(c.call(n.list_topics, '', -1), 'negative')
        # A wait of 49 days is cut; its connection closes and nobody notices.
        with server.client() as waiting:
            for i in range(3000):
                waiting.socket.sendall(n.pull(10 + i, 'offsets', 1, 0, suspend_ms=2**32 - 1))
            wait_for(lambda: int(c.call(n.status).status()['pullsHeld']) >= 3000, 5, 'pulls are not held')
        wait_for(lambda: int(c.call(n.status).status()['pullsHeld']) < 100, 5, 'held pulls of a closed connection stay')
        expect(c.call(n.commit, 'offsets', 0, 5, needs_flush=True).kind == n.OK, 'commit at the end')
        expect(c.call(n.query_offset, 'offsets', 0).value == 5, 'committed')


@case
def registrations(server):
    """the name server: registrations with absurd names, ports, tables"""
    with Client(server.namesrv) as c:
        refused(c.call(n.register, 'c', '', 'h', 1))
        refused(c.call(n.register, 'c', 'b', 'h', 0), 'port')
        refused(c.call(n.register, 'c', 'b' * 256, 'h', 1), '256')
        refused(c.call(n.register, 'c', 'b', 'h' * 10_000, 1))
        refused(c.call(n.register, 'c', 'b', 'h', 1, broker_id=-1), 'negative')
        entry = lambda name, read=1, write=1, perm=6: struct.pack('>H', len(name)) + name + struct.pack('>iiI', read, write, perm)
        for table, count in ((b'', 1), (b'', 2**32 - 1), (b'\xff\xff', 1), (entry(b'a'), 2), (entry(b'a') + b'x', 1), (entry(b'a\0b'), 1), (entry(b'a', -1), 1), (entry(b'a', 1, -2**31), 1)):
            refused(c.call(n.register, 'c', 'bad', 'h', 1, table, count))
        for name in bad_names():
            expect(c.call(n.text_request, n.ROUTE, name).kind == n.REFUSAL, f'route of {name[:10]!r}')
        for method in (n.send, n.pull, n.commit):
            arguments = {n.send: ('t', b'x'), n.pull: ('t', 0, 0), n.commit: ('t', 0, 0)}[method]
            refused(c.call(method, *arguments))
        before = server.memory()
        for i in range(400):
            c.call(n.register, 'c', f'stranger{i}', '127.0.0.1', 1)
        expect(server.memory() < before + 64 * MEMORY_FACTOR, 'memory')
        for i in range(400):
            c.call(lambda o: n.frame(n.request(o, n.UNREGISTER, n.build([n.u64(0)], ['c', f'stranger{i}']), (1, 2))))


@case
def connections(server):
    """1,000 connections opened and dropped, greeted or not, reset in the middle of frames"""
    with server.client() as c:
        base = int(c.call(n.status).status()['connections'])
        descriptors = server.descriptors()
        part = n.send(5, 'never', b'z' * 5000)[:3000]
        for step in range(4):
            crowd = []
            for i in range(250):
                s = dial(server.port)
                crowd.append(s)
                if i % 4 > 0:
                    s.sendall(n.PREAMBLE if i % 4 == 1 else n.PREAMBLE + n.hello() + part)
            for i, s in enumerate(crowd):
                if i % 2:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                s.close()
        wait_for(lambda: int(c.call(n.status).status()['connections']) <= base, 5, lambda: 'connections are left: ' + c.call(n.status).status()['connections'])
        wait_for(lambda: server.descriptors() <= descriptors + 20, 2, lambda: f'{descriptors} descriptors became {server.descriptors()}')


@case
def half_closed(server):
    """half-closed connections: closed by the server, nothing is left"""
    with server.client() as c:
        base = int(c.call(n.status).status()['connections'])
        crowd = []
        for i in range(50):
            s = dial(server.port, 3)
            s.sendall(n.PREAMBLE + n.hello() + n.send(3, 'half', b'half', queue=0) + (n.pull(4, 'half', 0, 10**6, suspend_ms=30_000) if i % 2 else b''))
            s.shutdown(socket.SHUT_WR)
            crowd.append(s)
        for s in crowd:
            rest_of(s)
            s.close()
        wait_for(lambda: int(c.call(n.status).status()['connections']) <= base, 5, 'half-closed connections stay')


@case
def deaf_readers(server):
    """peers that ask and never read: memory stays bounded, others are served"""
    with server.client(timeout=20) as c:
        c.call(n.create, 'deaf', 1, 1)
        for i in range(24):
            expect(c.call(n.send, 'deaf', b'd' * 900_000, b'KEYS\1deaf\2', queue=0).kind == n.SENT, 'send')
        for i in range(300):
            c.call(n.create, f'deaf_{i}_' + 'l' * 100, 1, 1)
        time.sleep(0.2)
        before = server.memory()
        asks = [lambda o: n.pull(o, 'deaf', 0, 0, bytes_max=2**31 - 1), n.status, n.list_topics, lambda o: n.query(o, 'deaf', 'deaf', 64), lambda o: n.text_request(o, n.ROUTE, 'deaf'), lambda o: n.view(o, 0)]
        crowd, peak = [], before
        for i in range(48):
            peer = server.client(receive_bytes=4096)
            peer.socket.setblocking(False)
            crowd.append((peer, b''.join(asks[i % len(asks)](o) for o in range(20_000))))
        until = time.monotonic() + 3 * min(TIME_FACTOR, 2)
        while time.monotonic() < until:
            for i, (peer, data) in enumerate(crowd):
                try:
                    sent = peer.socket.send(data[:200_000]) if data else 0
                    crowd[i] = (peer, data[sent:])
                except (BlockingIOError, ConnectionResetError, BrokenPipeError):
                    pass
            peak = max(peak, server.memory())
            begin = time.monotonic()
            expect(c.call(n.query_queue, 'deaf', 0).kind == n.QUEUE, 'no answer')
            expect(time.monotonic() - begin < 1.5 * TIME_FACTOR, f'an answer took {time.monotonic() - begin:.1f} s')
        for peer, _ in crowd:
            peer.close()
        expect(peak < before + 400 * MEMORY_FACTOR, f'{before} MiB grew to {peak} MiB')
        wait_for(lambda: int(c.call(n.status).status()['pullsWaitingForRoom']) == 0, 5, 'pulls of closed connections wait on')
        return f'{before} MiB grew to {peak} MiB'


@case
def unfinished(server):
    """400 connections each with 1 MiB of a frame that never ends: bounded"""
    before = server.memory()
    crowd, head = [], struct.pack('<II', 8 << 20, 10)
    for i in range(400):
        s = dial(server.port)
        s.settimeout(2)
        crowd.append(s)
        try:
            s.sendall(n.PREAMBLE + n.hello() + head + bytes(1 << 20))
        except OSError:
            pass
    peak = server.memory()
    with server.client() as c:
        expect(c.call(n.status).kind == n.R_STATUS, 'status')
    for s in crowd:
        s.close()
    expect(peak < before + 400 * MEMORY_FACTOR, f'{before} MiB grew to {peak} MiB')
    return f'{before} MiB grew to {peak} MiB'


@case
def memory_returns(server):
    """what the cases above took is given back"""
    for c in CONNECTIONS.values():
        c.close()
    CONNECTIONS.clear()
    wait_for(lambda: server.memory() < 160 * MEMORY_FACTOR, 5, lambda: f'{server.memory()} MiB are kept')
    return f'{server.memory()} MiB'


def keep_silent(server, seconds=14):
    """In a thread of its own: a peer that never greets is closed after the greeting time-out."""
    result = {}

    def work():
        s = dial(server.port, seconds)
        s.sendall(b'FUL')
        begin = time.monotonic()
        try:
            rest_of(s)
            result['took'] = time.monotonic() - begin
        except Failure as failure:
            result['failure'] = str(failure)

    result['thread'] = threading.Thread(target=work, daemon=True)
    result['thread'].start()
    return result
