// SPDX-License-Identifier: Apache-2.0
#include "sandbox/loop.h"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <optional>

namespace sallyport::sandbox {
namespace asio = boost::asio;

struct Loop::Parts {
  explicit Parts(std::size_t threads) : work(context.get_executor()), pool(threads) {}
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work;
  asio::thread_pool pool;
};

// Asio's objects are not thread-safe, so everything but the flag is touched on the loop only.
class Loop::Handle::State : public std::enable_shared_from_this<State> {
 public:
  explicit State(asio::io_context& context) : context_(context) {}

  void start_timer(std::chrono::milliseconds delay, Task task) {
    asio::post(context_, [self = shared_from_this(), delay, task = std::move(task)]() mutable {
      if (self->ended_) return;
      self->timer_.emplace(self->context_, delay);
      self->timer_->async_wait(
          [self, task = std::move(task)](const boost::system::error_code& error) {
            if (!error && !self->ended_.exchange(true)) task();
          });
    });
  }

  // The descriptor is duplicated: the caller may close its own before the loop has seen the end of
  // the handle, and the number may then belong to something else.
  void start_watch(int fd, Task task) {
    const int copy = ::dup(fd);
    if (copy < 0) return;
    task_ = std::move(task);
    asio::post(context_, [self = shared_from_this(), copy] {
      self->descriptor_.emplace(self->context_, copy);
      if (self->ended_) {
        self->descriptor_.reset();
        return;
      }
      self->wait_readable();
    });
  }

  void end() {
    if (ended_.exchange(true)) return;
    asio::post(context_, [self = shared_from_this()] {
      if (self->timer_) self->timer_->cancel();
      self->descriptor_.reset();
    });
  }

 private:
  void wait_readable() {
    descriptor_->async_wait(asio::posix::stream_descriptor::wait_read,
                            [self = shared_from_this()](const boost::system::error_code& error) {
                              if (error || self->ended_) return;
                              self->task_();
                              if (!self->ended_ && self->descriptor_) self->wait_readable();
                            });
  }

  asio::io_context& context_;
  std::atomic<bool> ended_ = false;
  std::optional<asio::steady_timer> timer_;
  std::optional<asio::posix::stream_descriptor> descriptor_;
  Task task_;
};

void Loop::Handle::end(const std::shared_ptr<State>& state) {
  if (state) state->end();
}

Loop::Loop(std::size_t pool_threads) : parts_(std::make_unique<Parts>(pool_threads)) {}

Loop::~Loop() {
  parts_->work.reset();
  parts_->pool.join();
}

void Loop::run() { parts_->context.run(); }
void Loop::stop() { parts_->context.stop(); }
void Loop::join_pool() { parts_->pool.join(); }
void Loop::post(Task task) { asio::post(parts_->context, std::move(task)); }
void Loop::offload(Task task) { asio::post(parts_->pool, std::move(task)); }

Loop::Handle Loop::after(std::chrono::milliseconds delay, Task task) {
  auto state = std::make_shared<Handle::State>(parts_->context);
  state->start_timer(delay, std::move(task));
  return Handle(std::move(state));
}

Loop::Handle Loop::on_readable(int fd, Task task) {
  auto state = std::make_shared<Handle::State>(parts_->context);
  state->start_watch(fd, std::move(task));
  return Handle(std::move(state));
}

asio::io_context& Loop::context() { return parts_->context; }

void Serial::post(Loop::Task task) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(task));
    if (running_) return;
    running_ = true;
  }
  loop_.offload([self = shared_from_this()] { self->run_next(); });
}

void Serial::run_next() {
  Loop::Task task;
  {
    const std::lock_guard lock(mutex_);
    task = std::move(waiting_.front());
    waiting_.pop_front();
  }
  task();
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) {
      running_ = false;
      return;
    }
  }
  loop_.offload([self = shared_from_this()] { self->run_next(); });  // fair to the other sandboxes
}

}  // namespace sallyport::sandbox
