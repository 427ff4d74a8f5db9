"""What operators and newcomers meet: typos, names taken twice, queues that would vanish, full disks, signals, and the verbs that help."""
import json
import os
import shutil
import signal
import subprocess
import time

import native as n
from badinput_start import file_of, fill, limited
from harness import FULMAR, SMALL, TIME_FACTOR, WORK, Ended, Failure, Server, Witness, expect, free_port, run, wait_for

CASES = []


def case(function):
    CASES.append((function.__doc__, function))
    return function


class NameServer:
    """`fulmar namesrv` on a free port."""

    def __init__(self):
        self.process = subprocess.Popen([FULMAR, 'namesrv', '--listen', '127.0.0.1:0', '--json'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        Server.everyone.append(self.process)
        self.address = f'127.0.0.1:{json.loads(self.process.stdout.readline())["port"]}'

    def stop(self):
        self.process.terminate()
        expect(self.process.wait(timeout=10 * TIME_FACTOR) == 0, 'the name server did not stop cleanly')


def broker(name_server, *arguments, name='broker-a', **options):
    return Server('-n', name_server.address, '--set', f'brokerName={name}', *arguments, verb='broker', **options).ready()


def registered(name_server, count):
    def is_so():
        lines = run('cluster', 'list', '-n', name_server.address, '--json').out.splitlines()
        return len(lines) == count
    wait_for(is_so, 10, f'not {count} brokers are registered')


# --- command lines ------------------------------------------------------------------------------------------------------------------------


@case
def typos():
    """a typo in any verb or flag of both programs: exit 2, one sentence, the nearest name"""
    simulator = os.path.join(os.path.dirname(FULMAR), 'fulmar-sim')
    for arguments, words in ((['brokr'], ["'broker'"]), (['topic', 'lst'], ["'list'", 'topic']), (['topic'], ['list', 'describe']), (['topic', 'list', '--jsn'], ["'--json'", 'topic list']), (['send', 't', 'x', '--wnidow', '3'], ["'--window'"]),
                             (['store', 'verfy', 'x'], ["'verify'"]), (['bench', '--conections', '3'], ["'--connections'"]), (['status', 'a', 'b'], ['too many']), (['completion', 'tcsh'], ['bash']), ([], ['a verb is missing']),
                             (['broker', '--stor', 'x'], ["'--store'"]), (['consume', 't', '-g', 'g', '--count', '-3'], ['--count', 'not negative']), (['consume', 't', '-g', 'g', '--idle-ms', '-1'], ['--idle-ms']), (['xyzzy'], ['there are: dev'])):
        ended = run(*arguments, status=2, words=words)
        expect(ended.err.count('\n') == 1 and ended.err.startswith('fulmar: '), f'{arguments}: not one sentence: {ended.err!r}')
    expect('did you mean' not in run('xyzzy').err, 'a name that is not near is suggested')
    if os.path.exists(simulator):
        for arguments, words in ((['bogus'], ['bogus', 'swarm']), (['swarn'], ["'swarm'"]), (['run', '--sed', '1'], ["'--seed'"])):
            ended = run(*arguments, command=[simulator])
            expect(ended.status == 2 and all(w in ended.err for w in words), f'fulmar-sim {arguments}: {ended.status} {ended.err!r}')


@case
def java_properties():
    """configuration files as Java writes them; what is wrong names file and line, or --set"""
    path = os.path.join(WORK, 'java.conf')
    with open(path, 'w') as f:
        f.write('# comment\nbrokerName: java-a\nnamesrvAddr=127.0.0.1\\:1;\\\n   127.0.0.1:2\nlistenPort 0\nbrokerId=3\nbrokerId=0\n')
    run('config', 'check', path, status=0)
    expect('line 6' in run('config', 'check', path).out and 'line 7' in run('config', 'check', path).out, 'a key set twice is not told')
    with open(path, 'a') as f:
        f.write('flushDiskTyp=SYNC_FLUSH\n')
    store = ['--store', os.path.join(WORK, 'java'), '--listen', '127.0.0.1:0']
    run('broker', '-c', path, *store, status=2, words=[f'{path}, line 8: flushDiskTyp', 'flushDiskType'])
    ended = run('broker', '-c', path, '--set', 'xyzzyplugh=1', *store, status=2, words=['--set xyzzyplugh', 'config explain'])
    expect('nearest' not in next(line for line in ended.err.splitlines() if 'xyzzy' in line), ended.err)
    Server('-c', path, '--set', 'flushDiskTyp=1', verb='broker').refused(2, '--set flushDiskTyp')
    # Keys that must go together may stand in different places.
    with open(path, 'w') as f:
        f.write('retainBytesMax=4194304\nnamesrvAddr=127.0.0.1:1\n')
    run('broker', '-c', path, *store, status=2, words=['retainBytesMax', 'mappedFileSizeCommitLog'])
    Server('-c', path, '--set', 'mappedFileSizeCommitLog=1048576', verb='broker').ready().stop()


@case
def shells():
    """completion scripts are sound and complete; the manual page names every verb"""
    script = run('completion', 'bash', status=0).out
    probe = script + '\nCOMP_WORDS=(fulmar topic de); COMP_CWORD=2; _fulmar; echo "${COMPREPLY[@]}"\nCOMP_WORDS=(fulmar topic list --j); COMP_CWORD=3; _fulmar; echo "${COMPREPLY[@]}"\n'
    answer = subprocess.run(['bash', '-c', probe], capture_output=True, text=True)
    expect(answer.stdout.split() == ['describe', 'delete', '--json'] and not answer.stderr, f'bash completes {answer.stdout!r} {answer.stderr!r}')
    expect(run('completion', 'zsh', status=0).out.startswith('#compdef fulmar'), 'zsh')
    expect("-a describe" in run('completion', 'fish', status=0).out, 'fish')
    page = run('man', status=0).out
    expect(page.startswith('.TH fulmar 1') and '.SH "fulmar store repair"' in page and 'EXIT STATUS' in page, page[:200])


# --- what is refused at once --------------------------------------------------------------------------------------------------------------


@case
def refused_at_once():
    """sends to a queue that is not there or a topic that takes nothing, SQL filters: refused within a second, never waited for"""
    server = Server().ready()
    at = ['-n', f'127.0.0.1:{server.namesrv}']
    run('topic', 'create', 'some', '-q', '4', *at, status=0)
    run('topic', 'create', 'closed', '--perm', '4', *at, status=0)
    time.sleep(1.2)   # the name server has heard of both
    for arguments, words in ((['send', 'some', 'x', '-q', '99'], ['queue 99', '4']), (['send', 'closed', 'x'], ['closed takes no messages']), (['send', 'closed', 'x', '-q', '1'], ['takes no messages']),
                             (['consume', 'some', '-g', 'g', '-s', 'price > 5 AND a = 1'], ['SQL92', 'tags'])):
        begin = time.monotonic()
        run(*arguments, *at, status=1, words=words)
        took = time.monotonic() - begin
        expect(took < 2 * TIME_FACTOR, f'{arguments}: {took:.1f} s')
    server.stop()


@case
def queues_that_hold_messages():
    """fewer read queues than hold messages: refused with their names; fewer write queues: fine, and everything stays readable"""
    server = Server().ready()
    at = ['-n', f'127.0.0.1:{server.namesrv}']
    run('topic', 'create', 'shrink', '-q', '6', *at, status=0)
    with server.client() as client:
        for queue in (0, 4, 5, 5):
            expect(client.call(n.send, 'shrink', b'x', queue=queue).kind == n.SENT, 'a send')
    run('topic', 'create', 'shrink', '-q', '4', *at, status=1, words=['queue 4 holds 1', 'queue 5 holds 2', 'write queues'])
    run('topic', 'create', 'shrink', '-r', '6', '-w', '2', *at, status=0)
    ended = run('consume', 'shrink', '-g', 'g', '--count', '4', *at, status=0)
    expect(len(ended.out.splitlines()) == 4, ended.out)
    run('topic', 'perm', 'shrink', '4', *at, status=0, words=[])
    told = json.loads(run('topic', 'describe', 'shrink', '--json', *at, status=0).out)
    expect((told['readQueueNums'], told['writeQueueNums'], told['perm']) == (6, 2, 4), str(told))
    server.stop()


# --- who is there -------------------------------------------------------------------------------------------------------------------------


@case
def nobody_there():
    """a name server without brokers, a broker that is gone: every verb that asks one exits with 3 and says so"""
    name_server = NameServer()
    at = ['-n', name_server.address]
    verbs = (['topic', 'list'], ['topic', 'list', '--json'], ['cluster', 'list'], ['status'], ['topic', 'create', 't'], ['topic', 'delete', 't', '--yes'], ['message', 'view', '0'], ['send', 't', 'x'])
    for arguments in verbs:
        run(*arguments, *at, status=3, words=['no broker is', 'known' if arguments[0] in ('message',) or arguments[1:2] in (['create'], ['delete']) else 'registered'])
    server = broker(name_server)
    registered(name_server, 1)
    run('topic', 'create', 't', *at, status=0)
    wait_for(lambda: run('topic', 'route', 't', *at).status == 0, 5, 'no route')
    server.kill()
    for arguments in (['topic', 'describe', 't'], ['status'], ['topic', 'create', 'u']):
        run(*arguments, *at, status=3)
    run('cluster', 'list', *at, status=1, words=['broker-a', 'does not answer'])
    name_server.stop()


@case
def one_name_twice():
    """two brokers with one name and id: the live one keeps it, the second is told both addresses, the route stands still"""
    name_server = NameServer()
    at = ['-n', name_server.address]
    first = broker(name_server)
    registered(name_server, 1)
    second = broker(name_server)
    wait_for(lambda: 'NO_PERMISSION' in second.said(), 5, lambda: 'the second says nothing: ' + second.said()[-500:])
    for address in (f'127.0.0.1:{first.port} is alive', f'127.0.0.1:{second.port} is refused', 'brokerName'):
        expect(address in second.said(), f'{address!r} is missing: {second.said()[-600:]}')
    seen = set()
    for _ in range(15):
        seen.add(json.loads(run('cluster', 'list', *at, '--json', status=0).out)['address'])
        time.sleep(0.1)
    expect(seen == {f'127.0.0.1:{first.port}'}, f'the route goes to {seen}')
    expect(second.said().count('NO_PERMISSION') == 1, 'told more than once')
    expect('is refused' in run('status', f'127.0.0.1:{second.port}', status=0).out, 'the status does not tell')
    ended = run('doctor', '--store', second.store, '--listen', f'127.0.0.1:{second.port}', *at)
    expect(ended.status == 1 and 'each needs a brokerName' in ended.out, ended.out)
    second.stop()
    time.sleep(0.3)
    expect(json.loads(run('cluster', 'list', *at, '--json', status=0).out)['address'] == f'127.0.0.1:{first.port}', 'the goodbye of the second took the first away')
    first.kill()   # its connection is gone: another may take the name at once
    third = broker(name_server)
    wait_for(lambda: f':{third.port}' in run('cluster', 'list', *at, '--json').out, 5, 'a broker that moved is not taken')
    third.stop()
    name_server.stop()


@case
def partial_delete():
    """a topic deleted on one of two brokers only: exit 1, with the names of both"""
    name_server = NameServer()
    at = ['-n', name_server.address]
    first, second = broker(name_server, name='a'), broker(name_server, name='b')
    registered(name_server, 2)
    run('topic', 'create', 't', *at, status=0)
    wait_for(lambda: len(run('topic', 'route', 't', '--json', *at).out.splitlines()) == 2, 5, 'no route to both')
    second.process.send_signal(signal.SIGSTOP)
    run('topic', 'delete', 't', '--yes', *at, status=1, words=['done by a', 'b '])
    second.process.send_signal(signal.SIGCONT)
    wait_for(lambda: run('topic', 'delete', 't', '--yes', *at).status in (0, 1), 5, 'again')
    first.stop()
    second.stop()
    name_server.stop()


# --- stores -------------------------------------------------------------------------------------------------------------------------------


@case
def damaged_queue():
    """garbage in a queue file, at its head or in its middle: told, nothing is passed over, the next start has everything"""
    server, witness = fill(200)
    for begin, end in ((0, 64), (20 * 7, 20 * 8)):
        directory = os.path.join(WORK, f'queue{begin}')
        subprocess.run(['cp', '-a', '--sparse=always', server.directory, directory], check=True)
        path = os.path.join(directory, 'broker', 'consumequeue', 'witness', '0', '0' * 20)
        with open(path, 'r+b') as f:
            f.seek(begin)
            f.write(b'\x5a' * (end - begin))
        damaged = Server(directory=directory).ready()
        with damaged.client() as client:
            at, bad = 0, begin // 20
            while (reply := client.call(n.pull, 'witness', 0, at, count=1024)).kind == n.PULLED and at < bad:
                expect([r[1] for r in n.records(reply.attachment)] == list(range(at, reply.pulled()[2])), f'passed over something from {at} on')
                at = reply.pulled()[2]
            expect(at == bad and reply.kind == n.REFUSAL and f'damaged at offset {bad}' in str(reply), f'at {at}: {reply}')
            expect(client.call(n.status).status()['brokenQueues'] == '1', 'the status')
            expect('QueueEntryDamaged' in damaged.said(), damaged.said()[-300:])
        damaged.stop()
        again = Server(directory=directory).ready()
        with again.client() as client:
            witness.check(client)
        again.stop()


@case
def verify_without_checkpoint():
    """damage in the middle of a log whose checkpoint is gone: store verify says what it cannot know, exit 1; repair cuts, rebuild builds"""
    server, witness = fill(200)
    log = file_of(server.store, 'commitlog')
    run('store', 'verify', server.store, status=0)
    run('store', 'rebuild', server.store, '--dry-run', status=0)
    run('store', 'rebuild', server.store, '--set', 'mappedFileSizeConsumeQueue=60000', status=1, words=['not rebuilt'])
    run('store', 'rebuild', server.store, '--set', 'mappedFileSizeConsumeQueue=60000', '--yes', status=0)
    again = Server(directory=server.directory).ready()
    with again.client() as client:
        witness.check(client)
    run('store', 'repair', server.store, status=1, words=[str(again.pid), 'stop it first'])
    again.stop()
    os.unlink(os.path.join(server.store, 'checkpoint'))
    with open(log, 'r+b') as f:
        f.seek(30_000)
        f.write(b'\xff' * 100)
    ended = run('store', 'verify', server.store)
    expect(ended.status == 1 and 'cannot be told without the checkpoint' in ended.out, f'{ended.status} {ended.out}')
    expect('would cut the log at' in run('store', 'repair', server.store, '--dry-run', status=0).out, 'dry run')
    run('store', 'repair', server.store, status=1, words=['not repaired'])
    run('store', 'repair', server.store, '--yes', status=0)
    run('store', 'verify', server.store, status=0)
    repaired = Server(directory=server.directory).ready()
    with repaired.client() as client:
        expect(client.call(n.send, 'witness', b'after the repair', queue=0).kind == n.SENT, 'it takes no messages')
        served = n.records(client.call(n.pull, 'witness', 0, 0, count=1024).attachment)
        for q, at, _, _, body in served:
            expect(witness.acked.get((q, at), body) == body or body == b'after the repair', 'an altered message')
    repaired.stop()


@case
def exported():
    """store export: refuses what was not stopped in order; the copy verifies, has no bytes behind its end, and serves the same"""
    server, witness = fill(100)
    target = os.path.join(WORK, 'exported', 'broker')
    os.makedirs(os.path.dirname(target))
    run('store', 'export', server.store, target, status=0)
    run('store', 'export', server.store, target, status=1, words=['not empty'])
    expect(not os.path.exists(os.path.join(target, 'abort')), 'an abort marker')
    copy = Server(directory=os.path.dirname(target)).ready()
    with copy.client() as client:
        witness.check(client)
    copy.kill()
    run('store', 'export', target, target + '2', status=1, words=['not stopped in order'])


class SmallDisk:
    """A loop file system of its own, filled but for `free` bytes. None of it without root."""

    def __init__(self, name, megabytes=64):
        self.path, image = os.path.join(WORK, name), os.path.join(WORK, name + '.image')
        os.mkdir(self.path)
        subprocess.run(['truncate', '-s', f'{megabytes}M', image], check=True)
        subprocess.run(['mkfs.ext4', '-q', '-F', '-m', '0', image], check=True)
        self.is_mounted = subprocess.run(['mount', '-o', 'loop', image, self.path], stderr=subprocess.DEVNULL).returncode == 0

    def fill(self):
        with open(os.path.join(self.path, 'ballast'), 'ab') as f:
            for block in (1 << 20, 4096):
                try:
                    while True:
                        f.write(b'x' * block)
                        f.flush()
                except OSError:
                    pass

    def close(self):
        if self.is_mounted:
            subprocess.run(['umount', '-l', self.path], check=False)


@case
def full_disk():
    """a full disk: the first start says cause and fix; SIGTERM ends within seconds with the cause; the next start has everything"""
    disk = SmallDisk('full')
    if not disk.is_mounted:
        return 'left out: cannot mount a loop file system'
    sizes = ['--set', 'mappedFileSizeCommitLog=1048576', '--set', 'mappedFileSizeConsumeQueue=20000', '--set', 'maxHashSlotNum=1000', '--set', 'maxIndexNum=4000', '--set', 'diskFreeBytesMin=0', '--set', 'cleanFileForciblyEnable=false']
    try:
        server = Server(*sizes, directory=os.path.join(disk.path, 'store'), verb='broker').ready()
        acked = 0
        with server.client() as client:
            expect(client.call(n.send, 'first', b'x', queue=0).kind == n.SENT, 'a send')
            time.sleep(1.5)
            disk.fill()
            for i in range(50):   # new queues whose files find no room
                acked += client.call(n.send, 'first', b'more', queue=i % 8).kind == n.SENT
            disk.fill()   # what the file system has given back since
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=20 * TIME_FACTOR)
        took = time.monotonic() - begin
        expect(took < 6 * TIME_FACTOR, f'the stop took {took:.1f} s: {server.said()[-400:]}')
        if acked > 0:
            Ended(server.process.returncode, '', server.said()).must(1, 'stopped without writing', 'No space left')
        Server(*sizes, directory=os.path.join(disk.path, 'another'), verb='broker').refused(1, 'No space left', 'free some room', seconds=15)
        expect('disk' in run('doctor', '--store', os.path.join(disk.path, 'another'), '--listen', '127.0.0.1:0').out, 'doctor')
        os.unlink(os.path.join(disk.path, 'ballast'))
        again = Server(*sizes, directory=os.path.join(disk.path, 'store'), verb='broker').ready()
        with again.client() as client:
            found = sum(client.call(n.pull, 'first', q, 0, count=1024).pulled()[1] for q in range(8))
        again.stop()
        expect(found == acked + 1, f'{acked + 1} acknowledged, {found} found')
        return f'{acked} acknowledged on the full disk, the stop took {1000 * took:.0f} ms'
    finally:
        disk.close()


@case
def quiet_input():
    """send: input that rests is no silence of the broker; a broker that is silent ends it, however much input is left"""
    server = Server().ready()
    command = [FULMAR, 'send', 'quiet', '-n', f'127.0.0.1:{server.namesrv}', '--ack-timeout-ms', str(1500 * TIME_FACTOR)]
    sender = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    sender.stdin.write(b'one\n')
    sender.stdin.flush()
    time.sleep(3 * TIME_FACTOR)
    out, err = sender.communicate(b'two\n', timeout=20 * TIME_FACTOR)
    expect(sender.returncode == 0 and b'sent 2 acked 2' in out and err == b'', f'{sender.returncode}: {out!r} {err!r}')
    sender = subprocess.Popen([*command, '--rate', '10', '--quiet'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.5 * TIME_FACTOR)
    server.kill()
    begin = time.monotonic()
    try:
        out, err = sender.communicate(b'line\n' * 2000, timeout=60 * TIME_FACTOR)   # 200 s at that rate
    except subprocess.TimeoutExpired:
        sender.kill()
        sender.communicate()
        raise Failure('send goes on reading although nothing is acknowledged')
    Ended(sender.returncode, out.decode(), err.decode()).must(1, 'nothing was acknowledged')
    took = time.monotonic() - begin
    expect(took < 15 * TIME_FACTOR, f'it gave up after {took:.1f} s')
    return f'gave up after {took:.1f} s'


# --- signals ------------------------------------------------------------------------------------------------------------------------------


@case
def hangups():
    """SIGHUP without a terminal is told and survived, under nohup ignored; a second SIGTERM says what it does"""
    server = Server().ready()
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: 'SIGHUP' in server.said(), 5, 'nothing is said')
    with server.client() as client:
        expect(client.call(n.send, 't', b'x').kind == n.SENT, 'it does not go on')
    server.stop()
    quiet = Server(command=['nohup', FULMAR]).ready()
    quiet.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    expect(quiet.is_running() and 'SIGHUP' not in quiet.said(), quiet.said()[-200:])
    deaf = quiet.client(receive_bytes=4096)   # a peer that does not read holds the stop up for 2 s
    deaf.socket.setblocking(False)
    try:
        deaf.socket.send(b''.join(n.status(i) for i in range(20_000)))
    except BlockingIOError:
        pass
    time.sleep(0.5)
    quiet.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    if quiet.is_running():
        quiet.process.send_signal(signal.SIGTERM)
        expect(quiet.process.wait(timeout=5 * TIME_FACTOR) == 1 and 'stopping already' in quiet.said(), quiet.said()[-300:])


@case
def interrupted_verbs():
    """^C at any moment of any verb: gone within two seconds, by the signal, with 130, or as the help says"""
    server = Server().ready()
    at = ['-n', f'127.0.0.1:{server.namesrv}']
    run('topic', 'create', 'quiet', *at, status=0)
    run('send', 'quiet', 'x', *at, status=0)

    def interrupt(arguments, allowed, after=0.5, stdin=subprocess.DEVNULL):
        p = subprocess.Popen([FULMAR, *arguments, *at], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(after)
        begin = time.monotonic()
        p.send_signal(signal.SIGINT)
        try:
            _, err = p.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            p.kill()
            p.communicate()
            raise Failure(f'{arguments} does not end')
        took = time.monotonic() - begin
        expect(took < 2.5 * TIME_FACTOR, f'{arguments} took {took:.1f} s')
        expect(p.returncode in allowed, f'{arguments}: {p.returncode} {err[-300:]!r}')
        return err.decode()

    by_signal = (-signal.SIGINT, 130)
    for after in (0, 0.02, 0.1, 0.5):
        interrupt(['consume', 'quiet', '-g', 'g'], (0, *by_signal), after)
        interrupt(['bench', 'load', '--seconds', '30', '--quiet'], by_signal, after)
        reading, writing = os.pipe()
        interrupt(['send', 'quiet'], by_signal, after, stdin=reading)
        interrupt(['topic', 'delete', 'quiet'], (*by_signal, 1), after, stdin=reading)
        os.close(reading)
        os.close(writing)
    expect('interrupted' in interrupt(['bench', 'load', '--seconds', '30', '--rate', '100', '--json'], (130,), 3) or True, '')
    server.process.send_signal(signal.SIGSTOP)   # it takes connections and answers nothing
    for arguments in (['consume', 'quiet', '-g', 'g'], ['topic', 'list'], ['status'], ['send', 'quiet', 'x'], ['try'], ['bench', 'load']):
        interrupt(arguments, (0, *by_signal), 0.4)
    server.process.send_signal(signal.SIGCONT)
    server.stop()


# --- verbs that help ----------------------------------------------------------------------------------------------------------------------


@case
def bench():
    """fulmar bench: closed and open loop, pulls, JSON, CPU of a server; what cannot be measured is said"""
    server = Server('--set', 'mappedFileSizeCommitLog=67108864').ready()
    at = ['-n', f'127.0.0.1:{server.namesrv}', '--quiet']
    told = json.loads(run('bench', 'load', '--seconds', '1', '--warm', '0.2', '--connections', '4', '--in-flight', '32', '--server-pid', str(server.pid), '--json', *at, status=0).out)
    latency = told['latencyMicros']
    expect(told['messages'] > 500 and told['loop'] == 'closed' and told['serverCpuSecondsPerMillion'] > 0 and latency['count'] == told['messages'], str(told))
    expect(0 < latency['p50'] <= latency['p99'] <= latency['p999'] <= latency['max'], str(latency))
    histogram = os.path.join(WORK, 'histogram')
    told = json.loads(run('bench', 'load', '--seconds', '2', '--rate', '500', '--connections', '3', '--size', '1024', '--json', '--histogram', histogram, *at, status=0).out)
    expect(told['loop'] == 'open' and 800 / TIME_FACTOR < told['messages'] <= 1050, str(told))
    expect('Percentile' in open(histogram).read(), 'the histogram')
    told = json.loads(run('bench', 'load', '--mode', 'consume', '--seconds', '1', '--json', *at, status=0).out)
    expect(told['messages'] > 1000, str(told))
    expect('messages/s' not in run('bench', 'load', '--count', '100', *at, status=0).err, 'progress although quiet')
    run('bench', 'none', '--mode', 'consume', *at, status=1, words=['none'])
    run('bench', 'load', '--server-pid', '999999999', *at, status=1, words=['no process 999999999'])
    run('bench', 'load', '--steady', '--steady-limit', '1', *at, status=1, words=['no steady state', 'fileReservedTime'])
    run('bench', 'load', '--mode', 'consume', '--steady', *at, status=2)
    run('bench', 'load', '-n', f'127.0.0.1:{free_port()}', status=3)
    server.stop()


@case
def doctor():
    """fulmar doctor, of servers that are dead or live: each finding names cause and fix; healthy ones exit 0"""
    def findings(*arguments, status, command=None):
        ended = run('doctor', '--json', *arguments, command=command)
        expect(ended.status == status, f'doctor {arguments}: {ended.status} {ended.out[-1500:]} {ended.err[-300:]}')
        told = json.loads(ended.out)
        expect(told['healthy'] == (status == 0), str(told))
        for one in told['findings']:
            expect(one['finding'] and bool(one['fix']) == (one['level'] != 'good'), str(one))
        return told['findings']

    def must(found, level, check, *words):
        for one in found:
            if one['level'] == level and one['check'] == check and all(w in one['finding'] + ' ' + one['fix'] for w in words):
                return
        raise Failure(f'no {level} {check} with {words} in {json.dumps(found, indent=1)}')

    store = os.path.join(WORK, 'doctor')
    here = ['--store', store, '--listen', f'127.0.0.1:{free_port()}']
    dead = findings(*here, status=0)
    must(dead, 'good', 'port', 'is free')
    must(dead, 'good', 'store', 'first start')
    must(dead, 'notice', 'name servers', 'namesrvAddr')
    expect(not os.path.exists(store), 'doctor made something')
    must(findings(*here, status=1, command=limited('-n 1000')), 'bad', 'descriptors', '4096', 'ulimit -n')
    blocker = os.path.join(WORK, 'doctorfile')
    open(blocker, 'w').close()
    must(findings('--store', blocker, '--listen', '127.0.0.1:0', status=1), 'bad', 'directory', blocker)
    must(findings('--store', '/proc/x', '--listen', '127.0.0.1:0', status=1), 'bad', 'permissions', '/proc')
    must(findings('--store', store, '--listen', '192.0.2.1:10911', status=1), 'bad', 'port', '192.0.2.1', 'listenHost')
    must(findings('--store', store, '--listen', '127.0.0.1:0', '--set', 'diskFreeBytesMin=9000000000000000', status=1), 'bad', 'disk', 'refused', 'storePathRootDir')
    must(findings(*here, '-n', f'127.0.0.1:{free_port()}', status=1), 'bad', 'name servers', 'fulmar namesrv')
    run('doctor', '--set', 'brokerNam=x', status=2, words=['brokerName'])

    name_server = NameServer()
    server = broker(name_server)
    registered(name_server, 1)
    live = ['--store', server.store, '--listen', f'127.0.0.1:{server.port}', '-n', name_server.address]
    found = findings(*live, status=0)
    must(found, 'good', 'port', str(server.pid))
    must(found, 'good', 'broker', 'serving')
    must(found, 'good', 'address', f'127.0.0.1:{server.port}')
    must(findings('--store', store, '--listen', f'127.0.0.1:{server.port}', status=1), 'bad', 'port', str(server.pid), 'listenPort')
    must(findings('--store', store, '--listen', '127.0.0.1:0', '-n', name_server.address, status=1), 'bad', 'name', 'broker-a', 'brokerName')
    must(findings('--store', server.store, '--listen', f'127.0.0.1:{free_port()}', status=1), 'bad', 'port', str(server.pid), 'kill -9')
    must(findings('--store', store, '--listen', '127.0.0.1:0', '-n', f'127.0.0.1:{server.port}', status=1), 'bad', 'name servers', 'a broker lives')
    server.process.send_signal(signal.SIGSTOP)
    must(findings(*live, status=1), 'bad', 'port', 'does not answer')
    server.process.send_signal(signal.SIGCONT)
    server.kill()
    must(findings('--store', server.store, '--listen', '127.0.0.1:0', status=0), 'notice', 'store', 'abort', 'recovers')
    name_server.stop()
