// SPDX-License-Identifier: Apache-2.0
// What a decision costs with 10, 1,000 and 100,000 patterns (it must not grow), beside a
// reversed-label trie, which was the alternative for the domain index; what reading a policy costs,
// and matching 100 rules.
#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/decide.h"
#include "policy/domain_pattern.h"
#include "policy/policy_json.h"

namespace sallyport::policy {
namespace {

std::string word(std::mt19937& engine) {
  std::string text;
  for (std::size_t i = 3 + engine() % 9; i > 0; --i) text += static_cast<char>('a' + engine() % 26);
  return text;
}

// The mix of a real allow list: mostly exact names, leading wildcards, a few inner ones, two to
// four labels.
std::vector<std::string> patterns(std::size_t count) {
  std::mt19937 engine(1);
  std::vector<std::string> result;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = word(engine) + std::to_string(i) + ".com";
    const auto kind = engine() % 10;
    if (kind < 3) name = "*." + name;
    if (kind == 3) name = "www.*." + name;
    if (kind > 3 && kind < 7) name = word(engine) + "." + name;
    result.push_back(std::move(name));
  }
  return result;
}

std::vector<std::string> names(const std::vector<std::string>& from) {
  std::mt19937 engine(2);
  std::vector<std::string> result;
  for (int i = 0; i < 65536; ++i) {
    std::string name = from[engine() % from.size()];
    for (auto star = name.find('*'); star != std::string::npos; star = name.find('*'))
      name.replace(star, 1, word(engine));
    if (i % 4 == 0) name = word(engine) + "." + word(engine) + ".org";  // denied
    result.push_back(std::move(name));
  }
  return result;
}

std::string policy_text(const std::vector<std::string>& list) {
  std::string text = R"({"allow":[)";
  for (const std::string& pattern : list)
    text += (text.ends_with('[') ? "\"" : ",\"") + pattern + "\"";
  return text + R"(],"subnets":{"deny":["93.184.0.0/16"]}})";
}

void decide_by_name(benchmark::State& state) {
  const auto list = patterns(static_cast<std::size_t>(state.range(0)));
  const auto policy = parse_policy(policy_text(list)).value();
  const Boundary boundary;
  std::vector<Flow> flows;
  for (const std::string& name : names(list))
    flows.push_back({Protocol::tls, name, {Address::v4(0x08080808), 443}});
  std::size_t at = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(decide(*policy, boundary, flows[at++ & 65535]).access);
}
BENCHMARK(decide_by_name)->Arg(10)->Arg(1'000)->Arg(100'000);

void lookup_in_index(benchmark::State& state) {
  const auto list = patterns(static_cast<std::size_t>(state.range(0)));
  const std::vector<std::string_view> views(list.begin(), list.end());
  const auto index = DomainIndex::build(views).value();
  const auto asked = names(list);
  std::size_t at = 0;
  for (auto _ : state) benchmark::DoNotOptimize(index.find(asked[at++ & 65535]));
}
BENCHMARK(lookup_in_index)->Arg(10)->Arg(1'000)->Arg(100'000);

// The alternative: one node per label from the right; every star doubles the walk, and the best of
// all hits wins.
class Trie {
 public:
  void add(std::string_view pattern, std::size_t position) {
    Node* node = &root_;
    const bool leading = pattern.starts_with("*");
    for (std::string_view rest = pattern;;) {
      const auto dot = rest.rfind('.');
      const std::string label(rest.substr(dot == std::string_view::npos ? 0 : dot + 1));
      auto& child = node->children[label];
      if (!child) child = std::make_unique<Node>();
      node = child.get();
      if (dot == std::string_view::npos) break;
      rest = rest.substr(0, dot);
    }
    (leading ? node->open : node->closed) = static_cast<long>(position);
  }
  long find(std::string_view name) const { return walk(root_, name); }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  struct Node {
    std::unordered_map<std::string, std::unique_ptr<Node>, Hash, std::equal_to<>> children;
    long open = -1;
    long closed = -1;
  };
  static long walk(const Node& node, std::string_view rest) {
    const auto dot = rest.rfind('.');
    const bool last = dot == std::string_view::npos;
    const std::string_view label = last ? rest : rest.substr(dot + 1);
    long best = -1;
    for (const std::string_view key : {label, std::string_view("*")}) {
      const auto child = node.children.find(key);
      if (child == node.children.end()) continue;
      const long deeper = last ? child->second->closed : walk(*child->second, rest.substr(0, dot));
      if (best < 0) best = deeper;
      if (best < 0) best = child->second->open;
    }
    return best;
  }
  Node root_;
};

void lookup_in_trie(benchmark::State& state) {
  const auto list = patterns(static_cast<std::size_t>(state.range(0)));
  Trie trie;
  for (std::size_t i = 0; i < list.size(); ++i) trie.add(list[i], i);
  const auto asked = names(list);
  std::size_t at = 0;
  for (auto _ : state) benchmark::DoNotOptimize(trie.find(asked[at++ & 65535]));
}
BENCHMARK(lookup_in_trie)->Arg(10)->Arg(1'000)->Arg(100'000);

void read_policy(benchmark::State& state) {
  const std::string text = policy_text(patterns(static_cast<std::size_t>(state.range(0))));
  for (auto _ : state) benchmark::DoNotOptimize(parse_policy(text).value());
}
BENCHMARK(read_policy)
    ->Arg(10)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(100'000)
    ->Unit(benchmark::kMillisecond);

// R-062: what 64 rules add to a request that matches none of them.
void match_rules(benchmark::State& state) {
  std::string rules;
  for (int i = 0; i < 64; ++i) {
    rules += (i == 0 ? "" : ",") + std::string(R"({"match":{"path":{"regex":"^/v1/(a+)+)") +
             std::to_string(i) + R"($"},"method":["GET"]},"forwardURL":"https://p.example"})";
  }
  const auto policy = parse_policy(R"({"allow":{"a.b":[)" + rules + "]}}").value();
  const std::string target =
      "/v1/" + std::string(static_cast<std::size_t>(state.range(0)), 'a') + "?q=1";
  for (auto _ : state)
    benchmark::DoNotOptimize(choose_rule(policy->domains[0], RequestView("GET", target, {})));
}
BENCHMARK(match_rules)->Arg(64)->Arg(16'384);

void decide_by_range(benchmark::State& state) {
  std::string text = R"({"subnets":{"allow":[)";
  for (std::uint32_t i = 0; i < 4096; ++i)
    text += (i == 0 ? "\"" : ",\"") + Address::v4(0x08000000 + i * 512).to_string() + "/24\"";
  const auto policy = parse_policy(text + "]}}").value();
  const Boundary boundary;
  std::uint32_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        decide_address(*policy, boundary, Address::v4(0x08000000 + (at++ & 4095) * 512 + 7))
            .access);
  }
}
BENCHMARK(decide_by_range);

}  // namespace
}  // namespace sallyport::policy

BENCHMARK_MAIN();
