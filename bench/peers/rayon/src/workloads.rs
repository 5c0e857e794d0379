// SPDX-License-Identifier: MIT
//
// bench/workloads.h in Rust: sizes, leaf work, inputs and the results to expect.

use std::arch::asm;

/// A value that the compiler has to compute.
#[inline(always)]
pub fn keep(value: usize) {
    unsafe { asm!("/* {} */", in(reg) value, options(nomem, nostack, preserves_flags)) }
}

// ---- fib ----

pub fn fib_result(n: usize) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

pub fn fib_calls(n: usize) -> u64 {
    2 * fib_result(n + 1) - 1
}

// ---- integrate ----

const INTEGRATE_TO: f64 = 1000.0;
const INTEGRATE_EPSILON: f64 = 1e-9;

fn integrand(x: f64) -> f64 {
    (x * x + 1.0) * x
}

#[derive(Clone, Copy)]
pub struct Interval {
    x1: f64,
    y1: f64,
    x2: f64,
    y2: f64,
    pub area: f64,
}

impl Interval {
    fn new(x1: f64, y1: f64, x2: f64, y2: f64) -> Interval {
        Interval { x1, y1, x2, y2, area: (y1 + y2) / 2.0 * (x2 - x1) }
    }

    pub fn all() -> Interval {
        Interval::new(0.0, integrand(0.0), INTEGRATE_TO, integrand(INTEGRATE_TO))
    }

    /// The halves, and whether their sum is as good as the whole.
    pub fn cut(&self) -> (Interval, Interval, bool) {
        let middle = self.x1 + (self.x2 - self.x1) / 2.0;
        let y = integrand(middle);
        let left = Interval::new(self.x1, self.y1, middle, y);
        let right = Interval::new(middle, y, self.x2, self.y2);
        let good = (left.area + right.area - self.area).abs() < INTEGRATE_EPSILON;
        (left, right, good)
    }
}

pub fn integrate_correct(result: f64) -> bool {
    let square = INTEGRATE_TO * INTEGRATE_TO;
    (result / (square * square / 4.0 + square / 2.0) - 1.0).abs() < 1e-9
}

// ---- n queens ----

pub const QUEENS_MAX: usize = 15;

#[derive(Clone, Copy, Default)]
pub struct Board {
    pub count: u8,
    at: [u8; QUEENS_MAX],
}

impl Board {
    pub fn place(&self, row: usize) -> Option<Board> {
        let count = self.count as usize;
        for i in 0..count {
            let (at, far) = (self.at[i] as usize, count - i);
            if at == row || at + far == row || at == row + far {
                return None;
            }
        }
        let mut next = *self;
        next.at[count] = row as u8;
        next.count += 1;
        Some(next)
    }
}

pub fn queens_result(n: usize) -> u64 {
    [1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365596, 2279184][n]
}

// ---- matrix product ----

pub const MATRIX_N: usize = 512;
pub const MATRIX_LEAF: usize = 32;
pub const MATRIX_STRIDE: usize = 520;
pub const MATRIX_ITEMS: usize = MATRIX_N * MATRIX_STRIDE;

/// # Safety
/// The three are squares of MATRIX_LEAF within matrices; nobody else uses c.
pub unsafe fn matrix_leaf(c: *mut f64, a: *const f64, b: *const f64) {
    for i in 0..MATRIX_LEAF {
        for j in (0..MATRIX_LEAF).step_by(8) {
            let to = c.add(i * MATRIX_STRIDE + j) as *mut [f64; 8];
            let mut sums = *to;
            for k in 0..MATRIX_LEAF {
                let factor = *a.add(i * MATRIX_STRIDE + k);
                let from = &*(b.add(k * MATRIX_STRIDE + j) as *const [f64; 8]);
                for column in 0..8 {
                    sums[column] += factor * from[column];
                }
            }
            *to = sums;
        }
    }
}

pub fn matrix_fill(a: &mut [f64], b: &mut [f64]) {
    for i in 0..MATRIX_N {
        for j in 0..MATRIX_N {
            a[i * MATRIX_STRIDE + j] = (i + j) as f64;
            b[i * MATRIX_STRIDE + j] = i as f64 - j as f64;
        }
    }
}

pub fn matrix_correct(c: &[f64]) -> bool {
    let n = MATRIX_N as f64;
    let sum = n * (n - 1.0) / 2.0;
    let squares = sum * (2.0 * n - 1.0) / 3.0;
    (0..MATRIX_N * MATRIX_N).all(|at| {
        let (row, column) = (at / MATRIX_N, at % MATRIX_N);
        let (i, j) = (row as f64, column as f64);
        c[row * MATRIX_STRIDE + column] == squares + (i - j) * sum - n * i * j
    })
}

// ---- skynet ----

pub const SKYNET_LEAVES: u64 = 1_000_000;
pub const SKYNET_CHILDREN: usize = 10;
pub const SKYNET_RESULT: u64 = 499_999_500_000;

// ---- unbalanced tree search ----

pub const UTS_ROOT_CHILDREN: usize = 2000;
const UTS_CHILDREN: usize = 8;
pub const UTS_ROOT: u64 = 36;
pub const UTS_NODES: u64 = 4_175_489;

fn uts_hash(mut x: u64) -> u64 {
    for _ in 0..2 {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d049bb133111eb);
        x ^= x >> 31;
    }
    x
}

pub fn uts_child(node: u64, i: usize) -> u64 {
    uts_hash(node.wrapping_add((i as u64 + 1).wrapping_mul(0x9e3779b97f4a7c15)))
}

pub fn uts_children(node: u64) -> usize {
    if (node >> 32) * 1_000_000 >> 32 < 124_875 {
        UTS_CHILDREN
    } else {
        0
    }
}

// ---- sort ----

pub fn sort_fill(items: &mut [u32]) -> u64 {
    let mut state = 1u64;
    let mut sum = 0;
    for item in items {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *item = (state >> 32) as u32;
        sum += *item as u64;
    }
    sum
}

pub fn sort_correct(items: &[u32], sum: u64) -> bool {
    items.windows(2).all(|pair| pair[0] <= pair[1])
        && items.iter().map(|&item| item as u64).sum::<u64>() == sum
}
