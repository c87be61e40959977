// SPDX-License-Identifier: Apache-2.0
#include "net/dial.h"

#include <gmock/gmock.h>

#include <optional>

#include "support/loopback.h"

namespace sallyport::net {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class Dialling : public test::LoopFixture {
 protected:
  void start(std::vector<Endpoint> endpoints, DialOptions options = {}) {
    tasks_.spawn(run(std::move(endpoints), options));
  }
  Task<> run(std::vector<Endpoint> endpoints, DialOptions options) {
    auto dialled = dial(bell_, std::move(endpoints), options);
    result.emplace(co_await std::move(dialled));
  }
  bool ended() {
    return until([&] { return result.has_value(); });
  }
  static Endpoint refusing() { return test::listen_loopback().endpoint; }  // closed again at once
  // Answers no SYN: its queue of one is full.
  Endpoint silent() {
    full_ = test::listen_loopback(0);
    for (Fd& fd : fillers_) fd = test::connect_loopback(full_.endpoint);
    return full_.endpoint;
  }

  test::LoopbackListener good_ = test::listen_loopback();
  test::LoopbackListener full_;
  std::array<Fd, 4> fillers_;
  Bell bell_{reactor};
  std::optional<Result<Dialled>> result;
  TaskGroup tasks_{test::fail_on_exception};
};

TEST_F(Dialling, connects_to_an_address_that_answers) {
  start({good_.endpoint}, {.speaks_first = false});
  ASSERT_TRUE(ended());
  ASSERT_TRUE(*result) << result->error().message;
  EXPECT_EQ((*result)->endpoint, good_.endpoint);
  EXPECT_TRUE(test::accept_now(good_));
}

TEST_F(Dialling, the_end_of_the_handshake_comes_with_the_first_bytes_of_who_speaks_first) {
  start({good_.endpoint});
  ASSERT_TRUE(ended());
  ASSERT_TRUE(*result);
  ASSERT_EQ(::send((*result)->socket->fd(), "x", 1, 0), 1);
  Fd accepted;
  ASSERT_TRUE(until([&] {
    accepted = test::accept_now(good_);
    return static_cast<bool>(accepted);
  }));
  EXPECT_EQ(receive(accepted, 1).bytes, "x");
}

TEST_F(Dialling, a_refused_address_makes_room_for_the_next_at_once) {
  start({refusing(), good_.endpoint},
        {.head_start = std::chrono::hours(1), .deadline = std::chrono::hours(1)});
  ASSERT_TRUE(ended());
  ASSERT_TRUE(*result);
  EXPECT_EQ((*result)->endpoint, good_.endpoint);
}

TEST_F(Dialling, a_silent_address_loses_to_the_next_after_its_head_start) {
  start({silent(), good_.endpoint}, {.head_start = milliseconds(20)});
  ASSERT_TRUE(ended());
  ASSERT_TRUE(*result);
  EXPECT_EQ((*result)->endpoint, good_.endpoint);
}

TEST_F(Dialling, when_none_answers_the_last_error_says_so) {
  const Endpoint last = refusing();
  start({refusing(), last});
  ASSERT_TRUE(ended());
  ASSERT_FALSE(*result);
  EXPECT_THAT(result->error().message, HasSubstr(last.to_string()));
  EXPECT_THAT(result->error().message, HasSubstr("refused"));
}

TEST_F(Dialling, ends_at_its_deadline) {
  start({silent()}, {.deadline = milliseconds(30)});
  ASSERT_TRUE(ended());
  ASSERT_FALSE(*result);
  EXPECT_EQ(result->error().code, Code::timed_out);
}

TEST_F(Dialling, ends_when_it_is_cancelled) {
  start({silent()});
  bell_.cancel();
  ASSERT_TRUE(ended());
  EXPECT_FALSE(*result);
}

TEST_F(Dialling, nothing_to_dial_is_an_error) {
  start({});
  ASSERT_TRUE(ended());
  ASSERT_FALSE(*result);
  EXPECT_EQ(result->error().code, Code::not_found);
}

TEST_F(Dialling, tries_no_more_addresses_than_it_may) {
  start({refusing(), refusing(), good_.endpoint}, {.max_attempts = 2});
  ASSERT_TRUE(ended());
  EXPECT_FALSE(*result);
}

}  // namespace
}  // namespace sallyport::net
