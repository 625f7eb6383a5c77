//! How messages of our services are read: the lists of a request are counted before anything is made of it, and every
//! number is compared with its range. A message that is out of its bounds ends its call or stream with a status that
//! names the field.

use crate::convert::{FieldError, FieldProblem, bounds, ranges};
use prost::bytes::Buf;
use prost::{Message, Name};
use std::collections::HashMap;
use std::error::Error;
use std::marker::PhantomData;
use std::sync::Arc;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tonic_types::{ErrorDetails, StatusExt};

/// The domain of our reasons in `google.rpc.ErrorInfo`.
pub const DOMAIN: &str = "echelon";

/// Sends as any other, and checks what it receives.
#[derive(Debug, Clone)]
pub struct CheckedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for CheckedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for CheckedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Name + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = CheckedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        CheckedDecoder(PhantomData)
    }
}

/// Reads one message after the other.
#[derive(Debug, Clone)]
pub struct CheckedDecoder<U>(PhantomData<U>);

impl<U: Message + Default + Name> Decoder for CheckedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = buf.copy_to_bytes(buf.remaining());
        bounds::check::<U>(&bytes).map_err(|error| match error.problem {
            FieldProblem::Malformed => Status::internal("malformed message"),
            _ => refusal(&error),
        })?;
        let message =
            U::decode(bytes.as_ref()).map_err(|e| Status::internal(format!("malformed message: {e}")))?;
        ranges::check::<U>(&bytes).map_err(|error| refusal(&error))?;
        Ok(Some(message))
    }
}

fn refusal(error: &FieldError) -> Status {
    let mut details = ErrorDetails::with_error_info("FIELD_INVALID", DOMAIN, HashMap::new());
    details.add_bad_request_violation(error.path.clone(), error.problem.to_string());
    let mut status = Status::with_error_details(Code::InvalidArgument, error.to_string(), details);
    status.set_source(Arc::new(error.clone()));
    status
}

/// What was wrong with a message that this process has read, if it was that which ended a call.
#[must_use]
pub fn refused(status: &Status) -> Option<&FieldError> {
    status.source()?.downcast_ref()
}
