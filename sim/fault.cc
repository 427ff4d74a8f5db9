#include "sim/fault.h"

namespace fulmar::sim {

const char* to_string(CallKind kind) {
  switch (kind) {
    case CallKind::Any: return "any";
    case CallKind::Writable: return "writable";
    case CallKind::Send: return "send";
    case CallKind::List: return "list";
    case CallKind::Map: return "map";
    case CallKind::Prepare: return "prepare";
    case CallKind::Warm: return "warm";
    case CallKind::Cool: return "cool";
    case CallKind::Flush: return "flush";
    case CallKind::Unmap: return "unmap";
    case CallKind::Read: return "read";
    case CallKind::Replace: return "replace";
    case CallKind::Rename: return "rename";
    case CallKind::Remove: return "remove";
    case CallKind::Space: return "space";
  }
  return "?";
}

const char* to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::Crash: return "crash";
    case FaultKind::Stop: return "stop";
    case FaultKind::Pause: return "pause";
    case FaultKind::SlowCpu: return "slow-cpu";
    case FaultKind::OneWayPartition: return "one-way-partition";
    case FaultKind::Clog: return "clog";
    case FaultKind::Reset: return "reset";
    case FaultKind::HalfOpen: return "half-open";
    case FaultKind::Refuse: return "refuse";
    case FaultKind::SlowReceiver: return "slow-receiver";
    case FaultKind::DiskFull: return "disk-full";
    case FaultKind::FreeDisk: return "free-disk";
    case FaultKind::FlushError: return "flush-error";
    case FaultKind::FlushStall: return "flush-stall";
    case FaultKind::UnreadablePage: return "unreadable-page";
    case FaultKind::BitRot: return "bit-rot";
    case FaultKind::WallStep: return "wall-step";
    case FaultKind::StaleTail: return "stale-tail";
  }
  return "?";
}

const char* to_string(FaultClass kind) {
  switch (kind) {
    case FaultClass::Kill: return "kill";
    case FaultClass::KillInStep: return "kill-in-step";
    case FaultClass::Panic: return "panic";
    case FaultClass::PowerLoss: return "power-loss";
    case FaultClass::Stop: return "stop";
    case FaultClass::Pause: return "pause";
    case FaultClass::SlowCpu: return "slow-cpu";
    case FaultClass::ImageNone: return "image-none";
    case FaultClass::ImageAll: return "image-all";
    case FaultClass::ImagePrefix: return "image-prefix";
    case FaultClass::ImageSuffix: return "image-suffix";
    case FaultClass::ImageOneHole: return "image-one-hole";
    case FaultClass::ImageOneOnly: return "image-one-only";
    case FaultClass::ImageAlternate: return "image-alternate";
    case FaultClass::ImageReverse: return "image-reverse";
    case FaultClass::ImageRandom: return "image-random";
    case FaultClass::ImageSectorTear: return "image-sector-tear";
    case FaultClass::ImageIntermediate: return "image-intermediate";
    case FaultClass::TornPage: return "torn-page";
    case FaultClass::LostEntry: return "lost-entry";
    case FaultClass::ShortFile: return "short-file";
    case FaultClass::HalfPrepared: return "half-prepared";
    case FaultClass::StrayFile: return "stray-file";
    case FaultClass::TornWords: return "torn-words";
    case FaultClass::DiskFull: return "disk-full";
    case FaultClass::FlushError: return "flush-error";
    case FaultClass::FlushStall: return "flush-stall";
    case FaultClass::WriteBack: return "write-back";
    case FaultClass::UnreadablePage: return "unreadable-page";
    case FaultClass::BitRot: return "bit-rot";
    case FaultClass::OneWayPartition: return "one-way-partition";
    case FaultClass::Clog: return "clog";
    case FaultClass::Reset: return "reset";
    case FaultClass::HalfOpen: return "half-open";
    case FaultClass::Refuse: return "refuse";
    case FaultClass::SlowReceiver: return "slow-receiver";
    case FaultClass::CutFrames: return "cut-frames";
    case FaultClass::FullWindow: return "full-window";
    case FaultClass::ClockSkew: return "clock-skew";
    case FaultClass::WallStep: return "wall-step";
    case FaultClass::StaleTail: return "stale-tail";
    case FaultClass::FileGone: return "file-gone";
    case FaultClass::Count_: return "?";
  }
  return "?";
}

std::vector<FaultCounts::Named> FaultCounts::all() const {
  std::vector<Named> out;
  for (size_t i = 0; i < counts_.size(); ++i) out.push_back({to_string(static_cast<FaultClass>(i)), counts_[i]});
  return out;
}

}  // namespace fulmar::sim
