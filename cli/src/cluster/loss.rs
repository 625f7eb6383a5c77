//! Losses: of many hosts of a living cluster, and of a whole cluster that is out of reach.

use super::{named, read, show};
use crate::context::Context;
use crate::exit::Failure;
use crate::output;
use crate::shape;
use echelon_clients_rust::v1;
use echelon_core_model::Span;
use echelon_proto::convert::quantity::duration;

/// Accepts the loss that is there now and no later one, however often the call is repeated.
pub(super) async fn accept(context: &Context, cluster: &str) -> Result<(), Failure> {
    let seen = read(context, cluster).await?;
    let client = context.client().await?;
    let request = v1::AcceptClusterLossRequest {
        name: format!("clusters/{cluster}"),
        loss_number: seen.loss.map_or(0, |l| l.number),
    };
    let accepted = client.change(|| {
        let (mut service, request) = (client.cluster_service(), request.clone());
        async move { service.accept_cluster_loss(request).await }
    });
    show(context, &named(accepted.await?.cluster)?);
    Ok(())
}

/// Declares a cluster lost in one silence, however often the call is repeated.
pub(super) async fn declare_lost(
    context: &Context,
    cluster: &str,
    silence: Option<u64>,
) -> Result<(), Failure> {
    let request = v1::DeclareClusterLostRequest {
        name: format!("clusters/{cluster}"),
        silence: seen_silence(context, cluster, silence).await?,
    };
    let client = context.client().await?;
    let declared = client.change(|| {
        let (mut service, request) = (client.cluster_service(), request.clone());
        async move { service.declare_cluster_lost(request).await }
    });
    show(context, &named(declared.await?.cluster)?);
    Ok(())
}

/// Declares that what runs at a cluster is alive, in one silence.
pub(super) async fn declare_alive(
    context: &Context,
    cluster: &str,
    silence: Option<u64>,
    alive_for: Span,
) -> Result<(), Failure> {
    let request = v1::DeclareClusterAliveRequest {
        name: format!("clusters/{cluster}"),
        silence: seen_silence(context, cluster, silence).await?,
        alive_for: Some(duration(alive_for)),
    };
    let client = context.client().await?;
    let declared = client.change(|| {
        let (mut service, request) = (client.cluster_service(), request.clone());
        async move { service.declare_cluster_alive(request).await }
    });
    show(context, &named(declared.await?.cluster)?);
    Ok(())
}

/// The number of the silence that is meant: the given one, or the one that is shown now.
pub(super) async fn seen_silence(
    context: &Context,
    cluster: &str,
    given: Option<u64>,
) -> Result<u64, Failure> {
    match given {
        Some(number) => Ok(number),
        None => Ok(read(context, cluster).await?.silence),
    }
}

/// The line about a loss of hosts.
pub(super) fn of_hosts(loss: &v1::MassLoss, cluster: &str) -> String {
    let next = if loss.accepted {
        "accepted; the shard is about to replace what is missing".to_owned()
    } else {
        format!(
            "nothing is replaced until they come back or `echelon cluster accept-loss {}`",
            output::escape(cluster)
        )
    };
    format!(
        "loss:      {} of {} running tasks were lost at once {} ago, {} are still missing; {next}\n",
        loss.lost,
        loss.running,
        shape::ago(loss.notice_time.as_ref()),
        loss.missing,
    )
}

/// The line about a silence, with what was declared of it; empty while the cluster is not silent.
pub(super) fn silence(c: &v1::Cluster) -> String {
    let Some(waited) = &c.silence_waited else {
        return String::new();
    };
    let mut line = format!(
        "silence:   {}, counted for {}",
        c.silence,
        shape::span(Some(waited))
    );
    let doubted = c.silence_doubted.as_ref();
    if doubted.is_some_and(|doubted| doubted.seconds > 0) {
        line.push_str(&format!(
            " and not counted for {} while the resource manager doubted its own observation",
            shape::span(doubted)
        ));
    }
    if c.removed_as_lost {
        line.push_str("; it is being removed as lost");
    } else if c.declared_lost {
        line.push_str("; declared lost");
    }
    if let Some(until) = &c.declared_alive_until {
        line.push_str(&format!("; declared alive until {}", shape::time(Some(until))));
    }
    line.push('\n');
    line
}
