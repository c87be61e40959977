// SPDX-License-Identifier: Apache-2.0
// The worker's answers to its supervisor, over a real socket pair.
#include "firewall/worker.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/un.h>

#include <boost/json.hpp>
#include <cstring>

#include "firewall/control.h"
#include "firewall/refusal.h"
#include "support/hello.h"
#include "support/loopback.h"
#include "support/own_network.h"

namespace sallyport::firewall {
namespace {

using testing::HasSubstr;

class Supervised : public test::LoopFixture {
 protected:
  struct Supervisor {
    Fd fd;
    std::string in;
    std::int64_t id = 0;
  };

  void start() {
    Supervisor first;
    WorkerSockets sockets;
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    supervisor.fd = Fd(ends[0]);
    sockets.control = Fd(ends[1]);
    sockets.listen = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un any{.sun_family = AF_UNIX, .sun_path = {}};
    ASSERT_EQ(::bind(sockets.listen.get(), reinterpret_cast<sockaddr*>(&any), sizeof(sa_family_t)),
              0);  // abstract, chosen
    ASSERT_EQ(::listen(sockets.listen.get(), 4), 0);
    listen_length_ = sizeof listen_address_;
    ::getsockname(sockets.listen.get(), reinterpret_cast<sockaddr*>(&listen_address_),
                  &listen_length_);
    auto listener = test::listen_loopback(64, "198.18.0.9");
    firewall = listener.endpoint;
    sockets.tcp4 = std::move(listener.fd);
    log = Fd(::memfd_create("egress", MFD_CLOEXEC));
    sockets.log = Fd(::dup(log.get()));
    worker.emplace(io, std::move(sockets), WorkerOptions{});
    worker->start();
  }
  Supervisor second_supervisor() {
    Supervisor out{Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), {}, 0};
    EXPECT_EQ(
        ::connect(out.fd.get(), reinterpret_cast<sockaddr*>(&listen_address_), listen_length_), 0);
    return out;
  }

  std::optional<json::object> next_frame(Supervisor& from) {
    std::optional<json::object> out;
    std::string buffer(4096, '\0');
    bool closed = false;
    until([&] {
      if (auto frame = control::parse_frame(as_bytes(from.in))) {
        out = std::move(frame->body);
        from.in.erase(0, frame->consumed);
        return true;
      }
      const ssize_t got = ::recv(from.fd.get(), buffer.data(), buffer.size(), 0);
      if (got > 0) from.in.append(buffer.data(), static_cast<std::size_t>(got));
      closed = got == 0 || (got < 0 && errno != EAGAIN);
      return closed;
    });
    return out;
  }
  json::object ask(Supervisor& from, json::object request) {
    request["id"] = ++from.id;
    EXPECT_TRUE(send_all(from.fd, control::render_frame(request)));
    auto answer = next_frame(from);
    EXPECT_TRUE(answer && answer->at("id").to_number<std::int64_t>() == from.id);
    return answer.value_or(json::object{{"ok", false}});
  }
  json::object ask(json::object request) { return ask(supervisor, std::move(request)); }
  json::object configured() {
    return {{"op", "configure"},
            {"sandbox", "sbx_1"},
            {"boundary", {{"opened", {"198.18.0.0/15"}}}},
            {"resolvers", json::array()},
            {"guest", {"198.18.0.2"}}};
  }
  static bool ok(const json::object& answer) { return answer.at("ok").as_bool(); }
  static std::string error(const json::object& answer, std::string_view what) {
    return ok(answer) ? "(ok)" : std::string(answer.at("error").at(what).as_string());
  }
  void apply(std::uint64_t version, json::value policy) {
    ASSERT_TRUE(ok(ask({{"op", "prepare"}, {"version", version}, {"policy", std::move(policy)}})));
    ASSERT_TRUE(ok(ask({{"op", "commit"}, {"version", version}})));
  }

  Supervisor supervisor;
  Endpoint firewall;
  Fd log;
  std::optional<Worker> worker;

 private:
  sockaddr_un listen_address_{};
  socklen_t listen_length_ = 0;
};

TEST_F(Supervised, configures_prepares_and_commits) {
  start();
  EXPECT_TRUE(ok(ask(configured())));
  apply(7, {{"allow", {"a.example"}}});
  const auto stats = ask({{"op", "stats"}});
  EXPECT_EQ(stats.at("version").to_number<int>(), 7);
  EXPECT_EQ(stats.at("open").to_number<int>(), 0);
}

// Issue 2: validated in full and then refused, never half-applied.
TEST_F(Supervised, a_policy_whose_domains_carry_rules_is_refused_as_a_whole) {
  start();
  const auto with_rules = json::parse(
      R"({"allow":{"free.example":[],"api.example":[{"transform":[{"headers":{"authorization":"secret"}}]}]}})");
  const auto answer = ask({{"op", "prepare"}, {"version", 2}, {"policy", with_rules}});
  EXPECT_EQ(error(answer, "code"), "invalid");
  EXPECT_THAT(error(answer, "message"), HasSubstr("rules on api.example"));
  EXPECT_THAT(json::serialize(answer), testing::Not(HasSubstr("secret")));
  EXPECT_EQ(error(ask({{"op", "commit"}, {"version", 2}}), "code"), "not_found");
  EXPECT_EQ(ask({{"op", "stats"}}).at("version").to_number<int>(), 0);
}

// R-095
TEST_F(Supervised, an_invalid_policy_is_refused_with_the_path_of_the_entry) {
  start();
  const auto answer = ask({{"op", "prepare"},
                           {"version", 2},
                           {"policy", {{"allow", {"good.example", "bad*.example"}}}}});
  EXPECT_EQ(error(answer, "code"), "invalid");
  EXPECT_THAT(error(answer, "message"), HasSubstr("bad*.example"));
}

TEST_F(Supervised, requests_that_make_no_sense_are_refused_and_change_nothing) {
  start();
  for (const char* text :
       {R"({})", R"({"op":"explode"})", R"({"op":7})", R"({"op":"prepare"})",
        R"({"op":"prepare","version":-1})", R"({"op":"prepare","version":1})", R"({"op":"commit"})",
        R"({"op":"abort","version":3})", R"({"op":"rotate_log"})", R"({"op":"configure"})",
        R"({"op":"configure","sandbox":"s"})",
        R"({"op":"configure","sandbox":"s","boundary":{"closed":["x"]}})",
        R"({"op":"configure","sandbox":"s","boundary":{},"resolvers":["nowhere"]})",
        R"({"op":"configure","sandbox":"s","boundary":{},"guest":[1]})"}) {
    EXPECT_FALSE(ok(ask(json::parse(text).as_object()))) << text;
  }
  EXPECT_EQ(ask({{"op", "stats"}}).at("version").to_number<int>(), 0);
}

TEST_F(Supervised, a_frame_that_cannot_be_read_ends_the_channel_and_not_the_worker) {
  start();
  ASSERT_TRUE(send_all(supervisor.fd, std::string("\x00\x00\x00\x02{]", 6)));
  EXPECT_FALSE(next_frame(supervisor));
  auto again = second_supervisor();
  EXPECT_TRUE(ok(ask(again, {{"op", "stats"}})));
}

// R-097: a daemon that restarts finds its worker with the policy in force.
TEST_F(Supervised, a_new_supervisor_takes_over_and_the_old_channel_closes) {
  start();
  ASSERT_TRUE(ok(ask(configured())));
  apply(4, "allow-all");
  auto second = second_supervisor();
  EXPECT_EQ(ask(second, {{"op", "stats"}}).at("version").to_number<int>(), 4);
  EXPECT_FALSE(next_frame(supervisor));
}

TEST_F(Supervised, without_its_supervisor_the_worker_keeps_the_policy_in_force) {
  start();
  ASSERT_TRUE(ok(ask(configured())));
  apply(4, {{"allow", {"a.example"}}});
  supervisor.fd.reset();
  const Fd guest = test::connect_loopback(firewall);
  ASSERT_TRUE(send_all(guest, test::record(test::Hello().sni("b.example").message())));
  EXPECT_EQ(receive(guest).bytes.substr(0, 1), "\x15");
}

// A supervisor that dies between prepare and commit may have changed nftables: nothing new is
// decided until it is back.
TEST_F(Supervised, an_update_whose_supervisor_died_stays_held_until_the_next_one_ends_it) {
  start();
  ASSERT_TRUE(ok(ask(configured())));
  apply(1, {{"allow", {"a.example"}}});
  ASSERT_TRUE(ok(ask({{"op", "prepare"}, {"version", 2}, {"policy", "deny-all"}})));
  supervisor.fd.reset();
  const Fd guest = test::connect_loopback(firewall);
  ASSERT_TRUE(send_all(guest, test::record(test::Hello().sni("b.example").message())));
  io.restart();
  io.run_for(std::chrono::milliseconds(30));
  char byte = 0;
  EXPECT_EQ(::recv(guest.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, EAGAIN);
  auto again = second_supervisor();
  ASSERT_TRUE(ok(ask(again, {{"op", "prepare"}, {"version", 2}, {"policy", "deny-all"}})));
  ASSERT_TRUE(ok(ask(again, {{"op", "commit"}, {"version", 2}})));
  EXPECT_EQ(receive(guest).bytes.substr(0, 1), "\x15");
}

TEST_F(Supervised, the_log_rotates_to_the_descriptor_that_was_passed) {
  start();
  ASSERT_TRUE(ok(ask(configured())));
  const Fd next(::memfd_create("next", MFD_CLOEXEC));
  const std::string frame = control::render_frame({{"id", ++supervisor.id}, {"op", "rotate_log"}});
  iovec part{const_cast<char*>(frame.data()), frame.size()};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = sizeof ancillary;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = next.get();
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  ASSERT_EQ(::sendmsg(supervisor.fd.get(), &message, 0), static_cast<ssize_t>(frame.size()));
  const auto answer = next_frame(supervisor);
  ASSERT_TRUE(answer && ok(*answer));

  const Fd guest = test::connect_loopback(firewall);
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  EXPECT_TRUE(until([&] { return ::lseek(next.get(), 0, SEEK_END) > 0; }));
  EXPECT_EQ(::lseek(log.get(), 0, SEEK_END), 0);
}

TEST_F(Supervised, a_log_at_its_limit_is_reported_once) {
  start();
  auto request = configured();
  request["limits"] = {{"log_bytes", 100}};
  ASSERT_TRUE(ok(ask(request)));
  const Fd guest = test::connect_loopback(firewall);
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  const auto event = next_frame(supervisor);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->at("event").as_string(), "log_full");
  EXPECT_GT(event->at("bytes").to_number<int>(), 100);
}

// R-018, R-021: a cap of the sandbox, and room again when connections end.
TEST_F(Supervised, connections_beyond_the_cap_are_refused_at_once) {
  start();
  auto request = configured();
  request["limits"] = {{"connections", 2}};
  ASSERT_TRUE(ok(ask(request)));
  apply(1, {{"allow", {"a.example"}}});
  std::vector<Fd> open;  // in the middle of their hellos
  for (int i = 0; i < 2; ++i) {
    open.push_back(test::connect_loopback(firewall));
    ASSERT_TRUE(send_all(open.back(), std::string("\x16\x03\x01", 3)));
  }
  ASSERT_TRUE(until([&] { return ask({{"op", "stats"}}).at("open").to_number<int>() == 2; }));
  const Fd third = test::connect_loopback(firewall);
  ASSERT_TRUE(send_all(third, "x"));
  EXPECT_EQ(receive(third).error, ECONNRESET);
  open.clear();
  ASSERT_TRUE(until([&] { return ask({{"op", "stats"}}).at("open").to_number<int>() == 0; }));
  const Fd fourth = test::connect_loopback(firewall);
  ASSERT_TRUE(send_all(fourth, test::record(test::Hello().sni("b.example").message())));
  EXPECT_EQ(receive(fourth).bytes.substr(0, 1), "\x15");
}

TEST(LooksLikeHttp, knows_request_lines_and_nothing_else) {
  EXPECT_TRUE(looks_like_http(as_bytes("GET / HTTP/1.1\r\n")));
  EXPECT_TRUE(looks_like_http(as_bytes("DELETE /x")));
  EXPECT_FALSE(looks_like_http(as_bytes("GE")));
  EXPECT_FALSE(looks_like_http(as_bytes("get / ")));
  EXPECT_FALSE(looks_like_http(as_bytes("GETX / ")));
  EXPECT_FALSE(looks_like_http(as_bytes("SSH-2.0-x")));
}

}  // namespace
}  // namespace sallyport::firewall
