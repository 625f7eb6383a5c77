//! A socket that notes what passes through it.

use super::table::ConnectionState;
use std::io::{Error, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(super) struct WatchedStream {
    inner: TcpStream,
    state: Arc<ConnectionState>,
}

impl WatchedStream {
    pub(super) const fn new(inner: TcpStream, state: Arc<ConnectionState>) -> Self {
        Self { inner, state }
    }

    /// Notes what became of a write of `parts`.
    fn noted(&self, parts: &[IoSlice<'_>], done: Poll<Result<usize, Error>>) -> Poll<Result<usize, Error>> {
        match done {
            Poll::Pending => self.state.write_waits(),
            Poll::Ready(Ok(mut left)) => self.state.wrote(parts.iter().map(|part| {
                let taken = part.get(..left.min(part.len())).unwrap_or_default();
                left -= taken.len();
                taken
            })),
            Poll::Ready(Err(_)) => {}
        }
        done
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), Error>> {
        let before = buf.filled().len();
        let done = Pin::new(&mut self.inner).poll_read(cx, buf);
        let read = buf.filled().get(before..).unwrap_or_default();
        if !read.is_empty() {
            self.state.read(read);
        }
        done
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Error>> {
        let done = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.noted(&[IoSlice::new(buf)], done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize, Error>> {
        let done = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.noted(parts, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
