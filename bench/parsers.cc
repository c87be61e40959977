// SPDX-License-Identifier: Apache-2.0
// What a connection and a denied DNS query cost before anything is decided. Aim: a denied query
// under 5 us.
#include <benchmark/benchmark.h>

#include <string>

#include "base/check.h"
#include "dns/message.h"
#include "tls/client_hello.h"

namespace sallyport {
namespace {

std::string u16(std::size_t n) { return {static_cast<char>(n >> 8), static_cast<char>(n)}; }
std::string v16(const std::string& body) { return u16(body.size()) + body; }

// As a browser sends it: fifteen extensions, a post-quantum key share, `size` bytes in one record.
std::string hello(std::size_t size) {
  std::string extensions = u16(0) + v16(v16('\0' + v16("api.allowed.example"))) + u16(16) +
                           v16(v16("\x02h2\x08http/1.1")) + u16(43) + v16("\x04\x03\x04\x03\x03");
  for (std::size_t type = 0x5000; type < 0x500b; ++type)
    extensions += u16(type) + v16(std::string(8, 'x'));
  const std::string head = "\x03\x03" + std::string(32, 'r') + ' ' + std::string(32, 's') +
                           v16("\x13\x01\x13\x02") + std::string("\x01\x00", 2);
  extensions +=
      u16(51) + v16(std::string(size - 5 - 4 - head.size() - 2 - extensions.size() - 4, 'k'));
  const std::string body = head + v16(extensions);
  return "\x16\x03\x01" + v16("\x01" + std::string(1, '\0') + v16(body));
}

void client_hello(benchmark::State& state) {
  const std::string bytes = hello(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    const auto read = tls::read_client_hello(as_bytes(bytes));
    CHECK(read && read->server_name);
    benchmark::DoNotOptimize(read);
  }
}
BENCHMARK(client_hello)->Arg(517)->Arg(1700)->Arg(16000);

void client_hello_byte_by_byte(benchmark::State& state) {
  const std::string bytes = hello(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    tls::ClientHelloReader reader;
    for (std::size_t size = 1; size < bytes.size(); ++size)
      CHECK(!reader.read(as_bytes(bytes).first(size)));
    CHECK(reader.read(as_bytes(bytes)));
  }
}
BENCHMARK(client_hello_byte_by_byte)->Arg(517)->Arg(16000);

void dns_denied(benchmark::State& state) {
  const auto query =
      dns::render_query(1, "data.exfiltrated.by-labels.evil.test", dns::kA, dns::Edns{1232, false});
  CHECK(query);
  for (auto _ : state) {
    const auto parsed = dns::parse_query(as_bytes(*query));
    CHECK(parsed);
    benchmark::DoNotOptimize(dns::render_denied(*parsed));
  }
}
BENCHMARK(dns_denied);

void dns_answer(benchmark::State& state) {
  const auto query = dns::parse_query(
      as_bytes(*dns::render_query(1, "allowed.example", dns::kA, dns::Edns{1232, false})));
  CHECK(query);
  const auto count = static_cast<std::size_t>(state.range(0));
  std::string upstream =
      u16(9) + u16(0x8180) + u16(1) + u16(count) + u16(0) + u16(0) + query->question;
  for (std::size_t i = 0; i < count; ++i)
    upstream += u16(0xc00c) + u16(1) + u16(1) + u16(0) + u16(60) + v16("\xc6\x12\x01\x01");
  for (auto _ : state) {
    const auto answer = dns::prepare_answer(*query, as_bytes(upstream), dns::kUdpLimit);
    CHECK(answer);
    benchmark::DoNotOptimize(answer);
  }
}
BENCHMARK(dns_answer)->Arg(1)->Arg(42);

}  // namespace
}  // namespace sallyport

BENCHMARK_MAIN();
