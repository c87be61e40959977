// SPDX-License-Identifier: Apache-2.0
// Properties over random hellos: what is written is read back, and how bytes are cut changes
// nothing.
#include <gtest/gtest.h>

#include <random>

#include "base/host_name.h"
#include "support/exact.h"
#include "support/hello.h"
#include "tls/client_hello.h"

namespace sallyport::tls {
namespace {

using test::Exact;
using test::Hello;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t end) { return engine_() % end; }
  std::string text(std::size_t size) {
    std::string out(size, '\0');
    for (char& c : out) c = static_cast<char>(engine_());
    return out;
  }
  std::string name() {
    static constexpr std::string_view kBytes = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_";
    std::string out;
    for (std::size_t labels = 1 + below(5); labels > 0; --labels) {
      for (std::size_t size = 1 + below(20); size > 0; --size) out += kBytes[below(kBytes.size())];
      out += '.';
    }
    return out + "example";
  }

 private:
  std::mt19937 engine_;
};

std::string describe(const std::expected<ClientHello, HelloStop>& hello) {
  if (!hello) {
    return "stop " + std::to_string(static_cast<int>(hello.error().stop)) + " alert " +
           std::to_string(static_cast<int>(hello.error().alert)) + " " +
           std::string(hello.error().why);
  }
  return "name " + hello->server_name.value_or("none") + " alpn " + hello->alpn + " size " +
         std::to_string(hello->size) + (hello->ech ? " ech" : "");
}

std::string read_in_pieces(std::string_view bytes, Random& random) {
  ClientHelloReader reader;
  for (std::size_t size = 0;; size = std::min(bytes.size(), size + 1 + random.below(40))) {
    const auto hello = reader.read(Exact(bytes.substr(0, size)));
    if (hello || hello.error().stop != ParseStop::need_more || size == bytes.size())
      return describe(hello);
  }
}

TEST(ClientHelloProperty, what_is_written_is_read_back_however_it_is_cut) {
  Random random(7);
  for (int round = 0; round < 500; ++round) {
    const std::string name = random.name();
    Hello hello;
    for (std::size_t i = random.below(4); i > 0; --i)
      hello.extension(0x4000 + i, random.text(random.below(300)));
    hello.sni(name);
    if (random.below(2)) hello.alpn({"h2", "http/1.1"});
    if (random.below(2)) hello.extension(0xfe0d, random.text(100));
    const std::string message = hello.message();
    const std::string bytes = test::records(message, 1 + random.below(message.size()));
    const auto whole = read_client_hello(Exact(bytes));
    ASSERT_TRUE(whole) << whole.error().why;
    ASSERT_EQ(whole->server_name, normal_host_name(name));
    ASSERT_EQ(read_in_pieces(bytes, random), describe(whole));
  }
}

TEST(ClientHelloProperty, damaged_hellos_give_one_answer_however_they_are_cut) {
  Random random(11);
  for (int round = 0; round < 3000; ++round) {
    const std::string message =
        Hello().sni(random.name()).alpn({"h2"}).versions({0x0304}).message();
    std::string bytes = test::records(message, 1 + random.below(message.size()));
    for (std::size_t edits = 1 + random.below(3); edits > 0; --edits) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    }
    ASSERT_EQ(read_in_pieces(bytes, random), describe(read_client_hello(Exact(bytes))));
  }
}

}  // namespace
}  // namespace sallyport::tls
