#!/usr/bin/env python3
"""Metrics and health of real servers: what is scraped is in Prometheus' format, agrees with what was sent and consumed, and comes within its
bounds whatever scrapers and loops do; /readyz says when a server does not do what it is there for, and why.

    tests/real/metrics.py [--self-test] [PART OF A CASE'S NAME]     the binary: $FULMAR_BIN or build/release/bin/fulmar

One line a case, then `N passed, M failed`; exit 1 when any failed. --self-test: one message that was counted is taken out of every scrape, and
the test must fail; one line of a scrape is spoilt in each of many ways, and the parser must refuse it."""
import ctypes
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

sys.dont_write_bytecode = True
import native
from harness import FULMAR, TIME_FACTOR, WORK, Failure, Server, clean_up, expect, free_port, run, wait_for

IS_SELF_TEST = '--self-test' in sys.argv
wanted = next((a for a in sys.argv[1:] if not a.startswith('-')), '')

# --- scraping -------------------------------------------------------------------------------------------------------------------------------


def ask(port, path, method='GET', timeout=10):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=timeout * TIME_FACTOR)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read().decode()
    finally:
        connection.close()


NAME = r'[a-zA-Z_:][a-zA-Z0-9_:]*'
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf'({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? (-?[0-9]+(?:\.[0-9]+)?)')


def parse(text):
    """Strictly: {(name, labels): value}, and the type of each family. More than the format asks: HELP and TYPE of every family, which
    comes once and in one piece; no series twice; counters that end in _total; histograms with rising buckets that end at +Inf."""
    values, types, helps = {}, {}, {}
    family, histogram = None, None
    expect(text.endswith('\n'), 'the last line does not end')

    def close():
        if histogram is None:
            return
        for labels, (buckets, total, count) in histogram.items():
            expect(buckets and buckets[-1][0] == float('inf'), f'{family}{labels}: no bucket +Inf')
            expect([b for b, _ in buckets] == sorted({b for b, _ in buckets}), f'{family}{labels}: bounds do not rise')
            expect([n for _, n in buckets] == sorted(n for _, n in buckets), f'{family}{labels}: buckets are not cumulative')
            expect(count == buckets[-1][1], f'{family}{labels}: _count is {count}, the last bucket {buckets[-1][1]}')
            expect(total is not None, f'{family}{labels}: no _sum')

    for line in text[:-1].split('\n'):
        if line.startswith('# HELP '):
            close()
            name, _, words = line[len('# HELP '):].partition(' ')
            expect(re.fullmatch(NAME, name) and words and name not in helps, f'bad or repeated: {line!r}')
            helps[name], family, histogram = words, name, None
        elif line.startswith('# TYPE '):
            name, _, kind = line[len('# TYPE '):].partition(' ')
            expect(name == family and name not in types and kind in ('counter', 'gauge', 'histogram'), f'bad or repeated: {line!r}')
            expect((kind == 'counter') == name.endswith('_total'), f'{name} is a {kind}')
            types[name] = kind
            histogram = {} if kind == 'histogram' else None
        else:
            match = SAMPLE.fullmatch(line)
            expect(match, f'no sample: {line!r}')
            name, labels, value = match[1], tuple(re.findall(LABEL, match[2] or '')), float(match[match.re.groups])
            expect(family in types, f'no TYPE before {line!r}')
            names = [n for n, _ in labels]
            expect(len(set(names)) == len(names), f'a label twice: {line!r}')
            expect((name, labels) not in values, f'twice: {line!r}')
            expect(types[family] == 'gauge' or value >= 0, f'below zero: {line!r}')
            values[name, labels] = value
            if histogram is None:
                expect(name == family, f'{name} stands in the family {family}')
                continue
            own = tuple(l for l in labels if l[0] != 'le')
            entry = histogram.setdefault(own, [[], None, None])
            if name == family + '_bucket':
                expect(names[-1:] == ['le'], f'no le: {line!r}')
                entry[0].append((float(labels[-1][1].replace('+Inf', 'inf')), value))
            elif name == family + '_sum':
                entry[1] = value
            else:
                expect(name == family + '_count', f'{name} stands in the family {family}')
                entry[2] = value
    close()
    expect(set(helps) == set(types), f'HELP without TYPE: {set(helps) ^ set(types)}')
    return values, types


class Metrics:
    def __init__(self, port):
        status, headers, text = ask(port, '/metrics', timeout=30)
        expect(status == 200, f'/metrics: {status} {text!r}')
        expect(headers['Content-Type'] == 'text/plain; version=0.0.4; charset=utf-8', headers)
        if IS_SELF_TEST:
            text = re.sub(r'^(rocketmq_messages_in_total\{.* )(\d+)$', lambda m: m[1] + str(int(m[2]) - 1), text, count=1, flags=re.M)
        self.text = text
        self.values, self.types = parse(text)

    def of(self, name, **labels):
        """The sum over all series that have these labels."""
        found = [v for (n, ls), v in self.values.items() if n == name and set(labels.items()) <= set(ls)]
        return sum(found) if found else None

    def must(self, name, value, **labels):
        got = self.of(name, **labels)
        expect(got == value, f'{name} {labels} is {got}, want {value}')


def run_fulmar(*arguments, namesrv, status=0):
    return run(*arguments, '-n', f'127.0.0.1:{namesrv}', status=status, timeout=60)


def lines_file(name, count, size=100):
    path = os.path.join(WORK, name)
    with open(path, 'w') as f:
        for i in range(count):
            f.write(f'{i:08d}'.ljust(size, '.') + '\n')
    return path


# --- cases ----------------------------------------------------------------------------------------------------------------------------------


def agrees_with_what_was_sent_and_consumed():
    server = Server().ready()
    expect(server.metrics, 'the ready line names no metrics port')
    run_fulmar('send', 'orders', '--file', lines_file('a', 500), '--quiet', namesrv=server.namesrv)
    run_fulmar('send', 'orders', '--file', lines_file('b', 20, 3000), '-p', '__SHARDINGKEY=k', '--quiet', namesrv=server.namesrv)
    run_fulmar('send', 'audit', '--file', lines_file('c', 30), '--quiet', namesrv=server.namesrv)
    m = Metrics(server.metrics)
    base = {'cluster': 'DefaultCluster', 'node_type': 'broker', 'node_id': 'dev'}
    m.must('rocketmq_messages_in_total', 500, topic='orders', message_type='normal', is_system='false', **base)
    m.must('rocketmq_messages_in_total', 20, topic='orders', message_type='fifo')
    m.must('rocketmq_messages_in_total', 30, topic='audit')
    m.must('rocketmq_message_size_count', 520, topic='orders')
    m.must('rocketmq_message_size_bucket', 500, topic='orders', le='1024')
    m.must('rocketmq_message_size_bucket', 520, topic='orders', le='4096')
    m.must('rocketmq_message_size_sum', m.of('rocketmq_throughput_in_total', topic='orders'), topic='orders')
    expect(m.of('rocketmq_throughput_in_total', topic='orders') > 500 * 100 + 20 * 3000, 'bytes are missing')
    m.must('rocketmq_messages_out_total', None)
    m.must('fulmar_sends_acknowledged_total', 550)
    m.must('rocketmq_rpc_latency_count', 550, response_code='success')
    m.must('rocketmq_broker_permission', 6)
    expect(m.of('fulmar_flushes_total') >= 3, 'no flushes')

    # Consumed in part: the lag is what is left, by the broker's own word on the group.
    run_fulmar('consume', 'orders', '-g', 'billing', '--from', 'first', '--count', '200', '--format', 'id', namesrv=server.namesrv)
    wait_for(lambda: Metrics(server.metrics).of('rocketmq_consumer_lag_messages', consumer_group='billing', topic='orders') == 320, 10,
             lambda: f"lag {Metrics(server.metrics).of('rocketmq_consumer_lag_messages', consumer_group='billing')}, want 320")
    m = Metrics(server.metrics)
    out = m.of('rocketmq_messages_out_total', topic='orders', consumer_group='billing')
    expect(out >= 200, f'{out} given out')   # more than it consumed: fetched ahead, some of it twice
    ready, inflight = (m.of(f'rocketmq_consumer_{w}_messages', consumer_group='billing', topic='orders') for w in ('ready', 'inflight'))
    expect(ready + inflight == 320 and ready >= 0 and inflight >= 0, f'ready {ready}, in flight {inflight}, given {out}')
    consumer = subprocess.Popen([FULMAR, 'consume', 'orders', '-g', 'billing', '--from', 'first', '--format', 'id', '-n', f'127.0.0.1:{server.namesrv}'], stdout=subprocess.DEVNULL)
    wait_for(lambda: Metrics(server.metrics).of('rocketmq_consumer_lag_messages', consumer_group='billing') == 0, 10, 'the lag does not go to 0')
    Metrics(server.metrics).must('rocketmq_consumer_connections', 1, consumer_group='billing', consume_mode='push')
    consumer.send_signal(signal.SIGTERM)
    consumer.wait()
    wait_for(lambda: Metrics(server.metrics).of('rocketmq_consumer_connections') is None, 15, 'the member stays')

    run_fulmar('topic', 'delete', 'audit', '--yes', namesrv=server.namesrv)
    Metrics(server.metrics).must('rocketmq_messages_in_total', None, topic='audit')
    expect(Metrics(server.metrics).of('rocketmq_messages_in_total', topic='orders') == 520, 'orders changed')
    m = Metrics(server.metrics)
    m.must('fulmar_namesrv_brokers', 1, node_type='nameserver')
    m.must('fulmar_namesrv_broker_writable', 1, broker='dev', broker_id='0')
    expect(m.of('fulmar_loop_steps_total', node='broker') > 100 and m.of('process_resident_memory_bytes') > 1 << 20, 'the process says nothing of itself')
    word = promtool(m.text)
    server.stop()
    return word


def promtool(text):
    """The second opinion, where there is one."""
    program = shutil.which('promtool')
    if program is None:
        return 'no promtool here'
    judged = subprocess.run([program, 'check', 'metrics'], input=text, capture_output=True, text=True)
    # Exit 3: it only dislikes names.
    expect(judged.returncode in (0, 3), f'promtool: {judged.returncode} {judged.stderr[-800:]}')
    disliked = [l for l in judged.stderr.splitlines() if not l.startswith('rocketmq_')]   # those are RocketMQ's
    expect(not disliked, f'promtool: {disliked}')
    return 'promtool agrees'


def survives_a_sender_that_is_killed():
    server = Server().ready()
    sender = subprocess.Popen([FULMAR, 'send', 'load', '--file', lines_file('d', 200_000), '--quiet', '-n', f'127.0.0.1:{server.namesrv}'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    before, scrapes = None, 0
    began = time.monotonic()
    while time.monotonic() - began < 3:
        m = Metrics(server.metrics)
        scrapes += 1
        if before is not None:
            for key, value in before.values.items():
                family = key[0] if key[0] in before.types else key[0].rsplit('_', 1)[0]
                if before.types[family] != 'gauge':
                    expect(m.values.get(key, -1) >= value, f'{key} falls from {value} to {m.values.get(key)}')
        before = m
        if time.monotonic() - began > 1.5 and sender.poll() is None:
            sender.kill()
            sender.wait()
    if sender.poll() is None:
        sender.kill()
        sender.wait()
    time.sleep(0.5)
    client = server.client()
    total = 0
    for queue in range(8):
        _, _, _, least, most = client.call(native.pull, 'load', queue, 0, count=1).pulled()
        total += most - least
    m = Metrics(server.metrics)
    expect(total > 0, 'nothing was sent')
    m.must('rocketmq_messages_in_total', total, topic='load')
    m.must('rocketmq_message_size_count', total, topic='load')
    server.stop()
    return f'{scrapes} scrapes under load, {total} messages in'


def links(server, descriptor):
    try:
        return os.readlink(f'/proc/{server.pid}/fd/{descriptor}')
    except OSError:
        return ''


def bounds_many_scrapes_and_refuses_what_is_none():
    server = Server().ready()
    for i in range(200):
        server_topic = f't{i:03d}'
        with server.client() as c:
            c.call(native.send, server_topic, b'x')
    port = server.metrics
    statuses, lock = [], threading.Lock()

    def scrape():
        try:
            status = ask(port, '/metrics', timeout=30)[0]
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
        with lock:
            statuses.append(status)
    threads = [threading.Thread(target=scrape) for _ in range(100)]
    for t in threads:
        t.start()
    with server.client() as c:
        begin = time.monotonic()
        for i in range(50):
            expect(c.call(native.send, 'beside', b'x').kind == native.SENT, 'a send beside the scrapes fails')
        took = time.monotonic() - begin
    for t in threads:
        t.join()
    expect(statuses.count(200) >= 10, f'{statuses}')
    expect(took < 10 * TIME_FACTOR, f'50 sends took {took:.1f} s')
    m = Metrics(port)
    expect(sum(1 for (n, l) in m.values if n == 'rocketmq_messages_in_total') == 201, 'topics are missing')

    expect(ask(port, '/metrics', 'HEAD')[0] == 200 and ask(port, '/healthz', 'HEAD')[0] == 200, 'HEAD')
    for method in ('POST', 'PUT', 'DELETE', 'OPTIONS'):
        expect(ask(port, '/metrics', method)[0] == 405, method)
    for path in ('/', '/metric', '/metrics/', '/../etc/passwd'):
        expect(ask(port, path)[0] == 404, path)
    for junk in (b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' * 20, b'FULMAR\0\1' + b'\0' * 100 + b'\r\n\r\n', b'GET\r\n\r\n', b'GET /' + b'a' * 70_000 + b' HTTP/1.1\r\n\r\n', b'\r\n' * 5000,
                 b'GET /healthz HTTP/1.1\r\n' + b'X: y\r\n' * 20_000 + b'\r\n', b'GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n'):
        with socket.create_connection(('127.0.0.1', port), timeout=20 * TIME_FACTOR) as s:
            try:
                s.sendall(junk)
                s.shutdown(socket.SHUT_WR)
                answer = b''
                while more := s.recv(65536):
                    answer += more
            except OSError:
                answer = b''
            expect(answer == b'' or answer[9:10] in b'45', f'{junk[:30]!r} was answered {answer[:60]!r}')
    expect(ask(port, '/healthz')[0] == 200, 'not well after junk')
    # Connections that say nothing take all places, and are closed for it.
    idle = [socket.create_connection(('127.0.0.1', port), timeout=5) for _ in range(60)]
    begin = time.monotonic()

    def is_well():
        try:
            return ask(port, '/healthz', timeout=3)[0] == 200
        except OSError:
            return False
    wait_for(is_well, 30, 'silent connections keep everybody out')
    waited = time.monotonic() - begin
    for s in idle:
        s.close()
    wait_for(lambda: sum(1 for d in os.listdir(f'/proc/{server.pid}/fd') if links(server, d).startswith('socket:')) < 20, 20, 'sockets are left open')
    server.stop()
    return f'{statuses.count(200)} of 100 scrapes at once served, the others refused; {waited:.0f} s until 60 silent connections are out of the way'


PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


def a_stuck_loop_is_told_in_time():
    server = Server().ready()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    loops = {open(f'/proc/{server.pid}/task/{t}/comm').read().strip(): int(t) for t in os.listdir(f'/proc/{server.pid}/task')}
    expect('broker' in loops, f'no thread is called broker: {sorted(loops)}')
    thread = loops['broker']
    if libc.ptrace(PTRACE_SEIZE, thread, None, None) != 0:
        server.stop()
        return f'SKIPPED: a thread cannot be stopped here ({os.strerror(ctypes.get_errno())})'
    libc.ptrace(PTRACE_INTERRUPT, thread, None, None)
    os.waitpid(thread, WALL)
    try:
        for path in ('/healthz', '/readyz', '/metrics'):
            begin = time.monotonic()
            status, _, text = ask(server.metrics, path)
            took = time.monotonic() - begin
            expect(status == 503 and 'broker: its loop has not answered' in text, f'{path} of a stuck loop: {status} {text!r}')
            expect(took < 3 * TIME_FACTOR, f'{path} of a stuck loop takes {took:.1f} s')
        results = []
        threads = [threading.Thread(target=lambda: results.append(ask(server.metrics, '/healthz')[0])) for _ in range(20)]
        begin = time.monotonic()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        expect(results == [503] * 20 and time.monotonic() - begin < 5 * TIME_FACTOR, f'{results} in {time.monotonic() - begin:.1f} s')
    finally:
        libc.ptrace(PTRACE_DETACH, thread, None, None)
    wait_for(lambda: ask(server.metrics, '/healthz')[0] == 200, 5, 'not well when the loop goes on')
    Metrics(server.metrics)
    server.stop()
    return 'the loop was stopped by ptrace'


def is_not_ready_while_it_recovers():
    store, port = os.path.join(WORK, 'recovering'), free_port()
    arguments = ['--metrics', f'127.0.0.1:{port}', '--set', 'mappedFileSizeCommitLog=134217728', '--set', 'flushDiskType=ASYNC_FLUSH']
    server = Server(*arguments, directory=store, verb='broker').ready()
    expect(server.metrics == port, f'the ready line says {server.metrics}')
    client = server.client()
    packed = bytearray()
    for i in range(1000):   # RocketMQ's client batch
        body = b'%08d' % i
        item = b'\0\0\0\0\0\0\0\0\0\0\0\0' + len(body).to_bytes(4, 'big') + body + b'\0\0'
        packed += (len(item) + 4).to_bytes(4, 'big') + item
    for i in range(300):
        reply = client.call(native.send_batch, 'many', bytes(packed))
        expect(reply.kind == native.SENT, str(reply))
    Metrics(port).must('rocketmq_messages_in_total', 300_000, topic='many')
    server.kill()
    # Everything that makes a start short goes: it has to read the whole log.
    for name in ('consumequeue', 'index', 'checkpoint', 'queues.fulmar'):
        path = os.path.join(store, name)
        shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)
    again = Server(*arguments, directory=store, verb='broker')
    seen, alive = [], set()
    until = time.monotonic() + 60 * TIME_FACTOR
    while time.monotonic() < until:
        try:
            status, _, text = ask(port, '/readyz')
            if status == 503 and 'recovering' in text:
                alive.add(ask(port, '/healthz')[0])
                if 'recovering' in ask(port, '/readyz')[2]:
                    code, _, page = ask(port, '/metrics')
                    expect(code == 200 and 'fulmar_broker_ready{' in page, f'/metrics while it recovers: {code}')
                    parse(page)
        except OSError:
            continue   # not yet
        if not seen or seen[-1] != (status, text):
            seen.append((status, text))
        if status == 200:
            break
    again.ready(60)
    expect(seen[-1][0] == 200, f'never ready: {seen}')
    expect(any(s == 503 and 'recovering' in t for s, t in seen), f'it was never seen recovering: {seen}')
    expect(alive <= {200}, f'/healthz while it recovers: {alive}')
    again.stop()
    return f'{len(seen) - 1} answers before it was ready, such as {next(t for s, t in seen if "recovering" in t).strip()!r}'


def is_not_ready_without_any_name_server():
    def name_server(port, metrics):
        process = subprocess.Popen([FULMAR, 'namesrv', '--listen', f'127.0.0.1:{port}', '--metrics', f'127.0.0.1:{metrics}', '--json'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        Server.everyone.append(process)
        expect(f'"metricsPort":{metrics}' in process.stdout.readline().decode(), 'the ready line of a name server names no metrics port')
        return process
    port, metrics = free_port(), free_port()
    first = name_server(port, metrics)
    expect(ask(metrics, '/readyz')[0] == 200 and ask(metrics, '/healthz')[0] == 200, 'a name server is not ready')
    broker = Server('-n', f'127.0.0.1:{port}', '--metrics', '127.0.0.1:0', '--set', 'registerNameServerPeriod=200', verb='broker').ready()
    wait_for(lambda: ask(broker.metrics, '/readyz')[0] == 200, 10, lambda: f"never ready: {ask(broker.metrics, '/readyz')}")
    wait_for(lambda: Metrics(metrics).of('fulmar_namesrv_brokers') == 1, 10, 'the name server knows no broker')
    first.kill()
    first.wait()
    wait_for(lambda: ask(broker.metrics, '/readyz')[0] == 503, 15, 'ready without name servers')
    status, _, text = ask(broker.metrics, '/readyz')
    expect('registered with none of 1 name servers' in text, text)
    expect(ask(broker.metrics, '/healthz')[0] == 200, 'not alive without name servers')
    Metrics(broker.metrics).must('fulmar_broker_ready', 0)
    expect(Metrics(broker.metrics).of('fulmar_events_total', level='warning', event='NameServerLost') >= 1, 'the warning is not counted')
    second = name_server(port, metrics)
    wait_for(lambda: ask(broker.metrics, '/readyz')[0] == 200, 15, 'not ready again')
    broker.stop()
    second.send_signal(signal.SIGTERM)
    expect(second.wait(timeout=15) == 0, 'the name server does not stop')
    return text.strip()


def a_taken_port_is_a_start_failure():
    server = Server().ready()
    words = ('metrics port', str(server.metrics), '--metrics')
    Server('--metrics', f'127.0.0.1:{server.metrics}').refused(1, *words)
    run('namesrv', '--listen', '127.0.0.1:0', '--metrics', f'127.0.0.1:{server.metrics}', status=1, words=words)
    run('broker', '--store', os.path.join(WORK, 'x'), '--listen', '127.0.0.1:0', '--metrics', '127.0.0.1:70000', status=2, words=('--metrics', '65535'))
    run('broker', '--store', os.path.join(WORK, 'x'), '--listen', '127.0.0.1:0', '--metrics', 'no.such.host.invalid:1', status=1, words=('does not resolve', '--metrics'))
    run('broker', '--store', os.path.join(WORK, 'x'), '--listen', '127.0.0.1:0', '--set', 'metricsExporterType=OTLP_GRPC', status=2, words=('DISABLE nor PROM',))
    expect(ask(server.metrics, '/healthz')[0] == 200, 'the first one is harmed')
    server.stop()
    silent = Server('--metrics', 'off').ready()
    expect(silent.metrics is None, 'a metrics port nobody wants')
    silent.stop()
    plain = Server(verb='broker').ready()
    expect(plain.metrics is None, 'a broker has a metrics port that nobody asked for')
    plain.stop()
    told = Server('--set', 'metricsExporterType=PROM', '--set', 'metricsPromExporterPort=0', '--set', 'metricsPromExporterHost=127.0.0.1', verb='broker').ready()
    expect(ask(told.metrics, '/readyz')[0] == 200, 'RocketMQ\'s keys')
    told.stop()


CASES = [agrees_with_what_was_sent_and_consumed, survives_a_sender_that_is_killed, bounds_many_scrapes_and_refuses_what_is_none, a_stuck_loop_is_told_in_time,
         is_not_ready_while_it_recovers, is_not_ready_without_any_name_server, a_taken_port_is_a_start_failure]

# --- the parser, judged ---------------------------------------------------------------------------------------------------------------------

GOOD = ('# HELP a_total All\n# TYPE a_total counter\na_total{t="x\\"y"} 1\na_total{t="z"} 2.5\n'
        '# HELP h Sizes\n# TYPE h histogram\nh_bucket{le="1"} 1\nh_bucket{le="+Inf"} 3\nh_sum 9\nh_count 3\n')
SPOILT = [('All\n', 'All'), ('# TYPE a_total counter\n', ''), ('counter', 'gauge'), ('{t="z"}', '{t="x\\"y"}'), ('{t="z"}', '{t="z",t="z"}'), ('x\\"y', 'x"y'), ('} 2.5', '} '),
          ('} 2.5', '} -2.5'), ('a_total{t="z"}', 'b_total{t="z"}'), ('h_bucket{le="1"} 1', 'h_bucket{le="1"} 4'), ('le="1"', 'le="x1"'), ('h_bucket{le="+Inf"} 3\n', ''), ('h_count 3', 'h_count 4'),
          ('h_sum 9\n', ''), ('# HELP h Sizes\n', ''), ('# HELP h Sizes\n', '# HELP a_total Again\n'), ('h_count 3\n', 'h_count 3')]


def judge_the_parser():
    parse(GOOD)
    for before, after in SPOILT:
        spoilt = GOOD.replace(before, after, 1)
        if spoilt == GOOD:
            raise SystemExit(f'{before!r} is not there')
        try:
            parse(spoilt)
        except (Failure, ValueError):
            continue
        raise SystemExit(f'the parser takes {spoilt!r}')


judge_the_parser()
passed = failed = 0
try:
    for case in CASES:
        if wanted not in case.__name__ or (IS_SELF_TEST and case is not CASES[0]):
            continue
        begin = time.monotonic()
        try:
            word = case()
            passed += 1
            print(f'ok   {case.__name__} ({time.monotonic() - begin:.1f} s){": " + word if word else ""}', flush=True)
        except Exception as error:
            failed += 1
            line = next((f.lineno for f in reversed(traceback.extract_tb(error.__traceback__)) if 'metrics' in f.filename), 0)
            print(f'FAIL {case.__name__}: line {line}: {"" if isinstance(error, Failure) else type(error).__name__ + ": "}{str(error)[:800]}', flush=True)
finally:
    clean_up()
print(f'{passed} passed, {failed} failed')
if IS_SELF_TEST:
    print('self-test: the missing message was noticed' if failed else 'self-test: A MISSING MESSAGE WAS NOT NOTICED')
    sys.exit(0 if failed else 1)
sys.exit(1 if failed or not passed else 0)
