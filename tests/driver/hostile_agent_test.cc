// SPDX-License-Identifier: Apache-2.0
// The client against agents that lie: proper HTTP/2 with hostile content, no HTTP/2 at all,
// silence.
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <filesystem>
#include <thread>

#include "driver/agent_session.h"
#include "guest/http_server.h"
#include "support/live_agent.h"

namespace sallyport::test {
namespace {

using guest::Answer;
using guest::RecordType;
using guest::render_record;
using namespace std::chrono_literals;

Fd listen_at(const std::string& path) {
  Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  CHECK(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  CHECK(::listen(listener.get(), 4) == 0);
  return listener;
}

class Folder {
 public:
  Folder() { CHECK(::mkdtemp(path_.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string socket() const { return path_ + "/s"; }

 private:
  std::string path_ = "/tmp/sallyport-hostile-XXXXXX";
};

// Answers /v1/health as it should and everything else with what the test gives.
class Liar {
 public:
  explicit Liar(Answer answer)
      : stop_(::eventfd(0, EFD_CLOEXEC)), thread_([this, answer] { serve(answer); }) {
    auto connected = await_on(context, driver::AgentClient::connect(folder_.socket(), 20s));
    CHECK(connected.has_value());
    client = std::move(*connected);
  }
  ~Liar() {
    client.reset();
    const std::uint64_t one = 1;
    CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one);
    thread_.join();
  }
  Ran run(std::uint64_t timeout_ms = 0) {
    return await_on(context,
                    start_and_collect(*client, {.command = "x", .timeout_ms = timeout_ms}));
  }

  boost::asio::io_context context;
  std::unique_ptr<driver::AgentClient> client;

 private:
  void serve(const Answer& answer) {
    guest::Loop loop;
    guest::HttpServer server(
        loop, std::move(listener_),
        [&answer](guest::Request request, const guest::Respond& respond) {
          if (request.path == "/v1/health") {
            return respond({.status = 200, .body = R"({"agent":"x","pid":1})", .stream = nullptr});
          }
          respond(answer);
        });
    loop.watch(stop_.get(), EPOLLIN, [&loop] { loop.stop(); });
    loop.run();
    loop.forget(stop_.get());
  }

  Folder folder_;
  Fd listener_ = listen_at(folder_.socket());
  Fd stop_;
  std::thread thread_;
};

Answer records(const std::string& body) { return {.status = 200, .body = body, .stream = nullptr}; }
const std::string kStarted = render_record(RecordType::started, R"({"pid":7})");
const std::string kExit = render_record(RecordType::exit, R"({"code":0})");

TEST(HostileAgent, the_test_itself_can_tell_a_good_one) {
  Liar liar(records(kStarted + render_record(RecordType::out, "hi") + kExit));
  const Ran ran = liar.run();
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.out, "hi");
  EXPECT_EQ(ran.pid, 7);
}

class Lie : public ::testing::TestWithParam<std::pair<const char*, std::string>> {};

TEST_P(Lie, is_an_error_and_costs_the_connection) {
  Liar liar(records(GetParam().second));
  const Ran ran = liar.run();
  EXPECT_NE(ran.error, "");
  EXPECT_EQ(ran.code, Code::unavailable);
}

INSTANTIATE_TEST_SUITE_P(
    Records, Lie,
    ::testing::Values(std::pair{"nothing", std::string()},
                      std::pair{"output_first", render_record(RecordType::out, "x") + kExit},
                      std::pair{"exit_first", kExit},
                      std::pair{"started_twice", kStarted + kStarted + kExit},
                      std::pair{"unknown_type", kStarted + std::string("\x09\0\0\0\0", 5)},
                      std::pair{"too_long", kStarted + std::string("\x02\xff\xff\xff\xff", 5)},
                      std::pair{"cut_in_a_record", kStarted + std::string("\x02\0\0\0\5ab", 7)},
                      std::pair{"no_exit", kStarted + render_record(RecordType::out, "x")},
                      std::pair{"odd_exit", kStarted + render_record(RecordType::exit, "{}")},
                      std::pair{"pid_zero",
                                render_record(RecordType::started, R"({"pid":0})") + kExit},
                      std::pair{"html", std::string("<html></html>")}),
    [](const auto& info) { return std::string(info.param.first); });

TEST(HostileAgent, what_follows_the_exit_is_not_read) {
  Liar liar(records(kStarted + kExit + render_record(RecordType::out, "late")));
  const Ran ran = liar.run();
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.out, "");
}

TEST(HostileAgent, a_refusal_of_any_size_is_bounded) {
  Liar liar({.status = 400, .body = std::string(10 << 20, 'x'), .stream = nullptr});
  EXPECT_EQ(liar.run().code, Code::unavailable);
}

TEST(HostileAgent, an_endless_stream_of_output_is_held_back_not_kept) {
  class Endless final : public guest::BodySource {
   public:
    explicit Endless(std::shared_ptr<std::atomic<std::size_t>> made)
        : made_(std::move(made)), pending_(kStarted) {}
    std::size_t read(std::span<std::uint8_t> out, bool&) override {
      while (pending_.size() < out.size())
        pending_ += render_record(RecordType::out, std::string(16000, 'x'));
      const std::size_t count = pending_.copy(reinterpret_cast<char*>(out.data()), out.size());
      pending_.erase(0, count);
      *made_ += count;
      return count;
    }
    void abandoned() override {}

   private:
    std::shared_ptr<std::atomic<std::size_t>> made_;
    std::string pending_;
  };
  const auto made = std::make_shared<std::atomic<std::size_t>>(0);
  Liar liar({.status = 200, .body = {}, .stream = std::make_shared<Endless>(made)});
  auto command = await_on(liar.context, liar.client->start({.command = "x"}));
  ASSERT_TRUE(command);
  // Other requests go on while nobody reads; each round trip gives the stream a chance to overrun.
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(await_on(liar.context, liar.client->health()));
  EXPECT_LE(*made, 2 * driver::kStreamWindow);
}

// Agents that do not speak HTTP/2: `bytes` go out to whoever connects, then the socket is held or
// closed.
class Mute {
 public:
  Mute(std::string bytes, bool close)
      : thread_([this, bytes, close] {
          Fd peer(::accept(listener_.get(), nullptr, nullptr));
          ::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
          if (close) peer.reset();
          std::uint64_t ignored = 0;
          CHECK(::read(stop_.get(), &ignored, sizeof ignored) == sizeof ignored);
        }) {}
  ~Mute() {
    const std::uint64_t one = 1;
    CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one);
    thread_.join();
  }
  Code connect(std::chrono::milliseconds limit) {
    boost::asio::io_context context;
    const auto connected = await_on(context, driver::AgentClient::connect(folder_.socket(), limit));
    EXPECT_FALSE(connected);
    return connected ? Code::internal : connected.error().code;
  }

 private:
  Folder folder_;
  Fd listener_ = listen_at(folder_.socket());
  Fd stop_{::eventfd(0, EFD_CLOEXEC)};
  std::thread thread_;
};

TEST(HostileAgent, silence_ends_at_the_deadline) {
  EXPECT_EQ(Mute("", false).connect(200ms), Code::timed_out);
}
TEST(HostileAgent, a_closed_connection_ends_at_once) {
  EXPECT_EQ(Mute("", true).connect(60s), Code::unavailable);
}
TEST(HostileAgent, another_protocol_ends_at_once) {
  EXPECT_EQ(Mute("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", false).connect(60s),
            Code::unavailable);
}
TEST(HostileAgent, nobody_there_is_unavailable) {
  boost::asio::io_context context;
  const auto connected =
      await_on(context, driver::AgentClient::connect("/tmp/sallyport-nobody/agent.sock", 60s));
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, Code::unavailable);
}
TEST(HostileAgent, a_path_too_long_for_a_socket_is_refused) {
  boost::asio::io_context context;
  EXPECT_FALSE(await_on(context, driver::AgentClient::connect("/" + std::string(200, 'x'), 60s)));
}

}  // namespace
}  // namespace sallyport::test
