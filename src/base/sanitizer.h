/* SPDX-License-Identifier: MIT
 *
 * sanitizer: which checking tools this build talks to. Each is 0 or 1.
 */
#ifndef HDI_BASE_SANITIZER_H
#define HDI_BASE_SANITIZER_H

#if defined(__SANITIZE_ADDRESS__)
#define HDI_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HDI_ASAN 1
#endif
#endif
#ifndef HDI_ASAN
#define HDI_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define HDI_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HDI_TSAN 1
#endif
#endif
#ifndef HDI_TSAN
#define HDI_TSAN 0
#endif

/* valgrind's requests are no-ops outside valgrind; stacks are registered only when they
 * are carved, so that switches pay nothing. */
#ifndef HDI_VALGRIND
#define HDI_VALGRIND 0
#endif

#if HDI_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if HDI_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* For code that reads memory other code has marked as not its own. */
#if HDI_ASAN
#define HDI_NO_SANITIZE __attribute__((noinline, no_sanitize_address))
#elif HDI_TSAN
#define HDI_NO_SANITIZE __attribute__((noinline, no_sanitize_thread))
#else
#define HDI_NO_SANITIZE
#endif

#endif
