// SPDX-License-Identifier: Apache-2.0
#include "policy/matcher.h"

#include <re2/re2.h>

#include <algorithm>

namespace sallyport::policy {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The byte an escape at `at` stands for, or -1.
int escaped_byte(std::string_view text, std::size_t at) {
  if (text[at] != '%' || text.size() - at < 3) return -1;
  const int high = hex(text[at + 1]);
  const int low = hex(text[at + 2]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool is_unreserved(int byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_' || byte == '~';
}

std::string decode_unreserved(std::string_view path) {
  constexpr std::string_view kUpper = "0123456789ABCDEF";
  std::string out;
  out.reserve(path.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    const int byte = escaped_byte(path, i);
    if (byte < 0) {
      out.push_back(path[i]);
      continue;
    }
    if (is_unreserved(byte)) {
      out.push_back(static_cast<char>(byte));
    } else {
      out.push_back('%');
      out.push_back(kUpper[static_cast<std::size_t>(byte) / 16]);
      out.push_back(kUpper[static_cast<std::size_t>(byte) % 16]);
    }
    i += 2;
  }
  return out;
}

// RFC 3986 s5.2.4 for a path that starts with '/'; any other ("*", an authority) stays as it is.
// Empty segments are kept: "//" is not "/".
std::string remove_dot_segments(std::string_view path) {
  if (!path.starts_with('/')) return std::string(path);
  std::string out;
  out.reserve(path.size());
  while (!path.empty()) {
    const auto slash = path.find('/', 1);
    const std::string_view segment = path.substr(0, slash);  // with its leading slash
    const bool last = slash == std::string_view::npos;
    path.remove_prefix(last ? path.size() : slash);
    if (segment == "/..") out.resize(out.empty() ? 0 : out.rfind('/'));
    if (segment == "/." || segment == "/..") {
      if (last) out.push_back('/');
      continue;
    }
    out += segment;
  }
  return out;
}

std::string decode_query_part(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int byte = escaped_byte(text, i);
    if (byte >= 0) {
      out.push_back(static_cast<char>(byte));
      i += 2;
    } else {
      out.push_back(text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

template <class Pairs>
bool any_matches(const KeyValueMatch& match, const Pairs& pairs) {
  return std::ranges::any_of(pairs, [&](const auto& pair) {
    return (!match.key || match.key->matches(pair.first)) &&
           (!match.value || match.value->matches(pair.second));
  });
}

}  // namespace

StringMatch StringMatch::exact(std::string text, CaseRule rule) {
  return {Kind::exact, std::move(text), rule};
}
StringMatch StringMatch::starts_with(std::string text, CaseRule rule) {
  return {Kind::starts_with, std::move(text), rule};
}

Result<StringMatch> StringMatch::regex(std::string text, CaseRule rule) {
  re2::RE2::Options options;
  options.set_max_mem(static_cast<std::int64_t>(kMaxRegexMemory));
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_case_sensitive(rule == CaseRule::sensitive);
  StringMatch match(Kind::regex, std::move(text), rule);
  auto compiled = std::make_shared<const re2::RE2>(match.text_, options);
  if (!compiled->ok())
    return fail(Code::invalid, "not a usable RE2 expression: " + compiled->error());
  match.regex_ = std::move(compiled);
  return match;
}

bool StringMatch::matches(std::string_view text) const {
  switch (kind_) {
    case Kind::exact:
      return case_ == CaseRule::sensitive ? text == text_ : equal_ignoring_case(text, text_);
    case Kind::starts_with: {
      const std::string_view head = text.substr(0, text_.size());
      return case_ == CaseRule::sensitive ? head == text_ : equal_ignoring_case(head, text_);
    }
    case Kind::regex:
      return re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *regex_);
  }
  return false;
}

RequestView::RequestView(std::string_view method, std::string_view target,
                         std::span<const Header> headers)
    : method_(method), headers_(headers) {
  const auto question = target.find('?');
  raw_path_ = target.substr(0, question);
  canonical_path_ = remove_dot_segments(decode_unreserved(raw_path_));
  if (question == std::string_view::npos) return;
  std::string_view rest = target.substr(question + 1);
  while (!rest.empty()) {
    const auto end = rest.find('&');
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (part.empty()) continue;
    const auto equals = part.find('=');
    query_.emplace_back(decode_query_part(part.substr(0, equals)),
                        equals == std::string_view::npos
                            ? std::string()
                            : decode_query_part(part.substr(equals + 1)));
  }
}

bool matches(const RequestMatch& match, const RequestView& request, PathForms forms) {
  if (!match.method.empty() &&
      std::ranges::find(match.method, request.method()) == match.method.end())
    return false;
  if (match.path) {
    const bool raw = match.path->matches(request.raw_path());
    const bool same = request.raw_path() == request.canonical_path();
    const bool canonical = same ? raw : match.path->matches(request.canonical_path());
    if (forms == PathForms::both ? !(raw && canonical) : !(raw || canonical)) return false;
  }
  return std::ranges::all_of(
             match.query, [&](const auto& entry) { return any_matches(entry, request.query()); }) &&
         std::ranges::all_of(match.headers, [&](const auto& entry) {
           return any_matches(entry, request.headers());
         });
}

}  // namespace sallyport::policy
