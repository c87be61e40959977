// SPDX-License-Identifier: Apache-2.0
// Any bytes as a policy. What is accepted must read back as itself, show no secret, and decide like
// its normal form.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "policy/decide.h"
#include "policy/explain.h"
#include "policy/policy_json.h"

using namespace sallyport;
using namespace sallyport::policy;

namespace {

void require(bool condition, const char* belief) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", belief);
  std::abort();
}

void decide_alike(const Policy& one, const Policy& two, const char* name) {
  const Boundary boundary;
  for (const char* to : {"93.184.216.34:443", "10.0.0.1:80", "[2a00::1]:22"}) {
    for (const Protocol protocol : {Protocol::tls, Protocol::postgres, Protocol::other}) {
      const Flow flow{protocol, std::string(name), *Endpoint::parse(to)};
      const Decision a = decide(one, boundary, flow);
      const Decision b = decide(two, boundary, flow);
      require(a.access == b.access && a.reason == b.reason && a.entry == b.entry,
              "the normal form decides alike");
    }
  }
  require(decide_dns(one, name).reason == decide_dns(two, name).reason,
          "the normal form resolves alike");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > (64U << 10)) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto policy = parse_policy(text);
  if (!policy) {
    require(policy.error().message.size() < 4096, "messages stay short");
    return 0;
  }
  const Secret first = render_request(**policy);
  const auto again = parse_policy(first.reveal());
  require(again.has_value(), "the normal form is accepted");
  require(render_request(**again).reveal() == first.reveal(), "the normal form is stable");
  for (const char* name : {"a.example", "x.y.example", "", "EXAMPLE.com"})
    decide_alike(**policy, **again, name);
  for (const DomainEntry& domain : (*policy)->domains) {
    decide_alike(**policy, **again, domain.pattern.c_str());
    (void)choose_rule(domain, RequestView("GET", "/v1/%2e./x?q=a+b&c", {}));
  }
  (void)explain(**policy, Boundary(), "https://a.example/v1?q=1");
  (void)serialize_ascii(render_response(**policy));
  require(
      parse_json(serialize_ascii(render_redacted(**policy)), {.max_bytes = 4U << 20}).has_value(),
      "what is shown is JSON");
  return 0;
}
