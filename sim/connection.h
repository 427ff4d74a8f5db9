#pragma once
// A connection between two nodes: two sides and two half-streams. halves[s] carries what side s sends.

#include <array>
#include <deque>
#include <vector>

#include "core/base/prng.h"
#include "sim/sim_network.h"

namespace fulmar::sim {

struct SimNetwork::Half {
  struct Segment { SimTime at; uint64_t bytes; };
  struct Sending { Ticket ticket; uint64_t bytes = 0, taken = 0; };

  HostId from, to;
  Prng latency_draws{Seed{}}, cut_draws{Seed{}};
  Chunking chunking = Chunking::Whole;
  uint64_t window_bytes = 0;
  std::deque<Sending> sends;          // not yet all in the kernel's hands
  std::vector<uint8_t> data;          // taken and not yet read; the first `read` of it are read
  size_t read = 0;
  std::deque<Segment> flying;
  std::deque<uint64_t> arrived;       // sizes of segments that wait to be read
  SimTime last_at;
  bool is_finished = false;           // FIN follows the data
  bool is_fin_here = false;
  bool is_arrival_due = false, is_take_due = false, is_stall_armed = false;
  uint64_t progress = 0, stall_progress = 0;

  uint64_t unread() const { return data.size() - read; }
};

struct SimNetwork::Connection {
  struct Side {
    HostId host;
    Life who;
    NetworkUser* user = nullptr;
    bool is_open = false;             // its node has, or will have, this end
    bool is_established = false;      // its node knows the end
    bool is_paused = false;
    bool is_host_lost = false;        // died with its host: no RST until the host is up again
  };
  uint64_t id = 0;
  std::array<Side, 2> sides;
  std::array<Half, 2> halves;
  bool is_silent = false;

  uint64_t end(int side) const { return id * 2 + static_cast<uint64_t>(side); }
};

}  // namespace fulmar::sim
