#pragma once
// What oracles see: three streams in one total order. Edge events (told, replies, sends), internal events (trace) and faults with what
// they left behind. An observer draws nothing, changes nothing and keeps no borrowed pointer.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/io/input.h"
#include "core/io/trace.h"
#include "sim/fault.h"
#include "sim/profile.h"

namespace fulmar::sim {

class World;
class SimDisk;

// One life of a node: `life` counts from 1.
struct Life { NodeId node; uint32_t life = 0; friend constexpr auto operator<=>(Life, Life) = default; };

struct IoCall {
  Life who;
  SimTime at;
  uint64_t nth = 0;                // ordinal of the call for this node, over all its lives
  CallKind kind = CallKind::Any;
  FileId file;                     // when the call names a mapped file
  std::string_view path;           // of that file, or of the call
  Range range;                     // writable, prepare, cool, flush; of warm the first slice
  ConnId conn;                     // send
  uint64_t bytes = 0;              // send, replace
};

// What a crash left. Filled in for every kind; images only for Panic and PowerLoss.
struct CrashReport {
  CrashKind kind = CrashKind::Kill;
  HostId host;
  std::vector<NodeId> nodes;                   // that died of it
  ImagePattern pattern = ImagePattern::All;    // the one drawn for all files, or for the first of them when is_per_file
  bool is_per_file = false;
  uint64_t pages_undurable = 0, pages_kept = 0, pages_torn = 0;
  uint64_t names_pending = 0, names_lost = 0;
  uint64_t words_kept = 0, words_lost = 0;     // of the writable() range the crash fell into
  std::vector<std::string> files_changed;      // paths whose bytes differ from what the node last saw
};

enum class LifeChange : uint8_t { Started, Stopped, Halted, Killed, Paused, Resumed };
const char* to_string(LifeChange change);

class WorldObserver {
 public:
  virtual ~WorldObserver() = default;
  virtual void on_life(World&, Life, LifeChange, const Error* /*why halted, or null*/) {}
  virtual void on_trace(World&, Life, const TraceRecord&) {}
  // Before the call is carried out; for writable(), before the stores.
  virtual void on_call(World&, const IoCall&) {}
  // An input at the moment it is handed to the node; borrowed.
  virtual void on_input(World&, Life, const Input&) {}
  virtual void on_told(World&, Life, CallId, const Command&) {}
  virtual void on_reply(World&, Life, CallId, const Reply&) {}
  // Bytes of a send enter the sender's kernel. All of them, in order, form the stream `conn` carries.
  virtual void on_sent_bytes(World&, Life, ConnId, Bytes) {}
  // Before the image is drawn (`disk` as the node saw it), and after (`disk` as the next life will find it).
  virtual void on_crash(World&, const CrashReport& so_far, const SimDisk& disk) { (void)so_far; (void)disk; }
  virtual void on_crashed(World&, const CrashReport&, const SimDisk& disk) { (void)disk; }
  virtual void on_fault(World&, const Fault&) {}
  virtual void on_failure(World&, std::string_view /*oracle*/, std::string_view /*sentence*/) {}
};

}  // namespace fulmar::sim
