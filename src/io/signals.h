/* SPDX-License-Identifier: MIT
 *
 * signals: what simulated processes (sim/program.h) have to do with channels of signals.
 */
#ifndef HDI_IO_SIGNALS_H
#define HDI_IO_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

struct hd_runtime;

/* Send a signal to all channels of a process that want it. Returns whether there are any. */
bool hdi_signal_send(struct hd_runtime *sim, uint32_t process, int number);

/* End the channels of a process. Context: no task of it is left. */
void hdi_signals_end(struct hd_runtime *sim, uint32_t process);

#endif
