// SPDX-License-Identifier: Apache-2.0
// The resolver with the real libunbound against an authority on the loopback.
#include "net/unbound_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

#include "dns/message.h"
#include "net/address_cache.h"
#include "support/dns_authority.h"

namespace sallyport {
namespace {

namespace asio = boost::asio;
using test::a_record;
using test::cname_record;
using test::DnsAuthority;
using test::DnsReply;
using testing::ElementsAre;

DnsReply zone(const std::string& name, std::uint16_t type, unsigned number) {
  if (name == "both.test")
    return {.answers = {a_record(name, type == 1 ? "198.18.0.1" : "2001:db8::1")}};
  if (name == "four.test")
    return type == 1 ? DnsReply{.answers = {a_record(name, "198.18.0.4")}} : test::no_data("test");
  if (name == "six.test")
    return type == 28 ? DnsReply{.answers = {a_record(name, "2001:db8::6")}}
                      : test::no_data("test");
  if (name == "chain.test" && type == 1)
    return {.answers = {cname_record(name, "x.cdn.test"), cname_record("x.cdn.test", "y.evil.test"),
                        a_record("y.evil.test", "203.0.113.5")}};
  // libunbound believes only the first link and asks for the next one itself.
  if (name == "x.cdn.test" && type == 1)
    return {.answers = {cname_record(name, "y.evil.test"), a_record("y.evil.test", "203.0.113.5")}};
  if (name == "y.evil.test" && type == 1) return {.answers = {a_record(name, "203.0.113.5")}};
  if (name == "turn.test" && type == 1) {
    const char* const turns[] = {"198.51.100.5", "169.254.169.254", "10.0.0.5"};
    return {.answers = {a_record(name, turns[number % 3], 0)}};
  }
  if (name == "many.test" && type == 1) {
    DnsReply reply;
    for (int i = 0; i < 42; ++i)
      reply.answers.push_back(a_record(name, "198.18.1." + std::to_string(i)));
    return reply;
  }
  if (name == "fail.test") return {.rcode = 2};
  if (name == "silent.test") return {.silent = true};
  if (name == "half.test")
    return type == 1 ? DnsReply{.answers = {a_record(name, "198.18.0.7")}}
                     : DnsReply{.silent = true};
  if (name == "late.test")
    return number == 0 ? DnsReply{.silent = true}
                       : DnsReply{.answers = {a_record(name, "198.18.0.8")}};
  if (name == "turn.test" || name == "many.test" || name == "chain.test")
    return test::no_data("test");
  return {.rcode = 3, .authority = test::no_data("test").authority};
}

class UnboundResolverTest : public testing::Test {
 protected:
  void open(UnboundResolver::Options options = {}) {
    auto made = UnboundResolver::make(io_.get_executor(), {authority_.endpoint()}, options);
    ASSERT_TRUE(made) << made.error().message;
    resolver_ = std::move(*made);
  }
  template <class T>
  T run(asio::awaitable<T> task) {
    auto future = asio::co_spawn(io_, std::move(task), asio::use_future);
    io_.restart();
    while (future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io_.run_one();
    return future.get();
  }
  Result<Resolver::Resolution> resolve(std::string name) {
    return run(resolver_->resolve(std::move(name), true, true));
  }
  std::vector<std::string> addresses(std::string name) {
    const auto found = resolve(std::move(name));
    std::vector<std::string> out;
    if (!found) return {"error: " + found.error().message};
    for (const Address& address : found->addresses) out.push_back(address.to_string());
    return out;
  }

  DnsAuthority authority_{zone};
  asio::io_context io_;
  std::unique_ptr<UnboundResolver> resolver_;
};

TEST_F(UnboundResolverTest, gives_ipv6_and_ipv4_addresses_of_a_name) {
  open();
  EXPECT_THAT(addresses("both.test"), ElementsAre("2001:db8::1", "198.18.0.1"));
  EXPECT_THAT(addresses("Both.Test."), ElementsAre("2001:db8::1", "198.18.0.1"));
  EXPECT_EQ(authority_.asked(), 2U);
}

//
TEST_F(UnboundResolverTest, a_missing_family_is_no_failure) {
  open();
  EXPECT_THAT(addresses("four.test"), ElementsAre("198.18.0.4"));
  EXPECT_THAT(addresses("six.test"), ElementsAre("2001:db8::6"));
  const auto missing = resolve("missing.test");
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->rcode, 3);
  EXPECT_TRUE(missing->addresses.empty());
}

// the resolver follows the chain; whether that gains anything is not its business.
TEST_F(UnboundResolverTest, follows_a_cname_chain) {
  open();
  EXPECT_THAT(addresses("chain.test"), ElementsAre("203.0.113.5"));
  const auto answer = run(resolver_->query("chain.test", 1));
  ASSERT_TRUE(answer);
  EXPECT_EQ((*answer)[7], 3) << "the whole chain is in the answer";
}

// one lookup per connection, never an address of an earlier one.
TEST_F(UnboundResolverTest, ttl_zero_is_asked_anew_each_time) {
  open();
  for (unsigned i = 0; i < 30; ++i) {
    const char* const turns[] = {"198.51.100.5", "169.254.169.254", "10.0.0.5"};
    EXPECT_THAT(addresses("turn.test"), ElementsAre(turns[i % 3]));
    EXPECT_EQ(authority_.asked("turn.test", 1), i + 1);
  }
}

//
TEST_F(UnboundResolverTest, a_cut_answer_is_fetched_over_tcp) {
  open();
  EXPECT_EQ(addresses("many.test").size(), 42U);
  const auto answer = run(resolver_->query("many.test", 1));
  ASSERT_TRUE(answer);
  EXPECT_EQ((*answer)[7], 42);
}

TEST_F(UnboundResolverTest, identical_questions_in_flight_are_one_upstream) {
  open();
  std::vector<std::future<Result<Resolver::Resolution>>> futures;
  for (int i = 0; i < 20; ++i)
    futures.push_back(
        asio::co_spawn(io_, resolver_->resolve("turn.test", true, false), asio::use_future));
  for (auto& future : futures) {
    while (future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io_.run_one();
    const auto found = future.get();
    ASSERT_TRUE(found);
    ASSERT_EQ(found->addresses.size(), 1U);
    EXPECT_EQ(found->addresses[0].to_string(), "198.51.100.5");
  }
  EXPECT_EQ(authority_.asked("turn.test", 1), 1U);
}

//
TEST_F(UnboundResolverTest, servfail_is_told_truly) {
  open();
  const auto answer = run(resolver_->query("fail.test", 1));
  ASSERT_TRUE(answer);
  EXPECT_EQ((*answer)[3] & 0xf, 2);
  const auto found = resolve("fail.test");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rcode, 2);
}

TEST_F(UnboundResolverTest, a_silent_server_ends_at_the_deadline) {
  open({.deadline = std::chrono::milliseconds(100)});
  const auto answer = run(resolver_->query("silent.test", 1));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::timed_out);
  const auto found = resolve("silent.test");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::timed_out);
}

// RFC 8305 s3
TEST_F(UnboundResolverTest, one_family_does_not_wait_long_for_the_other) {
  open({.deadline = std::chrono::hours(1), .second_family_delay = std::chrono::milliseconds(5)});
  EXPECT_THAT(addresses("half.test"), ElementsAre("198.18.0.7"));
}

TEST_F(UnboundResolverTest, a_lost_packet_is_sent_again) {
  open();
  EXPECT_THAT(addresses("late.test")[0], "198.18.0.8");
}

TEST_F(UnboundResolverTest, too_many_questions_in_flight_are_refused) {
  open({.deadline = std::chrono::milliseconds(200), .max_in_flight = 1});
  auto first = asio::co_spawn(io_, resolver_->query("silent.test", 1), asio::use_future);
  io_.poll();
  const auto second = run(resolver_->query("both.test", 1));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::unavailable);
  while (first.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io_.run_one();
}

TEST_F(UnboundResolverTest, stopping_ends_what_is_under_way) {
  open({.deadline = std::chrono::hours(1)});
  auto waiting = asio::co_spawn(io_, resolver_->query("silent.test", 1), asio::use_future);
  io_.poll();
  resolver_.reset();
  while (waiting.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io_.run_one();
  const auto answer = waiting.get();
  EXPECT_TRUE(!answer || ((*answer)[3] & 0xf) == 2);
}

TEST_F(UnboundResolverTest, a_name_that_is_none_is_not_sent) {
  open();
  for (const std::string& name : {std::string(64, 'a') + ".test", std::string("a..test")}) {
    const auto answer = run(resolver_->query(name, 1));
    ASSERT_FALSE(answer) << name;
    EXPECT_EQ(answer.error().code, Code::invalid) << name;
  }
  EXPECT_EQ(authority_.asked(), 0U);
}

TEST(UnboundResolver, needs_a_forwarder_with_an_address) {
  asio::io_context io;
  EXPECT_FALSE(UnboundResolver::make(io.get_executor(), {}));
}

TEST(AddressCache, keeps_for_the_ttl_and_not_longer) {
  AddressCache cache(10, std::chrono::seconds(100));
  const AddressCache::Time start{};
  const Address address = *Address::parse("198.18.0.1");
  cache.put("a", {address}, std::chrono::seconds(5), start);
  ASSERT_NE(cache.find("a", start + std::chrono::milliseconds(4999)), nullptr);
  EXPECT_EQ(cache.find("a", start + std::chrono::seconds(5)), nullptr);
  cache.put("b", {address}, std::chrono::seconds(1000), start);
  EXPECT_EQ(cache.find("b", start + std::chrono::seconds(100)), nullptr) << "max_ttl";
}

//
TEST(AddressCache, ttl_zero_is_not_kept_and_replaces_what_was) {
  AddressCache cache(10, std::chrono::seconds(100));
  const AddressCache::Time start{};
  const Address address = *Address::parse("198.18.0.1");
  cache.put("a", {address}, std::chrono::seconds(5), start);
  cache.put("a", {address}, std::chrono::seconds(0), start);
  EXPECT_EQ(cache.find("a", start), nullptr);
  EXPECT_EQ(cache.size(), 0U);
}

TEST(AddressCache, never_holds_more_than_its_capacity) {
  AddressCache cache(16, std::chrono::seconds(100));
  const AddressCache::Time start{};
  for (int i = 0; i < 1000; ++i) {
    cache.put(std::to_string(i), {*Address::parse("198.18.0.1")}, std::chrono::seconds(1 + i % 50),
              start);
    EXPECT_LE(cache.size(), 16U);
    EXPECT_NE(cache.find(std::to_string(i), start), nullptr);
  }
}

}  // namespace
}  // namespace sallyport
