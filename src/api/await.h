// SPDX-License-Identifier: Apache-2.0
// Bridges between callbacks and coroutines: waiting for an answer that comes on another thread,
// running something that blocks on the pool, and being woken when there is more to send.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "base/result.h"
#include "sandbox/loop.h"

namespace sallyport::api {

namespace asio = boost::asio;

// Calls start(done) and waits until done(result) was called, on whatever thread; resumes on the
// coroutine's own.
template <class T, class Start>
asio::awaitable<Result<T>> answer_of(Start start) {
  const auto executor = co_await asio::this_coro::executor;
  auto initiate = [executor](auto handler, Start begin) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    begin([executor, shared](Result<T> result) {
      asio::post(executor, [shared, result = std::move(result)]() mutable {
        std::move (*shared)(std::move(result));
      });
    });
  };
  auto token = asio::use_awaitable;
  Result<T> result = co_await asio::async_initiate<decltype(token), void(Result<T>)>(
      std::move(initiate), token, std::move(start));
  co_return result;
}

// Runs `work`, which may block, on the pool.
template <class T, class Work>
asio::awaitable<Result<T>> on_pool(sandbox::Loop& loop, Work work) {
  auto start = [&loop, work = std::move(work)](auto done) mutable {
    loop.offload([work = std::move(work), done = std::move(done)]() mutable { done(work()); });
  };
  Result<T> result = co_await answer_of<T>(std::move(start));
  co_return result;
}

// Sleeps until wake() or the time is up. wake() before wait() is not lost.
class Wakeup {
 public:
  explicit Wakeup(asio::any_io_executor executor) : timer_(std::move(executor)) {}
  void wake() {
    set_ = true;
    timer_.cancel();
  }
  // True when woken.
  asio::awaitable<bool> wait(std::chrono::milliseconds limit) {
    if (!set_) {
      timer_.expires_after(limit);
      boost::system::error_code ignored;
      co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    const bool woken = set_;
    set_ = false;
    co_return woken;
  }

 private:
  asio::steady_timer timer_;
  bool set_ = false;
};

}  // namespace sallyport::api
