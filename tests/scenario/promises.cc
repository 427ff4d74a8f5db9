// The promise table (what an ack promises), told as stories.

#include "story.h"

namespace fulmar::sim {
namespace {

constexpr Duration second(int64_t n) { return Duration::seconds(n); }

class EitherFlush : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Promises, EitherFlush, testing::Values(true, false), [](const auto& p) { return p.param ? "SyncFlush" : "AsyncFlush"; });

TEST_P(EitherFlush, SurvivesAKillInsideAStep) {
  Story story(GetParam());
  for (uint64_t i = 0; i < 12; ++i) story.crash(CrashKind::Kill, Duration::milliseconds(static_cast<int64_t>(600 + 550 * i)), 3 + 7 * i);
  const RunResult result = story.passes();
  EXPECT_GE(story.log.killed, 6u);
  EXPECT_EQ(result.excused, 0u) << "a process that dies loses nothing, in any mode";
}

TEST_P(EitherFlush, ReportsWhatAPowerCutMayHaveTaken) {
  Story story(GetParam());
  story.images(ImagePattern::SectorTear);
  for (uint64_t i = 0; i < 6; ++i) story.crash(CrashKind::PowerLoss, Duration::milliseconds(static_cast<int64_t>(900 + 1000 * i)), 5 + 11 * i);
  const RunResult result = story.passes();
  EXPECT_GE(Story::fired(result, FaultClass::PowerLoss), 3u);
  if (GetParam()) {
    EXPECT_EQ(result.excused, 0u) << "SYNC_FLUSH loses nothing to a power cut";
  } else {
    EXPECT_GE(story.log.count("PossibleLoss"), 1u);
  }
}

TEST_P(EitherFlush, SurvivesTwoCrashesInsideOneRecovery) {
  Story story(GetParam());
  story.crash(CrashKind::PowerLoss, second(3));
  for (uint64_t i = 1; i <= 2; ++i) {
    Fault& f = story.crash(i == 1 ? CrashKind::PowerLoss : CrashKind::Kill, {}, 4 * i);
    f.trigger.event = hash_text("RecoveryStarted");
    f.trigger.nth = 1 + i;   // the first is the empty store's
  }
  story.passes();
  EXPECT_GE(story.log.killed, 3u);
}

TEST_P(EitherFlush, RefusesOnAFullDiskAndGoesOnWhenThereIsRoom) {
  Story story(GetParam());
  story.scenario.load.body_bytes_min = 2000;
  story.scenario.load.body_bytes_max = 4000;
  Fault& full = story.fault(FaultKind::DiskFull, second(2));
  full.amount = 0;
  full.duration = second(3);
  const RunResult result = story.passes();
  EXPECT_EQ(Story::fired(result, FaultClass::DiskFull), 1u);
  EXPECT_EQ(story.log.halted, 0u) << "no restart was needed";
  EXPECT_EQ(story.log.killed, 0u);
}

TEST_P(EitherFlush, HaltsOnAFailedFlushAndRecovers) {
  Story story(GetParam());
  story.fault(FaultKind::FlushError, second(2)).amount = 1;
  story.fault(FaultKind::FlushError, second(5)).amount = 1;
  story.passes();
  EXPECT_EQ(story.log.halted, 2u);
  for (const std::string& why : story.log.why) EXPECT_NE(why.find("FlushFailed"), std::string::npos) << why;
}

TEST_P(EitherFlush, KeepsOrderWhenTheClockIsSetBack) {
  Story story(GetParam());
  story.fault(FaultKind::WallStep, second(2)).amount = -86'400'000;
  story.fault(FaultKind::WallStep, second(4)).amount = 7 * 86'400'000;
  story.crash(CrashKind::PowerLoss, second(5));
  story.fault(FaultKind::WallStep, second(6)).amount = -30ll * 86'400'000;
  story.passes();
}

// --- the log is the only truth --------------------------------------------------------------------------------------------------------

class DeletedFiles : public testing::TestWithParam<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(Truth, DeletedFiles,
                         testing::Values(std::vector<std::string>{"store/consumequeue/"}, std::vector<std::string>{"store/index/"}, std::vector<std::string>{"store/config/"},
                                         std::vector<std::string>{"store/checkpoint"},
                                         std::vector<std::string>{"store/consumequeue/", "store/index/", "store/config/", "store/checkpoint"}));

TEST_P(DeletedFiles, EveryQueryAnswersTheSame) {
  Story story(true, 5);
  story.scenario.load.committers = 2;
  sim::Run run(story.scenario);
  run.observe(story.log);
  ASSERT_TRUE(run.start() && run.chaos() && run.heal() && run.drain() && run.stop()) << run.result().sentence;
  SimDisk& disk = run.world().disk(HostId(1));
  size_t removed = 0;
  for (const std::string& path : disk.files()) {
    const bool is_doomed = std::any_of(GetParam().begin(), GetParam().end(), [&](const std::string& prefix) { return path.starts_with(prefix); });
    if (!is_doomed) continue;
    const Result<DiskOp> op = disk.remove(path);
    ASSERT_TRUE(op.has_value()) << path;
    disk.commit(*op);
    ++removed;
  }
  EXPECT_GT(removed, 0u);
  // Every queue, key and committed offset is read again, and the oracles remember what was there.
  ASSERT_TRUE(run.verify()) << run.result().oracle << ": " << run.result().sentence << "\n" << run.result().recent;
  EXPECT_GE(run.result().acked, 100u);
}

}  // namespace
}  // namespace fulmar::sim
