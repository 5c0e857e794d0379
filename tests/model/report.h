/* SPDX-License-Identifier: MIT
 *
 * report: a failed execution for people to read, as TAP comments.
 */
#ifndef REPORT_H
#define REPORT_H

#include "scenario.h"

const char *report_memory(enum hdi_model_memory memory); /* "sc", "tso", "pso" */
const char *report_verdict(enum hdi_verdict verdict);

/* Print the verdict and the steps of the execution that hdi_model_run() ended with, in the
 * process that ran it. */
void report_execution(const struct model_scenario *scenario, enum hdi_model_memory memory,
                      const struct hdi_model_result *result);

#endif
