// SPDX-License-Identifier: Apache-2.0
// The index against a naive one: every pattern tried, the best by a comparison written from D-01's
// text.
#include "policy/domain_index.h"

#include <gtest/gtest.h>
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "base/host_name.h"
#include "policy/domain_pattern.h"

namespace sallyport::policy {
namespace {

std::vector<std::string> labels_of(std::string_view text) {
  std::vector<std::string> labels(1);
  for (const char c : text) {
    if (c == '.') {
      labels.emplace_back();
    } else {
      labels.back() += c;
    }
  }
  return labels;
}

// The wildcard rules once more, by regular expression. Compiling is what costs, so each pattern is
// compiled once.
bool naive_match(std::string_view pattern, std::string_view name) {
  static std::map<std::string, std::unique_ptr<RE2>, std::less<>> compiled;
  if (pattern == "*") return !name.empty();
  auto& matcher = compiled[std::string(pattern)];
  if (!matcher) {
    std::string expression;
    const auto labels = labels_of(pattern);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (i > 0) expression += "\\.";
      const bool star = labels[i] == "*";
      expression += !star ? RE2::QuoteMeta(labels[i]) : i == 0 ? "[^.]+(\\.[^.]+)*" : "[^.]+";
    }
    matcher = std::make_unique<RE2>(expression);
  }
  return RE2::FullMatch(re2::StringPiece(name.data(), name.size()), *matcher);
}

bool better(std::string_view a, std::string_view b) {
  const auto x = labels_of(a);
  const auto y = labels_of(b);
  const auto stars = [](const auto& labels) { return std::ranges::count(labels, "*"); };
  if ((stars(x) == 0) != (stars(y) == 0)) return stars(x) == 0;
  if ((a == "*") != (b == "*")) return b == "*";
  const auto literal_x = static_cast<long>(x.size()) - stars(x);
  const auto literal_y = static_cast<long>(y.size()) - stars(y);
  if (literal_x != literal_y) return literal_x > literal_y;
  if ((x[0] == "*") != (y[0] == "*")) return x[0] == "*";
  for (std::size_t i = 1; i <= std::min(x.size(), y.size()); ++i) {
    const bool star_x = x[x.size() - i] == "*";
    const bool star_y = y[y.size() - i] == "*";
    if (star_x != star_y) return star_y;
  }
  return x.size() > y.size();
}

std::optional<std::size_t> naive_find(const std::vector<std::string_view>& patterns,
                                      std::string_view name) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (naive_match(patterns[i], name) && (!best || better(patterns[i], patterns[*best]))) best = i;
  }
  return best;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(engine_);
  }
  // Few letters and few labels, so that names and patterns meet often.
  std::string name() {
    std::string text;
    const std::size_t count = 1 + below(5);
    for (std::size_t i = 0; i < count; ++i)
      text += (i == 0 ? "" : ".") + std::string(1, static_cast<char>('a' + below(3)));
    return text;
  }
  std::string pattern() {
    std::string text = name();
    for (std::size_t i = 0; i < text.size(); i += 2) {
      if (below(3) == 0) text[i] = '*';
    }
    return text;
  }

 private:
  std::mt19937 engine_;
};

// D-01, D-02, FW-109, R-067
TEST(DomainIndex, equals_a_naive_search) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::set<std::string> distinct;
    for (std::size_t i = 0; i < 1 + seed % 60; ++i) distinct.insert(random.pattern());
    std::vector<std::string_view> patterns(distinct.begin(), distinct.end());
    const auto index = DomainIndex::build(patterns);
    ASSERT_TRUE(index) << index.error().message;
    for (int i = 0; i < 100; ++i) {
      const std::string name = random.name();
      const auto found = index->find(name);
      const auto expected = naive_find(patterns, name);
      ASSERT_EQ(found, expected) << "seed " << seed << ", " << name << ": "
                                 << (found ? patterns[*found] : "nothing") << " instead of "
                                 << (expected ? patterns[*expected] : "nothing");
    }
  }
}

TEST(DomainIndex, the_single_pattern_matcher_agrees_with_the_naive_one) {
  Random random(7);
  for (int i = 0; i < 20'000; ++i) {
    const std::string pattern = random.pattern();
    const std::string name = random.name();
    ASSERT_EQ(pattern_matches(pattern, name), naive_match(pattern, name)) << pattern << " " << name;
  }
}

// D-01: independent of key order.
TEST(DomainIndex, the_order_of_patterns_plays_no_part) {
  std::vector<std::string_view> patterns = {"*",     "*.c",   "a.*", "a.*.c",
                                            "*.b.c", "a.b.c", "*.*", "*.*.c"};
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    const std::string name = random.name();
    std::set<std::string_view> winners;
    for (int i = 0; i < 10; ++i) {
      std::rotate(patterns.begin(),
                  patterns.begin() + 1 + static_cast<long>(random.below(patterns.size() - 1)),
                  patterns.end());
      winners.insert(patterns[DomainIndex::build(patterns)->find(name).value()]);
    }
    EXPECT_EQ(winners.size(), 1U) << name;
  }
}

TEST(DomainIndex, the_longest_names_and_patterns_fit) {
  std::string name = "a";
  while (name.size() + 2 <= kMaxHostName) name += ".a";
  ASSERT_EQ(name.size(), kMaxHostName);
  const std::string wild = "*" + name.substr(1);
  for (const std::string& pattern : {name, wild}) {
    const std::vector<std::string_view> patterns = {pattern};
    EXPECT_EQ(DomainIndex::build(patterns)->find(name), 0U);
    EXPECT_FALSE(DomainIndex::build(patterns)->find(name.substr(2)));
  }
}

TEST(DomainIndex, arrangements_of_inner_wildcards_are_bounded) {
  std::vector<std::string> texts;
  for (unsigned mask = 1; texts.size() <= DomainIndex::kMaxInnerShapes; ++mask) {
    std::string text = "a";
    for (unsigned bit = 0; bit < 8; ++bit) text += (mask >> bit & 1U) != 0 ? ".*" : ".b";
    texts.push_back(text + ".c");
  }
  std::vector<std::string_view> patterns(texts.begin(), texts.end());
  EXPECT_FALSE(DomainIndex::build(patterns));
  patterns.pop_back();
  EXPECT_TRUE(DomainIndex::build(patterns));
}

TEST(DomainIndex, an_empty_index_finds_nothing) {
  EXPECT_FALSE(DomainIndex().find("a.b"));
  EXPECT_TRUE(DomainIndex::build({})->empty());
  EXPECT_FALSE(DomainIndex::build({})->find("a"));
}

}  // namespace
}  // namespace sallyport::policy
