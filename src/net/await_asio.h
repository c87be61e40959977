// SPDX-License-Identifier: Apache-2.0
// Awaits an asio::awaitable from a Task. For the rare steps of a connection: lookups and held
// updates.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "net/reactor.h"
#include "net/task.h"

namespace sallyport::net {

// Goes on running if the Task is destroyed meanwhile; its result is then dropped. What it borrows
// must live on.
template <class T>
Task<T> await_asio(Reactor& reactor, boost::asio::awaitable<T> awaited) {
  struct Shared {
    std::optional<T> value;
    std::exception_ptr failure;
    Bell* bell = nullptr;
  };
  Bell bell(reactor);
  const auto shared = std::make_shared<Shared>();
  struct Guard {  // nobody is there to be told any more
    Shared& shared;
    ~Guard() { shared.bell = nullptr; }
  };
  const Guard guard{*shared};
  shared->bell = &bell;
  boost::asio::co_spawn(reactor.io(), std::move(awaited),
                        [shared](std::exception_ptr failure, T value) {
                          shared->failure = failure;
                          shared->value.emplace(std::move(value));
                          if (shared->bell) shared->bell->ring();
                        });
  while (!shared->value) co_await bell.wait();
  if (shared->failure) std::rethrow_exception(shared->failure);
  co_return std::move(*shared->value);
}

}  // namespace sallyport::net
