//! `grpc.health.v1.Health` says what `/readyz` says, of every service alike.

use crate::grpc::SERVICES;
use echelon_io_process::Readiness;
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// Sets the status of each service, and of the whole (the empty name), with each change of readiness, until the end.
pub(crate) async fn follow(readiness: Readiness, reporter: HealthReporter, stop: CancellationToken) {
    let mut changes = readiness.changes();
    loop {
        changes.borrow_and_update();
        let status = if readiness.report().ready {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for name in SERVICES.into_iter().chain([""]) {
            reporter.set_service_status(name, status).await;
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
    }
}
