//! The admin door: metrics, health, statistics and orders over HTTP. docs/admin.md lists its pages and figures.
//!
//! One thread with a small runtime of its own; nothing here runs on an event loop of the clients. It answers GET, and
//! POST where there is something to do (`orders`); keeps no state, and serves a bounded number of connections.

mod metrics;
mod mrc;
mod orders;
mod pages;
mod places;
mod tiers;

use crate::net::{Bound, BoundSocket};
use crate::shared::Shared;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use places::{Place, Places};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

/// Scrapers and people. When more come, whoever has not sent a whole request goes (`places`).
const CONNECTIONS_MAX: usize = 32;
/// Orders carried out at the same time; more wait.
const ORDERS_MAX: usize = 2;
/// A request head that takes longer is given up.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that has been served for so long is closed after the answer under way.
const CONNECTION_MAX: Duration = Duration::from_secs(15);
/// Who has not taken that answer by then is cut off.
const LAST_ANSWER_MAX: Duration = Duration::from_secs(5);
/// Request line and headers together; none of our pages needs more.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Out of descriptors: wait before accepting again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The running admin thread.
pub struct Admin {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    pub fn start(bound: Vec<Bound>, shared: Arc<Shared>) -> io::Result<Admin> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(ORDERS_MAX)
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let thread = Builder::new().name("admin".into()).spawn(move || {
            runtime.block_on(serve(bound, shared, stopped));
        })?;
        Ok(Admin {
            stop,
            thread: Some(thread),
        })
    }

    pub fn stop(&mut self) {
        // The thread may be gone already.
        let _gone = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            if thread.join().is_err() {
                tracing::error!("the admin thread has panicked");
            }
        }
    }
}

async fn serve(bound: Vec<Bound>, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let places = Places::new(CONNECTIONS_MAX);
    for bound in bound {
        let (shared, places) = (shared.clone(), places.clone());
        tokio::spawn(async move {
            let place = bound.place;
            let result = match bound.socket {
                BoundSocket::Tcp(listener) => accept_tcp(listener, shared, places).await,
                BoundSocket::Unix(listener, _file) => accept_unix(listener, shared, places).await,
            };
            if let Err(error) = result {
                tracing::error!(%error, place, "admin listener failed");
            }
        });
    }
    // An error means that the sender is gone, and that is a stop too.
    let _stopped = stopped.wait_for(|stopped| *stopped).await;
}

async fn accept_tcp(
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
    places: Arc<Places>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => talk(stream, shared.clone(), places.take().await),
            Err(error) => pause(&error).await,
        }
    }
}

async fn accept_unix(
    listener: std::os::unix::net::UnixListener,
    shared: Arc<Shared>,
    places: Arc<Places>,
) -> io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => talk(stream, shared.clone(), places.take().await),
            Err(error) => pause(&error).await,
        }
    }
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "admin: cannot accept");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Serves one connection in a task; `place` is given back at its end.
fn talk<S>(stream: S, shared: Arc<Shared>, place: Place)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let seat = place.seat();
    let task = tokio::spawn(async move {
        let place = &place;
        let service = service_fn(move |request: Request<Incoming>| {
            let shared = shared.clone();
            async move {
                let _answering = place.answer();
                let answer = match orders::is_order(request.uri().path()) {
                    true => orders::answer(request, shared).await,
                    false => pages::answer(&request, &shared),
                };
                Ok::<Response<Full<Bytes>>, Infallible>(answer)
            }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(served);
        // A place is not kept for life: who asks on and never reads would hold all of them.
        let served = match tokio::time::timeout(CONNECTION_MAX, served.as_mut()).await {
            Ok(served) => served,
            Err(_) => {
                served.as_mut().graceful_shutdown();
                let last = tokio::time::timeout(LAST_ANSWER_MAX, served.as_mut());
                last.await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "admin connection");
        }
    });
    seat.is_served_by(task.abort_handle());
}
