// SPDX-License-Identifier: Apache-2.0
// The order is what keeps R-081: nothing but the parser and the policy sees a question before it is
// allowed.
#include "firewall/dns_questions.h"

#include <fmt/format.h>

#include <utility>

namespace sallyport::firewall {

namespace {
constexpr std::string_view kQueryRefused =
    "dns_query_refused";  // ANY, zone transfers, other classes and opcodes (D-05)
}

DnsQuestions::DnsQuestions(boost::asio::any_io_executor executor, Resolver& resolver, Gate& gate,
                           Audit& audit, std::size_t max_in_flight,
                           std::chrono::milliseconds repeat_window)
    : resolver_(resolver),
      gate_(gate),
      max_in_flight_(max_in_flight),
      lines_(std::move(executor), audit, repeat_window) {}

policy::Decision DnsQuestions::judge(const dns::Query& query) const {
  // A name that is no host name matches no pattern, but may be asked where DNS is open (_dmarc and
  // the like).
  return policy::decide_dns(
      gate_.policy(), query.host_name ? std::string_view(*query.host_name) : std::string_view());
}

DnsQuestions::Received DnsQuestions::receive(Bytes message, const Origin& origin) {
  ++gate_.counters.dns_queries;
  auto query = dns::parse_query(message);
  if (!query) {
    const dns::Refusal& refusal = query.error();
    if (refusal.rcode == dns::Rcode::refused || refusal.rcode == dns::Rcode::notimp) {
      ++denied;
      ++gate_.counters.denied;
      report(refusal.name, refusal.type, kQueryRefused, {}, refusal.why, origin);
    }
    return {refusal.answer, {}};
  }
  if (const auto decision = judge(*query); decision.access != policy::Access::allow)
    return {deny(*query, decision, origin), {}};
  if (in_flight >= max_in_flight_) {
    ++overloaded;
    return {dns::render_failure(*query, dns::Rcode::servfail), {}};
  }
  return {{}, std::move(*query)};
}

boost::asio::awaitable<std::string> DnsQuestions::look_up(dns::Query query, Origin origin,
                                                          std::size_t limit) {
  ++in_flight;
  const auto answer =
      co_await resolver_.query(query.host_name ? *query.host_name : query.name, query.type);
  --in_flight;
  if (gate_.held() && !co_await gate_.ready())
    co_return dns::render_failure(query, dns::Rcode::servfail);
  // The policy may have changed while the question was out (I4).
  if (const auto decision = judge(query); decision.access != policy::Access::allow)
    co_return deny(query, decision, origin);
  if (!answer) co_return dns::render_failure(query, dns::Rcode::servfail);
  auto reply = dns::prepare_answer(query, *answer, limit);
  co_return reply ? std::move(*reply) : dns::render_failure(query, dns::Rcode::servfail);
}

std::string DnsQuestions::deny(const dns::Query& query, const policy::Decision& decision,
                               const Origin& origin) {
  ++denied;
  ++gate_.counters.denied;
  report(query.name, query.type, policy::to_string(decision.reason), decision.entry, {}, origin);
  return dns::render_denied(query);
}

void DnsQuestions::report(const std::string& name, std::uint16_t type, std::string_view reason,
                          const std::string& entry, std::string_view why, const Origin& origin) {
  std::string key = name;
  key.append(1, '\0')
      .append(reinterpret_cast<const char*>(&type), sizeof type)
      .append(origin.transport)
      .append(reason);
  if (lines_.repeat(key)) return;
  AuditRecord record;
  record.policy_version = gate_.version();
  record.protocol = "dns";
  if (!name.empty()) record.name = name;
  if (origin.destination) record.destination = origin.destination();
  record.verdict = policy::Access::deny;
  record.reason = reason;
  record.entry = entry;
  record.detail = fmt::format("{} over {}", dns::type_name(type), origin.transport);
  if (!why.empty()) record.detail += fmt::format(": {}", why);
  lines_.write(key, record);
}

}  // namespace sallyport::firewall
