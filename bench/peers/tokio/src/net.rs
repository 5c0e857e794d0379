// SPDX-License-Identifier: MIT
//
// Servers of the rows of I/O, and reading of files. bench/README.md says what each does.

use std::convert::Infallible;
use std::io::SeekFrom;

use hyper::header::{HeaderValue, CONTENT_TYPE};
use hyper::server::conn::Http;
use hyper::service::service_fn;
use hyper::{Body, Response};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

const FILE_BYTES: usize = 64 << 20;
const PIECE_BYTES: usize = 64 << 10;

/// Servers have one core, for which this is Tokio's faster scheduler.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn listen() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    listener
}

async fn echo(mut conn: TcpStream) {
    let mut buffer = vec![0; 32 << 10];
    while let Ok(n) = conn.read(&mut buffer).await {
        if n == 0 || conn.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

pub fn serve_echo() {
    runtime().block_on(async {
        let listener = listen().await;
        loop {
            let (conn, _) = listener.accept().await.unwrap();
            conn.set_nodelay(true).unwrap();
            tokio::spawn(echo(conn));
        }
    });
}

async fn hello() -> Result<Response<Body>, Infallible> {
    let mut response = Response::new(Body::from("Hello, world\n"));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

pub fn serve_http() {
    runtime().block_on(async {
        let listener = listen().await;
        let mut http = Http::new();
        http.http1_only(true).pipeline_flush(true);
        loop {
            let (conn, _) = listener.accept().await.unwrap();
            conn.set_nodelay(true).unwrap();
            tokio::spawn(http.serve_connection(conn, service_fn(|_| hello())));
        }
    });
}

/// Read piece after piece, from the start again at the end.
async fn read_pieces(path: std::path::PathBuf, n: usize) {
    let mut file = File::open(path).await.unwrap();
    let mut piece = vec![0; PIECE_BYTES];
    for i in 0..n {
        if i % (FILE_BYTES / PIECE_BYTES) == 0 {
            file.seek(SeekFrom::Start(0)).await.unwrap();
        }
        file.read_exact(&mut piece).await.unwrap();
    }
}

pub async fn file_read(p: crate::Params) -> f64 {
    let path = std::env::temp_dir().join(format!("tokio_bench.{}", std::process::id()));
    std::fs::write(&path, vec![0; FILE_BYTES]).unwrap();
    let ns = crate::measure(p, 1, |n| read_pieces(path.clone(), n)).await;
    std::fs::remove_file(&path).unwrap();
    ns
}
