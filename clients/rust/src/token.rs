//! The token that a client shows with each call, if it has one.

use crate::Error;
use std::fmt;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// A channel that shows a token.
pub type Wire = InterceptedService<Channel, Credential>;

/// A token as a header holds it.
#[derive(Clone)]
pub(crate) struct Token(MetadataValue<Ascii>);

impl Token {
    pub(crate) fn new(text: &str) -> Result<Self, Error> {
        let mut header: MetadataValue<Ascii> = format!("Bearer {}", text.trim())
            .parse()
            .map_err(|_| Error::Token)?;
        header.set_sensitive(true);
        Ok(Self(header))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Puts the token, if there is one, and the time in which an answer is wanted on each request.
#[derive(Debug, Clone)]
pub struct Credential {
    pub(crate) token: Option<Token>,
    pub(crate) deadline: Duration,
}

impl Interceptor for Credential {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(Token(header)) = &self.token {
            request.metadata_mut().insert("authorization", header.clone());
        }
        // At most eight digits.
        let millis = self.deadline.as_millis().min(99_999_999);
        if let Ok(time) = format!("{millis}m").parse() {
            request.metadata_mut().insert("grpc-timeout", time);
        }
        Ok(request)
    }
}
