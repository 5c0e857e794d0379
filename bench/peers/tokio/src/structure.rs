// SPDX-License-Identifier: MIT
//
// Rows of structure: tasks in a scope, and a task beside others that compute without end.

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{yield_now, JoinSet};
use tokio::time::sleep_until;

use crate::{median_and_p99, report, runtime_with_time, Params};

// ---- a scope of 8 ----

const CHILDREN: usize = 8;

pub async fn scopes(n: usize) {
    for _ in 0..n {
        let mut set = JoinSet::new();
        for _ in 0..CHILDREN {
            set.spawn(async { 1 });
        }
        while let Some(result) = set.join_next().await {
            result.unwrap();
        }
    }
}

// ---- a victim among hogs ----

const TICK: Duration = Duration::from_millis(1);
const WARM_UP: Duration = Duration::from_millis(50);
const HOG_ROUNDS: usize = 10_000;

#[inline(never)]
fn hog_chunk(mut x: u64) -> u64 {
    for _ in 0..HOG_ROUNDS {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    }
    x
}

async fn hog(stop: Arc<AtomicBool>, checkpoint: bool) -> u64 {
    let mut x = 1;
    while !stop.load(Relaxed) {
        x = hog_chunk(x);
        if checkpoint {
            yield_now().await;
        }
    }
    x
}

/// Wake at each tick of the window, and return how late; what had not happened when the
/// window ended counts until then.
async fn victim(first: Instant, ticks: u32) -> Vec<f64> {
    let end = first + ticks * TICK;
    let mut late = Vec::new();
    for i in 0..ticks {
        let due = first + i * TICK;
        sleep_until(due.into()).await;
        late.push((Instant::now().min(end) - due).as_nanos() as f64);
    }
    late
}

/// Run from the main thread, which is no worker: hogs that do not yield stop all of those.
pub fn victims(p: Params) {
    let rt = runtime_with_time(p.workers);
    let ticks = 8 * p.ms as u32;
    let stop = Arc::new(AtomicBool::new(false));
    let first = Instant::now() + WARM_UP;
    let victim = rt.spawn(victim(first, ticks));
    let hogs: Vec<_> =
        (0..p.hogs * p.workers).map(|_| rt.spawn(hog(stop.clone(), p.checkpoint))).collect();
    std::thread::sleep((first + ticks * TICK) - Instant::now());
    stop.store(true, Relaxed);
    report("ns", median_and_p99(rt.block_on(victim).unwrap()));
    for hog in hogs {
        assert_ne!(rt.block_on(hog).unwrap(), 0); // So that it is computed.
    }
}
