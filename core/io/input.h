#pragma once
// Everything that can happen to a node: values, no pointers into anybody. Borrowed bytes are gone when step() returns.

#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/io/ids.h"
#include "core/model/command.h"

namespace fulmar {

struct Peer {
  Address remote, local;
  bool is_tls = false;
  std::string certificate_name;
};
struct Connected { ConnId conn; Peer peer; };
struct FileEntry {
  std::string path;          // relative to the directory that was listed, with '/'
  uint64_t size_bytes = 0;
  Wall modified;
  bool is_directory = false;
};
// Bytes; free is what an unprivileged writer may still take. Of what a file system has, as RocketMQ's watermarks count it.
struct DiskSpace {
  uint64_t total = 0, used = 0, free = 0;
  uint64_t percent_used() const { return used + free == 0 ? 100 : used * 100 / (used + free); }
  // With so many bytes more, or fewer, in use.
  DiskSpace filled(uint64_t bytes) const { return {total, used + std::min(bytes, free), free - std::min(bytes, free)}; }
  DiskSpace emptied(uint64_t bytes) const { return {total, used - std::min(bytes, used), free + std::min(bytes, used)}; }
};

struct Listening { Ticket ticket; Result<Address> at; };               // the port we really got; AddressInUse, BadAddress, NotPermitted
struct Accepted  { ConnId conn; Port port; Peer peer; };
struct Dialed    { Ticket ticket; Result<Connected> link; };           // Refused, TimedOut, Unreachable, BadAddress
struct Received  { ConnId conn; Bytes bytes; };                        // any chunking, never empty; borrowed
struct Closed    { ConnId conn; Errc why; };                           // last word about conn; not sent for our own close()
struct Sent      { Ticket ticket; Result<void> outcome; };             // all pieces are in the kernel's hands, or will never be
struct Mapped    { Ticket ticket; Result<FileId> file; };              // the driver has put the file into Files
struct Listed    { Ticket ticket; Result<std::vector<FileEntry>> files; };
struct Read      { Ticket ticket; Result<Bytes> contents; };           // borrowed like Received
struct Space     { Ticket ticket; Result<DiskSpace> space; };
struct Done      { Ticket ticket; Result<void> outcome; };             // prepare, warm, flush, replace, rename, remove
struct Told      { CallId call; Command command; };                    // the host's word, already typed; borrowed like Received

using Input = std::variant<Listening, Accepted, Dialed, Received, Closed, Sent, Mapped, Listed, Read, Space, Done, Told>;

}  // namespace fulmar
