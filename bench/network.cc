// SPDX-License-Identifier: Apache-2.0
// What the network of a sandbox costs: making it, attaching a guest, replacing its policy, removing
// it. Root, in namespaces of its own. Prints medians in milliseconds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/check.h"
#include "host/lab.h"
#include "host/netns.h"
#include "host/ruleset.h"

namespace {

using namespace sallyport;
using namespace sallyport::host;
using std::chrono::steady_clock;

class Samples {
 public:
  template <class Work>
  auto time(Work&& work) {
    const auto start = steady_clock::now();
    const double cpu = cpu_ms();
    auto result = work();
    cpu_.push_back(cpu_ms() - cpu);
    all_.push_back(std::chrono::duration<double, std::milli>(steady_clock::now() - start).count());
    CHECK(result);
    return result;
  }
  void print(std::string_view what) {
    std::ranges::sort(all_);
    std::ranges::sort(cpu_);
    fmt::print("{:<36} median {:7.2f}  worst {:7.2f}  CPU {:7.2f}\n", what, all_[all_.size() / 2],
               all_.back(), cpu_[cpu_.size() / 2]);
  }

 private:
  // Of this process, the kernel's work for it included: what remains comparable on a busy machine.
  static double cpu_ms() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
  }
  std::vector<double> all_, cpu_;
};

AddressPolicy policy_of(unsigned ranges, unsigned shift) {
  AddressPolicy policy;
  for (unsigned i = 0; i < ranges; ++i) {
    if (i % 2 == 0) {
      policy.allowed.push_back(*Cidr::make(Address::v4((16U << 24) + (i * 2 + shift) * 256), 24));
    } else {
      policy.allowed.push_back(*Cidr::parse(
          fmt::format("2001:{:x}:{:x}::/48", 0x1000 + i / 0x8000, (i * 2 + shift) % 0x10000)));
    }
  }
  policy.refused = {*Cidr::parse("10.0.0.0/8"), *Cidr::parse("169.254.0.0/16"),
                    *Cidr::parse("fc00::/7")};
  return policy;
}

}  // namespace

int main() {
  lab::Internet internet;
  constexpr int kRounds = 30;
  Samples create, sockets, attach, destroy_it;
  for (int i = 0; i < kRounds; ++i) {
    lab::Guest guest;
    const SandboxNetwork network{"bench_" + std::to_string(getpid()), 1};
    internet.as_daemon([&]() -> Result<> {
      create.time([&] { return create_router(internet.node, network); });
      const auto held = sockets.time([&] { return open_worker_sockets(internet.node, network); });
      attach.time([&] { return attach_guest(internet.node, network, guest.pid); });
      destroy_it.time([&] { return destroy(internet.node, network); });
      return {};
    });
  }
  create.print("create_router");
  sockets.print("open_worker_sockets");
  attach.print("attach_guest");
  destroy_it.print("destroy");

  lab::Sandbox sandbox(internet, "bench", 2);
  for (const unsigned ranges : {10U, 1000U, 10000U}) {
    Samples other, one_more, judging;
    for (unsigned i = 0; i < kRounds; ++i) {
      const auto apply_it = [&](Samples& samples, const AddressPolicy& policy) {
        internet.as_daemon([&] {
          return samples.time([&] { return host::apply(internet.node, sandbox.network, policy); });
        });
      };
      AddressPolicy policy = policy_of(ranges, i % 2);
      judging.time([&] { return Result<JudgementMap>(judge(internet.node, policy)); });
      apply_it(other, policy);
      policy.allowed.push_back(*Cidr::parse("198.51.100.7"));
      apply_it(one_more, policy);
    }
    judging.print(fmt::format("judge, {} ranges", ranges));
    other.print(fmt::format("apply, {} other ranges", ranges));
    one_more.print(fmt::format("apply, {} ranges and one more", ranges));
  }
}
