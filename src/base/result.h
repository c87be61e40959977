// SPDX-License-Identifier: Apache-2.0
// How errors travel (ADR 0001): values, with a code the caller can act on and a sentence a person
// can read. Peers, guests, files and users cause errors; broken invariants of our own abort
// (base/check.h).
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace sallyport {

enum class Code { invalid, denied, not_found, conflict, timed_out, unavailable, internal };

struct Error {
  Code code;
  std::string message;  // "sandbox s1: driver: no such image: foo"
};

template <class T = void>
using Result = std::expected<T, Error>;

// A parser of untrusted bytes has three ways to stop.
enum class ParseStop { need_more, malformed, too_large };

template <class T>
using Parse = std::expected<T, ParseStop>;

[[nodiscard]] inline std::unexpected<Error> fail(Code code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

// Adds one layer of context: `return context("driver", r.error());` gives "driver: <message>".
[[nodiscard]] inline std::unexpected<Error> context(std::string_view where, Error error) {
  error.message = std::string(where) + ": " + error.message;
  return std::unexpected(std::move(error));
}

// "open /x: Permission denied" from errno at the time of the call.
[[nodiscard]] std::unexpected<Error> fail_errno(std::string_view what);
[[nodiscard]] std::unexpected<Error> fail_errno(std::string_view what, int error_number);

}  // namespace sallyport
