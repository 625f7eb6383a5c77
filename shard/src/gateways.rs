//! Tells the driver where a gateway can be reached, as membership has it: runs of a job's driver find it in their environment.

use crate::job_manager::Input;
use echelon_io_membership::{Membership, Role};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How often membership is asked: gateways come and go seldom.
const INTERVAL: Duration = Duration::from_secs(10);
/// And while nobody is known, since a driver may be waiting for it.
const SOON: Duration = Duration::from_secs(1);

/// Asks until the end. Where several gateways are, the first by id; while nobody can tell, what was told last stays.
pub(crate) async fn follow(
    membership: Arc<dyn Membership>,
    inbox: mpsc::Sender<Input>,
    stop: CancellationToken,
) {
    let mut told = None;
    loop {
        match membership.members(&Role::Gateway).await {
            Ok(members) => {
                let stays = members.iter().any(|m| Some(&m.address) == told.as_ref());
                if let Some(first) = members.into_iter().next().filter(|_| !stays) {
                    told = Some(first.address.clone());
                    if inbox.send(Input::Gateway(first.address)).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "gateways cannot be looked up at the moment"),
        }
        let wait = if told.is_some() { INTERVAL } else { SOON };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return,
        }
    }
}
