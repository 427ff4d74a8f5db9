#pragma once
// A fixed-size file as memory, and the table of those a node has mapped. The base pointer never leaves: a node stores through
// writable() and loads through view(), so that the simulator sees every place where a process can die and every page that is dirty.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/io/ids.h"

namespace fulmar {

class MappedFile;

// The simulator's eye. Null in production: one branch, compiled once. `serial` is MappedFile::serial().
class MemoryEye {
 public:
  virtual ~MemoryEye() = default;
  // Before the range is handed out for stores; every earlier store of the node has happened.
  virtual void on_writable(MappedFile& file, Range range) = 0;
  virtual void on_view(const MappedFile& file, Range range) = 0;
};

class MappedFile {
 public:
  // `base` stays valid until the driver has carried out unmap. is_writable is false for Open::ReadOnly.
  MappedFile(uint8_t* base, uint64_t size_bytes, bool is_writable, uint64_t serial, MemoryEye* eye)
      : base_(base), size_(size_bytes), serial_(serial), eye_(eye), is_writable_(is_writable) {}

  uint64_t size() const { return size_; }
  uint64_t serial() const { return serial_; }
  bool is_writable() const { return is_writable_; }

  // Prepared ranges only. Good until the next writable() of this node or the end of the step. A compiler barrier: the order of calls
  // is the order of stores. Of the range being written a crash keeps any subset of aligned 8-byte words; earlier ranges are whole.
  MutableBytes writable(Range range) {
    CHECK(is_writable_ && range.begin <= range.end && range.end <= size_, "[{}, {}) of {}", range.begin, range.end, size_);
    asm volatile("" ::: "memory");
    if (eye_ != nullptr) [[unlikely]] eye_->on_writable(*this, range);
    return {base_ + range.begin, range.size()};
  }

  // Prepared or lately warmed ranges only. Good until unmap; a page may leave again, which costs a stall, never a wrong answer.
  Bytes view(Range range) const {
    CHECK(range.begin <= range.end && range.end <= size_, "[{}, {}) of {}", range.begin, range.end, size_);
    if (eye_ != nullptr) [[unlikely]] eye_->on_view(*this, range);
    return {base_ + range.begin, range.size()};
  }

 private:
  friend class DriverAccess;
  uint8_t* base_;
  uint64_t size_;
  uint64_t serial_;
  MemoryEye* eye_;
  bool is_writable_;
};

// For drivers only: the memory behind a file, for carrying out sends, flushes and crashes.
class DriverAccess {
 public:
  static uint8_t* base(MappedFile& file) { return file.base_; }
  static const uint8_t* base(const MappedFile& file) { return file.base_; }
};

// The files of one node. The driver puts them in before Mapped is delivered and takes them out when unmap is carried out.
class Files {
 public:
  MappedFile& at(FileId id) {
    MappedFile* file = find(id);
    CHECK(file != nullptr, "file {} is not mapped", id);
    return *file;
  }
  MappedFile* find(FileId id) {
    const uint64_t index = id.value() - 1;
    return index < files_.size() ? files_[index].get() : nullptr;
  }
  // Driver side. Ids count up from 1 and are never reused.
  FileId put(std::unique_ptr<MappedFile> file) {
    files_.push_back(std::move(file));
    return FileId(files_.size());
  }
  void take_out(FileId id) { if (find(id) != nullptr) files_[id.value() - 1].reset(); }
  uint64_t issued() const { return files_.size(); }

 private:
  std::vector<std::unique_ptr<MappedFile>> files_;
};

}  // namespace fulmar
