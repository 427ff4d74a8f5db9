#!/usr/bin/env python3
"""How fast `fulmar dev` starts on an empty store and how much memory it keeps: exec to native hello, exec to the first acknowledged
SYNC_FLUSH send to a new topic, residence ten seconds after the ready line without clients (decision 2 a).

    tests/real/start.py [FULMAR] [--json]

Prints the figures. Timing is reported, not judged: other work on the machine moves it. Residence is judged (exit 1)."""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

fulmar = next((a for a in sys.argv[1:] if not a.startswith('-')), 'build/release/bin/fulmar')


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def frame(words, attachment=b''):
    header = b''.join(struct.pack('<Q', w) for w in words)
    return struct.pack('<II', 4 + len(header) + len(attachment), len(words)) + header + attachment


def hello():
    # A Request (fulmar.capnp): opaque 1, union member 0 (hello) with version 1 and no client name.
    # Word 0: pointer to the struct (2 data words, 1 pointer); data; pointer to Hello (2 data words, 1 pointer).
    return frame([struct_pointer(0, 2, 1), 1, 0, struct_pointer(0, 2, 1), 1, 0, 0])


def struct_pointer(offset_words, data_words, pointer_words):
    return (offset_words << 2) | (data_words << 32) | (pointer_words << 48)


def read_frame(s):
    data = b''
    while len(data) < 4 or len(data) < 4 + struct.unpack('<I', data[:4])[0]:
        more = s.recv(65536)
        if not more:
            raise SystemExit('the connection was closed: ' + repr(data))
        data += more
    return data


def connect(port, until):
    while time.monotonic() < until:
        try:
            return socket.create_connection(('127.0.0.1', port), timeout=5)
        except OSError:
            time.sleep(0.001)
    raise SystemExit('nobody listens')


def memory(pid):
    out = {}
    for line in open(f'/proc/{pid}/status'):
        if line.startswith(('VmRSS', 'RssAnon', 'RssFile', 'RssShmem')):
            name, value = line.split(':')
            out[name] = int(value.split()[0]) // 1024
    return out


work = tempfile.mkdtemp()
try:
    hellos, sends, rss = [], [], {}
    for i in range(5):
        port, namesrv = free_port(), free_port()
        start = time.monotonic()
        server = subprocess.Popen([fulmar, 'dev', '--dir', f'{work}/{i}', '--port', str(port), '--namesrv-port', str(namesrv), '--json'], stdout=subprocess.PIPE)
        try:
            s = connect(port, start + 10)
            s.sendall(b'FULMAR\0\1' + hello())
            read_frame(s)
            hellos.append((time.monotonic() - start) * 1000)
            server.stdout.readline()
            ready = (time.monotonic() - start) * 1000
            subprocess.run([fulmar, 'send', 'fresh', 'first', '-n', f'127.0.0.1:{namesrv}', '--quiet'], check=True, stdout=subprocess.DEVNULL)
            sends.append((time.monotonic() - start) * 1000)
            s.close()
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    port, namesrv = free_port(), free_port()
    server = subprocess.Popen([fulmar, 'dev', '--dir', f'{work}/idle', '--port', str(port), '--namesrv-port', str(namesrv), '--json'], stdout=subprocess.PIPE)
    try:
        server.stdout.readline()
        time.sleep(10)
        rss = memory(server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        if server.wait() != 0:
            raise SystemExit('the server did not stop cleanly')
    median = lambda values: sorted(values)[len(values) // 2]
    figures = {'helloMs': round(median(hellos), 1), 'firstAckMs': round(median(sends), 1), 'memoryMiB': rss}
    print(json.dumps(figures) if '--json' in sys.argv else
          f"exec to hello {figures['helloMs']} ms (median of 5), exec to first ack {figures['firstAckMs']} ms; idle: {rss} MiB")
    own = rss['RssAnon'] + rss['RssShmem']
    if rss['VmRSS'] > 64 or own > 16:
        raise SystemExit(f"idle residence: VmRSS {rss['VmRSS']} MiB (at most 64), RssAnon + RssShmem {own} MiB (at most 16)")
finally:
    shutil.rmtree(work)
