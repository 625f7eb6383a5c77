//! What an acknowledged write survives, as far as the storage says it. Nothing is assumed: what a storage does not say is
//! unknown, and is shown so.

/// What is known of one property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// An acknowledged write survives what this property is about.
    Durable,
    /// An acknowledged write may be lost.
    Weak,
    /// The storage does not say.
    Unknown,
}

/// One property of a storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The property's name: `replication`, `consistency`, `commit-log`, `copies`.
    pub property: &'static str,
    /// What is known.
    pub standing: Standing,
    /// What was found and what it means, for people.
    pub text: String,
}

impl Finding {
    /// A finding.
    pub(crate) fn new(property: &'static str, standing: Standing, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            property,
            standing,
            text,
        }
    }
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durability {
    /// The properties that were looked at.
    pub findings: Vec<Finding>,
}

impl Durability {
    /// What holds of every storage file, also of one that another process has open.
    #[must_use]
    pub fn of_file() -> Self {
        let commit = Finding::new(
            "commit-log",
            Standing::Durable,
            "a write is on this machine's disk before it is acknowledged",
        );
        let copies = Finding::new(
            "copies",
            Standing::Weak,
            "there is one copy, and it is lost with this disk; keep backups, or use Cassandra",
        );
        Self {
            findings: vec![commit, copies],
        }
    }

    /// What is not known to be durable.
    pub fn doubts(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.standing != Standing::Durable)
    }
}
