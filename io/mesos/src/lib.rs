//! echelon-io-mesos
