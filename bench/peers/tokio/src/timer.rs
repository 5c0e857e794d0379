// SPDX-License-Identifier: MIT
//
// Rows of timers. All sides draw the same delays.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::task::yield_now;
use tokio::time::{sleep, Sleep};

use crate::{measure, median_and_p99, Params, BATCH};

/// Draws the delays.
struct Lcg(u64);

impl Lcg {
    /// A delay of first ... first + span - 1 milliseconds.
    fn ms(&mut self, first: u64, span: u64) -> Duration {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Duration::from_millis(first + (self.0 >> 33) % span)
    }
}

/// Polls once: a Sleep is in the wheel from then on until it is dropped.
struct Start<'a>(Pin<&'a mut Sleep>);

impl Future for Start<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let _ = self.0.as_mut().poll(cx);
        Poll::Ready(())
    }
}

/// Start `count` timers with delays of first ... first + span - 1 milliseconds.
async fn start_all(timers: &mut Vec<Pin<Box<Sleep>>>, count: usize, first: u64, span: u64) {
    let mut draw = Lcg(1);
    for _ in 0..count {
        let mut timer = Box::pin(sleep(draw.ms(first, span)));
        Start(timer.as_mut()).await;
        timers.push(timer);
    }
}

async fn cycles(n: usize) {
    let mut draw = Lcg(1);
    for _ in 0..n {
        let timer = sleep(draw.ms(1, 1000));
        tokio::pin!(timer);
        Start(timer).await;
    }
}

pub async fn cycle(p: Params) -> f64 {
    const HOUR: u64 = 3600 * 1000;
    let mut live = Vec::new();
    start_all(&mut live, p.live, HOUR, HOUR).await;
    measure(p, 1, cycles).await
}

/// Start `count`, then stop all in the same order; ns for each.
async fn start_and_stop(count: usize) -> f64 {
    let mut timers = Vec::with_capacity(count);
    let begun = Instant::now();
    start_all(&mut timers, count, 10_000, 60_000).await;
    timers.clear();
    begun.elapsed().as_nanos() as f64 / count as f64
}

pub async fn million(p: Params) -> f64 {
    start_and_stop(BATCH).await;
    start_and_stop(p.count).await
}

// ---- lateness on busy CPUs ----

fn compute(ns: u128) {
    let begun = Instant::now();
    while begun.elapsed().as_nanos() < ns {}
}

async fn busy(stop: Arc<AtomicBool>) {
    while !stop.load(Relaxed) {
        compute(20_000);
        yield_now().await;
    }
}

async fn sleep_once(draw: &mut Lcg) -> f64 {
    let delay = draw.ms(1, 10);
    let begun = Instant::now();
    sleep(delay).await;
    (begun.elapsed() - delay).as_nanos() as f64
}

/// Sleep again and again until `end`; return how late each sleep was, without the first,
/// which is the warm-up.
async fn sleep_until(end: Instant, mut draw: Lcg) -> Vec<f64> {
    let mut late = Vec::new();
    sleep_once(&mut draw).await;
    while Instant::now() < end {
        late.push(sleep_once(&mut draw).await);
    }
    late
}

pub async fn late(p: Params) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..4 {
        tokio::spawn(busy(stop.clone()));
    }
    let end = Instant::now() + Duration::from_millis(2 * p.ms);
    let sleepers: Vec<_> =
        (1..=100).map(|seed| tokio::spawn(sleep_until(end, Lcg(seed)))).collect();
    let mut all = Vec::new();
    for sleeper in sleepers {
        all.append(&mut sleeper.await.unwrap());
    }
    stop.store(true, Relaxed);
    median_and_p99(all)
}
