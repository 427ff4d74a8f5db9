"""Bad input at start and stop: command lines, configurations, store directories, machines. Each case makes its own servers."""
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import time
import zlib

import native as n
from harness import FULMAR, IS_SANITIZED, SMALL, TIME_FACTOR, WORK, Ended, Failure, Server, Witness, expect, free_port, run, wait_for

CASES = []


def case(function):
    CASES.append((function.__doc__, function))
    return function


def fill(count=40, **options):
    """A store with acknowledged messages, stopped cleanly, and the witness that knows them."""
    server = Server(**options).ready()
    witness = Witness(server, pause=0)
    wait_for(lambda: len(witness.acked) >= count, 10, 'no messages')
    witness.finish()
    server.stop()
    return server, witness


def look(directory, witness, *arguments):
    """The store serves all that the witness was told."""
    server = Server(*arguments, directory=directory).ready()
    with server.client() as client:
        witness.check(client)
    server.stop()
    return server


def file_of(store, folder, pick=0):
    return sorted(os.path.join(base, f) for base, _, files in os.walk(os.path.join(store, folder)) for f in files)[pick]


# --- command lines and configurations ---------------------------------------------------------------------------------------------------


@case
def flags():
    """wrong flags, verbs and values: exit 2 and a hint"""
    for arguments in (['brokr'], ['broker', '--stor', 'x'], ['dev', '--port', '65536'], ['dev', '--port', '-1'], ['dev', '--port', 'x'], ['broker', '--listen', 'nonsense'], ['broker', '--listen', 'h:65536'],
                      ['broker', '--listen', 'h:-1'], ['broker', '--listen', ':'], ['broker', '--log', 'loud'], ['topic'], ['topic', 'create', 't', '-q', '0'], ['topic', 'create', 't', '-q', '1025'],
                      ['send'], ['send', 't', 'x', '--window', '0'], ['send', 't', 'x', '-p', 'noequals'], ['send', 't', 'x', '-p', 'a=b\x01c'], ['message', 'query', 't', 'k', '--count', '0'], [], ['namesrv', '--listen', 'h:x']):
        ended = run(*arguments)
        expect(ended.status == 2 and ended.err + ended.out, f'{arguments}: status {ended.status}, {ended.err[-200:]!r}')
        expect(len(ended.err) < 3000 and 'terminate' not in ended.err, f'{arguments}: {ended.err[-300:]!r}')


@case
def keys():
    """unknown keys name the nearest one; values out of range say the range: exit 2"""
    store = os.path.join(WORK, 'keys')
    for pair, words in (('flushDiskTyp=SYNC_FLUSH', ['flushDiskType']), ('brokerNam=x', ['brokerName']), ('maxMessageSize=0', ['maxMessageSize', '[1,']), ('maxMessageSize=-1', ['[1,']), ('maxMessageSize=9999999999999999999999', ['[1,']),
                        ('maxMessageSize=4MB', ['integer']), ('flushDiskType=FAST', ['SYNC_FLUSH']), ('mappedFileSizeCommitLog=65537', ['multiple']), ('mappedFileSizeCommitLog=4096', ['65536']), ('listenPort=70000', ['65535']),
                        ('autoCreateTopicEnable=maybe', ['true']), ('namesrvAddr=nohost', ['host:port']), ('namesrvAddr=h:99999', ['65535']), ('novalue', ['key=value']), ('=x', ['key=value']), ('brokerName=', ['empty']),
                        ('brokerName=' + 'x' * 200, ['127']), ('brokerName=a\x07b', ['0x07']), ('diskSpaceWarningLevelRatio=100', ['99']), ('x' * 5000 + '=1', ['unknown'])):
        for verb in (['broker', '--store', store, '--listen', '127.0.0.1:0'], ['dev', '--dir', store, '--port', '0', '--namesrv-port', '0']):
            ended = run(*verb, '--set', pair, status=2, words=words)
            expect(len(ended.err) < 7000 and ended.err.count('fulmar: ') == 1, f'{pair[:40]}: not one sentence: {ended.err[:600]!r}')
    expect(not os.path.exists(store), 'a refused start made the store directory')
    run('namesrv', '--set', 'brokerExpir=1', status=2, words=['brokerExpiry'])


@case
def files():
    """configuration files that are missing, directories, binary, huge: exit 2 and the path"""
    store = ['--store', os.path.join(WORK, 'files'), '--listen', '127.0.0.1:0']
    binary, huge = os.path.join(WORK, 'binary.conf'), os.path.join(WORK, 'huge.conf')
    with open(binary, 'wb') as f:
        f.write(random.Random(5).randbytes(20_000))
    with open(huge, 'wb') as f:
        f.write(b'brokerName=x' * 2_000_000)
    for verb in ('broker', 'namesrv'):
        more = store if verb == 'broker' else []
        run(verb, '-c', '/nonexistent/broker.conf', *more, status=2, words=['/nonexistent/broker.conf', 'No such file'])
        run(verb, '-c', WORK, *more, status=2, words=[WORK, 'directory'])
        expect(len(run(verb, '-c', binary, *more, status=2).err) < 5000, 'a binary file is printed')
        run(verb, '-c', huge, *more, status=2, words=[huge])
    run('config', 'check', WORK, status=1, words=[WORK])
    run('config', 'check', '/nonexistent', status=1, words=['/nonexistent'])
    expect(run('config', 'check', binary).status == 1, 'config check of noise')


@case
def names_of_servers():
    """name servers and addresses that do not parse: exit 2; that do not answer: exit 3"""
    store = ['--store', os.path.join(WORK, 'servers'), '--listen', '127.0.0.1:0']
    for bad in ('nohost', ':1', 'h:0', 'h:70000', 'h:x', 'a b:\n1', 'x' * 5000):
        run('broker', *store, '-n', bad, status=2)
    closed = f'127.0.0.1:{free_port()}'
    for arguments in (['send', 't', 'x'], ['topic', 'list'], ['consume', 't', '-g', 'g'], ['try'], ['status'], ['topic', 'create', 't'], ['message', 'view', '0']):
        run(*arguments, '-n', closed, status=3, words=[closed])
    run('status', '-n', 'nosuch.invalid:1', status=3, words=['nosuch.invalid'])
    for bad in ('', ';', 'h', '127.0.0.1:x', '127.0.0.1:70000', '[::1'):
        ended = run('status', '-n', bad)
        expect(ended.status == 2 and '--namesrv' in ended.err and 'host:port' in ended.err.lower(), f'-n {bad!r}: {ended.status} {ended.err!r}')


@case
def ports():
    """an occupied port, a privileged address, a host that does not exist: exit 1 and the address"""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        s.listen()
        port = s.getsockname()[1]
        where = os.path.join(WORK, 'ports')
        run('broker', '--store', where, '--listen', f'127.0.0.1:{port}', *SMALL, status=1, words=[f'127.0.0.1:{port}', 'in use'])
        run('namesrv', '--listen', f'127.0.0.1:{port}', status=1, words=[f'127.0.0.1:{port}', 'in use'])
        run('dev', '--dir', where, '--port', str(port), '--namesrv-port', '0', *SMALL, status=1, words=[str(port), 'in use'])
        run('dev', '--dir', where, '--port', '0', '--namesrv-port', str(port), *SMALL, status=1, words=[str(port), 'in use'])
    run('broker', '--store', where, '--listen', '192.0.2.1:0', *SMALL, status=1, words=['192.0.2.1'])
    run('namesrv', '--listen', 'no.such.host.invalid:0', status=1, words=['no.such.host.invalid'])
    run('namesrv', '--listen', '999.1.1.1:0', status=1, words=['999.1.1.1'])
    Server(directory=where).ready().stop()


# --- store directories --------------------------------------------------------------------------------------------------------------------


@case
def locked():
    """two brokers on one store: the second names the pid of the first, which notices nothing"""
    first = Server().ready()
    witness = Witness(first)
    for _ in range(3):
        run('dev', '--dir', first.directory, '--port', '0', '--namesrv-port', '0', status=1, words=[str(first.pid), first.store])
        run('broker', '--store', first.store, '--listen', '127.0.0.1:0', status=1, words=[str(first.pid)])
    witness.finish()
    with first.client() as client:
        witness.check(client)
    first.stop()
    look(first.directory, witness)


@case
def versions():
    """a store of a later version: refused with both versions, untouched; a checkpoint of noise: rebuilt"""
    server, witness = fill()
    path = os.path.join(server.store, 'checkpoint')
    path = path if b'FULMCKPT' in open(path, 'rb').read() else next(p for p in (os.path.join(server.store, f) for f in os.listdir(server.store)) if os.path.isfile(p) and b'FULMCKPT' in open(p, 'rb').read())
    kept = open(path, 'rb').read()
    data = bytearray(kept)
    at = data.find(b'FULMCKPT')
    slots = []
    while at >= 0:
        slots.append(at)
        at = data.find(b'FULMCKPT', at + 1)
    for slot in slots:
        for end in range(slot + 16, slot + 512, 4):   # the slot's CRC stands somewhere behind its fields
            if struct.unpack_from('>I', kept, end)[0] == zlib.crc32(kept[slot:end]) & 0xFFFFFFFF and struct.unpack_from('>I', kept, end)[0]:
                data[slot + 8:slot + 12] = struct.pack('>I', 77)
                data[end:end + 4] = struct.pack('>I', zlib.crc32(bytes(data[slot:end])))
                break
        else:
            raise Failure('the checksum of a checkpoint slot was not found')
    open(path, 'wb').write(data)
    before = {p: os.path.getmtime(os.path.join(server.store, 'commitlog', p)) for p in os.listdir(os.path.join(server.store, 'commitlog'))}
    Server(directory=server.directory).refused(1, 'version 77')
    expect(before == {p: os.path.getmtime(os.path.join(server.store, 'commitlog', p)) for p in os.listdir(os.path.join(server.store, 'commitlog'))}, 'the log was touched')
    for noise in (b'', b'x', bytes(4096), random.Random(6).randbytes(4096), kept[:100], kept + b'tail' * 2000):
        open(path, 'wb').write(noise)
        look(server.directory, witness)


@case
def junk():
    """foreign files and directories everywhere in the store: ignored, kept, everything served"""
    server, witness = fill()
    mine = []
    for folder in ('', 'commitlog', 'consumequeue', 'index', 'config', os.path.join('consumequeue', 'witness')):
        where = os.path.join(server.store, folder)
        os.makedirs(where, exist_ok=True)
        for name in ('README.txt', '.hidden', '0', '123', '99999999999999999999', '0000000000000000000x', 'a b', 'caf\u00e9', '00000000000000000007.tmp', '-1', 'x' * 255):
            path = os.path.join(where, name)
            if os.path.exists(path):
                continue
            with open(path, 'wb') as f:
                f.write(b'junk' * 300)
            mine.append(path)
        os.makedirs(os.path.join(where, 'folder', 'deeper'), exist_ok=True)
        os.symlink('..', os.path.join(where, 'loop'))
        os.symlink('/nonexistent', os.path.join(where, 'dangling'))
        os.mkfifo(os.path.join(where, 'fifo'))
    for name in ('topics.json', 'consumerOffset.json', 'subscriptionGroup.json', 'delayOffset.json'):
        with open(os.path.join(server.store, 'config', name), 'wb') as f:
            f.write(b'{"broken": [[[[' * 1000)
    look(server.directory, witness)
    gone = [p for p in mine if not os.path.exists(p) and not p.endswith('.tmp')]
    expect(not gone, f'somebody\'s files were removed: {gone[:4]}')


def serves_or_refuses(server_directory, witness, what, path):
    """The next start serves everything, or ends with a sentence that names the path (or its folder)."""
    server = Server(directory=server_directory)
    try:
        server.ready()
    except Failure:
        if server.is_running():
            server.kill()
            raise Failure(f'{what}: neither serves nor ends: {server.said()[-400:]}')
        Ended(server.process.returncode, '', server.said()).must(1, os.path.basename(os.path.dirname(path)))
        return 'refused'
    with server.client() as client:
        witness.check(client)
    server.process.send_signal(signal.SIGTERM)
    status = server.process.wait(timeout=10 * TIME_FACTOR)
    if status != 0:   # what it cannot write it names; the next start builds it again
        Ended(status, '', server.said()).must(1, os.path.dirname(path), 'stopped without writing')
    return 'served'


@case
def directories_for_files():
    """a directory, a FIFO, a dangling link where a file should be, and the reverse"""
    results = []
    filled, witness = fill(10)
    acked = dict(witness.acked)

    def copy():
        directory = os.path.join(WORK, f'copy{Server.serial}')
        subprocess.run(['cp', '-a', '--sparse=always', filled.directory, directory], check=True)
        witness.acked = dict(acked)
        return directory

    for folder, name in (('', 'lock'), ('', 'abort'), ('', 'checkpoint'), ('config', 'topics.json'), ('index', None), ('consumequeue', None), ('commitlog', None)):
        for kind in ('directory', 'fifo', 'link'):
            directory = copy()
            store = os.path.join(directory, 'broker')
            path = os.path.join(store, folder, name) if name else file_of(store, folder)
            if os.path.exists(path):
                os.rename(path, os.path.join(WORK, f'kept{time.monotonic_ns()}'))
            if kind == 'directory':
                os.mkdir(path)
            elif kind == 'fifo':
                os.mkfifo(path)
            else:
                os.symlink('/nonexistent/x', path)
            if folder == 'commitlog':   # the messages are gone: only the sentence counts
                witness.acked.clear()
            results.append(serves_or_refuses(directory, witness, f'{kind} for {folder}/{name}', path))
            shutil.rmtree(directory)
    for folder in ('config', 'index', 'consumequeue', 'commitlog'):
        directory = copy()
        path = os.path.join(directory, 'broker', folder)
        shutil.rmtree(path)
        with open(path, 'w') as f:
            f.write('a file')
        if folder == 'commitlog':
            witness.acked.clear()
        results.append(serves_or_refuses(directory, witness, f'a file for {folder}', path + '/x'))
    return f'{results.count("served")} served, {results.count("refused")} refused'


@case
def log_files():
    """commit log files truncated, extended, empty, missing in the middle: what is there is served, or one sentence"""
    small = ['--set', 'mappedFileSizeCommitLog=65536', '--set', 'maxMessageSize=1000']
    words = []
    server = Server(*small).ready()
    witness = Witness(server, pause=0)
    wait_for(lambda: len(witness.acked) >= 500, 15, 'no messages')
    witness.finish()
    server.stop()
    for what in ('last empty', 'last half', 'last longer', 'first half', 'first empty', 'middle gone', 'first gone', 'last 1 byte'):
        directory = os.path.join(WORK, 'cut ' + what)
        subprocess.run(['cp', '-a', '--sparse=always', server.directory, directory], check=True)
        folder = os.path.join(directory, 'broker', 'commitlog')
        logs = sorted(os.listdir(folder))
        expect(len(logs) >= 4, f'only {len(logs)} log files')
        used = [l for l in logs if any(open(os.path.join(folder, l), 'rb').read())]
        pick = {'last': used[-1], 'firs': used[0], 'midd': used[len(used) // 2]}[what[:4]]
        path = os.path.join(folder, pick)
        if what.endswith('gone'):
            os.unlink(path)
        else:
            os.truncate(path, {'empty': 0, 'half': 32768, 'longer': 80_000, 'byte': 1}[what.split()[-1]])
        again = Server(*small, directory=directory)
        try:
            again.ready()
        except Failure:
            if again.is_running():
                again.kill()
                raise Failure(f'{what}: neither serves nor ends: {again.said()[-400:]}')
            Ended(again.process.returncode, '', again.said()).must(1, 'commitlog')
            words.append(f'{what}: refused')
            continue
        with again.client() as client:
            alive = client.call(n.status).status()
            if what == 'last longer':
                witness.check(client)
            words.append(f'{what}: {alive["storeState"]}')
            for queue in range(8):
                reply = client.call(n.pull, 'witness', queue, 0)
                expect(reply.kind in (n.PULLED, n.REFUSAL), str(reply))
                for q, at, _, _, body in n.records(reply.attachment):
                    expect(witness.acked.get((q, at), body) == body, 'an altered message')
        again.stop()
    return ', '.join(words)


@case
def places():
    """stores under a file, on a read-only mount, without permission, with too long a name: exit 1, path and cause"""
    blocker = os.path.join(WORK, 'blocker')
    with open(blocker, 'w') as f:
        f.write('x')
    run('broker', '--store', blocker, '--listen', '127.0.0.1:0', status=1, words=[blocker, 'Not a directory'])
    run('broker', '--store', blocker + '/sub/store', '--listen', '127.0.0.1:0', status=1, words=[blocker, 'Not a directory'])
    run('dev', '--dir', blocker, '--port', '0', '--namesrv-port', '0', status=1, words=[blocker, 'Not a directory'])
    run('broker', '--store', os.path.join(WORK, 'n' * 256), '--listen', '127.0.0.1:0', status=1, words=['too long'])
    run('broker', '--store', '/proc/fulmar', '--listen', '127.0.0.1:0', status=1, words=['/proc/fulmar'])
    run('broker', '--store', '', '--listen', '127.0.0.1:0', '--set', 'storePathRootDir=', status=2)
    server, witness = fill()
    mount = os.path.join(WORK, 'readonly')
    os.mkdir(mount)
    if subprocess.run(['mount', '--bind', server.store, mount], stderr=subprocess.DEVNULL).returncode == 0:
        try:
            subprocess.run(['mount', '-o', 'remount,bind,ro', mount], check=True)
            run('broker', '--store', mount, '--listen', '127.0.0.1:0', status=1, words=[mount, 'Read-only'])
            run('broker', '--store', mount + '/new', '--listen', '127.0.0.1:0', status=1, words=[mount, 'Read-only'])
        finally:
            subprocess.run(['umount', mount], check=True)
    look(server.directory, witness)


@case
def odd_paths():
    """store paths with blanks, quotes, newlines, bytes that are not UTF-8, relative, through links"""
    for name in ('with blanks in it', ' leading and trailing ', 'quote"\'$(x)`', 'caf\u00e9', 'caf\udce9', 'line\nlistenPort=1', 'tab\there', '#hash', 'key=value', '%s%d{}'):
        directory = os.path.join(WORK, 'odd', name)
        try:
            server, witness = fill(5, directory=directory)
        except Failure as failure:
            expect('\n' in name or '\t' in name, f'{name!r}: {failure}')
            run('dev', '--dir', directory, '--port', '0', '--namesrv-port', '0', status=2)
            continue
        expect(os.path.isdir(os.path.join(directory, 'broker', 'commitlog')), f'{name!r}: the log is elsewhere: {os.listdir(os.path.join(WORK, "odd"))}')
        look(directory, witness)
    link = os.path.join(WORK, 'odd', 'link')
    os.symlink(os.path.join(WORK, 'odd', 'caf\u00e9'), link)
    Server(directory=link).ready().stop()
    Server(directory='relative/store', cwd=WORK, verb='broker').ready().stop()
    expect(os.path.isdir(os.path.join(WORK, 'relative/store/commitlog')), 'a relative path')


# --- the machine --------------------------------------------------------------------------------------------------------------------------


def limited(limit):
    return ['bash', '-c', f'ulimit {limit}; exec "$0" "$@"', FULMAR]


@case
def descriptors():
    """few descriptors: refused with the number wanted, or serves and keeps its store"""
    for count in (12, 16, 32, 100, 1024):
        directory = os.path.join(WORK, f'few{count}')
        Server(directory=directory, command=limited(f'-n {count}')).refused(1, 'descriptor', str(count))
    server = Server(command=limited('-n 4096')).ready()
    witness = Witness(server)
    crowd = []
    for i in range(1200):
        s = socket.create_connection(('127.0.0.1', server.port), timeout=2)
        crowd.append(s)
    expect(server.descriptors() < 800, f'{server.descriptors()} descriptors')
    for s in crowd:
        s.close()
    time.sleep(0.2)
    with server.client() as client:
        for topic in range(150):
            for queue in range(8):
                client.socket.sendall(n.send(10 + topic * 8 + queue, f'many{topic}', b'x', queue=queue))
        kinds = [client.read() for _ in range(1200)]
        expect(all(k.kind == n.SENT for k in kinds), f'refused: {[str(k) for k in kinds if k.kind != n.SENT][:2]}')
        time.sleep(1.5)
        expect('Too many open files' not in server.said(), server.said()[-500:])
    witness.finish()
    expect(witness.lost_connection is None and len(witness.acked) > 20, f'{witness.lost_connection} {len(witness.acked)}')
    with server.client() as client:
        witness.check(client)
    server.stop()
    look(server.directory, witness)


@case
def address_space():
    """little address space, small files allowed, no threads: a sentence, or it serves; never a signal"""
    results = []
    for limit in ('-f 100', '-f 10000', '-s 256') + (() if IS_SANITIZED else ('-v 60000', '-v 100000', '-v 150000', '-v 250000', '-v 400000', '-v 800000')):
        directory = os.path.join(WORK, 'space' + limit.replace(' ', ''))
        server = Server('--set', 'mappedFileSizeCommitLog=1073741824', directory=directory, command=limited(limit))
        try:
            server.ready(5)
        except Failure:
            if server.is_running():
                server.kill()
                raise Failure(f'ulimit {limit}: neither serves nor ends: {server.said()[-400:]}')
            Ended(server.process.returncode, '', server.said()).must(1)
            results.append(f'{limit}: refused')
            continue
        with server.client() as client:
            reply = client.call(n.send, 'space', b'x')
            expect(reply.kind in (n.SENT, n.REFUSAL), str(reply))
        server.stop()
        results.append(f'{limit}: serves')
    return ', '.join(results)


@case
def streams():
    """stdin, stdout, stderr closed, full or without a reader: the store is never written into, output that fails is said"""
    for closing in ('<&-', '<&- 2>&-', '>/dev/full', '2>/dev/full', '<&- >&- 2>&-'):
        directory = os.path.join(WORK, f'streams{Server.serial}')
        port, namesrv = free_port(), free_port()
        p = subprocess.Popen(['bash', '-c', f'exec "$0" "$@" {closing}', FULMAR, 'dev', '--dir', directory, '--port', str(port), '--namesrv-port', str(namesrv), '--log', 'debug', *SMALL],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        Server.everyone.append(p)
        client = None

        def connects():
            nonlocal client
            try:
                client = n.Client(port)
                return True
            except (OSError, AssertionError, n.Closed):
                expect(p.poll() is None, f'{closing}: ended with {p.returncode}')
                return False

        wait_for(connects, 10, f'{closing}: does not listen')
        wait_for(lambda: client.call(n.send, 't', b'x' * 100, queue=0).kind == n.SENT, 5, f'{closing}: refused')
        for _ in range(50):
            expect(client.call(n.send, 't', b'x' * 100, queue=0).kind == n.SENT, f'{closing}: refused')
        client.close()
        p.send_signal(signal.SIGTERM)
        expect(p.wait(timeout=20) == 0, f'{closing}: ended with {p.returncode}')
        run('store', 'verify', os.path.join(directory, 'broker'), status=0)
        lock = open(os.path.join(directory, 'broker', 'lock'), 'rb').read()
        expect(len(lock) < 20, f'{closing}: the log went into the lock file: {lock[:80]!r}')
    server = Server().ready()
    address = f'127.0.0.1:{server.namesrv}'
    with server.client() as client:
        for i in range(2000):
            client.socket.sendall(n.send(i + 10, 'streams', b'line %d ' % i + b'.' * 100, queue=0))
        for _ in range(2000):
            client.read()
    for arguments in (['topic', 'list'], ['topic', 'describe', 'streams'], ['consume', 'streams', '-g', 'g1', '--count', '2000'], ['status'], ['send', 'streams', 'one'], ['config', 'explain'],
                      ['store', 'dump', server.store], ['status', '--json']):
        more = [] if arguments[0] in ('config', 'store') else ['-n', address]
        with open('/dev/full', 'wb') as full:
            run(*arguments, *more, stdout=full, status=1, words=['No space left'])
        reading, writing = os.pipe()
        os.close(reading)
        ended = run(*arguments, *more, stdout=writing)
        os.close(writing)
        expect(ended.status in (0, 1) and 'terminate' not in ended.err, f'{arguments} into a closed pipe: {ended.status} {ended.err[-200:]}')
    expect(server.is_running(), 'the server is gone')
    server.stop()


@case
def zones():
    """odd TZ, LANG, HOME: no matter"""
    for extra in ({'TZ': 'Nonsense/Nowhere'}, {'TZ': ':/etc/passwd'}, {'TZ': 'X' * 3000}, {'TZ': 'ABC-25:61:61'}, {'LANG': 'xx_XX', 'LC_ALL': 'nonsense'}, {'PATH': ''}):
        server = Server(env={**os.environ, **extra}).ready()
        with server.client() as client:
            expect(client.call(n.send, 'zones', b'x').kind == n.SENT, str(extra))
        server.stop()
    port, namesrv = free_port(), free_port()
    ended = run('dev', '--port', str(port), '--namesrv-port', str(namesrv), env={'HOME': '/proc/nowhere'}, status=1, words=['/proc/nowhere'])


@case
def terminated():
    """SIGTERM under load, with deaf and half-open peers: exit 0, nothing acknowledged is lost; a second SIGTERM ends at once"""
    server = Server().ready()
    witnesses = [Witness(server, f'load{i}', pause=0) for i in range(3)]
    deaf = server.client(receive_bytes=4096)
    deaf.socket.setblocking(False)
    try:
        deaf.socket.send(b''.join(n.status(i) for i in range(20_000)))
    except BlockingIOError:
        pass
    partial = socket.create_connection(('127.0.0.1', server.port))
    partial.sendall(n.PREAMBLE + n.hello() + n.send(3, 't', b'x' * 1000)[:500])
    waiting = server.client()
    waiting.socket.sendall(n.pull(5, 'load0', 0, 10**6, suspend_ms=60_000))
    time.sleep(0.7)
    begin = time.monotonic()
    server.stop()
    took = time.monotonic() - begin
    for witness in witnesses:
        witness.finish()
    expect(took < 5 * TIME_FACTOR, f'the stop took {took:.1f} s')
    again = Server(directory=server.directory).ready()
    with again.client() as client:
        for witness in witnesses:
            witness.check(client)
    again.process.send_signal(signal.SIGTERM)
    again.process.send_signal(signal.SIGINT)
    expect(again.process.wait(timeout=5 * TIME_FACTOR) in (0, 1), 'two signals')
    for witness in witnesses:
        look(server.directory, witness)
    return f'the stop took {1000 * took:.0f} ms'


@case
def stopped_and_continued():
    """SIGSTOP for 1.5 s, SIGCONT: goes on, nothing lost"""
    server = Server().ready()
    witness = Witness(server)
    time.sleep(0.3)
    for _ in range(2):
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        server.process.send_signal(signal.SIGCONT)
        before = len(witness.acked)
        wait_for(lambda: len(witness.acked) > before + 10, 5, 'does not go on')
    witness.finish()
    expect(not witness.refused and witness.lost_connection is None, f'{witness.refused[:2]} {witness.lost_connection}')
    with server.client() as client:
        witness.check(client)
    server.stop()


@case
def killed():
    """kill -9 in the middle of starts and stops: the next start serves everything"""
    server, witness = fill(100)
    r = random.Random(7)
    for i in range(8):
        starting = Server(directory=server.directory)
        time.sleep(r.random() * 0.12 * TIME_FACTOR)
        starting.kill()
    for i in range(6):
        stopping = Server(directory=server.directory).ready()
        with stopping.client() as client:
            client.call(n.send, 'more', b'more')
        stopping.process.send_signal(signal.SIGTERM)
        time.sleep(r.random() * 0.03 * TIME_FACTOR)
        stopping.kill()
    look(server.directory, witness)
    run('store', 'verify', server.store, status=0)


@case
def offline():
    """store verify and dump of nothing, of a file, of noise, of a locked store: a sentence, never a crash"""
    file = os.path.join(WORK, 'afile')
    open(file, 'w').close()
    for verb in ('verify', 'dump'):
        for path in ('/nonexistent/store', file, ''):
            ended = run('store', verb, path)
            expect(ended.status in (1, 2) and ended.last, f'store {verb} {path!r}: {ended.status} {ended.err[-200:]!r}')
        noise = os.path.join(WORK, f'noise{verb}', 'commitlog')
        os.makedirs(noise)
        for i, size in enumerate((0, 1, 5000, 65536)):
            with open(os.path.join(noise, f'{i * 65536:020}'), 'wb') as f:
                f.write(random.Random(i).randbytes(size))
        ended = run('store', verb, os.path.dirname(noise))
        expect(ended.status in (0, 1), f'store {verb} of noise: {ended.status} {ended.err[-300:]!r}')
