// SPDX-License-Identifier: Apache-2.0
#include "net/reactor.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <stdexcept>

#include "base/sanitizers.h"
#include "net/await_asio.h"
#include "net/listener.h"
#include "support/loopback.h"

namespace sallyport::net {
namespace {

using std::chrono::milliseconds;

class Reacting : public test::LoopFixture {
 protected:
  TaskGroup tasks_{test::fail_on_exception};
};

TEST_F(Reacting, a_bell_that_rang_before_the_wait_is_not_missed) {
  bool done = false;
  Bell bell(reactor);
  const auto wait = [](Bell& b, bool& flag) -> Task<> {
    co_await b.wait();
    flag = true;
  };
  bell.ring();
  tasks_.spawn(wait(bell, done));
  EXPECT_TRUE(done);
}

TEST_F(Reacting, timers_ring_in_the_order_of_their_deadlines) {
  std::vector<int> order;
  const auto wait = [](Reactor& r, milliseconds after, int number,
                       std::vector<int>& into) -> Task<> {
    Bell bell(r);
    Timer timer(bell);
    timer.start(after);
    while (!timer.expired()) co_await bell.wait();
    into.push_back(number);
  };
  tasks_.spawn(wait(reactor, milliseconds(30), 3, order));
  tasks_.spawn(wait(reactor, milliseconds(10), 1, order));
  tasks_.spawn(wait(reactor, milliseconds(20), 2, order));
  ASSERT_TRUE(until([&] { return order.size() == 3; }));
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3));
}

TEST_F(Reacting, a_cancelled_bell_ends_every_later_wait) {
  int waits = 0;
  Bell bell(reactor);
  const auto wait = [](Bell& b, int& count) -> Task<> {
    for (; count < 3; ++count) co_await b.wait();
  };
  tasks_.spawn(wait(bell, waits));
  bell.cancel();
  ASSERT_TRUE(until([&] { return waits == 3; }));
}

TEST_F(Reacting, a_task_that_is_destroyed_while_it_waits_runs_its_destructors) {
  struct Flag {
    bool& set;
    ~Flag() { set = true; }
  };
  bool destroyed = false;
  const auto wait = [](Reactor& r, bool& flag) -> Task<> {
    const Flag on_exit{flag};
    Bell bell(r);
    co_await bell.wait();
  };
  tasks_.spawn(wait(reactor, destroyed));
  EXPECT_FALSE(destroyed);
  tasks_.cancel();
  EXPECT_TRUE(destroyed);
  EXPECT_TRUE(tasks_.empty());
}

TEST_F(Reacting, an_exception_ends_its_task_and_no_other) {
  static int failures;
  failures = 0;
  TaskGroup group([](std::exception_ptr) { ++failures; });
  const auto wait = [](Bell& b, bool fail_now) -> Task<> {
    co_await b.wait();
    if (fail_now) throw std::runtime_error("from a library");
  };
  Bell one(reactor);
  Bell two(reactor);
  group.spawn(wait(one, true));
  group.spawn(wait(two, false));
  one.ring();
  ASSERT_TRUE(until([&] { return failures == 1; }));
  EXPECT_FALSE(group.empty());
  two.ring();
  ASSERT_TRUE(until([&] { return group.empty(); }));
}

boost::asio::awaitable<int> after(boost::asio::io_context& io, milliseconds time, int value) {
  boost::asio::steady_timer timer(io, time);
  co_await timer.async_wait(boost::asio::use_awaitable);
  co_return value;
}

TEST_F(Reacting, a_task_awaits_what_lives_on_asio) {
  int got = 0;
  const auto wait = [](Reactor& r, int& into) -> Task<> {
    into = co_await await_asio(r, after(r.io(), milliseconds(1), 7));
  };
  tasks_.spawn(wait(reactor, got));
  ASSERT_TRUE(until([&] { return got == 7; }));
}

TEST_F(Reacting, what_lives_on_asio_may_outlive_the_task_that_awaits_it) {
  int got = 0;
  const auto wait = [](Reactor& r, int& into) -> Task<> {
    into = co_await await_asio(r, after(r.io(), milliseconds(5), 7));
  };
  tasks_.spawn(wait(reactor, got));
  tasks_.cancel();
  bool later = false;
  boost::asio::steady_timer timer(io, milliseconds(10));
  timer.async_wait([&](boost::system::error_code) { later = true; });
  ASSERT_TRUE(until([&] { return later; }));
  EXPECT_EQ(got, 0);
}

class Listening : public Reacting {
 protected:
  void start() {
    auto made = test::listen_loopback();
    endpoint = made.endpoint;
    listener.emplace(reactor, std::move(made.fd), [this](Fd connection, const Endpoint& local) {
      EXPECT_EQ(local, endpoint);
      accepted.push_back(std::move(connection));
    });
    tasks_.spawn(listener->run());
  }
  ~Listening() override { tasks_.cancel(); }

  Endpoint endpoint;
  std::optional<Listener> listener;
  std::vector<Fd> accepted;
};

TEST_F(Listening, says_the_address_that_the_client_dialled) {
  start();
  const Fd client = test::connect_loopback(endpoint);
  ASSERT_TRUE(until([&] { return accepted.size() == 1; }));
}

//
TEST_F(Listening, out_of_descriptors_it_waits_and_serves_again_when_there_are_some) {
  if (kAddressSanitizer)
    GTEST_SKIP() << "UBSan looks at memory through pipes, and there are none left here";
  start();
  std::vector<Fd> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(test::connect_loopback(endpoint));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // Room for three more.
  const Fd probe(::dup(0));
  const rlimit tight{static_cast<rlim_t>(probe.get()) + 4, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  EXPECT_TRUE(until([&] { return accepted.size() == 3; }));
  io.restart();
  const std::size_t turns = io.run_for(milliseconds(50));
  EXPECT_LT(turns, 20U);  // it does not spin
  EXPECT_EQ(accepted.size(), 3U);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(until([&] { return accepted.size() == 8; }));
}

TEST_F(Listening, may_hold_connections_back_until_they_carry_bytes) {
  start();
  listener->announce_with_data(true);
  const Fd silent = test::connect_loopback(endpoint);
  const Fd speaking = test::connect_loopback(endpoint);
  ASSERT_TRUE(send_all(speaking, "x"));
  ASSERT_TRUE(until([&] { return accepted.size() == 1; }));
  char byte = 0;
  EXPECT_EQ(::recv(accepted[0].get(), &byte, 1, 0), 1);
}

}  // namespace
}  // namespace sallyport::net
