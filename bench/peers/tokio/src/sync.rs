// SPDX-License-Identifier: MIT
//
// Rows of locks, and of blocking calls.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;

pub const CONTENDERS: usize = 64;

/// Spawn `count` tasks and wait for them.
async fn together<R>(count: usize, task: impl Fn() -> R)
where
    R: Future<Output = ()> + Send + 'static,
{
    let handles: Vec<_> = (0..count).map(|_| tokio::spawn(task())).collect();
    for handle in handles {
        handle.await.unwrap();
    }
}

/// Each task locks n times.
async fn mutexes(n: usize, tasks: usize) {
    let count = Arc::new(Mutex::new(0_usize));
    together(tasks, || {
        let count = count.clone();
        async move {
            for _ in 0..n {
                *count.lock().await += 1;
            }
        }
    })
    .await;
    assert_eq!(*count.lock().await, tasks * n);
}

pub async fn mutex(n: usize) {
    mutexes(n, CONTENDERS).await;
}

pub async fn mutex_one(n: usize) {
    mutexes(n, 1).await;
}

pub async fn sem(n: usize) {
    let sem = Arc::new(Semaphore::new(4));
    together(CONTENDERS, || {
        let sem = sem.clone();
        async move {
            for _ in 0..n {
                drop(sem.acquire().await.unwrap());
            }
        }
    })
    .await;
}

pub async fn blocking(n: usize) {
    let mut sum = 0;
    for _ in 0..n {
        sum += spawn_blocking(|| 1).await.unwrap();
    }
    assert_eq!(sum, n);
}
