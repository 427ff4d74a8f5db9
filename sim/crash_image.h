#pragma once
// What of a disk survives a panic or a power loss: a draw over undurable pages, pending names and half-done preparations.

#include <vector>

#include "sim/sim_disk.h"

namespace fulmar::sim {

class CrashImage {
 public:
  CrashImage(SimDisk& disk, CrashKind kind, Prng& prng, CrashReport& report) : disk_(disk), kind_(kind), prng_(prng), report_(report) {}
  // Nothing: drawn by the weights of the profile, for all files at once or for each.
  void draw(std::optional<ImagePattern> forced);

 private:
  struct Page { Inode inode; uint64_t index; uint64_t order; };
  ImagePattern draw_pattern();
  void draw_prepares();
  void draw_pages(std::optional<ImagePattern> forced);
  void apply(ImagePattern pattern, std::vector<Page>& pages);
  void keep(const Page& page, ImagePattern pattern);
  void lose(const Page& page);
  void tear(const Page& page);
  void draw_names();
  void leave_stray(const SimDisk::NameOp& op);
  void settle();

  SimDisk& disk_;
  CrashKind kind_;
  Prng& prng_;
  CrashReport& report_;
};

}  // namespace fulmar::sim
