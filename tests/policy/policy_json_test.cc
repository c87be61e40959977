// SPDX-License-Identifier: Apache-2.0
// The round trip, what is shown to whom, and the limits. Refusals are data:
// tests/vectors/refusals.json.
#include "policy/policy_json.h"

#include <gtest/gtest.h>

#include <random>

#include "policy/decide.h"

namespace sallyport::policy {
namespace {

PolicyPtr policy(std::string_view text) {
  auto parsed = parse_policy(text);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message) << "\n" << text.substr(0, 500);
  return parsed ? *parsed : deny_all();
}
std::string request(std::string_view text) {
  return std::string(render_request(*policy(text)).reveal());
}
std::string redacted(std::string_view text) {
  return serialize_ascii(render_redacted(*policy(text)));
}
std::string response(std::string_view text) {
  return serialize_ascii(render_response(*policy(text)));
}
std::string error_of(std::string_view text) {
  const auto parsed = parse_policy(text);
  return parsed ? "accepted" : parsed.error().message;
}

constexpr std::string_view kFull =
    R"({"allow":{"z.example":[{"match":{"path":{"startsWith":"/v1"},"method":["GET","POST"],
  "queryString":[{"key":{"exact":"q"},"value":{"regex":"^a"}}],"headers":[{"key":{"exact":"X-Q"}}]},
  "transform":[{"headers":{"Authorization":"Bearer one","X-Two":"2"}},{"headers":{"authorization":"Bearer later"}}]},
  {"forwardURL":"https://p.example/f"},
  {"match":{"path":{"exact":"/t"}},"response":{"statusCode":418,"headers":{"X-Tea":"secret-ish"},"body":"short \u00e9","contentType":"text/plain"}}],
  "*":[],"A.Example":[]},"subnets":{"allow":["10.1.2.3/8","::1"],"deny":["10.9.0.0/16"]}})";

TEST(PolicyJson, the_normal_form_keeps_the_order_and_reads_back_the_same) {
  const std::string first = request(kFull);
  EXPECT_EQ(
      first,
      R"({"allow":{"z.example":[{"match":{"path":{"startsWith":"/v1"},"method":["GET","POST"],)"
      R"("queryString":[{"key":{"exact":"q"},"value":{"regex":"^a"}}],"headers":[{"key":{"exact":"X-Q"}}]},)"
      R"("transform":[{"headers":{"authorization":"Bearer later","X-Two":"2"}}]},{"forwardURL":"https://p.example/f"},)"
      R"({"match":{"path":{"exact":"/t"}},"response":{"statusCode":418,"headers":{"X-Tea":"secret-ish"},"body":"short \u00e9",)"
      R"("contentType":"text/plain"}}],"*":[],"a.example":[]},"subnets":{"allow":["10.0.0.0/8","::1/128"],"deny":["10.9.0.0/16"]}})");
  EXPECT_EQ(request(first), first);
}

TEST(PolicyJson, simple_forms_read_back_the_same) {
  for (const std::string text :
       {R"({"mode":"allow-all"})", R"({"mode":"deny-all"})", "{}", R"({"allow":["b.c","*.a","*"]})",
        R"({"subnets":{"deny":["10.0.0.0/8"]}})"}) {
    EXPECT_EQ(request(text), text);
  }
  EXPECT_EQ(request(R"("allow-all")"), R"({"mode":"allow-all"})");
  EXPECT_EQ(request(R"({"allow":{},"subnets":{}})"), "{}");
  EXPECT_EQ(request(R"({"allow":{"a.b":[]}})"), R"({"allow":["a.b"]})");
  EXPECT_EQ(request(R"({"allow":["a.b","A.B","a.b."]})"), R"({"allow":["a.b"]})");
  EXPECT_EQ(request(R"({"mode":"allow-all","future":1})"),
            R"({"mode":"allow-all"})");  // spec 2.1: extra keys tolerated
}

// FW-101, FW-113: a secret shows in no form that people or the API see.
TEST(PolicyJson, secrets_are_never_shown) {
  for (const std::string& shown : {redacted(kFull), response(kFull)}) {
    EXPECT_EQ(shown.find("Bearer"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("secret-ish"), std::string::npos) << shown;
  }
  EXPECT_NE(redacted(kFull).find(R"("authorization":"<redacted>")"), std::string::npos);
}

// FW-113: names in their case and order. D-12: one entry per rule, its transforms merged. D-20:
// responseRules.
TEST(PolicyJson, the_response_grammar_has_names_and_rules_apart) {
  EXPECT_EQ(
      response(kFull),
      R"({"mode":"custom","allowedDomains":["z.example","*","a.example"],"allowedCIDRs":["10.0.0.0/8","::1/128"],)"
      R"("deniedCIDRs":["10.9.0.0/16"],"injectionRules":[{"domain":"z.example","headerNames":["authorization","X-Two"],)"
      R"("match":{"path":{"startsWith":"/v1"},"method":["GET","POST"],"queryString":[{"key":{"exact":"q"},"value":{"regex":"^a"}}],)"
      R"("headers":[{"key":{"exact":"X-Q"}}]}}],"forwardRules":[{"domain":"z.example","forwardURL":"https://p.example/f"}],)"
      R"("responseRules":[{"domain":"z.example","statusCode":418,"headerNames":["X-Tea"],"contentType":"text/plain",)"
      R"("match":{"path":{"exact":"/t"}}}]})");
  EXPECT_EQ(response("{}"), R"({"mode":"custom"})");
  EXPECT_EQ(response(R"({"mode":"deny-all"})"), R"({"mode":"deny-all"})");
  EXPECT_EQ(response(R"("allow-all")"), R"({"mode":"allow-all"})");
}

// FW-133: the URL becomes an audience, so not a byte of it changes.
TEST(PolicyJson, a_forward_url_is_kept_as_written) {
  for (const char* url : {"https://p.example", "https://P.Example:443/",
                          "https://p.example/a/../b%2f", "HTTPS://[2001:db8::1]:8443/x"}) {
    const auto parsed =
        policy(std::string(R"({"allow":{"a.b":[{"forwardURL":")") + url + R"("}]}})");
    EXPECT_EQ(std::get<Forward>(parsed->domains.at(0).rules.at(0).action).url, url);
  }
}

// FW-075: a transform may set Host.
TEST(PolicyJson, a_transform_may_set_host) {
  EXPECT_TRUE(parse_policy(R"({"allow":{"a.b":[{"transform":[{"headers":{"Host":"a.b"}}]}]}})"));
}

// R-04: duplicate keys anywhere.
TEST(PolicyJson, duplicate_keys_are_refused) {
  EXPECT_NE(error_of(R"({"allow":{"a.b":[],"a.b":[]}})").find("duplicate key 'a.b'"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"allow":[],"allow":["*"]})").find("duplicate key 'allow'"),
            std::string::npos);
}

// R-17: every limit, at it and one over.
TEST(PolicyJson, sizes_are_bounded) {
  const auto domains = [](std::size_t count) {
    std::string text = R"({"allow":[)";
    for (std::size_t i = 0; i < count; ++i)
      text += (i == 0 ? "\"d" : ",\"d") + std::to_string(i) + ".example\"";
    return text + "]}";
  };
  EXPECT_EQ(policy(domains(kMaxDomains))->domains.size(), kMaxDomains);
  EXPECT_NE(error_of(domains(kMaxDomains + 1)).find("at most 100000 domains"), std::string::npos);
  const auto ranges = [](std::size_t count) {
    std::string text = R"({"subnets":{"deny":[)";
    for (std::size_t i = 0; i < count; ++i)
      text +=
          (i == 0 ? "\"" : ",\"") + Address::v4(static_cast<std::uint32_t>(i)).to_string() + "\"";
    return text + "]}}";
  };
  EXPECT_EQ(policy(ranges(kMaxRanges))->denied.size(), kMaxRanges);
  EXPECT_NE(error_of(ranges(kMaxRanges + 1)).find("at most 4096 ranges"), std::string::npos);
  const auto value = [](std::size_t bytes) {
    return R"({"allow":{"a.b":[{"transform":[{"headers":{"X":")" + std::string(bytes, 'x') +
           R"("}}]}]}})";
  };
  EXPECT_EQ(error_of(value(16 << 10)), "accepted");
  EXPECT_NE(error_of(value((16 << 10) + 1)).find("headers.X: is too long"), std::string::npos);
  const auto path = [](std::size_t bytes) {
    return R"({"allow":{"a.b":[{"match":{"path":{"exact":")" + std::string(bytes, 'x') +
           R"("}},"forwardURL":"https://p.example"}]}})";
  };
  EXPECT_EQ(error_of(path(4096)), "accepted");
  EXPECT_NE(error_of(path(4097)).find("match.path.exact: at most 4096 bytes"), std::string::npos);
  EXPECT_NE(error_of(std::string(kMaxPolicyBytes + 1, ' ')).find("bytes of JSON"),
            std::string::npos);
  EXPECT_NE(error_of(std::string(40, '[')).find("nested deeper"), std::string::npos);
}

// R-17: the limits inside one rule.
TEST(PolicyJson, rules_are_bounded) {
  const auto rule = [](const std::string& inside) {
    return error_of(R"({"allow":{"a.b":[{)" + inside + "}]}}");
  };
  const auto repeated = [](std::size_t count, const auto& make) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + make(i);
    return text;
  };
  const auto body = [&](std::size_t bytes) {
    return rule(R"("response":{"statusCode":200,"contentType":"a/b","body":")" +
                std::string(bytes, 'x') + R"("})");
  };
  EXPECT_EQ(body(64 << 10), "accepted");
  EXPECT_NE(body((64 << 10) + 1).find("response.body: at most 65536 bytes"), std::string::npos);
  const auto url = [&](std::size_t bytes) {
    return rule(R"("forwardURL":"https://p.example/)" + std::string(bytes - 18, 'x') + R"(")");
  };
  EXPECT_EQ(url(2048), "accepted");
  EXPECT_NE(url(2049).find("forwardURL: is too long"), std::string::npos);
  const auto headers = [&](std::size_t count) {
    return rule(
        R"("transform":[{"headers":{)" +
        repeated(count, [](std::size_t i) { return "\"X" + std::to_string(i) + R"(":"v")"; }) +
        "}}]");
  };
  EXPECT_EQ(headers(64), "accepted");
  EXPECT_NE(headers(65).find("headers: at most 64 headers"), std::string::npos);
  const auto methods = [&](std::size_t count) {
    return rule(R"("match":{"method":[)" +
                repeated(count, [](std::size_t) { return std::string(R"("GET")"); }) +
                R"(]},"forwardURL":"https://p.example")");
  };
  EXPECT_EQ(methods(32), "accepted");
  EXPECT_NE(methods(33).find("match.method: at most 32 entries"), std::string::npos);
  const auto query = [&](std::size_t count) {
    return rule(
        R"("match":{"queryString":[)" +
        repeated(count, [](std::size_t) { return std::string(R"({"key":{"exact":"k"}})"); }) +
        R"(]},"forwardURL":"https://p.example")");
  };
  EXPECT_EQ(query(32), "accepted");
  EXPECT_NE(query(33).find("match.queryString: at most 32 entries"), std::string::npos);
  const auto name = [&](std::size_t bytes) {
    return rule(R"("transform":[{"headers":{")" + std::string(bytes, 'x') + R"(":"v"}}])");
  };
  EXPECT_EQ(name(256), "accepted");
  EXPECT_NE(name(257).find("a header name is longer than 256"), std::string::npos);
}

TEST(PolicyJson, the_number_of_expressions_in_a_policy_is_bounded) {
  const auto text = [](std::size_t count) {
    std::string out = R"({"allow":{)";
    for (std::size_t i = 0; i < count; ++i) {
      out += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
             R"(.example":[{"match":{"path":{"regex":"x"}},"forwardURL":"https://p.example"}])";
    }
    return out + "}}";
  };
  EXPECT_EQ(error_of(text(1024)), "accepted");
  EXPECT_NE(error_of(text(1025)).find("more than 1024 expressions"), std::string::npos);
}

// A message echoes the offending entry, but not megabytes of it.
TEST(PolicyJson, messages_stay_short) {
  EXPECT_LT(error_of(R"({"allow":[")" + std::string(1 << 20, 'x') + R"("]})").size(), 1000U);
  EXPECT_LT(error_of(R"({"allow":{")" + std::string(1 << 20, 'x') + R"(":[]}})").size(), 1000U);
  EXPECT_LT(error_of("{\"" + std::string(1 << 20, 'x') + "\":1}").size(), 1000U);
  EXPECT_LT(error_of(R"({"mode":")" + std::string(1 << 20, 'x') + R"("})").size(), 1000U);
  EXPECT_LT(error_of(R"({"subnets":{"deny":[")" + std::string(1 << 20, 'x') + R"("]}})").size(),
            1000U);
  EXPECT_LT(error_of(R"({"allow":{"a.b":[{"transform":[{"headers":{")" + std::string(1 << 20, 'x') +
                     R"( ":"1"}}]}]}})")
                .size(),
            1000U);
}

TEST(PolicyJson, the_path_prefix_is_the_callers) {
  const auto parsed = policy_from_json(parse_json(R"({"allow":1})").value(), "$.networkPolicy");
  ASSERT_FALSE(parsed);
  EXPECT_TRUE(parsed.error().message.starts_with("$.networkPolicy.allow: "))
      << parsed.error().message;
}

// R-091, FW-025, FW-063: over random policies and addresses, one more denied range never turns deny
// into allow, and the normal form of a policy decides as the policy does.
TEST(PolicyJson, a_denied_range_never_opens_anything) {
  std::mt19937 engine(5);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(engine);
  };
  const std::vector<const char*> cidrs = {
      "0.0.0.0/0",     "::/0",       "93.184.0.0/16", "93.184.216.0/24",
      "93.184.216.34", "8.0.0.0/7",  "2a00::/16",     "2a00:1::/32",
      "64:ff9b::/96",  "10.0.0.0/8", "2002::/16",     "::ffff:93.184.0.0/112"};
  const std::vector<const char*> names = {"a.example", "*.example", "*", "b.*.example",
                                          "x.a.example"};
  const std::vector<const char*> addresses = {"93.184.216.34",   "93.184.1.1",   "8.8.8.8",
                                              "2a00:1::1",       "2a00:2::1",    "10.0.0.1",
                                              "64:ff9b::5db8:1", "2002:5db8:1::"};
  const Boundary boundary(
      {}, {Cidr::parse("64:ff9b::/96").value(), Cidr::parse("2002::/16").value()}, {});
  for (int round = 0; round < 500; ++round) {
    json::array allow;
    json::array ranges;
    json::array deny;
    for (std::size_t i = below(3); i > 0; --i)
      allow.push_back(json::string(names[below(names.size())]));
    for (std::size_t i = below(3); i > 0; --i)
      ranges.push_back(json::string(cidrs[below(cidrs.size())]));
    for (std::size_t i = below(3); i > 0; --i)
      deny.push_back(json::string(cidrs[below(cidrs.size())]));
    const auto make = [&] {
      return policy_from_json(
                 json::object{{"allow", allow},
                              {"subnets", json::object{{"allow", ranges}, {"deny", deny}}}})
          .value();
    };
    const auto before = make();
    const auto again = parse_policy(render_request(*before).reveal()).value();
    deny.push_back(json::string(cidrs[below(cidrs.size())]));
    const auto after = make();
    for (const char* text : addresses) {
      const Address address = Address::parse(text).value();
      for (const char* name : {"a.example", "x.a.example", "other.net", ""}) {
        Flow flow{Protocol::tls, std::string(name), {address, 443}};
        if (*name == '\0') flow = {Protocol::other, std::nullopt, {address, 443}};
        const Decision one = decide(*before, boundary, flow);
        const Decision two = decide(*after, boundary, flow);
        if (one.access == Access::deny)
          ASSERT_EQ(two.access, Access::deny) << round << " " << text << " " << name;
        const Decision same = decide(*again, boundary, flow);
        ASSERT_EQ(one.access, same.access);
        ASSERT_EQ(one.reason, same.reason);
        ASSERT_EQ(one.entry, same.entry);
      }
      if (decide_dial(*before, boundary, address).access == Access::deny) {
        ASSERT_EQ(decide_dial(*after, boundary, address).access, Access::deny);
      }
      if (decide_address(*before, boundary, address).access == Access::deny) {
        ASSERT_EQ(decide_address(*after, boundary, address).access, Access::deny);
      }
    }
  }
}

}  // namespace
}  // namespace sallyport::policy
