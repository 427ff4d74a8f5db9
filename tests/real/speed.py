#!/usr/bin/env python3
"""What a message costs in steady state, beside the yardstick broker and Redis of the same minutes: CPU seconds of the broker per million messages, all
its threads, over segments that are recycled (4 files of 256 MiB are kept).

    tests/real/speed.py [--rounds N] [--judge] [--bin build/release/bin]

$FULMAR_LIMITS names the directory in which tools/limits was built (toybroker, peerbench); without it there is no yardstick, without redis-server no
Redis. Rounds alternate: yardstick, ours, one second each; medians, and ratios of the pairs. --judge: exit 1 when a goal is missed. Goals hold for a machine
with two cores to itself; beside other work read the ratios."""
import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

options = argparse.ArgumentParser()
options.add_argument('--rounds', type=int, default=3)
options.add_argument('--judge', action='store_true')
options.add_argument('--bin', default='build/release/bin')
options = options.parse_args()
limits = os.environ.get('FULMAR_LIMITS', '')
has_yardstick = all(os.path.exists(f'{limits}/{p}') for p in ('toybroker', 'peerbench'))
work = tempfile.mkdtemp(prefix='speed', dir=os.environ.get('FULMAR_SPEED_DIR'))   # 5 GiB are needed
running, missed = [], []
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))   # what was started is ended all the same


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, port, command):
        self.port = port
        with open(f'{work}/server.log', 'ab') as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        running.append(self)
        for _ in range(3000):
            try:
                socket.create_connection(('127.0.0.1', port)).close()
                return
            except OSError:
                time.sleep(0.01)
        sys.exit(f'speed: {command[0]} does not answer, see {work}/server.log')

    def stop(self):
        running.remove(self)
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        time.sleep(0.1)


def fulmar(flush, keep_bytes=1 << 30):
    port = free_port()
    shutil.rmtree(f'{work}/store', ignore_errors=True)
    with open(f'{work}/broker.conf', 'w') as conf:
        conf.write(f'autoCreateTopicEnable=true\ndefaultTopicQueueNums=16\nmappedFileSizeCommitLog=268435456\nretainBytesMax={keep_bytes}\n'
                   f'flushDiskType={flush}\nlistenHost=127.0.0.1\nlistenPort={port}\n')
    return Server(port, [f'{options.bin}/fulmar', 'broker', '-c', f'{work}/broker.conf', '--store', f'{work}/store'])


def load(server, **settings):
    """(messages/s, CPU s/M of the broker, p50 and p99 in us)"""
    words = [f'{options.bin}/bench_load', '--port', str(server.port), '--pid', str(server.process.pid)]
    for name, value in {'secs': 1, 'warm': 0.5, 'reps': 1, **settings}.items():
        words += [f'--{name}', str(value)]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    if 'count' in settings:
        return None
    return tuple(float(re.search(p, text)[1]) for p in (r'(\d+) \[\d+\.\.\d+\] msg/s', r'broker ([\d.]+)', r'p50 (\d+)', r'p99 (\d+)'))


def peer(server, *words, **settings):
    words = [f'{limits}/peerbench', '--port', str(server.port), '--pid', str(server.process.pid), *words]
    for name, value in {'secs': 1, 'warm': 0.5, 'reps': 1, 'queues': 16, **settings}.items():
        words += [f'--{name}', str(value)]
    f = subprocess.run(words, check=True, capture_output=True, text=True).stdout.rstrip('\n').split('\t')
    text = ' '.join(f)
    return float(f[6]), float(re.search(r'([\d.]+) \[[\d.]+\.\.[\d.]+\] cpu-s/M', text)[1]), float(re.search(r'p50 (\d+)', text)[1]), float(re.search(r'p99 (\d+)', text)[1])


def toy(flush):
    port = free_port()
    shutil.rmtree(f'{work}/toy', ignore_errors=True)
    os.makedirs(f'{work}/toy')
    return Server(port, [f'{limits}/toybroker', '--dir', f'{work}/toy', '--port', str(port), '--flush', flush, '--recycle', '2'])


def median(values):
    return statistics.median(values)


def spread(values):
    return f'{median(values):.2f} [{min(values):.2f}..{max(values):.2f}]'


def judge(what, value, goal, is_least=False):
    is_met = value >= goal if is_least else value <= goal
    if not is_met:
        missed.append(what)
    return f'{"ok" if is_met else "MISSED"} (goal {">=" if is_least else "<="} {goal})'


def sends():
    goals = {('ASYNC_FLUSH', 128): (0.8, 2.3), ('ASYNC_FLUSH', 1024): (1.4, 2.0), ('SYNC_FLUSH', 128): (1.1, 2.3), ('SYNC_FLUSH', 1024): (1.9, 2.0)}
    for flush in ('ASYNC_FLUSH', 'SYNC_FLUSH'):
        yardstick = toy(flush[:-6].lower()) if has_yardstick else None
        broker = fulmar(flush)
        load(broker, size=1024, count=1_400_000)   # 1.7 GB: what is written from here on was written before
        for size in (128, 1024):
            theirs, ours = [], []
            for _ in range(options.rounds):
                if yardstick:
                    theirs.append(peer(yardstick, '--proto', 'rocketmq', '--binary', '1', conns=16, window=256, size=size)[1])
                ours.append(load(broker, conns=16, window=256, size=size)[1])
            goal, ratio_goal = goals[flush, size]
            print(f'send {flush} {size} B, 16 x 256: {spread(ours)} s/M, {judge(f"{flush} {size}", median(ours), goal)}', flush=True)
            if yardstick:
                ratios = [o / t for o, t in zip(ours, theirs) if t > 0]
                print(f'  yardstick {spread(theirs)} s/M, ratio {spread(ratios)}, {judge(f"ratio of {flush} {size}", median(ratios), ratio_goal)}', flush=True)
        if flush == 'ASYNC_FLUSH':
            theirs, ours = [], []
            for _ in range(options.rounds):
                if yardstick:
                    theirs.append(peer(yardstick, '--proto', 'rocketmq', '--binary', '1', conns=1, window=1, size=1024)[2])
                ours.append(load(broker, conns=1, window=1, size=1024)[2])
            print(f'ack each, 1 connection, 1 KiB: p50 {median(ours):.0f} us' +
                  (f', yardstick {median(theirs):.0f} us, ratio {median(ours) / median(theirs):.2f}, {judge("ack each", median(ours) / median(theirs), 1.5)}' if theirs else ''), flush=True)
        else:
            ours = [load(broker, conns=16, window=1, size=1024)[0] for _ in range(options.rounds)]
            theirs = []
            if limits and shutil.which('redis-server'):
                port = free_port()
                os.makedirs(f'{work}/redis')
                redis = Server(port, ['redis-server', '--bind', '127.0.0.1', '--port', str(port), '--appendonly', 'yes', '--appendfsync', 'always', '--dir', f'{work}/redis',
                                      '--save', '', '--auto-aof-rewrite-percentage', '0'])
                theirs = [peer(redis, '--proto', 'redis', conns=16, window=1, size=1024, queues=1)[0] for _ in range(options.rounds)]
                redis.stop()
            print(f'ack each, SYNC_FLUSH, 16 connections, 1 KiB: {median(ours):.0f} msg/s' +
                  (f', Redis always {median(theirs):.0f} msg/s, ratio {median(ours) / median(theirs):.2f}, {judge("16 writers and Redis", median(ours) / median(theirs), 2, True)}' if theirs else ''), flush=True)
        broker.stop()
        if yardstick:
            yardstick.stop()


def consumes():
    broker = fulmar('ASYNC_FLUSH')
    load(broker, size=1024, count=500_000)
    for conns in (1, 4):
        costs = [load(broker, pull=256, conns=conns)[1] for _ in range(options.rounds)]
        print(f'consume 1 KiB, 256 a pull, {conns} connections: {spread(costs)} s/M, {judge(f"consume with {conns}", median(costs), 0.5)}', flush=True)
    broker.stop()


def cold_reader():
    """p99 of sends of 1 KiB, 16 connections with one in flight each, without and with a reader of what left the page cache."""
    broker = fulmar('ASYNC_FLUSH', 8 << 30)
    load(broker, size=1024, count=2_500_000)
    is_over = threading.Event()

    def forget():
        while not is_over.wait(0.2):
            for name in sorted(os.listdir(f'{work}/store/commitlog'))[:-1]:
                with open(f'{work}/store/commitlog/{name}', 'rb') as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    alone, beside, rates = [], [], []
    for _ in range(options.rounds):
        alone.append(load(broker, conns=16, window=1, size=1024, secs=2)[3])
        is_over.clear()
        forgetting = threading.Thread(target=forget)
        forgetting.start()
        reader = threading.Thread(target=lambda: rates.append(load(broker, pull=256, conns=1, secs=3, warm=0.1)[0]))
        reader.start()
        beside.append(load(broker, conns=16, window=1, size=1024, secs=2)[3])
        reader.join()
        is_over.set()
        forgetting.join()
    ratio = median(beside) / median(alone)
    print(f'p99 of hot sends, 16 connections: alone {median(alone):.0f} us, beside a cold reader at {median(rates):.0f} msg/s {median(beside):.0f} us, '
          f'ratio {ratio:.2f}, {judge("cold reader", ratio, 2)}', flush=True)
    broker.stop()


try:
    if not has_yardstick:
        print('no yardstick: FULMAR_LIMITS does not name the directory of toybroker and peerbench')
    print(f'load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs')
    sends()
    consumes()
    cold_reader()
    print(f'load average {os.getloadavg()[0]:.1f}; ' + (f'{len(missed)} goals missed: {", ".join(missed)}' if missed else 'every goal met'))
finally:
    for server in list(running):
        server.process.kill()
        server.process.wait()
    shutil.rmtree(work, ignore_errors=True)
sys.exit(1 if missed and options.judge else 0)
