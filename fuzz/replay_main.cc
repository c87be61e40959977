// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files of a corpus folder, so that every compiler and every CTest run
// replays it.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
      // Exactly sized on the heap, so that ASan sees a read of one byte too many.
      auto exact = std::make_unique<std::uint8_t[]>(bytes.size());
      for (std::size_t k = 0; k < bytes.size(); ++k) exact[k] = static_cast<std::uint8_t>(bytes[k]);
      LLVMFuzzerTestOneInput(exact.get(), bytes.size());
      ++count;
    }
  }
  std::printf("replayed %zu inputs\n", count);
  return count == 0 ? 1 : 0;  // an empty corpus would be a test that cannot fail
}
