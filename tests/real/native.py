"""The native protocol (core/wire/native/fulmar.capnp) as plain bytes, for tests that send what no client of ours would."""
import socket
import struct

PREAMBLE = b'FULMAR\0\1'
(HELLO, SEND, SEND_BATCH, PULL, COMMIT, QUERY_OFFSET, QUERY_QUEUE, ROUTE, CREATE, DELETE, LIST, DESCRIBE, QUERY, VIEW, STATUS, REGISTER, UNREGISTER) = range(17)
REFUSAL, OK, R_HELLO, SENT, PULLED, OFFSET, QUEUE, R_ROUTE, TOPICS, TOPIC, MESSAGES, REGISTERED, R_STATUS = range(13)
SUCCESS = 0


class Closed(Exception):
    """The server closed the connection; the text is what it sent before."""


def struct_pointer(offset, data, pointers):
    return struct.pack('<iHH', offset << 2, data, pointers)


def list_pointer(offset, size, count):
    return struct.pack('<iI', (offset << 2) | 1, size | (count << 3))


def u64(value):
    return struct.pack('<Q', value & (2**64 - 1))


def i32s(low, high=0):
    return struct.pack('<II', low & 0xFFFFFFFF, high & 0xFFFFFFFF)


def build(data, pointers):
    """A struct's words and, behind them, its texts: `data` is a list of 8-byte words; a pointer is bytes (Data), str (Text) or None."""
    body = b''.join(data)
    tail = b''
    for i, value in enumerate(pointers):
        if value is None:
            body += bytes(8)
            continue
        content = value if isinstance(value, bytes) else value.encode('utf-8', 'surrogateescape') + b'\0'
        offset = len(pointers) - i - 1 + len(tail) // 8
        body += list_pointer(offset, 2, len(content))
        tail += content + bytes(-len(content) % 8)
    return body + tail


def request(opaque, method, content=b'', sizes=None, word=0, one_way=False):
    """A Request header. `sizes`: (data, pointers) of the struct that `content` is; None: `content` follows a raw pointer or is empty."""
    head = struct_pointer(0, 2, 1) + struct.pack('<IHH', opaque & 0xFFFFFFFF, 1 if one_way else 0, method) + u64(word)
    if sizes is not None:
        return head + struct_pointer(0, *sizes) + content
    return head + (content or bytes(8))


def frame(header, attachment=b''):
    assert len(header) % 8 == 0
    return struct.pack('<II', 4 + len(header) + len(attachment), len(header) // 8) + header + attachment


def text_request(opaque, method, text):
    content = text.encode('utf-8', 'surrogateescape') + b'\0'
    return frame(request(opaque, method, list_pointer(0, 2, len(content)) + content + bytes(-len(content) % 8)))


def hello(opaque=1, version=1):
    return frame(request(opaque, HELLO, build([u64(version), u64(0)], [None]), (2, 1)))


def send(opaque, topic, body, properties=b'', queue=-1, flag=0, sys_flag=0, born=1, reconsume=0, one_way=False):
    content = build([i32s(queue ^ -1, flag), i32s(sys_flag, reconsume), u64(born)], [topic, properties])
    return frame(request(opaque, SEND, content, (3, 2), one_way=one_way), body)


def send_batch(opaque, topic, packed, queue=-1, sys_flag=0):
    return frame(request(opaque, SEND_BATCH, build([i32s(queue ^ -1, sys_flag), u64(1)], [topic]), (2, 1)), packed)


def pull(opaque, topic, queue, offset, count=32, bytes_max=1 << 20, suspend_ms=0, subscription='*', group='g'):
    return frame(request(opaque, PULL, build([i32s(queue, count), u64(offset), i32s(bytes_max, suspend_ms)], [group, topic, subscription]), (3, 3)))


def commit(opaque, topic, queue, offset, group='g', needs_flush=False):
    return frame(request(opaque, COMMIT, build([i32s(queue, 1 if needs_flush else 0), u64(offset)], [group, topic]), (2, 2)))


def query_offset(opaque, topic, queue, group='g'):
    return frame(request(opaque, QUERY_OFFSET, build([i32s(queue)], [group, topic]), (1, 2)))


def query_queue(opaque, topic, queue):
    return frame(request(opaque, QUERY_QUEUE, build([i32s(queue)], [topic]), (1, 1)))


def create(opaque, topic, read, write, perm=6):
    return frame(request(opaque, CREATE, build([i32s(read, write), i32s(perm)], [topic]), (2, 1)))


def list_topics(opaque, after='', count=1000):
    return frame(request(opaque, LIST, build([i32s(count)], [after]), (1, 1)))


def query(opaque, topic, key, count=32, begin=0, end=2**63 - 1):
    return frame(request(opaque, QUERY, build([i32s(count), u64(begin), u64(end)], [topic, key]), (3, 2)))


def view(opaque, at):
    return frame(request(opaque, VIEW, word=at))


def status(opaque):
    return frame(request(opaque, STATUS))


def register(opaque, cluster, name, host, port, table=b'', count=0, broker_id=0, complete=True):
    data = [u64(broker_id), struct.pack('<HHI', port, 1 if complete else 0, count), u64(7)]
    return frame(request(opaque, REGISTER, build(data, [cluster, name, host]), (3, 3)), table)


class Reply:
    """What we need of a Response: kind, opaque, and the words of the struct it holds."""

    def __init__(self, raw):
        words = struct.unpack_from('<I', raw, 4)[0]
        self.header, self.attachment = raw[8:8 + 8 * words], raw[8 + 8 * words:]
        offset, data, pointers = struct.unpack_from('<iHH', self.header, 0)
        self.at = 8 + 8 * (offset >> 2)
        self.opaque, self.kind = struct.unpack_from('<IH', self.header, self.at)
        self.value = struct.unpack_from('<q', self.header, self.at + 8)[0] if data > 1 else 0
        self.pointer_at = self.at + 8 * data
        self.body = b''
        if pointers and self.kind not in (R_STATUS,):
            offset, data, pointers = struct.unpack_from('<iHH', self.header, self.pointer_at)
            begin = self.pointer_at + 8 + 8 * (offset >> 2)
            self.body = self.header[begin:begin + 8 * data]
            self.texts = [self._text(begin + 8 * (data + i)) for i in range(pointers)] if self.kind == REFUSAL else []
        self.code = struct.unpack_from('<i', self.body, 0)[0] if self.kind in (REFUSAL, SENT, PULLED) and len(self.body) >= 4 else 0

    def _text(self, at):
        offset, what = struct.unpack_from('<iI', self.header, at)
        begin = at + 8 + 8 * (offset >> 2)
        return self.header[begin:begin + max((what >> 3) - 1, 0)].decode('utf-8', 'replace')

    def sent(self):
        code, queue, offset = struct.unpack_from('<iiq', self.body, 0)
        return queue, offset

    def pulled(self):
        """code, count, next, min, max"""
        code, count, following, least, most = struct.unpack_from('<iiqqq', self.body, 0)
        return code, count, following, least, most

    def status(self):
        offset, what = struct.unpack_from('<iI', self.header, self.pointer_at)
        tag_at = self.pointer_at + 8 + 8 * (offset >> 2)
        count, data, pointers = struct.unpack_from('<iHH', self.header, tag_at)
        step = 8 * (data + pointers)
        return {self._text(tag_at + 8 + i * step + 8 * data): self._text(tag_at + 8 + i * step + 8 * data + 8) for i in range(count >> 2)}

    def __str__(self):
        return f'refusal {self.code}: {" | ".join(self.texts)}' if self.kind == REFUSAL else f'reply of kind {self.kind} code {self.code}'


class Client:
    """One connection. Replies are matched by their opaque number."""

    def __init__(self, port, greet=True, timeout=5.0, receive_bytes=None):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(timeout)
        self.socket.connect(('127.0.0.1', port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.waiting = bytearray(), {}
        self.next_opaque = 1
        if greet:
            self.socket.sendall(PREAMBLE + hello(self.opaque()))
            assert self.read().kind == R_HELLO

    def opaque(self):
        self.next_opaque += 1
        return self.next_opaque

    def read(self):
        """The next reply, whichever it is."""
        while len(self.buffer) < 4 or len(self.buffer) < 4 + struct.unpack_from('<I', self.buffer)[0]:
            try:
                more = self.socket.recv(1 << 18)
            except (ConnectionResetError, BrokenPipeError):
                more = b''
            if not more:
                raise Closed(bytes(self.buffer[:200]))
            self.buffer += more
        size = 4 + struct.unpack_from('<I', self.buffer)[0]
        raw = bytes(self.buffer[:size])
        del self.buffer[:size]
        return Reply(raw)

    def call(self, make, *args, **named):
        opaque = self.opaque()
        try:
            self.socket.sendall(make(opaque, *args, **named))
        except (ConnectionResetError, BrokenPipeError):
            raise Closed(b'')
        while opaque not in self.waiting:
            reply = self.read()
            self.waiting[reply.opaque] = reply
        return self.waiting.pop(opaque)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def records(stored):
    """queue, queue offset, topic, properties, body of each stored record (RocketMQ's layout, magic 0xDAA320A7)."""
    at = 0
    while at < len(stored):
        total, magic, crc, queue, flag, offset, place, sys_flag, born = struct.unpack_from('>iIIiiqqiq', stored, at)
        if magic != 0xDAA320A7:
            raise ValueError(f'magic {magic:x} at {at}')
        p = at + 48 + (20 if sys_flag & 0x10 else 8) + 8 + (20 if sys_flag & 0x20 else 8) + 4 + 8
        size = struct.unpack_from('>i', stored, p)[0]
        body = stored[p + 4:p + 4 + size]
        p += 4 + size
        topic = stored[p + 1:p + 1 + stored[p]]
        p += 1 + stored[p]
        size = struct.unpack_from('>H', stored, p)[0]
        yield queue, offset, bytes(topic), bytes(stored[p + 2:p + 2 + size]), bytes(body)
        at += total
