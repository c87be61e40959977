// SPDX-License-Identifier: Apache-2.0
// The program as a whole against a fake API: what it sends, what it prints where, how it exits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/fake_api.h"

namespace sallyport::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kWeb =
    R"({"sandbox":{"name":"web","status":"running","createdAt":1000,"vcpus":2,"memory":4096,"timeout":300000,
  "image":"base","networkPolicy":{"mode":"custom"},"tags":{"a":"b"}},"session":{"id":"sbx_1","status":"running"},"routes":[]})";

struct Ran {
  int status = -1;
  std::string out;
  std::string err;
};

class Cli : public testing::Test {
 protected:
  // One answer per "METHOD path", query left out; everything else is not found.
  std::map<std::string, FakeApi::Answer> answers_;
  std::map<std::string, std::string> environment_;
  FakeApi api_{[this](const Asked& asked) -> FakeApi::Answer {
    const auto found = answers_.find(asked.line.substr(0, asked.line.find('?')));
    if (found != answers_.end()) return found->second;
    return {404, {R"({"error":{"code":"not_found","message":"no such thing"}})"}};
  }};

  Ran run(std::vector<std::string> arguments, const std::string& input = "") {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    environment_.emplace("SALLYPORT_API", api_.address());
    Terminal terminal{in, out, err, [this](const std::string& name) -> std::optional<std::string> {
                        const auto found = environment_.find(name);
                        return found == environment_.end() ? std::nullopt
                                                           : std::optional(found->second);
                      }};
    const int status = run_program(arguments, terminal);
    return {status, out.str(), err.str()};
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> result;
    for (const Asked& asked : api_.asked()) result.push_back(asked.line);
    return result;
  }
  std::string body() const { return api_.asked().back().body; }
  json::value sent() const { return parse_json(body()).value(); }

  void answer(const std::string& line, std::string text) {
    answers_[line] = {200, {std::move(text)}};
  }
  void answer_web() { answer("GET /v2/sandboxes/web", kWeb); }
};

TEST_F(Cli, create_prints_the_name_and_nothing_else) {
  answer("POST /v3/sandboxes", kWeb);
  const Ran ran = run({"create"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "web\n");
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(
      body(),
      R"({"projectId":"default","timeout":300000,"env":{},"networkPolicy":{"mode":"allow-all"}})");
}

TEST_F(Cli, create_sends_every_flag) {
  answer("POST /v3/sandboxes", kWeb);
  environment_["FROM_HERE"] = "x y";
  const Ran ran = run({"create",    "--name",
                       "web",       "--image",
                       "base",      "--timeout",
                       "1h30m",     "--vcpus",
                       "4",         "-e",
                       "A=1",       "--env",
                       "B=2=3",     "-e",
                       "FROM_HERE", "--network-id",
                       "lan",       "--tag",
                       "k=v",       "--project",
                       "p",         "--network-policy",
                       "deny-all"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(
      body(),
      R"({"projectId":"p","name":"web","image":"base","timeout":5400000,"resources":{"vcpus":4},"networkId":"lan",)"
      R"("tags":{"k":"v"},"env":{"A":"1","B":"2=3","FROM_HERE":"x y"},"networkPolicy":{"mode":"deny-all"}})");
}

// FW-009, spec 2.4: keys are present only if their flags were given.
TEST_F(Cli, list_flags_become_a_custom_policy) {
  answer("POST /v3/sandboxes", kWeb);
  (void)run({"create", "--allowed-domain", "*.google.com", "--allowed-domain", "a.b"});
  EXPECT_EQ(serialize_ascii(sent().at("networkPolicy")), R"({"allow":["*.google.com","a.b"]})");
  (void)run({"create", "--allowed-cidr", "10.0.0.0/8", "--denied-cidr", "10.1.0.0/16",
             "--denied-cidr", "10.2.0.0/16"});
  EXPECT_EQ(serialize_ascii(sent().at("networkPolicy")),
            R"({"subnets":{"allow":["10.0.0.0/8"],"deny":["10.1.0.0/16","10.2.0.0/16"]}})");
}

TEST_F(Cli, a_policy_comes_from_a_file_or_standard_input) {
  answer("POST /v3/sandboxes", kWeb);
  const std::string text = R"({"allow":{"a.b":[{"transform":[{"headers":{"X":"s3cret"}}]}]}})";
  EXPECT_EQ(run({"create", "--policy", "-"}, text).status, 0);
  EXPECT_EQ(serialize_ascii(sent().at("networkPolicy")), text);
  const std::string path = testing::TempDir() + "/policy.json";
  std::ofstream(path) << R"("deny-all")";
  EXPECT_EQ(run({"create", "--policy", path}).status, 0);
  EXPECT_EQ(serialize_ascii(sent().at("networkPolicy")), R"({"mode":"deny-all"})");
}

TEST_F(Cli, usage_errors_name_the_flag_and_send_nothing) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"create", "--network-policy", "open"}, "--network-policy 'open'"},
      {{"create", "--mode", "deny-all", "--network-policy", "allow-all"},
       "--mode and --network-policy contradict"},
      {{"create", "--network-policy", "allow-all", "--allowed-domain", "a.b"},
       "--network-policy cannot be combined"},
      {{"create", "--policy", "-", "--denied-cidr", "10.0.0.0/8"}, "--policy cannot be combined"},
      {{"create", "--policy", "/nonexistent/p.json"},
       "--policy: open /nonexistent/p.json: No such file"},
      {{"create", "--allowed-domain", "api*.b"},
       "--allowed-domain 'api*.b': a wildcard must be a whole label"},
      {{"create", "--allowed-cidr", "10.0.0.0/33"}, "--allowed-cidr '10.0.0.0/33'"},
      {{"create", "--denied-cidr", "x"}, "--denied-cidr 'x'"},
      {{"create", "--timeout", "5 minutes"}, "--timeout: '5 minutes' is not a duration"},
      {{"create", "--vcpus", "two"}, "--vcpus"},
      {{"create", "--env", "=x"}, "--env '=x'"},
      {{"create", "--env", "NOT_SET_ANYWHERE"}, "--env NOT_SET_ANYWHERE: not set here"},
      {{"create", "--tag", "novalue"}, "--tag 'novalue'"},
      {{"create", "--frobnicate"}, "--frobnicate"},
      {{"create", "--", "ls"}, "create takes no command after --"},
      {{"exec"}, "name is required"},
      {{"exec", "web"}, "exec needs a command"},
      {{"exec", "web", "--timeout", "x", "--", "ls"}, "--timeout: 'x'"},
      {{"run"}, "run needs a command"},
      {{"run", "--rm", "--stop", "--", "ls"}, "--stop"},
      {{"config", "network-policy", "web"}, "needs a policy"},
      {{"config"}, "subcommand is required"},
      {{"ls", "--limit", "51"}, "--limit"},
      {{"frobnicate"}, "frobnicate"},
      {{}, "subcommand is required"},
      {{"ls", "--api", "ftp://x"}, "'ftp://x' is neither"},
  };
  for (const auto& [arguments, message] : cases) {
    const Ran ran = run(arguments, "{}");
    EXPECT_EQ(ran.status, 2) << message;
    EXPECT_EQ(ran.out, "") << message;
    EXPECT_THAT(ran.err, HasSubstr(message));
  }
  EXPECT_TRUE(lines().empty());
}

TEST_F(Cli, a_bad_policy_file_is_told_by_its_path_and_not_sent) {
  const Ran ran = run({"config", "network-policy", "web", "--policy", "-"},
                      R"({"allow":{"api*.example.com":[]}})");
  EXPECT_NE(ran.status, 0);
  EXPECT_THAT(ran.err,
              HasSubstr(R"($.allow["api*.example.com"]: a wildcard must be a whole label)"));
  EXPECT_TRUE(lines().empty());
}

TEST_F(Cli, exec_plays_the_output_and_exits_with_the_commands_status) {
  answer_web();
  // Lines are cut anywhere: in a record, in an escape.
  answers_["POST /v2/sandboxes/sessions/sbx_1/cmd"] = {
      200,
      {"{\"command\":{\"id\":\"cmd_1\",\"exitCode\":null}}\n{\"stream\":\"std",
       "out\",\"data\":\"h\\u00", "e9\\n\"}\n\n",
       "{\"stream\":\"stderr\",\"data\":\"oops\\n\"}\n{\"stream\":\"stdout\",\"data\":\"\\u0000x\"}"
       "\n",
       "{\"command\":{\"id\":\"cmd_1\",\"exitCode\":7}}\n"}};
  const Ran ran = run({"exec", "--sudo", "-w", "/tmp", "-e", "A=1", "--timeout", "5m", "web", "--",
                       "sh", "-c", "--", "--rm"});
  EXPECT_EQ(ran.status, 7);
  EXPECT_EQ(ran.out, std::string("h\xc3\xa9\n\0x", 6));
  EXPECT_EQ(ran.err, "oops\n");
  EXPECT_THAT(lines(), ElementsAre("GET /v2/sandboxes/web?projectId=default&resume=true",
                                   "POST /v2/sandboxes/sessions/sbx_1/cmd?wait=true&logs=true"));
  EXPECT_EQ(
      body(),
      R"({"command":"sh","args":["-c","--","--rm"],"sudo":true,"wait":true,"logs":true,"cwd":"/tmp",)"
      R"("env":{"A":"1"},"timeout":300000})");
}

TEST_F(Cli, exec_takes_plain_words_without_a_dash_too) {
  answer_web();
  answers_["POST /v2/sandboxes/sessions/sbx_1/cmd"] = {
      200, {"{\"command\":{\"id\":\"c\",\"exitCode\":0}}\n"}};
  EXPECT_EQ(run({"exec", "web", "ls", "/tmp"}).status, 0);
  EXPECT_EQ(serialize_ascii(sent().at("args")), R"(["/tmp"])");
}

TEST_F(Cli, a_stream_that_ends_early_is_a_failure) {
  answer_web();
  const std::string first = "{\"command\":{\"id\":\"c\",\"exitCode\":null}}\n";
  answers_["POST /v2/sandboxes/sessions/sbx_1/cmd"] = {200, {first}};
  EXPECT_THAT(run({"exec", "web", "--", "true"}).err, HasSubstr("ended before the command did"));
  answers_["POST /v2/sandboxes/sessions/sbx_1/cmd"] = {200, {first}, true};
  const Ran cut = run({"exec", "web", "--", "true"});
  EXPECT_EQ(cut.status, 1);
  EXPECT_THAT(cut.err, HasSubstr("broke"));
  answers_["POST /v2/sandboxes/sessions/sbx_1/cmd"] = {
      200,
      {first + "{\"stream\":\"error\",\"data\":{\"code\":\"sandbox_stream_closed\",\"message\":"
               "\"Sandbox stream was closed\"}}\n"}};
  const Ran closed = run({"exec", "web", "--", "true"});
  EXPECT_EQ(closed.status, 1);
  EXPECT_THAT(closed.err, HasSubstr("Sandbox stream was closed"));
  answers_["POST /v2/sandboxes/sessions/sbx_1/cmd"] = {200, {"garbage\n"}};
  EXPECT_EQ(run({"exec", "web", "--", "true"}).status, 1);
}

TEST_F(Cli, a_missing_executable_is_the_apis_message) {
  answer_web();
  answers_["POST /v2/sandboxes/sessions/sbx_1/cmd"] = {
      400, {R"({"error":{"code":"executable_not_found","message":"no such executable: x"}})"}};
  const Ran ran = run({"exec", "web", "--", "x"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.err, "sandbox: no such executable: x\n");
}

TEST_F(Cli, run_creates_runs_and_cleans_up) {
  answer("POST /v3/sandboxes", kWeb);
  answer("DELETE /v2/sandboxes/web", "{}");
  answer("POST /v2/sandboxes/sessions/sbx_1/stop", "{}");
  answers_["POST /v2/sandboxes/sessions/sbx_1/cmd"] = {
      200,
      {"{\"command\":{\"id\":\"c\",\"exitCode\":null}}\n",
       "{\"stream\":\"stdout\",\"data\":\"hi\\n\"}\n{\"command\":{\"id\":\"c\",\"exitCode\":3}}"
       "\n"}};
  const Ran removed =
      run({"run", "--rm", "--network-policy", "deny-all", "--", "sh", "-c", "exit 3"});
  EXPECT_EQ(removed.status, 3);
  EXPECT_EQ(removed.out, "hi\n");
  EXPECT_EQ(removed.err, "");
  EXPECT_THAT(lines(), ElementsAre("POST /v3/sandboxes",
                                   "POST /v2/sandboxes/sessions/sbx_1/cmd?wait=true&logs=true",
                                   "DELETE /v2/sandboxes/web?projectId=default"));
  const Ran stopped = run({"run", "--stop", "--", "true"});
  EXPECT_EQ(lines().back(), "POST /v2/sandboxes/sessions/sbx_1/stop");
  EXPECT_EQ(stopped.err, "sandbox: running in web\n");
}

TEST_F(Cli, run_removes_the_sandbox_even_if_the_command_could_not_run) {
  answer("POST /v3/sandboxes", kWeb);
  answer("DELETE /v2/sandboxes/web", "{}");
  EXPECT_EQ(run({"run", "--rm", "--", "true"}).status, 1);
  EXPECT_EQ(lines().back(), "DELETE /v2/sandboxes/web?projectId=default");
}

TEST_F(Cli, ls_shows_the_running_ones_and_follows_pages) {
  answers_["GET /v2/sandboxes"] = {200, {}};
  int page = 0;
  FakeApi paged([&page](const Asked&) -> FakeApi::Answer {
    if (page++ == 0) {
      return {
          200,
          {R"({"sandboxes":[{"name":"one","status":"running","vcpus":2,"memory":4096,"timeout":300000,"image":"base",
        "createdAt":1,"networkPolicy":{"mode":"custom"},"tags":{"k":"v"}},{"name":"old","status":"stopped"}],"pagination":{"count":2,"next":"c 1"}})"}};
    }
    return {
        200,
        {R"({"sandboxes":[{"name":"two","status":"running","networkPolicy":{"mode":"deny-all"}}],"pagination":{"count":1,"next":null}})"}};
  });
  const Ran ran = run({"ls", "--api", paged.address()});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, testing::StartsWith("NAME"));
  EXPECT_THAT(ran.out, HasSubstr("restricted"));
  EXPECT_THAT(ran.out, HasSubstr("k=v"));
  EXPECT_THAT(ran.out, HasSubstr("two"));
  EXPECT_THAT(ran.out, Not(HasSubstr("old")));
  EXPECT_EQ(paged.asked().at(1).line, "GET /v2/sandboxes?project=default&limit=50&cursor=c%201");
  page = 0;
  EXPECT_THAT(run({"ls", "--all", "--api", paged.address()}).out, HasSubstr("old"));
}

TEST_F(Cli, ls_passes_its_filters_on) {
  answer("GET /v2/sandboxes", R"({"sandboxes":[],"pagination":{"count":0,"next":null}})");
  EXPECT_EQ(run({"list", "--name-prefix", "w", "--sort-order", "asc", "--tag", "k=v", "--limit",
                 "5", "--json"})
                .out,
            "[]\n");
  EXPECT_THAT(
      lines(),
      ElementsAre(
          "GET "
          "/v2/"
          "sandboxes?project=default&limit=5&namePrefix=w&sortBy=name&sortOrder=asc&tags=k%3Av"));
}

TEST_F(Cli, stop_and_rm_try_every_name) {
  answer_web();
  answer("POST /v2/sandboxes/sessions/sbx_1/stop", "{}");
  answer("DELETE /v2/sandboxes/web", "{}");
  const Ran stopped = run({"stop", "nobody", "web"});
  EXPECT_EQ(stopped.status, 1);
  EXPECT_EQ(stopped.out, "web\n");
  EXPECT_THAT(stopped.err, HasSubstr("sandbox: no such thing"));
  EXPECT_EQ(run({"rm", "web"}).out, "web\n");
  EXPECT_EQ(run({"remove", "web"}).status, 0);
  EXPECT_EQ(lines().back(), "DELETE /v2/sandboxes/web?projectId=default");
}

TEST_F(Cli, names_are_encoded) {
  EXPECT_EQ(run({"rm", "../x?y"}).status, 1);
  EXPECT_EQ(lines().back(), "DELETE /v2/sandboxes/..%2Fx%3Fy?projectId=default");
}

// FW-010, R-098: the answer says what the update did.
TEST_F(Cli, config_network_policy_says_mode_version_kept_and_cut) {
  answer_web();
  answer(
      "POST /v2/sandboxes/sessions/sbx_1/network-policy",
      R"({"session":{"id":"sbx_1","networkPolicy":{"mode":"custom","allowedDomains":["a.b"]}},"networkPolicyUpdate":{"version":7,"kept":12,"cut":3}})");
  const Ran ran = run({"config", "network-policy", "web", "--allowed-domain", "a.b"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "mode: restricted\nversion: 7\nopen connections kept: 12\nopen connections cut: 3\n");
  EXPECT_EQ(body(), R"({"allow":["a.b"]})");
  answers_["POST /v2/sandboxes/sessions/sbx_1/network-policy"] = {
      410, {R"({"error":{"code":"sandbox_stopped","message":"stopped"}})"}};
  EXPECT_EQ(run({"config", "network-policy", "web", "--mode", "deny-all"}).status, 1);
}

// FW-101, FW-113
TEST_F(Cli, policy_check_prints_the_normal_form_without_secrets_and_without_a_daemon) {
  environment_["SALLYPORT_API"] = "unix:/nonexistent";
  const Ran ran =
      run({"policy", "check", "-"},
          R"({"allow":{"Api.Example.COM.":[{"transform":[{"headers":{"X-Key":"hunter2"}}]}]}})");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(
      serialize_ascii(parse_json(ran.out).value()),
      R"({"allow":{"api.example.com":[{"transform":[{"headers":{"X-Key":"<redacted>"}}]}]}})");
  EXPECT_THAT(ran.out + ran.err, Not(HasSubstr("hunter2")));
  const Ran bad = run({"policy", "check", "-"},
                      R"({"allow":{"a.b":[{"match":{},"forwardURL":"https://p.example"}]}})");
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(bad.out, "");
  EXPECT_THAT(bad.err, HasSubstr(R"($.allow["a.b"][0].match: must not be empty)"));
}

// R-060, R-061: what a valid policy may not mean as its author thinks.
TEST_F(Cli, policy_check_notes_what_surprises) {
  const Ran ran = run({"policy", "check", "-"}, R"({"allow":{"*.a.b":[
    {"match":{"path":{"startsWith":"/repos/acme"}},"forwardURL":"https://p.example"},{"forwardURL":"https://p.example"},
    {"match":{"path":{"regex":"v1"}},"forwardURL":"https://p.example"}],"*":[]},"subnets":{"allow":["10.0.0.0/8"]}})");
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.err,
              HasSubstr(R"(startsWith "/repos/acme" also matches "/repos/acme-anything")"));
  EXPECT_THAT(ran.err, HasSubstr("rule 1 has no match, so the rules after it never apply"));
  EXPECT_THAT(ran.err, HasSubstr(R"(the expression "v1" may match anywhere)"));
  EXPECT_THAT(ran.err, HasSubstr("\"*\" also admits TCP connections without a readable name"));
  EXPECT_THAT(ran.err, Not(HasSubstr("does not admit a.b itself")));  // "*" does
  EXPECT_THAT(run({"policy", "check", "-"}, R"({"allow":["*.a.b"]})").err,
              HasSubstr("*.a.b does not admit a.b itself"));
  EXPECT_THAT(run({"policy", "check", "-"}, "{}").err,
              HasSubstr("everything is denied, DNS included"));
  EXPECT_EQ(run({"policy", "check", "-"}, R"({"allow":["a.b"]})").err, "");
}

TEST_F(Cli, policy_explain_judges_a_file_without_a_daemon_and_exits_by_the_verdict) {
  environment_["SALLYPORT_API"] = "unix:/nonexistent";
  const std::string policy = R"({"allow":["a.example"],"subnets":{"allow":["10.0.0.0/8"]}})";
  const Ran yes = run({"policy", "explain", "-", "https://a.example/"}, policy);
  EXPECT_EQ(yes.status, 0);
  EXPECT_THAT(yes.out, HasSubstr("from: file, no daemon asked"));
  EXPECT_THAT(yes.out, HasSubstr("allowed: the name is an allowed domain"));
  EXPECT_EQ(run({"policy", "explain", "-", "http://a.example/"}, policy).status, 1);
  EXPECT_EQ(run({"policy", "explain", "-", "10.0.0.1"}, policy).status, 1);
  EXPECT_EQ(run({"policy", "explain", "-", "not a target"}, policy).status, 2);
  EXPECT_EQ(run({"policy", "explain", "-", "a.example"}, "{").status, 1);
}

// D-16: a file is judged as a new sandbox of this node would be.
TEST_F(Cli, policy_explain_judges_a_file_with_the_boundary_of_the_node) {
  answer("GET /sallyport/v1/boundary",
         R"({"boundary":{"closed":[],"opened":["10.0.0.0/8"],"attached":[]}})");
  const std::string policy = R"({"subnets":{"allow":["10.0.0.0/8"]}})";
  const Ran ran = run({"policy", "explain", "-", "10.0.0.1", "--network-id", "lan"}, policy);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("from: file, with the boundary of the node"));
  EXPECT_THAT(lines(), ElementsAre("GET /sallyport/v1/boundary?networkId=lan"));
}

TEST_F(Cli, policy_explain_judges_a_sandbox_with_its_own_boundary) {
  answer(
      "GET /sallyport/v1/sandboxes/web/policy",
      R"({"version":4,"policy":{"allow":{"a.example":[{"transform":[{"headers":{"X":"<redacted>"}}]}]},"subnets":{"allow":["10.0.0.0/8"]}},)"
      R"("boundary":{"closed":["10.1.0.0/16"],"opened":["10.0.0.0/8"],"attached":[]}})");
  const Ran ran = run({"policy", "explain", "web", "10.2.0.1"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("from: sandbox web, policy version 4"));
  EXPECT_EQ(run({"policy", "explain", "web", "10.1.0.1"}).status, 1);
  EXPECT_EQ(run({"policy", "explain", "web", "https://a.example/"}).status, 0);
  EXPECT_THAT(run({"policy", "explain", "nobody", "x.y"}).err,
              HasSubstr("neither a file nor a sandbox called 'nobody'"));
}

TEST_F(Cli, egress_is_a_table_or_the_lines_themselves) {
  const std::string allowed =
      R"({"v":1,"time":"2026-11-30T23:04:05.123Z","sandbox":"sbx_1","policy":7,"protocol":"tls","name":"api.example.com","destination":"198.18.0.10:443",)"
      R"("dialled":"198.18.0.10:443","verdict":"allow","reason":"allowed_domain","entry":"*.example.com","bytes_up":1500,"bytes_down":2000000,"duration_ms":61000,"via":"worker"})";
  const std::string denied =
      R"({"v":1,"time":"2026-11-30T23:04:06.000Z","sandbox":"sbx_1","policy":7,"protocol":"dns","name":"evil\u001b[2Jtest","destination":"198.18.0.53:53",)"
      R"("dialled":null,"verdict":"deny","reason":"name_not_allowed","entry":"","bytes_up":0,"bytes_down":0,"duration_ms":0,"via":"worker","detail":"why"})";
  answers_["GET /sallyport/v1/sandboxes/web/egress"] = {
      200, {allowed + "\n" + denied.substr(0, 50), denied.substr(50) + "\n"}};
  const Ran table = run({"egress", "web"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, testing::StartsWith("TIME"));
  EXPECT_THAT(table.out, HasSubstr("23:04:05  allow    tls       api.example.com:443"));
  EXPECT_THAT(table.out, HasSubstr("1m 1s       allowed_domain (*.example.com)\n"));
  EXPECT_THAT(table.out, HasSubstr("1.5 kB up, 2.0 MB down, 1m 1s"));
  EXPECT_THAT(table.out, HasSubstr("evil?[2Jtest"));  // a name cannot move the cursor
  EXPECT_THAT(table.out, HasSubstr("name_not_allowed: why"));
  EXPECT_EQ(run({"egress", "web", "--json"}).out, allowed + "\n" + denied + "\n");
  (void)run({"egress", "web", "--follow", "--denied"});
  EXPECT_EQ(lines().back(),
            "GET /sallyport/v1/sandboxes/web/egress?projectId=default&follow=true&denied=true");
}

TEST_F(Cli, images_are_listed_built_and_deleted) {
  answer(
      "GET /sallyport/v1/images",
      R"({"images":[{"name":"base","sizeBytes":123456789,"createdAt":1000,"digest":"sha256:abcdef"}]})");
  EXPECT_THAT(run({"image", "ls"}).out, HasSubstr("123.5 MB"));
  answers_["POST /sallyport/v1/images"] = {
      200, {"{\"progress\":\"unpacking\"}\n", "{\"image\":{\"name\":\"base\"}}\n"}};
  const Ran built = run({"image", "build"});
  EXPECT_EQ(built.status, 0) << built.err;
  EXPECT_EQ(built.out, "base\n");
  EXPECT_EQ(built.err, "unpacking\n");
  EXPECT_EQ(body(), R"({"name":"base"})");
  answers_["POST /sallyport/v1/images"] = {
      200, {"{\"progress\":\"x\"}\n", "{\"error\":{\"message\":\"no mirror\"}}\n"}};
  EXPECT_EQ(run({"image", "build", "other"}).status, 1);
  answers_["POST /sallyport/v1/images"] = {200, {"{\"progress\":\"x\"}\n"}};
  EXPECT_THAT(run({"image", "build"}).err, HasSubstr("ended before the image was built"));
  answer("DELETE /sallyport/v1/images/base", "");
  EXPECT_EQ(run({"image", "rm", "base", "gone"}).status, 1);
}

TEST_F(Cli, inspect_prints_what_the_api_says) {
  answer("GET /sallyport/v1/sandboxes/web", R"({"isolation":"oci","list":[],"n":[1,2]})");
  EXPECT_EQ(run({"inspect", "web"}).out,
            "{\n  \"isolation\": \"oci\",\n  \"list\": [],\n  \"n\": [1,2]\n}\n");
}

TEST_F(Cli, without_a_daemon_it_says_how_to_start_one) {
  environment_["SALLYPORT_API"] = "unix:/nonexistent/sandboxd.sock";
  const Ran ran = run({"ls"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("cannot reach sandboxd at unix:/nonexistent/sandboxd.sock"));
  EXPECT_THAT(ran.err, HasSubstr("sudo sandboxd"));
}

TEST_F(Cli, an_odd_answer_is_an_error_not_a_crash) {
  for (const char* odd : {"", "[]", "{", "null", R"({"sandbox":5})", R"({"sandbox":{"name":5}})"}) {
    answer("POST /v3/sandboxes", odd);
    EXPECT_EQ(run({"create"}).status, 1) << odd;
  }
  answers_["POST /v3/sandboxes"] = {500, {"<html>"}};
  EXPECT_THAT(run({"create"}).err, HasSubstr("status 500"));
  answers_["POST /v3/sandboxes"] = {200, {"{\"sandbox\"", ":{"}, true};
  EXPECT_THAT(run({"create"}).err, HasSubstr("no whole answer"));
}

TEST_F(Cli, the_token_and_the_api_flag_are_used) {
  answer("GET /v2/sandboxes", R"({"sandboxes":[]})");
  const std::string address = api_.address();
  environment_["SALLYPORT_API"] = "unix:/nonexistent";
  environment_["SALLYPORT_TOKEN"] = "t0ken";
  EXPECT_EQ(run({"--api", address, "ls"}).status, 0);
  EXPECT_EQ(run({"ls", "--api", address}).status, 0);
  EXPECT_THAT(api_.asked().back().head, HasSubstr("Authorization: Bearer t0ken\r\n"));
}

TEST_F(Cli, help_goes_to_stdout_and_succeeds) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--help"}, {"create", "--help"}, {"config", "network-policy", "-h"}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.status, 0);
    EXPECT_THAT(ran.out, HasSubstr("Usage"));
    EXPECT_EQ(ran.err, "");
  }
}

}  // namespace
}  // namespace sallyport::cli
