// SPDX-License-Identifier: MIT
//
// The Tokio side of the benchmark: `tokio_bench ROW [key=value]...` runs one sample of
// one row, warm-up included, and prints `key value` lines. What each row does, on every
// side, is in bench/README.md.

use std::cell::UnsafeCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, Notify};
use tokio::task::{yield_now, JoinHandle};

mod chan;
mod net;
mod structure;
mod sync;
mod timer;

const BATCH: usize = 1000;

/// The key=value arguments.
#[derive(Clone, Copy)]
pub struct Params {
    workers: usize,
    ms: u64,
    count: usize,
    cap: usize,
    cases: usize,
    live: usize,
    hogs: usize,
    checkpoint: bool,
}

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).build().unwrap()
}

fn runtime_with_time(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_time().build().unwrap()
}

fn report(key: &str, value: f64) {
    println!("{key} {value:.3}");
}

/// Return the median of the latencies and report their p99.
fn median_and_p99(mut ns: Vec<f64>) -> f64 {
    ns.sort_by(|a, b| a.partial_cmp(b).unwrap());
    report("ns_p99", ns[ns.len() * 99 / 100]);
    ns[ns.len() / 2]
}

/// Find a repetition count that lasts `ms` and return ns per operation, where f(n)
/// performs n * ops operations. The search is the warm-up.
async fn measure<F, R>(p: Params, ops: usize, mut f: F) -> f64
where
    F: FnMut(usize) -> R,
    R: Future<Output = ()>,
{
    let target = Duration::from_millis(p.ms);
    let mut n = 1;
    loop {
        let start = Instant::now();
        f(n).await;
        let took = start.elapsed();
        if took >= target / 8 {
            n = (n as f64 * target.as_secs_f64() / took.as_secs_f64()) as usize + 1;
            break;
        }
        n *= 2;
    }
    let start = Instant::now();
    f(n).await;
    start.elapsed().as_nanos() as f64 / n as f64 / ops as f64
}

/// Run `root` as a task of a new runtime, on one of its workers, and report its ns.
fn on_worker<R>(p: Params, root: R)
where
    R: Future<Output = f64> + Send + 'static,
{
    on_worker_of(runtime(p.workers), root);
}

fn on_worker_of<R>(rt: Runtime, root: R)
where
    R: Future<Output = f64> + Send + 'static,
{
    let ns = rt.block_on(rt.spawn(root)).unwrap();
    report("ns", ns);
}

// ---- yield ----

async fn yields(n: usize) {
    let spin = |n| async move {
        for _ in 0..n {
            yield_now().await;
        }
    };
    let (a, b) = (tokio::spawn(spin(n)), tokio::spawn(spin(n)));
    a.await.unwrap();
    b.await.unwrap();
}

// ---- spawn and join ----

async fn spawn_one(n: usize) {
    for _ in 0..n {
        tokio::spawn(async { 1 }).await.unwrap();
    }
}

async fn spawn_batch(n: usize) {
    let mut handles: Vec<JoinHandle<i32>> = Vec::with_capacity(BATCH);
    for _ in 0..n {
        handles.extend((0..BATCH).map(|_| tokio::spawn(async { 1 })));
        for handle in handles.drain(..) {
            handle.await.unwrap();
        }
    }
}

// ---- chained spawn ----

fn link(depth: usize, done: oneshot::Sender<()>) {
    if depth == 0 {
        done.send(()).unwrap();
    } else {
        tokio::spawn(async move { link(depth - 1, done) });
    }
}

const DEPTH: usize = 1000;

async fn chain(n: usize) {
    for _ in 0..n {
        let (tx, rx) = oneshot::channel();
        tokio::spawn(async move { link(DEPTH - 1, tx) });
        rx.await.unwrap();
    }
}

// ---- wakes ----

async fn serve(n: usize, mine: Arc<Notify>, theirs: Arc<Notify>) {
    for _ in 0..n {
        mine.notified().await;
        theirs.notify_one();
    }
}

async fn pingpong(n: usize) {
    let (ping, pong) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let a = tokio::spawn(serve(n, ping.clone(), pong.clone()));
    let b = tokio::spawn(serve(n, pong, ping.clone()));
    ping.notify_one();
    a.await.unwrap();
    b.await.unwrap();
}

/// Each task on a thread of its own: two runtimes of one worker.
fn pingpong_threads(p: Params) {
    let (home, away) = (Arc::new(runtime(1)), Arc::new(runtime(1)));
    let run = {
        let (home, away) = (home.clone(), away.clone());
        move |n| {
            let (ping, pong) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let a = home.spawn(serve(n, ping.clone(), pong.clone()));
            let b = away.spawn(serve(n, pong, ping.clone()));
            ping.notify_one();
            async move {
                a.await.unwrap();
                b.await.unwrap();
            }
        }
    };
    report("ns", home.block_on(measure(p, 1, run)));
}

const RING: usize = 1000;

/// Pass a token through RING tasks, n times around.
async fn ring(n: usize) {
    let places: Arc<Vec<Notify>> = Arc::new((0..RING).map(|_| Notify::new()).collect());
    let handles: Vec<_> = (0..RING)
        .map(|i| {
            let places = places.clone();
            tokio::spawn(async move {
                for _ in 0..n {
                    places[i].notified().await;
                    places[(i + 1) % RING].notify_one();
                }
            })
        })
        .collect();
    places[0].notify_one();
    for handle in handles {
        handle.await.unwrap();
    }
}

// ---- a million ----

fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
}

/// The last of `left` tasks to call this tells the root.
fn count_down(left: &AtomicUsize, zero: &Notify) {
    if left.fetch_sub(1, AcqRel) == 1 {
        zero.notify_one();
    }
}

struct Finish {
    left: AtomicUsize,
    zero: Notify,
}

async fn million(p: Params) -> f64 {
    spawn_batch(1).await;
    let all = Arc::new(Finish { left: AtomicUsize::new(p.count), zero: Notify::new() });
    let start = Instant::now();
    for _ in 0..p.count {
        let all = all.clone();
        tokio::spawn(async move { count_down(&all.left, &all.zero) });
    }
    all.zero.notified().await;
    start.elapsed().as_nanos() as f64 / p.count as f64
}

/// Wakers of the parked tasks, each written by its task before `parked` reaches zero
/// and read by the root after it.
struct Lot {
    wakers: Box<[UnsafeCell<Option<Waker>>]>,
    parked: Finish,
    finished: Finish,
}

unsafe impl Sync for Lot {}
unsafe impl Send for Lot {}

/// Pending once, leaving a waker; ready when woken.
struct Park {
    lot: &'static Lot,
    index: u32,
    waited: bool,
}

impl Future for Park {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let lot = self.lot;
        if self.waited {
            count_down(&lot.finished.left, &lot.finished.zero);
            return Poll::Ready(());
        }
        self.waited = true;
        unsafe { *lot.wakers[self.index as usize].get() = Some(cx.waker().clone()) };
        count_down(&lot.parked.left, &lot.parked.zero);
        Poll::Pending
    }
}

async fn million_parked(p: Params) -> f64 {
    spawn_batch(1).await;
    let finish = || Finish { left: AtomicUsize::new(p.count), zero: Notify::new() };
    let lot: &'static Lot = Box::leak(Box::new(Lot {
        wakers: (0..p.count).map(|_| UnsafeCell::new(None)).collect(),
        parked: finish(),
        finished: finish(),
    }));
    let before = resident_bytes();

    let start = Instant::now();
    for index in 0..p.count as u32 {
        tokio::spawn(Park { lot, index, waited: false });
    }
    lot.parked.zero.notified().await;
    let created = start.elapsed();

    let bytes = resident_bytes() - before;

    let start = Instant::now();
    for waker in lot.wakers.iter() {
        unsafe { (*waker.get()).take().unwrap().wake() };
    }
    lot.finished.zero.notified().await;
    let woken = start.elapsed();

    let per_task = |took: Duration| took.as_nanos() as f64 / p.count as f64;
    report("ns_create", per_task(created));
    report("ns_wake", per_task(woken));
    report("bytes", bytes / p.count as f64);
    report("bytes_beyond_state", bytes / p.count as f64 - std::mem::size_of::<Park>() as f64);
    per_task(created + woken)
}

fn usage() -> ! {
    eprintln!("usage: tokio_bench ROW [workers=N] [ms=N] [count=N] [cap=N] [cases=2|16] [live=N]");
    eprintln!("       [hogs=N] [checkpoint=0|1]");
    std::process::exit(2);
}

fn parse(args: impl Iterator<Item = String>) -> Params {
    let mut p = Params {
        workers: 1,
        ms: 80,
        count: 1_000_000,
        cap: 1,
        cases: 2,
        live: 0,
        hogs: 1,
        checkpoint: false,
    };
    for arg in args {
        match arg.split_once('=').map(|(key, text)| (key, text.parse::<usize>())) {
            Some(("workers", Ok(value))) => p.workers = value,
            Some(("ms", Ok(value))) => p.ms = value as u64,
            Some(("count", Ok(value))) => p.count = value,
            Some(("cap", Ok(value))) if value > 0 => p.cap = value,
            Some(("cases", Ok(value))) => p.cases = value,
            Some(("live", Ok(value))) => p.live = value,
            Some(("hogs", Ok(value))) => p.hogs = value,
            Some(("checkpoint", Ok(value))) => p.checkpoint = value != 0,
            _ => usage(),
        }
    }
    p
}

fn main() {
    let mut args = std::env::args().skip(1);
    let row = args.next().unwrap_or_else(|| usage());
    let p = parse(args);
    match row.as_str() {
        "yield" => on_worker(p, measure(p, 2, yields)),
        "spawn_one" => on_worker(p, measure(p, 1, spawn_one)),
        "spawn_batch" => on_worker(p, measure(p, BATCH, spawn_batch)),
        // block_on runs its future on the calling thread, which is no worker.
        "spawn_foreign" => report("ns", runtime(p.workers).block_on(measure(p, 1, spawn_one))),
        "spawn_foreign_batch" => {
            report("ns", runtime(p.workers).block_on(measure(p, BATCH, spawn_batch)))
        }
        "chain" => on_worker(p, measure(p, DEPTH, chain)),
        "pingpong" => on_worker(p, measure(p, 1, pingpong)),
        "pingpong_threads" => pingpong_threads(p),
        "ring" => on_worker(p, measure(p, RING, ring)),
        "million" => on_worker(p, million(p)),
        "million_parked" => on_worker(p, million_parked(p)),
        "chan_pingpong" => on_worker(p, measure(p, 1, chan::pingpong)),
        "chan_stream" => on_worker(p, measure(p, 1, move |n| chan::stream(n, p.cap))),
        "chan_mpmc" => on_worker(p, measure(p, chan::SIDE, chan::mpmc)),
        "select" => on_worker(p, chan::select(p)),
        "oneshot" => on_worker(p, measure(p, 1, chan::oneshots)),
        "broadcast" => on_worker(p, measure(p, chan::RUN, chan::broadcasts)),
        "watch" => on_worker(p, measure(p, 1, chan::watches)),
        "mutex" => on_worker(p, measure(p, sync::CONTENDERS, sync::mutex)),
        "mutex_one" => on_worker(p, measure(p, 1, sync::mutex_one)),
        "sem" => on_worker(p, measure(p, sync::CONTENDERS, sync::sem)),
        "blocking" => on_worker(p, measure(p, 1, sync::blocking)),
        "timer_cycle" => on_worker_of(runtime_with_time(p.workers), timer::cycle(p)),
        "timer_million" => on_worker_of(runtime_with_time(p.workers), timer::million(p)),
        "sleep_late" => on_worker_of(runtime_with_time(p.workers), timer::late(p)),
        "nursery" => on_worker(p, measure(p, 1, structure::scopes)),
        "victim" => structure::victims(p),
        "serve_echo" => net::serve_echo(),
        "serve_http" => net::serve_http(),
        "file_read" => on_worker(p, net::file_read(p)),
        _ => usage(),
    }
}
