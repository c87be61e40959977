// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace sallyport {

std::unexpected<Error> fail_errno(std::string_view what) { return fail_errno(what, errno); }

std::unexpected<Error> fail_errno(std::string_view what, int error_number) {
  Code code = Code::internal;
  if (error_number == ENOENT || error_number == ESRCH) code = Code::not_found;
  if (error_number == EEXIST || error_number == EBUSY) code = Code::conflict;
  if (error_number == EACCES || error_number == EPERM) code = Code::denied;
  if (error_number == ETIMEDOUT) code = Code::timed_out;
  return fail(code, std::string(what) + ": " + std::strerror(error_number));
}

}  // namespace sallyport
