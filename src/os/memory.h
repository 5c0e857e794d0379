/* SPDX-License-Identifier: MIT
 *
 * memory: address space from the kernel, with guards.
 *
 * Context: any thread, all of them; errno is left alone.
 */
#ifndef HDI_OS_MEMORY_H
#define HDI_OS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* 4 KiB on x86_64; 4, 16 or 64 KiB on aarch64. */
size_t hdi_memory_page_bytes(void);

/* Zeroed, uncommitted memory that never becomes huge pages (a touched stack must cost
 * one small page); NULL if the kernel refuses. `bytes` is a multiple of the page. */
void *hdi_memory_map(size_t bytes);

/* Zeroed, uncommitted memory that processes forked later have in common; NULL if the kernel
 * refuses. */
void *hdi_memory_map_shared(size_t bytes);

/* The first bytes of a file, in common with whoever else maps it; NULL if the kernel refuses. */
void *hdi_memory_map_file(int fd, size_t bytes);

void hdi_memory_unmap(void *base, size_t bytes);

/* Give pages back; they read as zero afterwards. Guards stay. */
void hdi_memory_decommit(const struct iovec *spans, size_t count);

/* Make every access to the spans fault, by markers in the page tables: no mapping is
 * split. All or nothing.
 * Returns: 0, -EINVAL if this kernel cannot or the memory is locked, -ENOMEM. */
int hdi_memory_guard_install(const struct iovec *spans, size_t count);

/* The same for one span by mprotect(), which splits its mapping in up to three.
 * Returns: 0, or -ENOMEM at vm.max_map_count. */
int hdi_memory_guard_protect(const struct iovec *span);

/* Whether guards made by hdi_memory_guard_install() really stop accesses. Asks by trying:
 * qemu-user accepts every advice and does nothing. */
bool hdi_memory_guard_works(void);

/* Bytes at the start of [base, base + bytes) that have no page yet. */
size_t hdi_memory_untouched(const void *base, size_t bytes);

#endif
