//! How messages of our services are read: every number is compared with its range. A message with a number
//! that is out of its range ends its call or stream with a status that names the field.

use crate::convert::{FieldError, ranges};
use prost::bytes::Buf;
use prost::{Message, Name};
use std::error::Error;
use std::marker::PhantomData;
use std::sync::Arc;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstCodec;

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
        let message =
            U::decode(bytes.as_ref()).map_err(|e| Status::internal(format!("malformed message: {e}")))?;
        ranges::check::<U>(&bytes).map_err(|error| refusal(&error))?;
        Ok(Some(message))
    }
}

fn refusal(error: &FieldError) -> Status {
    let mut status = Status::invalid_argument(error.to_string());
    status.set_source(Arc::new(error.clone()));
    status
}

/// What was wrong with a message that this process has read, if it was that which ended a call.
#[must_use]
pub fn refused(status: &Status) -> Option<&FieldError> {
    status.source()?.downcast_ref()
}
