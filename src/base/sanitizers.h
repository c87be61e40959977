// SPDX-License-Identifier: Apache-2.0
// Whether this build is instrumented: a pool would hide what AddressSanitizer looks for, and the
// run-times need system calls that the worker's filter forbids.
#pragma once

namespace sallyport {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#else
inline constexpr bool kAddressSanitizer = false;
inline constexpr bool kThreadSanitizer = false;
#endif

}  // namespace sallyport
