// SPDX-License-Identifier: Apache-2.0
// The daemon's event loop and its pool for blocking work, so that only loop.cc (and api/) sees
// Asio. Invariant: the loop never blocks; whatever may block is offloaded. A Serial keeps the
// offloaded operations of one sandbox in order without holding a pool thread while they wait for
// each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace boost::asio {
class io_context;
}

namespace sallyport::sandbox {

class Loop {
 public:
  using Task = std::function<void()>;

  // Owns a running timer or a watched descriptor; destroying, resetting or replacing it ends that.
  // All of it may be done from any thread, also by two at once. A callback may be running on the
  // loop meanwhile, therefore callbacks capture shared or weak pointers, never references to what
  // owns the handle.
  class Handle {
   public:
    class State;
    Handle() = default;
    explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}
    Handle(Handle&& other) noexcept : state_(other.take()) {}
    Handle& operator=(Handle&& other) noexcept {
      end(swap(other.take()));
      return *this;
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() { end(take()); }
    void reset() { end(take()); }

   private:
    static void end(const std::shared_ptr<State>& state);
    std::shared_ptr<State> take() { return swap(nullptr); }
    std::shared_ptr<State> swap(std::shared_ptr<State> state) {
      const std::lock_guard lock(mutex_);
      state_.swap(state);
      return state;
    }

    std::mutex mutex_;
    std::shared_ptr<State> state_;
  };

  explicit Loop(std::size_t pool_threads);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();  // joins the pool; what is queued there is still run

  void run();   // until stop()
  void stop();  // from any thread
  // Waits until the pool has nothing left to do; what is offloaded later never runs. The loop must
  // still be running, since work on the pool waits for it.
  void join_pool();
  void post(Task task);     // run on the loop
  void offload(Task task);  // run on a pool thread
  [[nodiscard]] Handle after(std::chrono::milliseconds delay, Task task);
  // Level-triggered: called on the loop whenever `fd` is readable. The descriptor stays the
  // caller's and must outlive the handle.
  [[nodiscard]] Handle on_readable(int fd, Task task);

  [[nodiscard]] boost::asio::io_context& context();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Runs tasks on the loop's pool, one at a time and in order.
class Serial : public std::enable_shared_from_this<Serial> {
 public:
  explicit Serial(Loop& loop) : loop_(loop) {}
  void post(Loop::Task task);

 private:
  void run_next();

  Loop& loop_;
  std::mutex mutex_;
  std::deque<Loop::Task> waiting_;
  bool running_ = false;
};

}  // namespace sallyport::sandbox
