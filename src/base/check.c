/* SPDX-License-Identifier: MIT */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void (*hdi_fail_hook)(const char *file, int line, const char *what);

noreturn void hdi_fail(const char *file, int line, const char *what)
{
    if (hdi_fail_hook) hdi_fail_hook(file, line, what);
    fprintf(stderr, "heddle: %s:%d: check failed: %s\n", file, line, what);
    abort();
}
