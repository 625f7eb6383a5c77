//! echelon-sim-mesos
