// SPDX-License-Identifier: Apache-2.0
// What the API reads from clients beyond Beast's own parsing: request targets, create bodies, and
// the bytes of commands on their way out. First byte chooses.
#include <cstdint>
#include <cstdlib>

#include "api/create_request.h"
#include "api/fields.h"
#include "api/router.h"
#include "api/utf8.h"
#include "base/check.h"
#include "sandbox/names.h"

using namespace sallyport;

namespace {

void target(std::string_view text) {
  const auto parsed = api::parse_target(text);
  if (!parsed) return;
  CHECK(parsed->path.starts_with('/'));
  for (const auto& [key, value] : parsed->query) CHECK(value.find('\0') == std::string::npos);
  api::Router router;
  router.add({"GET", "/v2/sandboxes/{name}", nullptr});
  const auto found = router.find("GET", parsed->path);
  if (found.route != nullptr) CHECK(!found.params.at("name").empty());
}

void create(std::string_view text) {
  const auto body = api::body_object(text, 1U << 20);
  if (!body) return;
  const auto parsed = api::parse_create(*body, {}, 86'400'000);
  if (!parsed) {
    CHECK(parsed.error().code == Code::invalid && !parsed.error().message.empty());
    return;
  }
  const sandbox::CreateRequest& request = parsed->request;
  CHECK(request.key.name.empty() || sandbox::is_sandbox_name(request.key.name));
  CHECK(request.vcpus == 1 || (request.vcpus % 2 == 0 && request.vcpus <= 32));
  CHECK(request.timeout >= 1000 && request.timeout <= 86'400'000);
  CHECK(!request.policy || !request.policy->has_rules());  // never half a policy
}

// One piece or many: the same text, and text it is.
void utf8(Bytes bytes) {
  api::Utf8Stream whole, pieces;
  std::string expected = whole.push(bytes);
  expected += whole.finish();
  std::string text;
  for (const std::uint8_t byte : bytes) text += pieces.push({&byte, 1});
  text += pieces.finish();
  CHECK(text == expected);
  api::Utf8Stream again;
  std::string same = again.push(as_bytes(expected));
  same += again.finish();
  CHECK(same == expected);  // nothing in it needs replacing any more
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes rest(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      target(as_text(rest));
      break;
    case 1:
      create(as_text(rest));
      break;
    default:
      utf8(rest);
  }
  return 0;
}
