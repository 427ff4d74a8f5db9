#include "net/mapped_files.h"

#include <algorithm>

namespace fulmar::net {

MappedFiles::MappedFiles(Files& files, std::function<void()> wake) : files_(files), wake_(std::move(wake)) {}

MappedFiles::~MappedFiles() {
  for (WorkPool* pool : {&names_, &slow_, &prepare_, &warm_, &flush_}) pool->stop();
}

OpenFile& MappedFiles::at(FileId id) {
  const auto found = open_.find(id.value());
  CHECK(found != open_.end(), "file {} is not mapped", id);
  return *found->second;
}

// --- work and its way home ------------------------------------------------------------------------------------------------------------

void MappedFiles::start(WorkPool& pool, Work work) {
  pool.add([this, work = std::move(work)](size_t worker) mutable {
    Finish finish = work(worker);
    bool is_first = false;
    {
      const std::lock_guard lock(home_mutex_);
      is_first = home_.empty();
      home_.push_back(std::move(finish));
    }
    if (is_first) wake_();  // the others ride along
  });
}

void MappedFiles::collect(std::vector<Input>& inputs) {
  read_contents_.clear();
  {
    const std::lock_guard lock(home_mutex_);
    collecting_.swap(home_);
  }
  for (Finish& finish : collecting_) finish(inputs);
  collecting_.clear();
}

void MappedFiles::start_in_order(WorkPool& pool, std::vector<std::string> paths, Work work) {
  PathWork item{&pool, std::move(paths), std::move(work)};
  const auto names_one_of = [&item](const PathWork& other) {
    return std::any_of(other.paths.begin(), other.paths.end(),
                       [&](const std::string& p) { return std::find(item.paths.begin(), item.paths.end(), p) != item.paths.end(); });
  };
  const bool is_busy =
      std::any_of(item.paths.begin(), item.paths.end(), [this](const std::string& p) { return busy_paths_.count(p) != 0; });
  if (is_busy || std::any_of(path_queue_.begin(), path_queue_.end(), names_one_of)) path_queue_.push_back(std::move(item));
  else run_path_work(std::move(item));
}

void MappedFiles::run_path_work(PathWork item) {
  for (const std::string& path : item.paths) ++busy_paths_[path];
  start(*item.pool, [this, paths = std::move(item.paths), work = std::move(item.work)](size_t worker) mutable -> Finish {
    return [this, paths = std::move(paths), finish = work(worker)](std::vector<Input>& inputs) mutable {
      finish(inputs);
      on_paths_free(paths);
    };
  });
}

void MappedFiles::on_paths_free(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (--busy_paths_[path] == 0) busy_paths_.erase(path);
  }
  // Each waiting request starts when its paths are free and no earlier one waits for them.
  std::deque<PathWork> still;
  std::swap(still, path_queue_);
  for (PathWork& item : still) start_in_order(*item.pool, std::move(item.paths), std::move(item.work));
}

// --- pins -------------------------------------------------------------------------------------------------------------------------------

Bytes MappedFiles::pin(const FileSlice& slice) {
  OpenFile& file = at(slice.file);
  const Range range = slice.range;
  CHECK(range.begin <= range.end && range.end <= file.size, "[{}, {}) of {}", range.begin, range.end, file.size);
  CHECK(!file.is_leaving, "slice of file {}, which was unmapped", slice.file);
  ++file.pins;
  return {file.base + range.begin, range.size()};
}

void MappedFiles::unpin(FileId id) {
  OpenFile& file = at(id);
  CHECK(file.pins > 0, "file {}", id);
  if (--file.pins == 0 && !waiting_.empty()) go_on_waiting();
}

void MappedFiles::when_unpinned(std::vector<FileId> files, Once<void()> go) {
  waiting_.push_back({std::move(files), std::move(go)});
  go_on_waiting();
}

void MappedFiles::go_on_waiting() {
  if (is_going_on_) return;  // called by what it started: the loop below looks again
  is_going_on_ = true;
  std::vector<FileId> blocked;
  for (size_t i = 0; i < waiting_.size();) {
    const bool is_free = std::all_of(waiting_[i].files.begin(), waiting_[i].files.end(), [&](FileId id) {
      const auto found = open_.find(id.value());
      return (found == open_.end() || found->second->pins == 0) && std::find(blocked.begin(), blocked.end(), id) == blocked.end();
    });
    if (is_free) {
      Once<void()> go = std::move(waiting_[i].go);
      waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
      go();
      i = 0;
      blocked.clear();
    } else {
      blocked.insert(blocked.end(), waiting_[i].files.begin(), waiting_[i].files.end());
      ++i;
    }
  }
  is_going_on_ = false;
}

std::vector<FileId> MappedFiles::files_at(const std::string& path) const {
  std::vector<FileId> found;
  const auto [first, last] = by_path_.equal_range(path);
  for (auto it = first; it != last; ++it) found.push_back(it->second);
  return found;
}

// --- requests on a mapped file --------------------------------------------------------------------------------------------------------

void MappedFiles::start_on_file(WorkPool& pool, Ticket ticket, FileId id, Once<Result<void>(OpenFile&, size_t)> what) {
  OpenFile& file = at(id);
  CHECK(!file.is_leaving, "file {} was unmapped", id);
  ++file.pins;
  start(pool, [this, ticket, id, &file, what = std::move(what)](size_t worker) mutable -> Finish {
    return [this, ticket, id, &file, outcome = what(file, worker)](std::vector<Input>& inputs) mutable {
      if (!outcome) outcome.error().detail = file.path + ": " + outcome.error().detail;
      inputs.emplace_back(Done{ticket, std::move(outcome)});
      unpin(id);
    };
  });
}

void MappedFiles::carry_out(request::Prepare& r) {
  const OpenFile& file = at(r.file);
  CHECK(file.is_writable && r.range.begin <= r.range.end && r.range.end <= file.size, "[{}, {}) of {}", r.range.begin, r.range.end,
        file.size);
  start_on_file(prepare_, r.ticket, r.file, [range = r.range, zeros = r.zeros](OpenFile& f, size_t) { return prepare_range(f, range, zeros); });
}

void MappedFiles::carry_out(request::Flush& r) {
  OpenFile& file = at(r.file);
  CHECK(file.is_writable, "file {}", r.file);
  const bool is_appended = r.range.begin == std::exchange(file.flush_end, r.range.end);
  start_on_file(flush_, r.ticket, r.file, [range = r.range, is_appended](OpenFile& f, size_t worker) { return flush_range(f, range, worker, is_appended); });
}

void MappedFiles::carry_out(request::Warm& r) {
  struct Cold { FileId id; OpenFile* file; Range range; };  // files are pinned, so the pointers hold
  std::vector<Cold> cold;
  for (const FileSlice& slice : r.slices) {
    pin(slice);
    cold.push_back({slice.file, &at(slice.file), slice.range});
  }
  start(warm_, [this, ticket = r.ticket, cold = std::move(cold)](size_t) -> Finish {
    Result<void> outcome;
    const OpenFile* unreadable = nullptr;
    for (const Cold& c : cold) {
      if (outcome) outcome = warm_range(*c.file, c.range);
      if (!outcome && unreadable == nullptr) unreadable = c.file;
    }
    return [this, ticket, outcome, cold, unreadable](std::vector<Input>& inputs) mutable {
      if (!outcome) outcome.error().detail = unreadable->path + ": " + outcome.error().detail;
      inputs.emplace_back(Done{ticket, std::move(outcome)});
      for (const Cold& c : cold) unpin(c.id);
    };
  });
}

void MappedFiles::carry_out(request::Cool& r) {
  pin({r.file, r.range});
  start(slow_, [this, id = r.file, &file = at(r.file), range = r.range](size_t) -> Finish {
    cool_range(file, range);
    return [this, id](std::vector<Input>&) { unpin(id); };
  });
}

void MappedFiles::carry_out(request::Unmap& r) {
  OpenFile& leaving = at(r.file);
  CHECK(!leaving.is_leaving, "file {} was unmapped before", r.file);
  leaving.is_leaving = true;
  when_unpinned({r.file}, [this, id = r.file] {
    files_.take_out(id);
    auto node = open_.extract(id.value());
    const auto [first, last] = by_path_.equal_range(node.mapped()->path);
    by_path_.erase(std::find_if(first, last, [id](const auto& entry) { return entry.second == id; }));
    // Unmapping a gigabyte takes milliseconds that the loop does not have.
    start(slow_, [file = std::move(node.mapped())](size_t) mutable -> Finish {
      file.reset();
      return [](std::vector<Input>&) {};
    });
  });
}

void MappedFiles::carry_out(request::Rename& r) {
  CHECK(!at(r.file).is_leaving, "file {} was unmapped", r.file);
  when_unpinned({r.file}, [this, ticket = r.ticket, id = r.file, to = std::move(r.path)]() mutable {
    start_rename(ticket, id, std::move(to));
  });
}

void MappedFiles::start_rename(Ticket ticket, FileId id, std::string to) {
  OpenFile& file = at(id);
  ++file.pins;
  const std::string from = file.path;
  start_in_order(names_, {from, to}, [this, ticket, id, &file, from, to](size_t) -> Finish {
    bool has_moved = false;
    const Result<void> outcome = rename_file(from, to, directories_, has_moved);
    return [this, ticket, id, &file, to, has_moved, outcome](std::vector<Input>& inputs) {
      if (has_moved) {
        const auto [first, last] = by_path_.equal_range(file.path);
        by_path_.erase(std::find_if(first, last, [id](const auto& entry) { return entry.second == id; }));
        file.path = to;
        by_path_.emplace(to, id);
      }
      inputs.emplace_back(Done{ticket, outcome});
      unpin(id);
    };
  });
}

// --- requests on a path -----------------------------------------------------------------------------------------------------------------

void MappedFiles::carry_out(request::Map& r) {
  start_in_order(names_, {r.path}, [this, r](size_t) -> Finish {
    auto mapped = map_file(r.path, r.size_bytes, r.how, directories_);
    if (!mapped)
      return [ticket = r.ticket, error = mapped.error()](std::vector<Input>& inputs) {
        inputs.emplace_back(Mapped{ticket, error});
      };
    return [this, ticket = r.ticket, file = std::move(*mapped)](std::vector<Input>& inputs) mutable {
      const FileId id = files_.put(std::make_unique<MappedFile>(file->base, file->size, file->is_writable, next_serial_++, nullptr));
      by_path_.emplace(file->path, id);
      open_.emplace(id.value(), std::move(file));
      inputs.emplace_back(Mapped{ticket, id});
    };
  });
}

void MappedFiles::carry_out(request::Replace& r) {
  start_in_order(names_, {r.path},
                 [this, ticket = r.ticket, path = std::move(r.path), bytes = std::move(r.bytes)](size_t) -> Finish {
                   return [ticket, outcome = replace_file(path, bytes, directories_)](std::vector<Input>& inputs) {
                     inputs.emplace_back(Done{ticket, outcome});
                   };
                 });
}

void MappedFiles::carry_out(request::Remove& r) {
  when_unpinned(files_at(r.path), [this, r] {
    start_in_order(slow_, {r.path}, [this, r, is_mapped = !files_at(r.path).empty()](size_t) -> Finish {
      return [ticket = r.ticket, outcome = remove_path(r.path, is_mapped, directories_)](std::vector<Input>& inputs) {
        inputs.emplace_back(Done{ticket, outcome});
      };
    });
  });
}

void MappedFiles::carry_out(request::Read& r) {
  start_in_order(names_, {r.path}, [this, r](size_t) -> Finish {
    return [this, ticket = r.ticket, contents = read_file(r.path, r.bytes_max)](std::vector<Input>& inputs) mutable {
      if (!contents) {
        inputs.emplace_back(Read{ticket, contents.error()});
        return;
      }
      read_contents_.push_back(std::move(*contents));
      inputs.emplace_back(Read{ticket, Bytes(read_contents_.back())});
    };
  });
}

void MappedFiles::carry_out(request::List& r) {
  start(names_, [r](size_t) -> Finish {
    return [ticket = r.ticket, files = list_tree(r.directory)](std::vector<Input>& inputs) mutable {
      inputs.emplace_back(Listed{ticket, std::move(files)});
    };
  });
}

void MappedFiles::carry_out(request::Space& r) {
  start(names_, [r](size_t) -> Finish {
    return [ticket = r.ticket, space = disk_space(r.path)](std::vector<Input>& inputs) {
      inputs.emplace_back(fulmar::Space{ticket, space});
    };
  });
}

}  // namespace fulmar::net
