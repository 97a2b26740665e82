//! Connections between a worker and its parent: socket pairs, of which the parent sends one end to the worker.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{Arc, Mutex, PoisonError},
};

use axum::body::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    header::{self, HeaderValue},
};
use hyper_util::rt::TokioIo;
use rustix::{
    cmsg_space,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        recvmsg, sendmsg,
    },
};
use tokio::runtime::Handle;

/// Maximum number of idle connections.
const MAX_IDLE: usize = 64;

/// The parent's side. Each connection serves one request at a time.
#[derive(Clone, Debug)]
pub(super) struct Connections(Arc<IdleConnections>);

#[derive(Debug)]
struct IdleConnections {
    /// The socket that passes connections to the worker. The worker ends when it is closed.
    socket: Mutex<Option<UnixStream>>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl Connections {
    pub(super) fn new(socket: UnixStream) -> io::Result<Self> {
        // A worker that does not receive must not block the parent.
        socket.set_nonblocking(true)?;
        Ok(Self(Arc::new(IdleConnections { socket: Mutex::new(Some(socket)), idle: Mutex::default() })))
    }

    /// Ends the passing of new connections.
    pub(super) fn close(&self) {
        self.0.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sends a request. Dropping the future or the answer closes the connection, and the worker cancels the request.
    pub(super) async fn send(&self, mut request: Request<Full<Bytes>>) -> io::Result<Response<Incoming>> {
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("worker"));
        let mut sender = match self.idle() {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        let connections = Arc::clone(&self.0);
        tokio::spawn(async move {
            // The connection is idle once the answer was read to its end.
            if sender.ready().await.is_ok() {
                let mut idle = connections.idle.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < MAX_IDLE {
                    idle.push(sender);
                }
            }
        });
        Ok(response)
    }

    fn idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(SendRequest::is_ready)
    }

    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        let (ours, theirs) = UnixStream::pair()?;
        {
            let socket = self.0.socket.lock().unwrap_or_else(PoisonError::into_inner);
            let socket = socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            give(socket, &theirs)?;
        }
        ours.set_nonblocking(true)?;
        let stream = tokio::net::UnixStream::from_std(ours)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Passes a socket to the other process.
fn give(over: &UnixStream, socket: &UnixStream) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let sockets = [socket.as_fd()];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(io::Error::other("there is no room for a descriptor"));
    }
    sendmsg(over, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The worker's side: receives the next connection. Returns `None` when the parent has closed the socket.
pub(super) fn accept(socket: &UnixStream, runtime: &Handle) -> Option<tokio::net::UnixStream> {
    loop {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        match received {
            Ok(message) if message.bytes == 0 => return None,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        let given = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        if let Some(connection) = given.and_then(|given: OwnedFd| as_stream(given, runtime).ok()) {
            return Some(connection);
        }
    }
}

fn as_stream(given: OwnedFd, runtime: &Handle) -> io::Result<tokio::net::UnixStream> {
    let stream = UnixStream::from(given);
    stream.set_nonblocking(true)?;
    let _guard = runtime.enter();
    tokio::net::UnixStream::from_std(stream)
}
