//! How bytes reach a master: by TCP; tests put an in-memory network in its place.

use async_trait::async_trait;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Bytes both ways.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Opens connections.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// Connects to `host:port`.
    async fn dial(&self, authority: &str) -> io::Result<Box<dyn Io>>;
}

/// The network.
#[derive(Debug, Clone, Copy)]
pub struct Tcp;

#[async_trait]
impl Dial for Tcp {
    async fn dial(&self, authority: &str) -> io::Result<Box<dyn Io>> {
        let stream = TcpStream::connect(authority).await?;
        // Calls are small and wait for their answers.
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}
