#!/usr/bin/env python3
"""Writes the seed corpora of fuzz/record.cc, fuzz/recovery.cc, fuzz/compression.cc and fuzz/remoting_frame.cc. Records and frames are made here from
their definitions (store.md 2.1, remoting.md 1), not by our encoders, so that each of the two checks the other. Inputs that a fuzzer found keep their names, which begin with 'found_'.

    python3 fuzz/seeds.py      writes fuzz/corpus/{record,recovery,compression,remoting_frame}/*
"""
import json
import pathlib
import struct
import zlib

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
V1, V2, BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194


def crc(data):
    return zlib.crc32(data) & 0x7FFFFFFF


def host(v6=False):
    return (b"\x20\x01\x0d\xb8" + bytes(11) + b"\x01" if v6 else b"\x7f\x00\x00\x01") + struct.pack(">i", 10911)


def record(topic=b"orders", body=b"hello", properties=b"", at=0, offset=0, with_crc=False, born_v6=False, store_v6=False, sys_flag=0, magic=None):
    sys_flag |= (0x10 if born_v6 else 0) | (0x20 if store_v6 else 0)
    magic = magic or (V2 if len(topic) > 127 else V1)
    length = struct.pack(">H", len(topic)) if magic == V2 else bytes([len(topic)])
    head = struct.pack(">IiiqqIq", crc(body), 3, 7, offset, at, sys_flag, 1_700_000_000_000) + host(born_v6) + struct.pack(">q", 1_700_000_000_001) + host(store_v6)
    head += struct.pack(">iq", 1, 0) + struct.pack(">i", len(body)) + body + length + topic
    if with_crc and properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    stored = len(properties) + (20 if with_crc else 0)
    rest = head + struct.pack(">H", stored) + properties
    out = struct.pack(">II", 8 + len(rest) + (20 if with_crc else 0), magic) + rest
    if with_crc:
        digits = f"{crc(out):010d}"[::-1].encode()
        out += b"__CRC32#\x01" + digits + b"\x02"
    return out


def item(body, properties=b"", flag=0):
    return struct.pack(">iiiii", 22 + len(body) + len(properties), 0, 0, flag, len(body)) + body + struct.pack(">H", len(properties)) + properties


def records():
    tags = b"TAGS\x01red\x02KEYS\x01k1 k2\x02"
    out = {
        "plain": record(),
        "crc": record(with_crc=True),
        "crc_properties": record(with_crc=True, properties=tags),
        "crc_no_separator": record(with_crc=True, properties=tags[:-1]),
        "properties": record(properties=tags, at=1 << 40, offset=99),
        "born_v6": record(born_v6=True, with_crc=True),
        "both_v6": record(born_v6=True, store_v6=True, with_crc=True, properties=tags),
        "v2": record(topic=b"%RETRY%" + b"g" * 240, with_crc=True),
        "v2_short_topic": record(magic=V2),
        "large_body": record(body=bytes(range(256)) * 20, with_crc=True),
        "no_body": record(body=b"", topic=b"", with_crc=False),
        "two": record() + record(at=96),
        "filler": struct.pack(">II", 4096, BLANK),
        "filler_short": struct.pack(">II", 7, BLANK),
        "zeros": bytes(100),
        "cut": record(with_crc=True)[:60],
        "cut_early": record()[:38],
    }
    for name, at in {"bad_body_length": 84, "bad_topic_length": 88 + 5, "bad_total": 1, "bad_magic": 6, "bad_body": 88}.items():
        broken = bytearray(out["crc"])
        broken[at] ^= 0xFF
        out[name] = bytes(broken)
    files = {"record_" + name: b"\0" + content for name, content in out.items()}
    files["batch_one"] = b"\1" + item(b"a")
    files["batch_three"] = b"\1" + item(b"a", tags) + item(b"", b"") + item(b"c" * 300, b"x\1y\2", 9)
    files["batch_cut"] = b"\1" + (item(b"a", tags) + item(b"b"))[:-3]
    files["batch_bad_total"] = b"\1" + b"\0" + item(b"a")[1:3] + b"\x18" + item(b"a")[4:]
    files["properties_pairs"] = b"\2" + tags + b"WAIT\1false\2"
    files["properties_odd"] = b"\2" + b"\1a\2b\1\2c\1d\1e\2\2f\1g\2a\1h\2last\1one"
    return files


# Operations of the script, as fuzz/recovery.cc numbers them.
RECORD, META, FILLER, BAD_FILLER, FLIP, ZERO, FILL, RAW, SKIP, SEEK, STALE, JUMP, QUEUE, INDEX, CHECKPOINT, STRAY, UNREADABLE, MANY = (
    0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
ASYNC, NO_CRC, NO_INDEX, ABORT, APPEND, POWER, CLEAN = 1, 2, 4, 8, 16, 32, 192
ALL, NONE = 250, 249   # places of a checkpoint: by word, behind the last record


def topic_set(name, queues):
    payload = struct.pack(">H", len(name)) + name + struct.pack(">iiI", queues, queues, 6)
    return bytes([1, 1]) + struct.pack(">I", len(payload)) + payload


def offset_set(group, topic, offset):
    payload = struct.pack(">H", len(group)) + group + struct.pack(">H", len(topic)) + topic + struct.pack(">iq", 0, offset)
    return bytes([1, 3]) + struct.pack(">I", len(payload)) + payload


def meta(body):
    return bytes([META, len(body)]) + body


def recoveries():
    def many(count, who=8):
        return bytes([MANY, count, who])

    def checkpoint(flushed, limit, derived, how=2, entries=0):
        return bytes([CHECKPOINT, how, flushed, limit, derived]) + (bytes([entries]) if how & 4 else b"") + b"\0"

    some = many(20) + many(20, 1)
    topics = meta(topic_set(b"a", 4)) + meta(topic_set(b"b", 4)) + meta(offset_set(b"g", b"a", 5))
    start = bytes([ABORT | APPEND, 1])
    return {
        "empty": b"",
        "empty_segment": bytes([0, 1]),
        "records": start + some,
        "records_power": bytes([ABORT | APPEND | POWER, 1]) + topics + some,
        "async_checkpoint": bytes([ASYNC | ABORT | APPEND | POWER, 2]) + topics + some + checkpoint(10, NONE, 4),
        "no_crc_no_index": bytes([NO_CRC | NO_INDEX | APPEND, 2]) + topics + some,
        "three_segments": bytes([ABORT | APPEND, 3]) + topics + many(255) * 3,
        "late_begin": bytes([ABORT | APPEND, 0x36]) + topics + many(200) * 2,
        "short_last": bytes([ABORT | APPEND, 8 | 2]) + struct.pack(">H", 1000) + topics + many(240) * 2,
        "clean_stop": bytes([CLEAN | APPEND, 2]) + topics + some,
        "torn_tail": start + topics + some + bytes([SKIP, 40]) + some,
        "flipped": start + topics + some + bytes([FLIP]) + struct.pack(">H", 500) + b"\x10",
        "flipped_behind_checkpoint": start + topics + some + bytes([FLIP]) + struct.pack(">H", 1500) + b"\x10" + checkpoint(10, NONE, 10),
        "rot": bytes([0, 3]) + topics + many(255) * 3 + bytes([FLIP]) + struct.pack(">H", 5000) + b"\x10",
        "two_holes": bytes([0, 3]) + topics + many(255) * 3 + bytes([FLIP]) + struct.pack(">H", 5000) + b"\x10" + bytes([FLIP]) + struct.pack(">H", 20000) + b"\x10",
        "bad_filler": start + some + bytes([BAD_FILLER]) + struct.pack(">H", 77) + some,
        "good_filler": bytes([ABORT | APPEND, 2]) + some + bytes([FILLER]) + some,
        "stale": start + some + bytes([STALE, 3, 0, 10]) + some,
        "jump": start + some + bytes([JUMP, 0, 10, 5]) + some,
        "zeroed_middle": start + some + bytes([ZERO]) + struct.pack(">HH", 800, 300),
        "ones": start + some + bytes([FILL]) + struct.pack(">HH", 800, 300) + b"\xff",
        "raw": start + some + bytes([RAW, 20]) + struct.pack(">II", 200, V1) + bytes(12) + some,
        "seek": start + some + bytes([SEEK]) + struct.pack(">H", 1000) + some,
        "queue_files": start + topics + many(60) + bytes([QUEUE, 0, 255, 0, QUEUE, 0x20, 255, 0]) + checkpoint(NONE, NONE, NONE, 6, 63),
        "queue_files_cut": start + topics + many(60) + bytes([QUEUE, 0, 30, 2, 3, 0, QUEUE, 0x20, 2, 0]) + checkpoint(30, NONE, 20, 6, 20),
        "queue_files_garbage": start + topics + many(60) + bytes([QUEUE, 0, 255, 4, 40]) + b"\x7f" * 40 + checkpoint(NONE, NONE, NONE, 6, 60),
        "queue_files_no_checkpoint": start + topics + many(60) + bytes([QUEUE, 0, 255, 0, QUEUE, 0x20, 255, 0]),
        "index_file": start + topics + many(60) + bytes([INDEX, 1, 0, 40, 5, 30]) + b"\0\0\0\1" * 7 + b"\0\0" + checkpoint(NONE, NONE, NONE, 6, 63),
        "index_file_cut": start + topics + many(60) + bytes([INDEX, 1, 1, 40, 5, 4]) + b"\0\0\0\1" + struct.pack(">H", 700),
        "checkpoint_beyond_files": start + some + bytes([CHECKPOINT, 2, 255, 0, 255, 0, 0, 0]),
        "checkpoint_version": start + some + bytes([CHECKPOINT, 8, 3, NONE, 3, 0, 9]),
        "checkpoint_both_slots": start + some + checkpoint(5, NONE, 5, 2) + checkpoint(9, NONE, 9, 18),
        "checkpoint_torn": start + some + bytes([CHECKPOINT, 2 + 32, 5, NONE, 5, 0, 9, 1]),
        "checkpoint_cut": start + some + bytes([CHECKPOINT, 2 + 64, 5, NONE, 5, 0]) + struct.pack(">H", 100),
        "clean_checkpoint": start + topics + some + checkpoint(NONE, NONE, NONE, 5, 43),
        "gap": start + some + bytes([STRAY, 2, 5]) + b"12345",
        "empty_last": start + some + bytes([STRAY, 2, 0]),
        "import_topics": start + bytes([STRAY, 8, 100]) + b'{"topicConfigTable":{"a":{"topicName":"a","readQueueNums":4,"writeQueueNums":4,"perm":6}}}'.ljust(100),
        "import_broken": start + bytes([STRAY, 8, 9]) + b'{"topicCo',
        "unreadable_first": start + some + bytes([UNREADABLE, 0]),
        "unreadable_later": bytes([ABORT, 2]) + many(255) + many(100) + bytes([UNREADABLE, 16]),
        "unreadable_checkpoint": start + some + checkpoint(5, NONE, 5) + bytes([UNREADABLE, 3]),
        "topic_removed": start + topics + many(10) + meta(bytes([1, 2]) + struct.pack(">I", 17) + b"\0\1a\0\1" + struct.pack(">iq", 0, 10)) + many(10),
        "meta_broken": start + topics + meta(b"\1\1\0\0\0\xff\0\1a") + meta(b"\2junk") + some,
    }


def bodies():
    words = b"".join(b"word-%d " % (i * i % 41) for i in range(900))
    packed = zlib.compress(words, 5)
    lz4_block = b"\x1fa\x01\x00" + b"\xff" * 3 + b"\x10" + b"\x50aaaaa"
    lz4 = bytes.fromhex("04224d186040") + b"\x82" + struct.pack("<I", len(lz4_block)) + lz4_block + struct.pack("<I", 0)
    zstd_raw = bytes.fromhex("28b52ffd") + bytes([0x20, 5]) + struct.pack("<I", 5 << 3 | 1)[:3] + b"hello"
    zstd_rle = bytes.fromhex("28b52ffd") + bytes([0xA0]) + struct.pack("<I", 100_000) + struct.pack("<I", 100_000 << 3 | 2 | 1)[:3] + b"x"
    zstd_window = bytes.fromhex("28b52ffd") + bytes([0x00, 0xFF]) + struct.pack("<I", 5 << 3 | 1)[:3] + b"hello"
    return {
        "zlib": bytes([0, 20]) + packed,
        "zlib_typed": bytes([3, 20]) + packed,
        "zlib_too_large": bytes([0, 8]) + packed,
        "zlib_cut": bytes([0, 20]) + packed[: len(packed) // 2],
        "zlib_behind": bytes([0, 20]) + packed + b"x",
        "zlib_bomb": bytes([0, 16]) + zlib.compress(bytes(1 << 20), 9),
        "zlib_stored": bytes([0, 20]) + zlib.compress(words, 0),
        "lz4": bytes([1, 20]) + lz4,
        "lz4_lies": bytes([1, 20]) + packed,
        "zstd_raw": bytes([2, 20]) + zstd_raw,
        "zstd_rle": bytes([2, 20]) + zstd_rle,
        "zstd_rle_too_large": bytes([2, 10]) + zstd_rle,
        "zstd_window": bytes([2, 20]) + zstd_window,
        "unknown": bytes([4, 20]) + packed,
        "plain": bytes([5, 1]) + words[:5000],
    }


def frame(header, body=b"", encoding=0):
    return struct.pack(">II", 4 + len(header) + len(body), len(header) | encoding << 24) + header + body


def json_frame(code, fields, body=b"", opaque=7, flag=0, **more):
    header = {"code": code, "extFields": fields, "flag": flag, "language": "JAVA", "opaque": opaque, "version": 479, **more}
    return frame(json.dumps(header, ensure_ascii=False).encode(), body)


def binary_frame(code, fields, body=b"", opaque=7, flag=0, remark=b""):
    packed = b"".join(struct.pack(">H", len(k)) + k.encode() + struct.pack(">I", len(str(v))) + str(v).encode() for k, v in fields.items())
    header = struct.pack(">hBhiiI", code, 0, 479, opaque, flag, len(remark)) + remark + struct.pack(">I", len(packed)) + packed
    return frame(header, body, 1)


def remoting():
    letters = dict(a="pg", b="T", c="TBW102", d=4, e=0, f=0, g=1_700_000_000_000, h=0, i="TAGS\1A\2KEYS\1k1 k2\2", j=0, k=False)
    words = dict(producerGroup="pg", topic="T", defaultTopic="TBW102", defaultTopicQueueNums=4, queueId=-1, sysFlag=0, bornTimestamp=1_700_000_000_000, flag=0, properties="")
    queue = dict(consumerGroup="g", topic="T", queueId=1, commitOffset=9, timestamp=5, offset=1024, key="k", maxNum=5, beginTimestamp=0, endTimestamp=9)
    pull = dict(queue, queueOffset=50, maxMsgNums=32, sysFlag=7, suspendTimeoutMillis=15000, subscription="A||B", subVersion=0, expressionType="TAG")
    beat = (b'{"clientID":"10.0.0.9@1","producerDataSet":[{"groupName":"pg"}],"consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY",'
            b'"messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"topic":"T","subString":"A||B",'
            b'"tagsSet":["A","B"],"codeSet":[65,66],"subVersion":1700000000000}]}]}')
    one = {
        "send": json_frame(10, words, b"hello"), "send_v2": json_frame(310, letters, b"hello"), "send_batch": json_frame(320, letters, item(b"a") + item(b"b", b"TAGS\1x\2")),
        "pull": json_frame(11, pull), "heartbeat": json_frame(34, {}, beat), "unregister": json_frame(35, dict(clientID="c", producerGroup="", consumerGroup="g")),
        "create_topic": json_frame(17, dict(topic="T", readQueueNums=8, writeQueueNums=8, perm=6)), "route": json_frame(105, {"topic": "T"}), "cluster": json_frame(106, {}),
        "unknown": json_frame(200050, pull), "response": json_frame(0, {}, flag=1, remark="x"), "one_way": json_frame(15, queue, flag=2), "nulls": json_frame(105, None, remark=None),
        "binary_send": binary_frame(310, letters, b"hello"), "binary_route": binary_frame(105, {"topic": "T"}, remark=b"why"), "binary_heartbeat": binary_frame(34, {}, beat),
        "unquoted": frame(b'{code:105,extFields:{topic:"T",0:1},opaque:1,x:{a:[{b:null}]}}\n'), "escapes": frame(b'{"code":105,"opaque":1,"extFields":{"topic":"\\u0041\\ud83d\\ude00\\ud83d\\n"}}'),
        "wrong_types": frame(b'{"code":"105","opaque":"1","language":3,"extFields":{"topic":true}}'), "deep": frame(b'{"code":1,"opaque":1,"x":' + b"[" * 100),
        "beat_deep": json_frame(34, {}, b'{"clientID":' + b"[" * 100), "binary_cut": frame(binary_frame(105, {"topic": "T"})[8:-3], b"", 1),
        "encoding": frame(b"{}", b"", 2), "too_large": struct.pack(">II", 0x00FFFFFF, 10), "header_too_long": struct.pack(">II", 8, 100) + b"{}{}",
    }
    for name, code in dict(query=12, query_offset=14, commit=15, search=29, max=30, min=31, view=33, members=38).items():
        one[name] = json_frame(code, queue)
    files = {name: b"\0" + content for name, content in one.items()}
    files["stream"] = b"\0" + b"".join(one[name] for name in sorted(one) if name not in ("encoding", "too_large", "header_too_long"))
    files.update({"again_" + name: b"\1" + one[name] for name in ("send_v2", "binary_send", "unquoted", "escapes", "nulls")})
    return files


def main():
    for folder, files in (("record", records()), ("recovery", recoveries()), ("compression", bodies()), ("remoting_frame", remoting())):
        directory = CORPUS / folder
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.iterdir():
            if not old.name.startswith("found_") and old.name not in files:
                old.unlink()
        for name, content in files.items():
            (directory / name).write_bytes(content)


if __name__ == "__main__":
    main()
