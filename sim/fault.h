#pragma once
// Faults as data, and the two counters of every class of fault: fired, and mattered (where the world can tell that the run differs).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/id.h"
#include "sim/schedule.h"

namespace fulmar::sim {

using HostId = Id<struct SimHostTag, uint32_t>;  // index of a host, from 0
using NodeId = Id<struct SimNodeTag, uint32_t>;  // index of a node, from 0

enum class CrashKind : uint8_t { Kill, Panic, PowerLoss };  // K, P, L of simulation.md 2.4; P and L take the whole host

// An I/O call of a node: each outbox file request, each writable(), each send. Ordinals count per node over all its lives, from 1.
enum class CallKind : uint8_t { Any, Writable, Send, List, Map, Prepare, Warm, Cool, Flush, Unmap, Read, Replace, Rename, Remove, Space };
const char* to_string(CallKind kind);

// "Crash at the nth I/O call." Of a writable() the range keeps a random subset of aligned 8-byte words of what the node stored; any other
// call has begun or has not, by a draw; all later calls never happen. Counts calls since the run began.
struct CrashPoint {
  NodeId node;
  uint64_t nth = 0;
  CrashKind kind = CrashKind::Kill;
  std::optional<Duration> restart_after = Duration::milliseconds(100);  // nothing: stays down
};

// At a time, or `delay` after the nth call of a kind or the nth trace event of a name, of one node.
struct Trigger {
  SimTime at;
  CallKind call = CallKind::Any;      // used when nth > 0 and event is 0
  uint64_t event = 0;                 // hash_text of an event's name
  NodeId node;
  uint64_t nth = 0;                   // 0: the trigger is `at`
  Duration delay;
};

enum class FaultKind : uint8_t {
  Crash,           // node, crash_kind, calls: at the calls-th I/O call from now (0: now), restart_after
  Stop,            // node: graceful, `duration` to drain; restart_after
  Pause,           // node, duration
  SlowCpu,         // node, amount: factor, duration
  OneWayPartition, // host -> other, duration; bytes wait, both black holes and late arrivals follow from it
  Clog,            // host -> other, amount: ns added to every latency, duration
  Reset,           // every connection between host and other: RST
  HalfOpen,        // every connection between host and other goes silent for ever
  Refuse,          // host refuses connections, duration
  SlowReceiver,    // node reads nothing, duration
  DiskFull,        // host, amount: bytes left free, duration (0: until FreeDisk)
  FreeDisk,        // host
  FlushError,      // host: the next `amount` flushes fail
  FlushStall,      // host: the next `amount` flushes take `duration` more
  UnreadablePage,  // host: a random cold page of a random file whose path contains `text`
  BitRot,          // host: flips a bit in the durable bytes of such a file; only beyond the promise
  WallStep,        // host, amount: ms, may be negative
  StaleTail,       // node: its host loses power, and a misdirected write lands behind the end of its log (media.h); restart_after
};
const char* to_string(FaultKind kind);

struct Fault {
  uint64_t id = 0;                    // its entity for keyed draws; unique in a scenario
  Trigger trigger;
  FaultKind kind = FaultKind::Crash;
  NodeId node;
  HostId host, other;
  CrashKind crash_kind = CrashKind::Kill;
  uint64_t calls = 0;
  int64_t amount = 0;
  Duration duration;
  std::optional<Duration> restart_after = Duration::milliseconds(100);
  std::string text;
};

enum class FaultClass : uint8_t {
  Kill, KillInStep, Panic, PowerLoss, Stop, Pause, SlowCpu,
  ImageNone, ImageAll, ImagePrefix, ImageSuffix, ImageOneHole, ImageOneOnly, ImageAlternate, ImageReverse, ImageRandom, ImageSectorTear, ImageIntermediate,
  TornPage, LostEntry, ShortFile, HalfPrepared, StrayFile, TornWords,
  DiskFull, FlushError, FlushStall, WriteBack, UnreadablePage, BitRot,
  OneWayPartition, Clog, Reset, HalfOpen, Refuse, SlowReceiver, CutFrames, FullWindow,
  ClockSkew, WallStep, StaleTail, FileGone, Count_
};
const char* to_string(FaultClass kind);

class FaultCounts {
 public:
  struct Count { uint64_t fired = 0, mattered = 0; };
  void fired(FaultClass kind, bool has_mattered = false) {
    ++at(kind).fired;
    if (has_mattered) ++at(kind).mattered;
  }
  void mattered(FaultClass kind) { ++at(kind).mattered; }
  const Count& operator[](FaultClass kind) const { return counts_[static_cast<size_t>(kind)]; }
  struct Named { const char* name; Count count; };
  std::vector<Named> all() const;     // in a fixed order, zeros too

 private:
  Count& at(FaultClass kind) { return counts_[static_cast<size_t>(kind)]; }
  std::array<Count, static_cast<size_t>(FaultClass::Count_)> counts_{};
};

}  // namespace fulmar::sim
