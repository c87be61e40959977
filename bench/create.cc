// SPDX-License-Identifier: Apache-2.0
// How long it takes from nothing to the first byte that a command in a new container writes:
// driver, disk, agent and client, without network and daemon. Needs root and an image
// (`bench-create STATE_DIR [RUNS]`; --build makes the image).
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "driver/agent_client.h"
#include "driver/image.h"
#include "driver/oci.h"

namespace {

using namespace sallyport;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

boost::asio::awaitable<std::string> first_output(std::string socket) {
  auto client = co_await driver::AgentClient::connect(socket, std::chrono::seconds(10));
  if (!client) co_return client.error().message;
  guest::StartRequest request{.command = "echo", .args = {"hello"}};
  auto command = co_await (*client)->start(std::move(request));
  if (!command) co_return command.error().message;
  auto event = co_await (*command)->next();
  if (!event) co_return event.error().message;
  const auto* output = std::get_if<driver::CommandOutput>(&*event);
  co_return output == nullptr ? "ended without output" : output->bytes;
}

void print(const char* what, std::vector<double> samples) {
  std::ranges::sort(samples);
  std::printf("%-28s p50 %7.1f ms   best %7.1f   worst %7.1f\n", what, samples[samples.size() / 2],
              samples.front(), samples.back());
}

int run(const std::string& state, int runs) {
  const std::string run_dir = "/run/sallyport-bench-" + std::to_string(::getpid());
  std::filesystem::create_directories(run_dir + "/sandboxes");
  std::filesystem::create_directories(state + "/sandboxes");
  auto driver = driver::make_oci_driver({.run_dir = run_dir});
  const auto image = driver::load_image(state, driver::kDefaultImage);
  if (!driver || !image) {
    std::fprintf(stderr, "%s\n", (driver ? image.error() : driver.error()).message.c_str());
    return 1;
  }
  std::printf("%s\n", (*driver)->name().c_str());
  std::vector<double> starts;
  std::vector<double> outputs;
  std::vector<double> ends;
  for (int i = 0; i < runs; ++i) {
    const std::string id = "bench" + std::to_string(::getpid()) + "_" + std::to_string(i);
    sandbox::DriverSpec spec{.id = id,
                             .hostname = "bench",
                             .run_dir = run_dir + "/sandboxes/" + id,
                             .state_dir = state + "/sandboxes/" + id,
                             .image_dir = image->directory,
                             .slot = 20000,
                             .resources = {},
                             .resolvers = {},
                             .attach_network = {}};
    std::filesystem::create_directory(spec.run_dir);
    std::filesystem::create_directory(spec.state_dir);
    const auto start = Clock::now();
    const auto running = (*driver)->start(spec);
    starts.push_back(ms_since(start));
    std::string said = running ? "" : running.error().message;
    if (running) {
      boost::asio::io_context context;
      auto done = boost::asio::co_spawn(context, first_output(running->agent_socket),
                                        boost::asio::use_future);
      context.run();
      said = done.get();
    }
    outputs.push_back(ms_since(start));
    const auto end = Clock::now();
    const auto destroyed = (*driver)->destroy(spec);
    ends.push_back(ms_since(end));
    std::filesystem::remove_all(spec.state_dir);
    std::filesystem::remove_all(spec.run_dir);
    if (said != "hello\n" || !destroyed) {
      std::fprintf(stderr, "run %d: %s %s\n", i, said.c_str(),
                   destroyed ? "" : destroyed.error().message.c_str());
      return 1;
    }
  }
  driver->reset();
  std::filesystem::remove_all(run_dir);
  print("driver start", starts);
  print("nothing to first output", outputs);
  print("destroy", ends);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.empty()) {
    std::fprintf(stderr, "usage: bench-create STATE_DIR [RUNS] | bench-create --build STATE_DIR\n");
    return 2;
  }
  if (arguments[0] == "--build" && arguments.size() == 2) {
    const auto say = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
    const auto image = driver::build_image(arguments[1], driver::kDefaultImage, say);
    if (!image) std::fprintf(stderr, "%s\n", image.error().message.c_str());
    return image ? 0 : 1;
  }
  return run(arguments[0], arguments.size() > 1 ? std::atoi(arguments[1].c_str()) : 10);
}
