/* SPDX-License-Identifier: MIT
 *
 * heddle: concurrent programs in C that run on all cores, and replay from a seed.
 *
 * The umbrella header. One header per module stands beside it in heddle/.
 */
#ifndef HEDDLE_H
#define HEDDLE_H

#include <heddle/base.h>
#include <heddle/budget.h>
#include <heddle/buffer.h>
#include <heddle/cap.h>
#include <heddle/local.h>
#include <heddle/chan.h>
#include <heddle/log.h>
#include <heddle/nursery.h>
#include <heddle/pubsub.h>
#include <heddle/dispatcher.h>
#include <heddle/explore.h>
#include <heddle/file.h>
#include <heddle/fork.h>
#include <heddle/io.h>
#include <heddle/janus.h>
#include <heddle/lease.h>
#include <heddle/net.h>
#include <heddle/parallel.h>
#include <heddle/process.h>
#include <heddle/runtime.h>
#include <heddle/scope.h>
#include <heddle/select.h>
#include <heddle/sim.h>
#include <heddle/sort.h>
#include <heddle/supervise.h>
#include <heddle/sync.h>
#include <heddle/task.h>
#include <heddle/time.h>

#endif
