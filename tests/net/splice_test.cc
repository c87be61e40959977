// SPDX-License-Identifier: Apache-2.0
// Sentences of docs/policy.md and practice.md about what happens between an admitted client and its
// upstream.
#include "net/splice.h"

#include <gmock/gmock.h>

#include <optional>

#include "support/loopback.h"

namespace sallyport::net {
namespace {

using test::pattern;

class Relaying : public test::LoopFixture {
 protected:
  void start(RelayLimits limits = {}, std::size_t buffered = 1U << 20,
             std::string_view first = "") {
    budget_.set_limit(buffered);
    room_.emplace(reactor, budget_, limits);
    tasks_.emplace(test::fail_on_exception);
    tasks_->spawn(room_->sweep());
    tasks_->spawn(relay({first.begin(), first.end()}));
  }
  Task<> relay(std::vector<std::uint8_t> first) {
    Relay relay(*room_, bell_, client_, upstream_, std::move(first));
    outcome = co_await relay.run();
  }
  bool ended() {
    return until([&] { return outcome.has_value(); });
  }

  test::TcpPair guest_{test::tcp_pair()}, origin_{test::tcp_pair()};
  Fd& guest = guest_.near;    // the sandbox's end
  Fd& origin = origin_.near;  // the server's end
  Budget budget_{0};
  Bell bell_{reactor};
  Socket client_{std::move(guest_.far)}, upstream_{std::move(origin_.far)};
  std::optional<RelayRoom> room_;
  std::optional<Relay::Outcome> outcome;
  std::optional<TaskGroup> tasks_;
};

TEST_F(Relaying, bytes_read_before_come_first_and_nothing_is_changed) {
  start({}, 1U << 20, "hello ");
  ASSERT_TRUE(send_all(guest, "origin"));
  EXPECT_EQ(receive(origin, 12).bytes, "hello origin");
  ASSERT_TRUE(send_all(origin, "hello guest"));
  EXPECT_EQ(receive(guest, 11).bytes, "hello guest");
}

//
TEST_F(Relaying, a_client_that_finished_sending_still_gets_the_whole_answer) {
  start();
  ASSERT_TRUE(send_all(guest, "0123456789"));
  ::shutdown(guest.get(), SHUT_WR);
  const auto asked = receive(origin);
  EXPECT_EQ(asked.bytes, "0123456789");
  EXPECT_TRUE(asked.finished);
  const std::string answer = pattern(256U << 10, 1);
  ASSERT_TRUE(send_all(origin, answer));
  origin.reset();
  const auto got = receive(guest);
  EXPECT_TRUE(got.bytes == answer);
  EXPECT_TRUE(got.finished);
  ASSERT_TRUE(ended());
  EXPECT_EQ(outcome->end, Relay::End::done);
  EXPECT_EQ(outcome->up, 10U);
  EXPECT_EQ(outcome->down, answer.size());
}

// R-016, the mirror image
TEST_F(Relaying, a_server_that_finished_sending_still_gets_the_whole_upload) {
  start();
  ASSERT_TRUE(send_all(origin, "greeting"));
  ::shutdown(origin.get(), SHUT_WR);
  const auto greeting = receive(guest);
  EXPECT_EQ(greeting.bytes, "greeting");
  EXPECT_TRUE(greeting.finished);
  const std::string upload = pattern(256U << 10, 2);
  ASSERT_TRUE(send_all(guest, upload));
  guest.reset();
  const auto got = receive(origin);
  EXPECT_TRUE(got.bytes == upload);
  EXPECT_TRUE(got.finished);
  ASSERT_TRUE(ended());
  EXPECT_EQ(outcome->end, Relay::End::done);
}

struct Room {
  const char* name;
  std::size_t pipes;
  std::size_t buffered;
};
class RelayingInARoom : public Relaying, public testing::WithParamInterface<Room> {};

// every byte arrives, whatever the room: with pipes, without any, and with nowhere to
// keep a byte.
TEST_P(RelayingInARoom, sixteen_megabytes_pass_both_ways_at_once_unchanged) {
  RelayLimits limits;
  limits.pipes = GetParam().pipes;
  start(limits, GetParam().buffered);
  const std::string up = pattern(16U << 20, 3);
  const std::string down = pattern(16U << 20, 4);
  std::string_view up_left = up;
  std::string_view down_left = down;
  std::string up_got;
  std::string down_got;
  std::string buffer(48U << 10, '\0');
  const auto push = [](const Fd& fd, std::string_view& left) {
    const ssize_t sent =
        ::send(fd.get(), left.data(), std::min<std::size_t>(left.size(), 100'000), MSG_NOSIGNAL);
    if (sent > 0) left.remove_prefix(static_cast<std::size_t>(sent));
    if (left.empty()) ::shutdown(fd.get(), SHUT_WR);
  };
  const auto pull = [&](const Fd& fd, std::string& into) {
    const ssize_t got = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
  };
  ASSERT_TRUE(until([&] {
    if (!up_left.empty()) push(guest, up_left);
    if (!down_left.empty()) push(origin, down_left);
    pull(origin, up_got);
    pull(guest, down_got);
    return outcome.has_value() && up_got.size() == up.size() && down_got.size() == down.size();
  }));
  EXPECT_TRUE(up_got == up);
  EXPECT_TRUE(down_got == down);
  EXPECT_EQ(outcome->end, Relay::End::done);
  EXPECT_EQ(budget_.used(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Rooms, RelayingInARoom,
                         testing::Values(Room{"pipes", 8, 1U << 20}, Room{"no_pipes", 0, 1U << 20},
                                         Room{"no_room", 0, 0}),
                         [](const auto& info) { return info.param.name; });

//
TEST_F(Relaying, a_slow_reader_slows_the_sender_and_costs_at_most_one_read) {
  start({.pipes = 0});
  const std::string chunk = pattern(1U << 20, 5);
  std::size_t taken = 0;
  // The sender is stuck once nothing more is taken although the loop has nothing left to do.
  for (int still = 0; still < 20;) {
    const ssize_t sent = ::send(origin.get(), chunk.data(), chunk.size(), MSG_NOSIGNAL);
    taken += sent > 0 ? static_cast<std::size_t>(sent) : 0;
    still = sent > 0 ? 0 : still + 1;
    io.restart();
    io.run_for(std::chrono::milliseconds(1));
  }
  EXPECT_LE(budget_.used(), 16U << 10);
  const auto got = receive(guest, taken);
  EXPECT_EQ(got.bytes.size(), taken);
  ASSERT_TRUE(until([&] { return budget_.used() == 0; }));
}

TEST_F(Relaying, a_reset_by_the_client_is_a_reset_for_the_upstream) {
  start();
  ASSERT_TRUE(send_all(guest, "x"));
  ASSERT_EQ(receive(origin, 1).bytes, "x");
  Socket(std::move(guest)).reset();
  EXPECT_EQ(receive(origin).error, ECONNRESET);
  ASSERT_TRUE(ended());
  EXPECT_EQ(outcome->end, Relay::End::client_reset);
}

TEST_F(Relaying, a_reset_by_the_upstream_is_a_reset_for_the_client) {
  start();
  Socket(std::move(origin)).reset();
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  ASSERT_TRUE(ended());
  EXPECT_EQ(outcome->end, Relay::End::upstream_reset);
}

TEST_F(Relaying, what_a_server_said_before_it_left_reaches_a_client_that_still_sends) {
  start();
  ASSERT_TRUE(send_all(origin, "413 too large"));
  const std::string upload = pattern(4U << 20, 6);
  std::string_view left = upload;
  // The server never reads: the upload backs up, then the server closes with unread bytes, which is
  // an RST.
  for (int i = 0; i < 50; ++i) {
    const ssize_t sent = ::send(guest.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent > 0) left.remove_prefix(static_cast<std::size_t>(sent));
    io.restart();
    io.run_for(std::chrono::milliseconds(1));
  }
  origin.reset();
  EXPECT_EQ(receive(guest, 13).bytes, "413 too large");
  ASSERT_TRUE(ended());
  EXPECT_EQ(outcome->end, Relay::End::upstream_reset);
}

//
TEST_F(Relaying, a_half_closed_connection_without_traffic_ends) {
  start({.half_closed = std::chrono::seconds(0), .sweep = std::chrono::milliseconds(1)});
  ::shutdown(guest.get(), SHUT_WR);
  EXPECT_TRUE(receive(origin).finished);
  ASSERT_TRUE(ended());
  EXPECT_EQ(outcome->end, Relay::End::half_closed);
  EXPECT_EQ(receive(guest).error, ECONNRESET);
}

//
TEST_F(Relaying, an_idle_connection_ends_only_by_the_idle_limit_and_gets_keepalive) {
  start({.half_closed = std::chrono::seconds(0),
         .idle = std::chrono::hours(1),
         .keepalive_after = std::chrono::seconds(0),
         .sweep = std::chrono::milliseconds(1)});
  int on = 0;
  socklen_t length = sizeof on;
  ASSERT_TRUE(until([&] {
    return ::getsockopt(upstream_.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, &length) == 0 && on == 1;
  }));
  EXPECT_FALSE(outcome);
  ASSERT_TRUE(send_all(guest, "late"));
  EXPECT_EQ(receive(origin, 4).bytes, "late");
}

TEST_F(Relaying, an_idle_connection_ends_at_the_idle_limit) {
  start({.idle = std::chrono::seconds(0), .sweep = std::chrono::milliseconds(1)});
  ASSERT_TRUE(ended());
  EXPECT_EQ(outcome->end, Relay::End::idle);
}

// no byte passes after the cut.
TEST_F(Relaying, a_cut_resets_both_ends) {
  start();
  ASSERT_TRUE(send_all(guest, "x"));
  ASSERT_EQ(receive(origin, 1).bytes, "x");
  client_.reset();
  upstream_.reset();
  bell_.cancel();
  EXPECT_EQ(receive(origin).error, ECONNRESET);
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  ASSERT_TRUE(ended());
  EXPECT_EQ(outcome->end, Relay::End::cancelled);
}

TEST_F(Relaying, bytes_after_urgent_data_and_before_the_end_are_not_lost) {
  start();
  ASSERT_EQ(::send(guest.get(), "before!", 7, MSG_OOB),
            7);  // the last byte is the urgent one, which no relay carries
  ASSERT_TRUE(send_all(guest, "after"));
  guest.reset();
  EXPECT_EQ(receive(origin).bytes, "beforeafter");
  origin.reset();
  ASSERT_TRUE(ended());
  EXPECT_EQ(outcome->end, Relay::End::done);
}

TEST(PipePool, never_makes_more_pipes_than_it_may) {
  PipePool pool(2, 4096);
  auto one = pool.take();
  auto two = pool.take();
  ASSERT_TRUE(one && two);
  EXPECT_EQ(pool.take(), nullptr);
  pool.give(std::move(one));
  EXPECT_NE(pool.take(), nullptr);
  two.reset();  // closed with bytes in it
  pool.lose();
  EXPECT_NE(pool.take(), nullptr);
}

}  // namespace
}  // namespace sallyport::net
