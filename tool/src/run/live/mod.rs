//! `lastuse run --live`: a page on this machine that follows the program while it runs.
//!
//! ```text
//!  processes of the program -> LASTUSE_LIVE, LASTUSE_CAPTURE -> Feed -> http -> a browser on this machine
//! ```

mod feed;
mod http;

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{sleep, spawn};

pub use feed::Feed;

use crate::launch::NotStarted;

/// Requests that are answered at once; more are refused.
const MOST_REQUESTS: usize = 16;

/// A port of this machine that listens, before the program starts.
pub struct Live {
    listener: TcpListener,
    port: u16,
}

impl Live {
    /// Listens on the loopback interface, and on nothing else; on any free port if none is given.
    pub fn listen(port: Option<u16>) -> Result<Self, NotStarted> {
        let asked = port.unwrap_or(0);
        let failed = |error: io::Error| {
            NotStarted::failed(match error.kind() {
                io::ErrorKind::AddrInUse => {
                    format!("--live: port {asked} is taken: name another one, or none for any that is free")
                }
                _ => format!("--live: cannot listen on port {asked} of 127.0.0.1: {error}"),
            })
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, asked)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port })
    }

    /// Returns the address of the page.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Samples the feed and answers requests, as long as this process runs.
    pub fn follow(self, feed: Feed) {
        let feed = Arc::new(feed);
        let sampled = Arc::clone(&feed);
        spawn(move || {
            loop {
                sampled.sample();
                sleep(feed::INTERVAL);
            }
        });
        spawn(move || {
            let open = Arc::new(AtomicUsize::new(0));
            for stream in self.listener.incoming().flatten() {
                serve(stream, self.port, &feed, &open);
            }
        });
    }
}

/// Answers a request in a thread of its own, since a client may take its time.
fn serve(stream: TcpStream, port: u16, feed: &Arc<Feed>, open: &Arc<AtomicUsize>) {
    if open.fetch_add(1, Ordering::Relaxed) >= MOST_REQUESTS {
        open.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let (feed, open) = (Arc::clone(feed), Arc::clone(open));
    spawn(move || {
        // The client may be gone.
        let _ = http::serve(stream, port, |path| feed.answer(path));
        open.fetch_sub(1, Ordering::Relaxed);
    });
}
