//! The names of things in a Mesos cluster as cheap, ordered values, and what stands for one attempt to run a task.

use echelon_proto::mesos::v1;
use std::fmt;
use std::sync::Arc;

macro_rules! mesos_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a text as it stands.
            #[must_use]
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Arc::from(text.as_ref()))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The message that carries it.
            #[must_use]
            pub fn proto(&self) -> v1::$name {
                v1::$name { value: self.0.to_string() }
            }
        }

        impl From<&v1::$name> for $name {
            fn from(message: &v1::$name) -> Self {
                Self::new(&message.value)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

mesos_id!(
    /// A framework; `<master id>-NNNN` unless it chose its own (rules R22, R26).
    FrameworkId
);
mesos_id!(
    /// An agent registration; `<master id>-S<n>`.
    AgentId
);
mesos_id!(
    /// A task, named by its framework.
    TaskId
);

mesos_id!(
    /// An executor, named by its framework.
    ExecutorId
);

/// A subscription's stream, as the header `Mesos-Stream-Id` names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(Arc<str>);

impl StreamId {
    pub(crate) fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// The header's value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A container's id: the 16 bytes of a UUID, new for every attempt to run a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Container(pub [u8; 16]);

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::random::uuid_text(&self.0))
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One attempt to run a task on an agent. The container tells it from an older task of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// Where it runs.
    pub agent: AgentId,
    /// Whose it is.
    pub framework: FrameworkId,
    /// Its name.
    pub task: TaskId,
    /// Which attempt.
    pub container: Container,
}

/// An executor of several tasks on an agent. The container tells it from an older one of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutorRun {
    /// Where it runs.
    pub agent: AgentId,
    /// Whose it is.
    pub framework: FrameworkId,
    /// Its name.
    pub executor: ExecutorId,
    /// Which of that name.
    pub container: Container,
}
