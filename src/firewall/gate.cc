// SPDX-License-Identifier: Apache-2.0
#include "firewall/gate.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>
#include <vector>

#include "base/check.h"
#include "policy/policy_json.h"

namespace sallyport::firewall {

namespace asio = boost::asio;

Gate::Gate(asio::io_context& io) : hold_(io), policy_(policy::deny_all()) {}

asio::awaitable<bool> Gate::ready() {
  const auto deadline = std::chrono::steady_clock::now() + kHoldLimit;
  while (held()) {
    if (std::chrono::steady_clock::now() >= deadline) co_return false;
    // All who wait share the gate's timer, so that a release is a single cancel(). It may be set
    // for somebody else's deadline; whoever wakes early looks again.
    if (hold_.expiry() <= std::chrono::steady_clock::now()) hold_.expires_at(deadline);
    boost::system::error_code ignored;
    auto token = asio::redirect_error(asio::use_awaitable, ignored);
    co_await hold_.async_wait(token);
  }
  co_return true;
}

void Gate::prepare(std::uint64_t version, policy::PolicyPtr policy) {
  CHECK(policy != nullptr);
  prepared_ = std::move(policy);
  prepared_version_ = version;
  hold_.expires_after(kHoldLimit);
}

Result<Gate::Applied> Gate::commit(std::uint64_t version) {
  if (!prepared_ || prepared_version_ != version)
    return fail(Code::not_found, "policy version " + std::to_string(version) + " is not prepared");
  // The old policy must outlive the judging: open flows may still borrow from it.
  const policy::PolicyPtr old = std::exchange(policy_, std::move(prepared_));
  prepared_ = nullptr;
  version_ = version;

  Applied applied;
  std::vector<std::pair<Flow*, policy::Decision>> denied;
  for (const Flow& flow : flows_) {
    auto decision = flow.judge(*policy_, boundary_);
    if (!decision) continue;
    if (decision->access == policy::Access::allow)
      ++applied.kept;
    else
      denied.emplace_back(const_cast<Flow*>(&flow), std::move(*decision));
  }
  for (auto& [flow, decision] : denied) flow->cut(decision);
  applied.cut = denied.size();
  release();
  return applied;
}

Result<> Gate::abort(std::uint64_t version) {
  if (!prepared_ || prepared_version_ != version)
    return fail(Code::not_found, "policy version " + std::to_string(version) + " is not prepared");
  prepared_ = nullptr;
  release();
  return {};
}

void Gate::close() {
  policy_ = policy::deny_all();
  prepared_ = nullptr;
  std::vector<Flow*> open;
  for (Flow& flow : flows_) open.push_back(&flow);
  for (Flow* flow : open) flow->end();
  release();
}

void Gate::release() { hold_.cancel(); }

}  // namespace sallyport::firewall
