#include "cmd/fulmar/broadcast_offsets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace fulmar::cmd {

namespace {

std::string base_directory() {
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  const std::string root = data != nullptr && *data != 0 ? data : std::string(home != nullptr ? home : ".") + "/.local/share";
  return root + "/fulmar/offsets";
}

// A name as one component of a path: what is none of the usual characters becomes %XX.
std::string as_file_name(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '@';
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

int64_t now_ms() { return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

BroadcastOffsets::BroadcastOffsets(const std::string& client_id, const std::string& group, const std::string& topic)
    : path_(fmt::format("{}/{}/{}/{}", base_directory(), as_file_name(client_id), as_file_name(group), as_file_name(topic))) {}

Result<void> BroadcastOffsets::load() {
  std::ifstream in(path_);
  if (!in) return {};
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream fields(line);
    std::string broker, rest;
    int32_t queue = -1;
    int64_t offset = -1;
    if (!(fields >> broker >> queue >> offset) || queue < 0 || offset < 0 || fields >> rest)
      return Error(Errc::InvalidArgument, fmt::format("line {} of {} does not read 'broker queue offset'; remove the file to begin anew", number, path_));
    offsets_[{broker, queue}] = QueueOffset(offset);
  }
  return {};
}

void BroadcastOffsets::set(const std::string& broker, int32_t queue_id, QueueOffset next) {
  offsets_[{broker, queue_id}] = next;
  is_changed_ = true;
}

Result<void> BroadcastOffsets::save(bool is_last) {
  if (!is_changed_ || (!is_last && now_ms() < next_save_ms_)) return {};
  next_save_ms_ = now_ms() + 1000;
  std::error_code made;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), made);
  std::string text;
  for (const auto& [queue, offset] : offsets_) text += fmt::format("{} {} {}\n", queue.first, queue.second, offset);
  const std::string temporary = path_ + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool is_written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fdatasync(fd) == 0;
  if (fd >= 0) is_written = ::close(fd) == 0 && is_written;
  if (!is_written || ::rename(temporary.c_str(), path_.c_str()) != 0) return Error(Errc::IoFailed, fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
  is_changed_ = false;
  return {};
}

}  // namespace fulmar::cmd
