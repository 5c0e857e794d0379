// SPDX-License-Identifier: MIT
//
// Rows of channels: mpsc, async-channel, select, oneshot, broadcast, watch.

use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::{measure, usage, Params};

/// 0 + 1 + ... + (n - 1).
fn sum_below(n: usize) -> i64 {
    n as i64 * (n as i64 - 1) / 2
}

/// Wait for the tasks; they give what they summed up, or 0.
async fn join_sum(handles: Vec<JoinHandle<i64>>) -> i64 {
    let mut sum = 0;
    for handle in handles {
        sum += handle.await.unwrap();
    }
    sum
}

// ---- two tasks ----

pub async fn pingpong(n: usize) {
    let (ping, mut ping_in) = mpsc::channel::<i32>(1);
    let (pong, mut pong_in) = mpsc::channel::<i32>(1);
    let b = tokio::spawn(async move {
        for _ in 0..n {
            let value = ping_in.recv().await.unwrap();
            pong.send(value).await.unwrap();
        }
        0
    });
    let a = tokio::spawn(async move {
        let mut sum = 0;
        for i in 0..n {
            ping.send(i as i32).await.unwrap();
            sum += pong_in.recv().await.unwrap() as i64;
        }
        sum
    });
    assert_eq!(join_sum(vec![a, b]).await, sum_below(n));
}

pub async fn stream(n: usize, capacity: usize) {
    let (tx, mut rx) = mpsc::channel::<i32>(capacity);
    let producer = tokio::spawn(async move {
        for i in 0..n {
            tx.send(i as i32).await.unwrap();
        }
        0
    });
    let consumer = tokio::spawn(async move {
        let mut sum = 0;
        while let Some(value) = rx.recv().await {
            sum += value as i64;
        }
        sum
    });
    assert_eq!(join_sum(vec![producer, consumer]).await, sum_below(n));
}

// ---- several of each ----

pub const SIDE: usize = 4;

/// Each of 4 producers sends n values, each of 4 consumers receives n. Tokio has no
/// channel with several consumers; async-channel is the usual one.
pub async fn mpmc(n: usize) {
    let (tx, rx) = async_channel::bounded::<i32>(1024);
    let mut handles = Vec::new();
    for _ in 0..SIDE {
        let tx = tx.clone();
        handles.push(tokio::spawn(async move {
            for i in 0..n {
                tx.send(i as i32).await.unwrap();
            }
            0
        }));
    }
    for _ in 0..SIDE {
        let rx = rx.clone();
        handles.push(tokio::spawn(async move {
            let mut sum = 0;
            for _ in 0..n {
                sum += rx.recv().await.unwrap() as i64;
            }
            sum
        }));
    }
    assert_eq!(join_sum(handles).await, SIDE as i64 * sum_below(n));
}

// ---- select ----

type Inbox = mpsc::Receiver<i32>;

/// Send 0 ... n - 1, to each channel in turn.
fn feed<const CASES: usize>(n: usize) -> (JoinHandle<i64>, [Inbox; CASES]) {
    let (txs, rxs): (Vec<_>, Vec<_>) = (0..CASES).map(|_| mpsc::channel::<i32>(1)).unzip();
    let feeder = tokio::spawn(async move {
        for i in 0..n {
            txs[i % CASES].send(i as i32).await.unwrap();
        }
        0
    });
    (feeder, rxs.try_into().unwrap())
}

/// Define a function that receives n values from the named channels by tokio::select!.
macro_rules! selects {
    ($name:ident, $cases:literal, $($rx:ident)*) => {
        async fn $name(n: usize) {
            let (feeder, [$(mut $rx),*]) = feed::<$cases>(n);
            let selector = tokio::spawn(async move {
                let mut sum = 0;
                for _ in 0..n {
                    sum += tokio::select! {
                        $(Some(value) = $rx.recv() => value as i64,)*
                        else => unreachable!(),
                    };
                }
                sum
            });
            assert_eq!(join_sum(vec![feeder, selector]).await, sum_below(n));
        }
    };
}

selects!(select_2, 2, r0 r1);
selects!(select_16, 16, r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15);

pub async fn select(p: Params) -> f64 {
    match p.cases {
        2 => measure(p, 1, select_2).await,
        16 => measure(p, 1, select_16).await,
        _ => usage(),
    }
}

// ---- oneshot ----

/// One task asks n times, with a oneshot for the answer in each question.
pub async fn oneshots(n: usize) {
    let (questions, mut inbox) = mpsc::channel::<oneshot::Sender<i32>>(1);
    let b = tokio::spawn(async move {
        let mut answer = 0;
        while let Some(reply) = inbox.recv().await {
            reply.send(answer).unwrap();
            answer += 1;
        }
        0
    });
    let a = tokio::spawn(async move {
        let mut sum = 0;
        for _ in 0..n {
            let (tx, rx) = oneshot::channel();
            questions.send(tx).await.unwrap();
            sum += rx.await.unwrap() as i64;
        }
        sum
    });
    assert_eq!(join_sum(vec![a, b]).await, sum_below(n));
}

// ---- broadcast ----

const LISTENERS: usize = 4;
const ROOM: usize = 64;
pub const RUN: usize = 32; // messages until the sender waits for all listeners

/// Send n runs of messages.
pub async fn broadcasts(n: usize) {
    let tx = broadcast::channel::<i32>(ROOM).0;
    let (done, mut all_done) = mpsc::channel::<()>(LISTENERS);
    let mut handles = Vec::new();
    for _ in 0..LISTENERS {
        let (mut rx, done) = (tx.subscribe(), done.clone());
        handles.push(tokio::spawn(async move {
            let mut sum = 0;
            for _ in 0..n {
                for _ in 0..RUN {
                    sum += rx.recv().await.unwrap() as i64;
                }
                done.send(()).await.unwrap();
            }
            sum
        }));
    }
    handles.push(tokio::spawn(async move {
        for i in 0..n {
            for j in 0..RUN {
                tx.send((i * RUN + j) as i32).unwrap();
            }
            for _ in 0..LISTENERS {
                all_done.recv().await.unwrap();
            }
        }
        0
    }));
    assert_eq!(join_sum(handles).await, LISTENERS as i64 * sum_below(n * RUN));
}

// ---- watch ----

pub async fn watches(n: usize) {
    let (ask, mut asked) = watch::channel(0);
    let (answer, mut answered) = watch::channel(0);
    let b = tokio::spawn(async move {
        for _ in 0..n {
            asked.changed().await.unwrap();
            let value = *asked.borrow_and_update();
            answer.send(value).unwrap();
        }
        0
    });
    let a = tokio::spawn(async move {
        for i in 1..=n as i32 {
            ask.send(i).unwrap();
            answered.changed().await.unwrap();
            assert_eq!(*answered.borrow_and_update(), i);
        }
        0
    });
    join_sum(vec![a, b]).await;
}
