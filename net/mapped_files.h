#pragma once
// The files of one node: map, prepare, warm, cool, flush, replace, rename, remove, list, read, space, on pools of our own. The loop thread
// asks and collects; what may block runs on a pool and comes home through `wake`. Flushes, prepares and warms have pools to
// themselves, so that none of them waits behind a map or a remove.
//
// Two orders are kept here. Requests that name one path run one after another, as asked. A ticket out pins the file it names: unmap,
// rename and remove of that file wait until no ticket is out, and unmap is the last request a file gets.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/io/input.h"
#include "core/io/mapped_file.h"
#include "core/io/outbox.h"
#include "net/file_work.h"
#include "net/thread.h"

namespace fulmar::net {

class MappedFiles {
 public:
  // `wake` is called on pool threads when answers are ready; it must make the loop call collect() soon.
  MappedFiles(Files& files, std::function<void()> wake);
  // Work under way is finished, the rest is dropped: the node is gone by now. Then everything is unmapped.
  ~MappedFiles();

  // --- the loop thread --------------------------------------------------------------------------------------------------------------
  void carry_out(request::Map& r);
  void carry_out(request::Prepare& r);
  void carry_out(request::Warm& r);
  void carry_out(request::Cool& r);
  void carry_out(request::Flush& r);
  void carry_out(request::Unmap& r);
  void carry_out(request::List& r);
  void carry_out(request::Read& r);
  void carry_out(request::Replace& r);
  void carry_out(request::Rename& r);
  void carry_out(request::Remove& r);
  void carry_out(request::Space& r);
  // Appends the answers that have come home. What earlier Read inputs borrowed is gone by this call.
  void collect(std::vector<Input>& inputs);

  // For sends: the bytes behind a slice, pinned until unpin.
  Bytes pin(const FileSlice& slice);
  void unpin(FileId id);
  size_t open_count() const { return open_.size(); }

 private:
  using Finish = Once<void(std::vector<Input>&)>;  // on the loop thread, when the work is done
  using Work = Once<Finish(size_t worker)>;        // on a pool thread
  struct PathWork { WorkPool* pool; std::vector<std::string> paths; Work work; };
  struct Waiting { std::vector<FileId> files; Once<void()> go; };

  OpenFile& at(FileId id);
  void start(WorkPool& pool, Work work);
  // After every earlier request that names one of the paths.
  void start_in_order(WorkPool& pool, std::vector<std::string> paths, Work work);
  void run_path_work(PathWork item);
  void on_paths_free(const std::vector<std::string>& paths);
  // As soon as no ticket pins one of the files, in the order asked.
  void when_unpinned(std::vector<FileId> files, Once<void()> go);
  void go_on_waiting();
  std::vector<FileId> files_at(const std::string& path) const;
  void start_rename(Ticket ticket, FileId id, std::string to);
  // `what` on a file that it pins meanwhile; Done with what it returns.
  void start_on_file(WorkPool& pool, Ticket ticket, FileId id, Once<Result<void>(OpenFile&, size_t worker)> what);

  Files& files_;
  std::function<void()> wake_;
  DurableDirectories directories_;
  std::unordered_map<uint64_t, std::unique_ptr<OpenFile>> open_;
  std::multimap<std::string, FileId> by_path_;
  std::deque<Waiting> waiting_;
  std::map<std::string, size_t> busy_paths_;  // paths of work begun
  std::deque<PathWork> path_queue_;           // work that waits for a path
  std::vector<std::vector<uint8_t>> read_contents_;
  uint64_t next_serial_ = 1;
  bool is_going_on_ = false;

  std::mutex home_mutex_;
  std::vector<Finish> home_;
  std::vector<Finish> collecting_;
  // Last, so that they stop first. names: map, replace, rename, read, list, space; slow: unmap, cool, remove.
  WorkPool names_{"fulmar-files", 2}, slow_{"fulmar-slow", 1}, prepare_{"fulmar-prepare", 1}, warm_{"fulmar-warm", 2},
      flush_{"fulmar-flush", kFlushWorkers};
};

}  // namespace fulmar::net
