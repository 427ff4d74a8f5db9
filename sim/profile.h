#pragma once
// How a simulated world behaves where nobody injects anything: latencies, odds, profiles of file systems. Plain data, filled in by a
// scenario; the defaults are a calm machine (every odd is zero), so that a test turns on what it is about.

#include <array>
#include <cstdint>

#include "core/base/prng.h"
#include "core/base/time.h"

namespace fulmar::sim {

// base + an exponential of the given mean (from an integer table), and with `tail` odds up to tail_max more.
struct Latency {
  Duration base, mean;
  Ratio tail;
  Duration tail_max;
  Duration draw(Prng& prng) const;
};

// Which undurable pages a crash image keeps (simulation.md 2.4). Orders are orders of first store, over one file or over all.
enum class ImagePattern : uint8_t { None, All, Prefix, Suffix, OneHole, OneOnly, Alternate, Reverse, Random, SectorTear, Intermediate };
inline constexpr size_t kImagePatterns = 11;
const char* to_string(ImagePattern pattern);

enum class MetaOrder : uint8_t { Prefix, Subset };                       // pending directory operations after a crash
enum class AfterFailedFlush : uint8_t { NewStays, OldReappears };        // what the next life of the node reads

struct DiskProfile {
  uint64_t capacity_bytes = 1u << 30;
  MetaOrder meta_order = MetaOrder::Subset;
  AfterFailedFlush after_failed_flush = AfterFailedFlush::NewStays;
  bool fsync_persists_dirent = false;     // a flush also makes the file's own name durable
  Latency call{Duration::microseconds(20), Duration::microseconds(80), {}, {}};    // list, map, read, warm, replace, remove, space
  Latency rename{call};                   // which includes that the new name is durable
  Latency prepare{Duration::microseconds(50), Duration::microseconds(200), {}, {}};
  Latency flush{Duration::microseconds(100), Duration::microseconds(400), {}, {}};
  Ratio flush_error;                      // per flush: EIO
  Ratio flush_stall;                      // per flush: takes up to flush_stall_max more
  Duration flush_stall_max = Duration::seconds(10);
  Ratio write_back;                       // per writable(): the kernel writes some dirty page out just before the store
  Ratio unreadable_after_power_loss;      // per torn page of a power loss: its sector cannot be read any more
  Duration journal_commit_max = Duration::seconds(5);  // names left pending by a killed process become durable by then
  std::array<uint32_t, kImagePatterns> image_weights{4, 2, 4, 4, 4, 3, 2, 2, 6, 4, 4};
};

enum class Chunking : uint8_t { Whole, RandomCuts, OneByte, FrameEdges };
inline constexpr size_t kChunkings = 4;

struct NetworkProfile {
  Latency link{Duration::microseconds(50), Duration::microseconds(100), {}, {}};
  std::array<uint32_t, kChunkings> chunking_weights{1, 0, 0, 0};  // drawn once per half-stream
  Ratio coalesce;                         // per arrival: joined with what else has arrived into one Received
  uint64_t window_bytes_min = 256u << 10, window_bytes_max = 256u << 10;  // per half-stream, log-uniform: send and receive buffers together
  Ratio reset_per_send;                   // RST of the connection while a send is on its way
  Ratio refuse;                           // per dial: refused although somebody listens
  Ratio half_open;                        // per connection: goes silent after up to half_open_after
  Duration half_open_after = Duration::seconds(30);
  Duration connect_timeout = Duration::seconds(10);      // SYN into a black hole
  Duration transmit_timeout = Duration::seconds(20);     // bytes that nobody acknowledges: TimedOut at the sender
};

struct CpuProfile {
  Duration step = Duration::microseconds(2);             // what every step costs
  Duration input = Duration::nanoseconds(500);           // and every input and request of it
  Ratio batch_wait;                                      // per wake-up: gather inputs for up to batch_wait_max first
  Duration batch_wait_max = Duration::microseconds(200);
  uint32_t batch_inputs_max = 256;                       // of one step, itself drawn in [1, this]
  bool is_batch_drawn = false;
};

struct Profile {
  NetworkProfile network;
  CpuProfile cpu;
};

}  // namespace fulmar::sim
