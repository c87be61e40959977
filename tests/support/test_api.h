// SPDX-License-Identifier: Apache-2.0
// The API on a fake node, behind a real unix socket.
#pragma once

#include <gtest/gtest.h>

#include "api/resources.h"
#include "api/server.h"
#include "support/http_client.h"
#include "support/test_node.h"

namespace sallyport::test {

class ApiTest : public testing::Test {
 protected:
  ApiTest() : node(directory.path()) {
    CHECK(node.supervisor->recover().has_value());
    api::add_all_routes(router, *node.supervisor);
    socket = directory.path() + "/api.sock";
    api::ServerSettings settings;
    settings.listen = "unix:" + socket;
    settings.header_limit = std::chrono::seconds(1);
    server = std::make_unique<api::Server>(node.loop.context(), router, settings);
    CHECK(server->start().has_value());
  }

  HttpAnswer call(const std::string& method, const std::string& target,
                  const std::string& body = "") {
    return http(socket, method, target, body);
  }
  HttpAnswer create(const std::string& body) { return call("POST", "/v3/sandboxes", body); }
  // A sandbox of this name; its session's id.
  std::string session(const std::string& name = "web", const std::string& more = "") {
    const HttpAnswer answer = create(R"({"projectId":"p","name":")" + name + "\"" + more + "}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return std::string(answer.json().at("session").at("id").as_string());
  }
  static std::string at(const std::string& id, const std::string& rest = "") {
    return "/v2/sandboxes/sessions/" + id + rest;
  }
  HttpAnswer run(const std::string& id, const std::string& command, const std::string& args = "[]",
                 const std::string& more = "") {
    return call("POST", at(id, "/cmd"),
                R"({"command":")" + command + R"(","args":)" + args +
                    R"(,"wait":true,"logs":true)" + more + "}");
  }
  static std::string output(const HttpAnswer& answer, const std::string& stream = "stdout") {
    std::string text;
    for (const json::object& line : answer.lines()) {
      if (line.contains("stream") && line.at("stream").as_string() == stream)
        text += line.at("data").as_string();
    }
    return text;
  }

  TempDirectory directory;
  api::Router router;  // outlives the loop, which uses it
  TestNode node;
  std::string socket;
  std::unique_ptr<api::Server> server;
};

}  // namespace sallyport::test
