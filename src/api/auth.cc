// SPDX-License-Identifier: Apache-2.0
#include "api/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <cctype>
#include <charconv>

namespace sallyport::api {

Result<Token> make_token(std::string name, std::string_view sha256_hex,
                         std::optional<std::string> team) {
  Token token{std::move(name), {}, std::move(team)};
  if (sha256_hex.size() != 2 * token.sha256.size())
    return fail(Code::invalid, "sha256: must be 64 hexadecimal digits");
  for (std::size_t i = 0; i < token.sha256.size(); ++i) {
    const char* const first = sha256_hex.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, token.sha256[i], 16);
    if (error != std::errc() || end != first + 2)
      return fail(Code::invalid, "sha256: must be 64 hexadecimal digits");
  }
  return token;
}

std::optional<Principal> authenticate(const std::vector<Token>& tokens,
                                      std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return std::nullopt;
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i])
      return std::nullopt;
  }
  const std::string_view presented = authorization.substr(kScheme.size());
  std::array<std::uint8_t, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(presented.data()), presented.size(), digest.data());
  // Every token is compared in full, so that the time tells nothing about which came close.
  const Token* found = nullptr;
  for (const Token& token : tokens) {
    if (CRYPTO_memcmp(token.sha256.data(), digest.data(), digest.size()) == 0) found = &token;
  }
  if (found == nullptr) return std::nullopt;
  return Principal{found->team, found->name};
}

}  // namespace sallyport::api
