"""Servers, a well-behaved witness, and the account of cases: what the bad-input tests share."""
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import native

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FULMAR = os.path.abspath(os.environ.get('FULMAR_BIN', os.path.join(REPOSITORY, 'build/release/bin/fulmar')))
with open(FULMAR, 'rb') as binary:
    IS_SANITIZED = b'__asan_init' in binary.read()
# A sanitizer keeps what was freed and shadows what is used, and is slow.
MEMORY_FACTOR, TIME_FACTOR = (4, 4) if IS_SANITIZED else (1, 1)
SMALL = ['--set', 'mappedFileSizeCommitLog=16777216', '--set', 'mappedFileSizeConsumeQueue=60000', '--set', 'maxHashSlotNum=10000', '--set', 'maxIndexNum=40000']
WORK = tempfile.mkdtemp(prefix='fulmar-badinput-')


class Failure(Exception):
    pass


def expect(condition, sentence):
    if not condition:
        raise Failure(sentence)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def wait_for(condition, seconds, sentence):
    until = time.monotonic() + seconds * TIME_FACTOR
    while not condition():
        if time.monotonic() > until:
            raise Failure(sentence if isinstance(sentence, str) else sentence())
        time.sleep(0.01)


class Ended:
    """A process that is over: its status and what it said."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        self.last = next((line for line in reversed(err.splitlines()) if line.startswith('fulmar: ')), '')

    def must(self, status, *words):
        """One sentence of ours, with all the words; no signal, no exception, no report of a sanitizer."""
        text = f'status {self.status}, said: {self.err[-600:]!r}'
        expect('ERROR: AddressSanitizer' not in self.err and 'runtime error' not in self.err, text)
        expect(self.status == status, f'want status {status}: {text}')
        if status != 0:
            expect(self.last != '', f'no sentence: {text}')
        for word in words:
            expect(word.lower() in self.err.lower(), f'{word!r} is missing: {text}')
        return self


def run(*arguments, status=None, words=(), timeout=20, command=None, **options):
    """A process that is expected to end by itself."""
    options.setdefault('stdin', subprocess.DEVNULL)
    p = subprocess.Popen([*(command or [FULMAR]), *arguments], stdout=options.pop('stdout', subprocess.PIPE), stderr=subprocess.PIPE, **options)
    try:
        out, err = p.communicate(timeout=timeout * TIME_FACTOR)
    except subprocess.TimeoutExpired:
        p.kill()
        p.communicate()
        raise Failure(f'{" ".join(arguments)[:200]} does not end')
    ended = Ended(p.returncode, (out or b'').decode('utf-8', 'replace'), err.decode('utf-8', 'replace'))
    return ended if status is None else ended.must(status, *words)


class Server:
    """`fulmar dev` or `fulmar broker` on free ports of 127.0.0.1."""
    everyone = []
    serial = 0

    def __init__(self, *arguments, directory=None, verb='dev', command=None, **options):
        Server.serial += 1
        self.directory = directory or os.path.join(WORK, f'store{Server.serial}')
        where = ['--dir', self.directory, '--port', '0', '--namesrv-port', '0'] if verb == 'dev' else ['--store', self.directory, '--listen', '127.0.0.1:0', '--set', 'autoCreateTopicEnable=true']
        self.store = os.path.join(self.directory, 'broker') if verb == 'dev' else self.directory
        self.log = open(os.path.join(WORK, f'server{Server.serial}.err'), 'w+b')
        self.port = self.namesrv = self.metrics = None
        self.process = subprocess.Popen([*(command or [FULMAR]), verb, *where, '--json', *SMALL, *arguments], stdin=options.pop('stdin', subprocess.DEVNULL),
                                        stdout=options.pop('stdout', subprocess.PIPE), stderr=options.pop('stderr', self.log), **options)
        Server.everyone.append(self.process)
        self.pid = self.process.pid

    def said(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read().decode('utf-8', 'replace')

    def ready(self, seconds=10):
        """Waits for the ready line. Returns self, or fails with what it said."""
        waiting = select.poll()   # select() knows no descriptor above 1023
        waiting.register(self.process.stdout, select.POLLIN)
        readable = waiting.poll(1000 * seconds * TIME_FACTOR)
        line = self.process.stdout.readline() if readable else b''
        if not line:
            try:
                self.process.wait(timeout=5 if readable else 0.1)
            except subprocess.TimeoutExpired:
                pass
            raise Failure(f'not ready, status {self.process.poll()}: {self.said()[-500:]}')
        told = json.loads(line)
        self.port, self.namesrv, self.metrics = told['port'], told.get('namesrvPort'), told.get('metricsPort')
        return self

    def refused(self, status, *words, seconds=5):
        """It must end by itself with a sentence."""
        begin = time.monotonic()
        try:
            self.process.wait(timeout=seconds * TIME_FACTOR)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f'still runs after {time.monotonic() - begin:.1f} s: {self.said()[-300:]!r}')
        return Ended(self.process.returncode, '', self.said()).must(status, *words)

    def is_running(self):
        return self.process.poll() is None

    def client(self, **options):
        return native.Client(self.port, **options)

    def memory(self):
        """MiB that are its own: anonymous and shared."""
        with open(f'/proc/{self.pid}/status') as f:
            values = dict(line.split(':', 1) for line in f)
        return (int(values['RssAnon'].split()[0]) + int(values['RssShmem'].split()[0])) // 1024

    def descriptors(self):
        return len(os.listdir(f'/proc/{self.pid}/fd'))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, status=0, seconds=15):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=seconds * TIME_FACTOR)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure('SIGTERM did not end it: ' + self.said()[-400:])
        ended = Ended(self.process.returncode, '', self.said())
        expect('ERROR: AddressSanitizer' not in ended.err and 'runtime error' not in ended.err, ended.err[-2000:])
        expect(ended.status == status, f'ended with {ended.status}, want {status}: {ended.err[-400:]}')
        return ended


class Witness:
    """A producer that behaves, in a thread. Remembers what was acknowledged; check() reads all of it back."""

    def __init__(self, server, topic='witness', pause=0.004):
        self.topic, self.pause = topic, pause
        self.acked, self.refused, self.slowest = {}, [], 0.0
        self.over = threading.Event()
        self.lost_connection = None
        self.client = server.client(timeout=20 * TIME_FACTOR)
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        serial = 0
        try:
            while not self.over.is_set():
                body = f'{self.topic} {serial}'.encode() + b'.' * random.Random(serial).randrange(600)
                begin = time.monotonic()
                reply = self.client.call(native.send, self.topic, body, b'KEYS\1%d\2' % serial)
                self.slowest = max(self.slowest, time.monotonic() - begin)
                if reply.kind == native.SENT and reply.code == native.SUCCESS:
                    self.acked[reply.sent()] = body
                else:
                    self.refused.append(str(reply))
                serial += 1
                time.sleep(self.pause)
        except (native.Closed, OSError) as error:
            self.lost_connection = error

    def finish(self):
        self.over.set()
        self.thread.join()
        self.client.close()

    def check(self, client):
        """Every acknowledged message is at its place, whole, and no other is there twice."""
        for queue in sorted({q for q, _ in self.acked}):
            offset = 0
            while True:
                reply = client.call(native.pull, self.topic, queue, offset, count=1024)
                expect(reply.kind == native.PULLED, f'pull of {self.topic} {queue} at {offset}: {reply}')
                code, count, following, least, most = reply.pulled()
                seen = offset
                for q, at, _, _, body in native.records(reply.attachment):
                    expect((q, at) == (queue, seen), f'{(q, at)} where {(queue, seen)} was due')
                    wanted = self.acked.get((q, at))
                    expect(wanted is None or wanted == body, f'{(q, at)} holds {body[:40]} instead of {wanted and wanted[:40]}')
                    seen += 1
                if following >= most:
                    break
                expect(following > offset, f'pull of {self.topic} {queue} stands at {offset} of {most}')
                offset = following
            missing = [at for q, at in self.acked if q == queue and at >= most]
            expect(not missing, f'acknowledged and lost: {self.topic} queue {queue} offsets {missing[:5]}, the queue ends at {most}')


def flat(directory):
    """Everything below, for tests that compare: path -> size."""
    return {os.path.relpath(os.path.join(base, f), directory): os.path.getsize(os.path.join(base, f)) for base, _, files in os.walk(directory) for f in files}


def clean_up():
    for process in Server.everyone:
        if process.poll() is None:
            process.kill()
            process.wait()
    shutil.rmtree(WORK, ignore_errors=True)
