// The main of a fuzz target in builds without libFuzzer: each file of the corpus once, in order of names.
//   fuzz_<name> DIRECTORY    fails when the directory is missing or empty: a corpus that is not run must not look like one that passed

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(argv[1], error), end; !error && entry != end; entry.increment(error))
    if (entry->is_regular_file()) files.push_back(entry->path());
  if (error || files.empty()) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error ? error.message().c_str() : "no corpus files");
    return 1;
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::ifstream in(path, std::ios::binary);
    const std::vector<char> contents{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (!in.good() && !in.eof()) {
      std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
      return 1;
    }
    // An exact copy on the heap, so that the address sanitiser sees a read past the end.
    const std::vector<uint8_t> bytes(contents.begin(), contents.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu corpus files\n", files.size());
  return 0;
}
