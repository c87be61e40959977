// SPDX-License-Identifier: Apache-2.0
// Named network namespaces, kept as `ip netns` keeps them (/run/netns/<name>), and a way to run a
// piece of code in one. The namespace belongs to a thread, so the code runs on a thread of its own
// that ends afterwards; sockets that it made stay in the namespace whoever uses them later.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace sallyport::host {

[[nodiscard]] Result<Fd> this_namespace();  // of the calling thread
[[nodiscard]] Result<Fd> namespace_of_process(int pid);
[[nodiscard]] Result<Fd> open_namespace(const std::string& name);  // not_found if there is none
// conflict if the name is taken. `prepare` runs in the new namespace before it gets its name.
[[nodiscard]] Result<Fd> create_namespace(const std::string& name,
                                          const std::function<Result<>()>& prepare = {});
// The name goes at once; the namespace itself when its last socket or process does. Idempotent.
[[nodiscard]] Result<> remove_namespace(const std::string& name);
[[nodiscard]] Result<std::vector<std::string>> namespaces_named(const std::string& prefix);

// Of a name that create_namespace had taken but given no namespace yet when it was killed: seconds
// since then. Nothing for a complete namespace.
[[nodiscard]] std::optional<long> age_of_empty_name(const std::string& name);
// A number that this namespace of the calling thread has had alone since the machine started.
[[nodiscard]] Result<std::uint64_t> namespace_cookie();

[[nodiscard]] Result<> enter_namespace(const Fd& ns);  // the calling thread only

// `work` returns a Result.
template <class Work>
auto in_namespace(const Fd& ns, Work&& work) -> decltype(work()) {
  using Answer = decltype(work());
  Answer answer = fail(Code::internal, "network namespace: no answer");
  std::thread([&] {
    if (auto entered = enter_namespace(ns); !entered) {
      answer = std::unexpected(entered.error());
    } else {
      answer = work();
    }
  }).join();
  return answer;
}

}  // namespace sallyport::host
