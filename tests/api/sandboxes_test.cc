// SPDX-License-Identifier: Apache-2.0
// Create, get, list, delete, sessions: spec/api.md 1.1, 1.4, 1.5.
#include <fcntl.h>

#include <filesystem>

#include "support/test_api.h"

namespace sallyport {
namespace {

class SandboxesApi : public test::ApiTest {};

TEST_F(SandboxesApi, create_answers_what_every_client_needs) {
  const auto answer =
      create(R"({"projectId":"p","name":"web","ports":[],"timeout":60000,"env":{},"persistent":true,
      "networkPolicy":{"mode":"allow-all"},"__interactive":true,"__unknown":1,"resources":{"vcpus":4,"memory":8192}})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.header("Content-Type"), "application/json");
  const json::value body = answer.json();
  const json::object& sandbox = body.at("sandbox").as_object();
  EXPECT_EQ(sandbox.at("name").as_string(), "web");
  EXPECT_TRUE(sandbox.at("persistent").as_bool());
  EXPECT_EQ(sandbox.at("status").as_string(), "running");
  EXPECT_EQ(sandbox.at("projectId").as_string(), "p");
  EXPECT_EQ(sandbox.at("networkPolicy"), json::value({{"mode", "allow-all"}}));
  EXPECT_FALSE(sandbox.contains("runtime"));
  const json::object& session = body.at("session").as_object();
  EXPECT_EQ(session.at("id"), sandbox.at("currentSessionId"));
  EXPECT_EQ(session.at("memory").as_int64(), 8192);
  EXPECT_EQ(session.at("vcpus").as_int64(), 4);
  EXPECT_EQ(session.at("timeout").as_int64(), 60000);
  EXPECT_EQ(session.at("region").as_string(), "iad1");
  EXPECT_EQ(session.at("cwd").as_string(), "/vercel");
  EXPECT_EQ(session.at("interactivePort").as_int64(), 26661);
  EXPECT_FALSE(session.contains("stoppedAt")) << "absent, not null";
  for (const auto& [key, value] : session) EXPECT_FALSE(value.is_null()) << key;
  EXPECT_TRUE(body.at("routes").as_array().empty());
}

// FW-003
TEST_F(SandboxesApi, no_policy_is_allow_all_and_no_name_is_one_of_ours) {
  const auto answer = create(R"({"projectId":"p"})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("sandbox").at("networkPolicy").at("mode").as_string(), "allow-all");
  EXPECT_FALSE(answer.json().at("sandbox").at("name").as_string().empty());
}

// Every refusal is a 400 bad_request that names the place, and none of them leaves anything behind.
TEST_F(SandboxesApi, mistakes_are_refused_by_name) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"([])", "must be an object"},
      {R"({"name":"a b"})", "$.name"},
      {R"({"name":"sessions"})", "$.name"},
      {R"({"name":"snapshots"})", "$.name"},
      {R"({"name":"drives"})", "$.name"},
      {R"({"name":7})", "$.name: must be a string"},
      {R"({"timeout":999})", "$.timeout"},
      {R"({"timeout":"5m"})", "$.timeout"},
      {R"({"timeout":99999999999})", "$.timeout"},
      {R"({"resources":{"vcpus":3}})", "$.resources.vcpus: must be 1 or even"},
      {R"({"resources":{"vcpus":2,"memory":1024}})", "$.resources.memory: must be vcpus * 2048"},
      {R"({"resources":{"gpus":1}})", "$.resources.gpus: no such field"},
      {R"({"env":{"A=B":"c"}})", "$.env"},
      {R"({"env":{"A":1}})", "$.env.A"},
      {R"({"tags":{"a":"1","b":"2","c":"3","d":"4","e":"5","f":"6"}})", "$.tags"},
      {R"({"snapshotExpiration":5})", "$.snapshotExpiration"},
      {R"({"keepLastSnapshots":{"count":11}})", "$.keepLastSnapshots.count"},
      {R"({"keepLastSnapshots":{}})", "$.keepLastSnapshots.count: is required"},
      {R"({"failoverRegions":["iad1"]})",
       "failoverRegions must not include the sandbox region: iad1"},
      {R"({"ports":[3000]})", "$.ports"},
      {R"({"source":{"type":"git","url":"https://x/y"}})", "$.source"},
      {R"({"mounts":{"/d":{"drive":"d"}}})", "$.mounts"},
      {R"({"runtime":"node22"})", "$.runtime"},
      {R"({"networkId":"nowhere"})", "$.networkId"},
      {R"({"image":"nonsense:latest"})", "$.image"},
      {R"({"networkpolicy":{"mode":"deny-all"}})", "$.networkpolicy: no such field"},
      {R"({"networkPolicy":{"mode":"none"}})", "$.networkPolicy"},
      {R"({"networkPolicy":{"allow":["api*.example.com"]}})", "$.networkPolicy.allow"},
      {R"({"networkPolicy":{"subnets":{"allow":["10.0.0.0/99"]}}})", "$.networkPolicy.subnets"},
      {R"({"name":"a","name":"b"})", "duplicate key"},
      {R"({"name":)", "not JSON"},
  };
  for (const auto& [body, expected] : cases) {
    const auto answer = create(body);
    EXPECT_EQ(answer.status, 400) << body << answer.body;
    EXPECT_EQ(answer.error_code(), "bad_request") << body;
    EXPECT_NE(answer.error_message().find(expected), std::string::npos)
        << body << " -> " << answer.error_message();
  }
  EXPECT_TRUE(node.kernel.everything().empty());
  EXPECT_TRUE(call("GET", "/v2/sandboxes").json().at("sandboxes").as_array().empty());
}

// Rules are valid but not enforced yet: refused as a whole, never half-applied.
TEST_F(SandboxesApi, a_policy_with_rules_is_refused_with_its_place) {
  const auto answer = create(R"({"name":"web","networkPolicy":{"allow":{"b.example.com":[],
      "a.example.com":[{"transform":[{"headers":{"authorization":"secret-value"}}]}]}}})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.error_message().find(R"($.networkPolicy.allow["a.example.com"])"),
            std::string::npos)
      << answer.error_message();
  EXPECT_EQ(answer.body.find("secret-value"), std::string::npos);
}

TEST_F(SandboxesApi, a_taken_name_is_refused_in_the_known_words) {
  session("web");
  const auto again = create(R"({"projectId":"p","name":"web"})");
  EXPECT_EQ(again.status, 400);
  EXPECT_EQ(again.error_code(), "bad_request");
  EXPECT_EQ(again.error_message(),
            "A sandbox with the name 'web' already exists for this project.");
  EXPECT_EQ(create(R"({"projectId":"other","name":"web"})").status, 200);
}

TEST_F(SandboxesApi, both_prefixes_and_all_create_versions_serve) {
  EXPECT_EQ(call("POST", "/api/v2/sandboxes?teamId=t", R"({"projectId":"p","name":"a"})").status,
            200);
  EXPECT_EQ(call("POST", "/v4/sandboxes", R"({"projectId":"p","name":"b"})").status, 200);
  EXPECT_EQ(call("GET", "/api/v2/sandboxes/a?teamId=t&projectId=p&resume=false").status, 200);
  EXPECT_EQ(call("GET", "/v2/sandboxes/%61?projectId=p").status, 200)
      << "names arrive percent-encoded";
}

TEST_F(SandboxesApi, unknown_things_are_not_found) {
  EXPECT_EQ(call("GET", "/v2/sandboxes/nope?projectId=p").error_code(), "not_found");
  EXPECT_EQ(call("GET", "/v2/sandboxes/sessions/sbx_nope").status, 404);
  EXPECT_EQ(call("GET", "/v2/sandboxes/sessions/..%2F..").status, 404);
  EXPECT_EQ(call("DELETE", "/v2/sandboxes/nope?projectId=p").status, 404);
  EXPECT_EQ(call("GET", "/v9/nothing").error_code(), "not_found");
  EXPECT_EQ(call("PUT", "/v2/sandboxes").status, 405);
}

TEST_F(SandboxesApi, a_stopped_sandbox_is_reported_and_cannot_resume_yet) {
  const std::string id = session();
  const auto stopped = call("POST", at(id, "/stop"));  // an empty body with a JSON content type
  ASSERT_EQ(stopped.status, 200) << stopped.body;
  EXPECT_EQ(stopped.json().at("session").at("id").as_string(), id);
  EXPECT_EQ(stopped.json().at("session").at("status").as_string(), "stopped");
  EXPECT_TRUE(stopped.json().at("session").as_object().contains("duration"));
  EXPECT_TRUE(stopped.json().at("session").as_object().contains("networkTransfer"));
  EXPECT_EQ(stopped.json().at("sandbox").at("status").as_string(), "stopped");
  EXPECT_EQ(call("POST", at(id, "/stop"), "{}").status, 200) << "again is fine";
  EXPECT_EQ(call("GET", "/v2/sandboxes/web?projectId=p&resume=false")
                .json()
                .at("session")
                .at("status")
                .as_string(),
            "stopped");
  const auto resumed = call("GET", "/v2/sandboxes/web?projectId=p&resume=true");
  EXPECT_EQ(resumed.status, 410);
  EXPECT_EQ(resumed.error_code(), "snapshot_not_found");
}

TEST_F(SandboxesApi, session_calls_on_a_stopped_one_say_so) {
  const std::string id = session();
  call("POST", at(id, "/stop"));
  for (const auto& [path, body] : std::vector<std::pair<std::string, std::string>>{
           {"/cmd", R"({"command":"echo"})"},
           {"/network-policy", R"({"mode":"deny-all"})"},
           {"/extend-timeout", R"({"duration":1000})"}}) {
    const auto answer = call("POST", at(id, path), body);
    EXPECT_EQ(answer.status, 410) << path;
    EXPECT_EQ(answer.error_code(), "sandbox_stopped") << path;
  }
}

TEST_F(SandboxesApi, delete_answers_the_last_state_and_forgets) {
  session();
  const auto gone = call("DELETE", "/v2/sandboxes/web?projectId=p&deleteOrphanSnapshots=true");
  ASSERT_EQ(gone.status, 200) << gone.body;
  EXPECT_EQ(gone.json().at("sandbox").at("status").as_string(), "stopped");
  EXPECT_EQ(call("GET", "/v2/sandboxes/web?projectId=p").status, 404);
  EXPECT_TRUE(node.kernel.everything().empty());
}

TEST_F(SandboxesApi, extending_is_exact_and_limited) {
  const std::string id = session();
  EXPECT_EQ(call("POST", at(id, "/extend-timeout"), R"({"duration":1500})")
                .json()
                .at("session")
                .at("timeout")
                .as_int64(),
            301'500);
  const auto beyond = call("POST", at(id, "/extend-timeout"), R"({"duration":432000000})");
  EXPECT_EQ(beyond.status, 400);
  EXPECT_EQ(beyond.error_code(), "sandbox_timeout_invalid");
  EXPECT_EQ(call("POST", at(id, "/extend-timeout"), "{}").error_message(),
            "$.duration: is required");
}

TEST_F(SandboxesApi, lists_page_through_everything_newest_first) {
  for (int i = 0; i < 5; ++i)
    session("box" + std::to_string(i),
            R"(,"tags":{"parity":")" + std::string(i % 2 ? "odd" : "even") + "\"}");
  std::vector<std::string> names;
  std::string cursor;
  do {
    const auto page =
        call("GET", "/v2/sandboxes?project=p&limit=2" + (cursor.empty() ? "" : "&cursor=" + cursor))
            .json();
    EXPECT_EQ(page.at("pagination").at("count").as_int64(),
              static_cast<std::int64_t>(page.at("sandboxes").as_array().size()));
    for (const auto& each : page.at("sandboxes").as_array())
      names.emplace_back(each.at("name").as_string());
    const json::value& next = page.at("pagination").at("next");
    cursor = next.is_null() ? "" : std::string(next.as_string());
  } while (!cursor.empty());
  EXPECT_EQ(names, (std::vector<std::string>{"box4", "box3", "box2", "box1", "box0"}));
  const auto count = [&](const std::string& query) {
    return call("GET", "/v2/sandboxes?" + query).json().at("sandboxes").as_array().size();
  };
  EXPECT_EQ(count("project=p&tags=parity:odd"), 2U);
  EXPECT_EQ(count("project=p&sortBy=name&namePrefix=box&sortOrder=asc"), 5U);
  EXPECT_EQ(count("project=elsewhere"), 0U);
  EXPECT_EQ(count(""), 5U);
  EXPECT_EQ(count("status=running"), 5U);
  EXPECT_EQ(count("status=stopped"), 0U);
  for (const char* query :
       {"limit=0", "limit=51", "limit=x", "sortBy=size", "sortOrder=up", "namePrefix=b", "tags=a",
        "tags=a:1&tags=b:2", "cursor=nonsense", "status=lost"}) {
    EXPECT_EQ(call("GET", std::string("/v2/sandboxes?") + query).status, 400) << query;
  }
  EXPECT_EQ(call("GET", "/v2/sandboxes/sessions?project=p&name=box1")
                .json()
                .at("sessions")
                .as_array()
                .size(),
            1U);
}

// I4, FW-002, R-095
TEST_F(SandboxesApi, a_policy_update_is_in_force_and_counted_when_it_is_answered) {
  const std::string id = session();
  const auto answer =
      call("POST", at(id, "/network-policy"), R"({"allow":["b.example.com","a.example.com"]})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json::value policy = answer.json().at("session").at("networkPolicy");
  EXPECT_EQ(policy.at("mode").as_string(), "custom");
  EXPECT_EQ(policy.at("allowedDomains"), json::value(json::array{"b.example.com", "a.example.com"}))
      << "in the order given";
  EXPECT_EQ(answer.json().at("networkPolicyUpdate"),
            json::value({{"version", 2}, {"kept", 13}, {"cut", 4}}));
  EXPECT_EQ(node.kernel.content("nft", id), "deny");
  EXPECT_EQ(call("GET", "/v2/sandboxes/web?projectId=p").json().at("sandbox").at("networkPolicy"),
            policy);
  const auto ours = call("GET", "/sallyport/v1/sandboxes/web/policy?projectId=p").json();
  EXPECT_EQ(ours.at("version").as_int64(), 2);
  EXPECT_TRUE(ours.at("policy").as_object().contains("allow"));

  const auto refused =
      call("POST", at(id, "/network-policy"), R"({"allow":["a.example.com","b c"]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.error_message().find("$.allow[1]"), std::string::npos)
      << refused.error_message();
  EXPECT_EQ(
      call("GET", "/sallyport/v1/sandboxes/web/policy?projectId=p").json().at("version").as_int64(),
      2)
      << "the old one stays";
  EXPECT_EQ(call("POST", at(id, "/network-policy"), R"("deny-all")").status, 200)
      << "the bare string";
}

TEST_F(SandboxesApi, our_own_endpoints_tell_the_operator) {
  EXPECT_EQ(call("GET", "/sallyport/v1/health").json().at("status").as_string(), "ok");
  session();
  const auto details = call("GET", "/sallyport/v1/sandboxes/web?projectId=p").json();
  EXPECT_EQ(details.at("node").at("isolation").as_string(), "fake");
  const auto images = call("GET", "/sallyport/v1/images").json();
  EXPECT_EQ(images.at("images").as_array().size(), 1U);
  const auto built = call("POST", "/sallyport/v1/images", R"({"name":"base"})");
  EXPECT_EQ(built.header("Content-Type"), "application/x-ndjson");
  ASSERT_EQ(built.lines().size(), 3U);
  EXPECT_EQ(built.lines()[0].at("progress").as_string(), "unpacking");
  EXPECT_EQ(built.lines()[2].at("image").at("name").as_string(), "base");
  EXPECT_EQ(call("DELETE", "/sallyport/v1/images/nope").status, 404);
}

TEST_F(SandboxesApi, the_egress_log_is_read_over_rotations_and_followed_to_the_end) {
  const std::string id = session();
  const std::string log = directory.path() + "/state/sandboxes/" + id + "/egress.jsonl";
  const auto write = [](const std::string& path, const std::string& text) {
    const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
    CHECK(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  };
  write(log, "{\"n\":1,\"verdict\":\"allow\"}\n");
  std::filesystem::rename(log, log + ".1");
  write(log, "{\"n\":2,\"verdict\":\"deny\"}\n{\"n\":3,");
  const std::string path = "/sallyport/v1/sandboxes/web/egress?projectId=p";
  EXPECT_EQ(call("GET", path).body,
            "{\"n\":1,\"verdict\":\"allow\"}\n{\"n\":2,\"verdict\":\"deny\"}\n")
      << "whole lines only";
  EXPECT_EQ(call("GET", path + "&denied=true").lines().size(), 1U);

  test::HttpConnection follower(socket);
  follower.send(test::render_http("GET", path + "&follow=true", ""));
  follower.read_until("\"n\":2");
  write(log, "\"verdict\":\"allow\"}\n");
  EXPECT_NE(follower.read_until("\"n\":3").find("\"n\":3"), std::string::npos);
  call("POST", at(id, "/stop"));
  follower.read_all();  // ends with the sandbox
  EXPECT_EQ(call("GET", path).lines().size(), 3U) << "readable after the stop";
}

}  // namespace
}  // namespace sallyport
