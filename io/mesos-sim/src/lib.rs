//! echelon-io-mesos-sim
