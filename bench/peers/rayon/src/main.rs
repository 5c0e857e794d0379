// SPDX-License-Identifier: MIT
//
// The rayon side of the fork-join rows: `rayon_bench ROW [key=value]...` runs one sample of
// one row, warm-up included, and prints `key value` lines. What each row does, on every
// side, is in bench/README.md.

use std::time::{Duration, Instant};

use rayon::prelude::*;

mod workloads;
use workloads::*;

/// The key=value arguments.
#[derive(Clone, Copy)]
struct Params {
    workers: usize,
    ms: u64,
    n: usize,
    count: usize,
}

fn report(key: &str, value: f64) {
    println!("{key} {value:.3}");
}

/// Find a repetition count that lasts `ms` and return ns per operation, where f() performs ops.
/// The search is the warm-up.
fn measure(p: Params, ops: f64, mut f: impl FnMut()) -> f64 {
    let target = Duration::from_millis(p.ms);
    let mut time = |n: u64| {
        let start = Instant::now();
        for _ in 0..n {
            f();
        }
        start.elapsed()
    };
    let mut n = 1;
    loop {
        let took = time(n);
        if took >= target / 8 {
            n = (n as f64 * target.as_secs_f64() / took.as_secs_f64()) as u64 + 1;
            break;
        }
        n *= 2;
    }
    time(n).as_nanos() as f64 / n as f64 / ops
}

// ---- the workloads ----

fn fib(n: usize) -> u64 {
    if n < 2 {
        return n as u64;
    }
    let (left, right) = rayon::join(|| fib(n - 1), || fib(n - 2));
    left + right
}

fn integrate(whole: Interval) -> f64 {
    let (left, right, good) = whole.cut();
    if good {
        return left.area + right.area;
    }
    let (a, b) = rayon::join(|| integrate(left), || integrate(right));
    a + b
}

/// The sum of f(first) ... f(end - 1), each a job of its own: what forking in a loop is to
/// others.
fn sum_each<F: Fn(usize) -> u64 + Sync>(first: usize, end: usize, f: &F) -> u64 {
    if end - first == 1 {
        return f(first);
    }
    let middle = first + (end - first) / 2;
    let (left, right) = rayon::join(|| sum_each(first, middle, f), || sum_each(middle, end, f));
    left + right
}

fn queens(n: usize, board: &Board) -> u64 {
    if board.count as usize == n {
        return 1;
    }
    // Only the boards that are possible become jobs.
    let mut boards = [*board; QUEENS_MAX];
    let mut count = 0;
    for row in 0..n {
        if let Some(next) = board.place(row) {
            boards[count] = next;
            count += 1;
        }
    }
    if count == 0 {
        return 0;
    }
    sum_each(0, count, &|i| queens(n, &boards[i]))
}

/// A square within a matrix.
#[derive(Clone, Copy)]
struct Square(*mut f64);

unsafe impl Send for Square {}
unsafe impl Sync for Square {}

impl Square {
    fn quadrant(self, size: usize, row: usize, column: usize) -> Square {
        unsafe { Square(self.0.add(row * (size / 2) * MATRIX_STRIDE + column * (size / 2))) }
    }
}

fn matrix(c: Square, a: Square, b: Square, size: usize) {
    if size == MATRIX_LEAF {
        unsafe { matrix_leaf(c.0, a.0, b.0) };
        return;
    }
    for k in 0..2 {
        let part = |i, j| {
            let (a, b) = (a.quadrant(size, i, k), b.quadrant(size, k, j));
            matrix(c.quadrant(size, i, j), a, b, size / 2);
        };
        rayon::join(
            || rayon::join(|| part(0, 0), || part(0, 1)),
            || rayon::join(|| part(1, 0), || part(1, 1)),
        );
    }
}

fn skynet(number: u64, leaves: u64) -> u64 {
    if leaves == 1 {
        return number;
    }
    let each = leaves / SKYNET_CHILDREN as u64;
    sum_each(0, SKYNET_CHILDREN, &|i| skynet(number + i as u64 * each, each))
}

/// As users of rayon write it: how many of the ten become jobs is for rayon to decide.
fn skynet_iter(number: u64, leaves: u64) -> u64 {
    if leaves == 1 {
        return number;
    }
    let each = leaves / SKYNET_CHILDREN as u64;
    (0..SKYNET_CHILDREN).into_par_iter().map(|i| skynet_iter(number + i as u64 * each, each)).sum()
}

fn uts(node: u64) -> u64 {
    match uts_children(node) {
        0 => 1,
        children => 1 + sum_each(0, children, &|i| uts(uts_child(node, i))),
    }
}

fn uts_all() -> u64 {
    1 + sum_each(0, UTS_ROOT_CHILDREN, &|i| uts(uts_child(UTS_ROOT, i)))
}

// ---- the rows ----

fn row_matmul(p: Params) -> f64 {
    let zero = vec![0.0; MATRIX_ITEMS];
    let (mut a, mut b, mut c) = (zero.clone(), zero.clone(), zero);
    matrix_fill(&mut a, &mut b);
    let ns = measure(p, 1.0, || {
        c.fill(0.0);
        matrix(Square(c.as_mut_ptr()), Square(a.as_mut_ptr()), Square(b.as_mut_ptr()), MATRIX_N);
    });
    assert!(matrix_correct(&c));
    ns
}

fn sort_ns(items: &mut [u32]) -> f64 {
    let sum = sort_fill(items);
    let start = Instant::now();
    items.par_sort_unstable();
    let took = start.elapsed();
    assert!(sort_correct(items, sum));
    took.as_nanos() as f64
}

/// Sorted once: an array that is sorted already is another problem. A smaller one is the warm-up.
fn row_sort(p: Params) -> f64 {
    let mut items = vec![0; p.count];
    sort_ns(&mut items[..p.count / 16]);
    sort_ns(&mut items)
}

fn row_skynet(p: Params) -> f64 {
    report("ns_iter", measure(p, 1.0, || assert_eq!(skynet_iter(0, SKYNET_LEAVES), SKYNET_RESULT)));
    measure(p, 1.0, || assert_eq!(skynet(0, SKYNET_LEAVES), SKYNET_RESULT))
}

fn run(row: &str, p: Params) -> f64 {
    match row {
        "fib" => measure(p, fib_calls(p.n) as f64, || assert_eq!(fib(p.n), fib_result(p.n))),
        "integrate" => {
            measure(p, 1.0, || assert!(integrate_correct(integrate(Interval::all()))))
        }
        "nqueens" => {
            measure(p, 1.0, || assert_eq!(queens(p.n, &Board::default()), queens_result(p.n)))
        }
        "matmul" => row_matmul(p),
        "skynet" => row_skynet(p),
        "uts" => measure(p, 1.0, || assert_eq!(uts_all(), UTS_NODES)),
        "sort" => row_sort(p),
        "parallel_for" => measure(p, 1.0, || (0..p.count).into_par_iter().for_each(keep)),
        "fork_empty" => measure(p, 1.0, || {
            rayon::join(|| keep(0), || keep(1));
        }),
        _ => usage(),
    }
}

fn usage() -> ! {
    eprintln!("usage: rayon_bench ROW [workers=N] [ms=N] [n=N] [count=N]");
    std::process::exit(2);
}

fn parse(args: impl Iterator<Item = String>) -> Params {
    let mut p = Params { workers: 1, ms: 80, n: 12, count: 1_000_000 };
    for arg in args {
        match arg.split_once('=').map(|(key, text)| (key, text.parse::<usize>())) {
            Some(("workers", Ok(value))) => p.workers = value,
            Some(("ms", Ok(value))) => p.ms = value as u64,
            Some(("n", Ok(value))) => p.n = value,
            Some(("count", Ok(value))) => p.count = value,
            _ => usage(),
        }
    }
    p
}

fn main() {
    let mut args = std::env::args().skip(1);
    let row = args.next().unwrap_or_else(|| usage());
    let p = parse(args);
    // The tree of uts is deep, and who waits for a job runs others on top of it.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(p.workers).stack_size(64 << 20);
    let ns = pool.build().unwrap().install(|| run(&row, p));
    report("ns", ns);
}
