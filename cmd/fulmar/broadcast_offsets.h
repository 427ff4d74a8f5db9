#pragma once
// Where a broadcasting member stands: it keeps that itself. One small text file for each client id, group and topic, a line a queue
// ("broker queue offset"), under ${XDG_DATA_HOME:-~/.local/share}/fulmar/offsets. Replaced as a whole, at most once a second and at the end.

#include <map>
#include <string>
#include <utility>

#include "core/base/result.h"
#include "core/model/ids.h"

namespace fulmar::cmd {

class BroadcastOffsets {
 public:
  using Queue = std::pair<std::string, int32_t>;   // broker, queue id
  BroadcastOffsets(const std::string& client_id, const std::string& group, const std::string& topic);
  // A file that is not there is empty. InvalidArgument, with the path and the line, when it does not parse: nobody should begin elsewhere for
  // a damaged file.
  Result<void> load();
  const std::map<Queue, QueueOffset>& all() const { return offsets_; }
  void set(const std::string& broker, int32_t queue_id, QueueOffset next);
  // Writes what has changed since; `is_last` also when the second is not over.
  Result<void> save(bool is_last);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::map<Queue, QueueOffset> offsets_;
  bool is_changed_ = false;
  int64_t next_save_ms_ = 0;
};

}  // namespace fulmar::cmd
