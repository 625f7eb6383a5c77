//! Wire to words and back: each stored or sent type of `core/model` with its message. Reading is strict: what a message
//! cannot mean becomes a [`FieldError`] with the field's path, never a default. Nothing here decides or does I/O.

use super::{DecodeError, FieldError, ranges};
use prost::{Message, Name};

/// A word of the model with its message.
pub trait Wire: Sized {
    /// The generated message.
    type Message: Message + Default + Name;

    /// The message that says the same.
    fn to_wire(&self) -> Self::Message;

    /// What a message says.
    ///
    /// # Errors
    /// The first field that says nothing sensible.
    fn from_wire(message: Self::Message) -> Result<Self, FieldError>;
}

/// The bytes that are stored. The same value has the same bytes in every process of one build.
#[must_use]
pub fn encode<T: Wire>(value: &T) -> Vec<u8> {
    value.to_wire().encode_to_vec()
}

/// Reads stored bytes.
///
/// # Errors
/// The bytes are no such message, a number is out of its range, or a field says nothing sensible.
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T, DecodeError> {
    let message = T::Message::decode(bytes).map_err(DecodeError::Malformed)?;
    ranges::check::<T::Message>(bytes)?;
    Ok(T::from_wire(message)?)
}

/// The bytes that a message takes on the wire.
#[must_use]
pub fn wire_bytes(message: &impl Message) -> usize {
    message.encoded_len()
}
