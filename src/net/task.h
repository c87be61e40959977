// SPDX-License-Identifier: Apache-2.0
// Coroutines for the connection path. asio::awaitable costs an allocation and a trip through the
// scheduler for each wait; a Task is a plain frame that the reactor resumes directly. Measured on
// the passthrough bench before it was chosen (ADR 0009). A Task is lazy, has one owner, and dies
// with its owner: destroying one that is suspended runs the destructors of its locals, which is how
// a stop cancels. A TaskGroup owns the outermost ones, so none is detached.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/sanitizers.h"

namespace sallyport::net {

template <class T = void>
class Task;

namespace detail {

// Frames of finished tasks, kept by size for the next ones: a connection makes seven, most of them
// too large for malloc's own fast path. One list per thread, bounded.
class FramePool {
 public:
  static void* take(std::size_t size) {
    const std::size_t index = slot(size);
    if (index >= kSlots) return ::operator new(size);
    List& list = lists().all[index];
    if (list.head == nullptr) return ::operator new((index + 1) * kStep);
    --list.count;
    return std::exchange(list.head, list.head->next);
  }
  static void give(void* frame, std::size_t size) {
    const std::size_t index = slot(size);
    if (index >= kSlots || lists().all[index].count >= kKept) return ::operator delete(frame);
    List& list = lists().all[index];
    list.head = ::new (frame) Free{list.head};
    ++list.count;
  }

 private:
  static constexpr std::size_t kStep = 128;
  static constexpr std::size_t kSlots = 24;
  static constexpr std::size_t kKept = 64;
  struct Free {
    Free* next;
  };
  struct List {
    Free* head;
    std::size_t count;
  };
  struct Lists {
    std::array<List, kSlots> all{};
    ~Lists() {
      for (List& list : all) {
        list.count = kKept;  // whatever is freed later at the thread's end goes straight back
        while (list.head != nullptr) ::operator delete(std::exchange(list.head, list.head->next));
      }
    }
  };
  static constexpr std::size_t slot(std::size_t size) {
    return kAddressSanitizer ? kSlots : (size - 1) / kStep;
  }
  static Lists& lists() {
    static thread_local Lists lists;
    return lists;
  }
};

struct PromiseBase {
  static void* operator new(std::size_t size) { return FramePool::take(size); }
  static void operator delete(void* frame, std::size_t size) { FramePool::give(frame, size); }

  std::coroutine_handle<> continuation = std::noop_coroutine();
  std::exception_ptr failure;

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) noexcept {
      return self.promise().continuation;
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { failure = std::current_exception(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() {
    if (failure) std::rethrow_exception(failure);
    return std::move(*value);
  }
};
template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() noexcept {}
  void take() {
    if (failure) std::rethrow_exception(failure);
  }
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;

  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, {})) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (frame_) frame_.destroy();
  }

  auto operator co_await() && noexcept {
    struct Awaiter {
      std::coroutine_handle<promise_type> frame;
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
        frame.promise().continuation = caller;
        return frame;
      }
      T await_resume() { return frame.promise().take(); }
    };
    return Awaiter{frame_};
  }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  std::coroutine_handle<promise_type> frame_;
};

template <class T>
Task<T> detail::Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> detail::Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

// Owns running tasks. What a task is about to need must be in its parameters, by value or
// unique_ptr. The group outlives what its tasks borrow only if it is declared after it.
class TaskGroup {
 public:
  using OnFailure = void (*)(std::exception_ptr);

  explicit TaskGroup(OnFailure on_failure) : on_failure_(on_failure) {}
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;
  ~TaskGroup() { cancel(); }

  // Runs the task up to its first wait before it returns.
  void spawn(Task<> task) { run(*this, std::move(task)); }
  // Destroys every task where it stands. Not to be called from one of them.
  void cancel() {
    while (!roots_.empty()) roots_.front().destroy();
  }
  [[nodiscard]] bool empty() const { return roots_.empty(); }

 private:
  struct Root {
    struct promise_type : boost::intrusive::list_base_hook<
                              boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
      promise_type(TaskGroup& group, Task<>&) : on_failure(group.on_failure_) {
        group.roots_.push_back(*this);
      }
      void destroy() { std::coroutine_handle<promise_type>::from_promise(*this).destroy(); }
      Root get_return_object() { return {}; }
      std::suspend_never initial_suspend() noexcept { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }  // the frame frees itself
      void return_void() noexcept {}
      // The one place where what a library threw inside a session ends.
      void unhandled_exception() noexcept { on_failure(std::current_exception()); }
      OnFailure on_failure;
    };
  };
  static Root run(TaskGroup&, Task<> task) { co_await std::move(task); }

  OnFailure on_failure_;
  boost::intrusive::list<Root::promise_type, boost::intrusive::constant_time_size<false>> roots_;
};

}  // namespace sallyport::net
