// The seed corpus of fuzz/native_frame.cc is made here, so that it stays what the codec writes today:
//   FULMAR_WRITE_CORPUS=1 golden --gtest_filter='NativeCorpus.*'    writes it; without the variable it is compared.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "../property/wire/generators.h"
#include "core/wire/native/codec.h"

namespace fulmar {
namespace {

using Content = std::vector<uint8_t>;
enum Mode : uint8_t { kRequests = 0, kResponses = 1, kConnection = 2 };  // the first byte, as fuzz/native_frame.cc reads it

Content hello(uint16_t preamble_version, uint16_t hello_version) {
  Content out = {kConnection};
  out.insert(out.end(), native::kPreamble.begin(), native::kPreamble.end());
  out.back() = static_cast<uint8_t>(preamble_version);
  native::Codec codec;
  command::Hello c;
  c.version = hello_version;
  EXPECT_TRUE(codec.encode_request(0, false, c, out).has_value());
  return out;
}

std::map<std::string, Content> corpus() {
  std::map<std::string, Content> files;
  native::Codec codec;
  test::Generator generate(2024);
  Content session = hello(1, 1), requests_first = hello(1, 1);
  requests_first.resize(1 + native::kPreamble.size());
  for (uint64_t kind = 0; kind < test::Generator::kCommands; ++kind) {
    const Command command = generate.command(kind);
    Content one = {kRequests};
    EXPECT_TRUE(codec.encode_request(static_cast<uint32_t>(kind), kind % 5 == 4, command, one).has_value());
    files[fmt::format("request_{}", name_of(command))] = one;
    session.insert(session.end(), one.begin() + 1, one.end());
    requests_first.insert(requests_first.end(), one.begin() + 1, one.end());
  }
  for (uint64_t kind = 0; kind < test::Generator::kReplies; ++kind) {
    Content one = {kResponses};
    EXPECT_TRUE(codec.encode_response(static_cast<uint32_t>(kind), generate.reply(kind), 0, one).has_value());
    files[fmt::format("response_{:02}", kind)] = one;
  }
  files["connection_all_commands"] = session;
  files["connection_without_hello"] = requests_first;
  files["connection_hello_version_2"] = hello(1, 2);
  files["connection_preamble_version_2"] = hello(2, 1);
  files["connection_remoting"] = {kConnection, 0, 0, 0, 200, 0, 0, 0, 180, '{', '}'};
  files["connection_tls"] = {kConnection, 0x16, 3, 1, 0, 5};
  files["connection_http"] = {kConnection, 'G', 'E', 'T', ' ', '/'};
  Content broken = session;
  broken.insert(broken.end(), {2, 0, 0, 0});
  files["connection_broken_frame"] = broken;
  Content cut = session;
  cut.resize(cut.size() - 3);
  files["connection_cut"] = cut;
  return files;
}

TEST(NativeCorpus, IsWhatTheCodecWrites) {
  const std::filesystem::path folder = std::filesystem::path(FULMAR_TEST_DATA) / "../../fuzz/corpus/native_frame";
  const bool is_writing = std::getenv("FULMAR_WRITE_CORPUS") != nullptr;
  for (const auto& [name, content] : corpus()) {
    if (is_writing) {
      std::ofstream(folder / name, std::ios::binary).write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
      continue;
    }
    std::ifstream in(folder / name, std::ios::binary);
    const Content found{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    EXPECT_EQ(found, content) << name;
  }
}

}  // namespace
}  // namespace fulmar
