// SPDX-License-Identifier: Apache-2.0
// libunbound's pluggable event base on an Asio executor: the resolver then runs on the worker's own
// loop, without the thread and the pipe that ub_resolve_async would need.
#pragma once

#include <sys/time.h>
#include <unbound-event.h>
#include <unbound.h>

#include <boost/asio/any_io_executor.hpp>

namespace sallyport {

class UnboundEvents {
 public:
  explicit UnboundEvents(boost::asio::any_io_executor executor);
  UnboundEvents(const UnboundEvents&) = delete;
  UnboundEvents& operator=(const UnboundEvents&) = delete;

  // For ub_ctx_create_ub_event. The context must be deleted before this object.
  [[nodiscard]] ub_event_base* base() { return &base_.unbound; }
  [[nodiscard]] const boost::asio::any_io_executor& executor() const { return base_.executor; }

 private:
  struct Base {
    ub_event_base unbound;  // first: libunbound hands back a pointer to it
    boost::asio::any_io_executor executor;
  };
  friend struct UnboundEvent;
  Base base_;
};

}  // namespace sallyport
