// SPDX-License-Identifier: Apache-2.0
#include "sandbox/worker.h"

#include <future>

namespace sallyport::sandbox {

Result<json::object> ask_and_wait(Worker& worker, json::object request,
                                  std::chrono::milliseconds deadline, Fd passed) {
  auto promise = std::make_shared<std::promise<Result<json::object>>>();
  auto answer = promise->get_future();
  worker.ask(std::move(request), std::move(passed), deadline,
             [promise](Result<json::object> result) { promise->set_value(std::move(result)); });
  return answer.get();  // the worker keeps the deadline
}

}  // namespace sallyport::sandbox
