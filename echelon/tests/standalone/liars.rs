//! Clients that lie to the ports of a shard and of the resource manager: nothing that they say is obeyed, and
//! all goes on.

use super::{Standalone, example};
use echelon_core_model::JobId;
use echelon_proto::echelon::shard::v1::direct_request::Order;
use echelon_proto::echelon::shard::v1::resource_manager_service_client::ResourceManagerServiceClient;
use echelon_proto::echelon::shard::v1::shard_service_client::ShardServiceClient;
use echelon_proto::echelon::shard::v1::{DescribePoolsRequest, DirectRequest, SliceOrder, SlicesOrder};
use echelon_proto::echelon::storage::v1::{Desired, Goal, Leadership, PoolTree};
use futures::StreamExt;
use std::collections::BTreeSet;
use std::time::Duration;

/// Long enough for a busy machine; an answer comes at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// The ports on which a process listens.
fn ports(pid: u32) -> Vec<u16> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let sockets: BTreeSet<String> = files
        .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
        .filter_map(|to| {
            Some(
                to.to_str()?
                    .strip_prefix("socket:[")?
                    .strip_suffix(']')?
                    .to_owned(),
            )
        })
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let listening = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_open = *columns.get(3)? == "0A" && sockets.contains(*columns.get(9)?);
        let (_, port) = columns.get(1)?.rsplit_once(':')?;
        is_open.then(|| u16::from_str_radix(port, 16).unwrap())
    });
    listening.collect()
}

/// Says something over a stream of its own; with what the stream is ended.
async fn told_by_shard(port: u16, said: Vec<DirectRequest>) -> Option<String> {
    let url = format!("http://127.0.0.1:{port}");
    let mut client = ShardServiceClient::connect(url).await.ok()?;
    let stream = futures::stream::iter(said).chain(futures::stream::pending());
    let mut answers = match client.direct(stream).await {
        Ok(answers) => answers.into_inner(),
        Err(status) => return Some(status.message().to_owned()),
    };
    loop {
        match answers.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(status) => return Some(status.message().to_owned()),
        }
    }
}

/// The same within a time, from every port: those that are no shard's do not know the call.
async fn told_by_shards(ports: &[u16], said: &[DirectRequest]) -> Vec<String> {
    let mut out = Vec::new();
    for port in ports {
        let told = tokio::time::timeout(PATIENCE, told_by_shard(*port, said.to_vec())).await;
        out.extend(told.unwrap_or_else(|_| Some("no answer".to_owned())));
    }
    out
}

async fn told_by_manager(port: u16) -> Option<String> {
    let url = format!("http://127.0.0.1:{port}");
    let mut client = ResourceManagerServiceClient::connect(url).await.ok()?;
    let tree = PoolTree {
        version: u64::MAX,
        ..PoolTree::default()
    };
    let asked = DescribePoolsRequest { tree: Some(tree) };
    let told = client.describe_pools(asked).await.err()?;
    Some(told.message().to_owned())
}

fn sent(epoch: u64, order: Order) -> DirectRequest {
    DirectRequest {
        epoch,
        sequence: 1,
        order: Some(order),
    }
}

fn hello(epoch: u64) -> DirectRequest {
    let taken = Leadership {
        epoch,
        holder: "liar".to_owned(),
        proof: 5,
        resumed: 0,
    };
    sent(epoch, Order::Hello(taken))
}

fn stop(job: JobId, epoch: u64) -> DirectRequest {
    let order = SliceOrder {
        job: job.0.to_be_bytes().to_vec(),
        group: "main".to_owned(),
        head_version: 99,
        goal: Some(Goal {
            desired: Desired::Stopped.into(),
            restarts: 0,
        }),
        spec_version: 1,
        ..SliceOrder::default()
    };
    let slices = vec![order];
    sent(epoch, Order::Slices(SlicesOrder { slices }))
}

#[test]
fn liars_change_nothing() {
    let folder = super::work();
    let standalone = Standalone::start(folder.path());
    standalone.printed(&["job", "run", &example("service")]);
    let before = standalone.running("ticker", 2);
    let shown: serde_json::Value =
        serde_json::from_str(&standalone.printed(&["job", "get", "ticker", "-o", "json"])).unwrap();
    let id = shown["job_id"].as_str().or(shown["job"]["job_id"].as_str());
    let job: JobId = id.unwrap_or_else(|| panic!("{shown}")).parse().unwrap();
    let ports = ports(standalone.child.id());
    let lies = [
        (
            vec![stop(job, u64::MAX)],
            "field `epoch` has the value 18446744073709551615, outside 1 to 8388607",
        ),
        (vec![stop(job, 1)], "its first message is no Hello"),
        (
            vec![hello(1), stop(job, 1)],
            "storage does not know that its opener took epoch 1",
        ),
        (
            vec![hello(8_388_607), stop(job, 8_388_607)],
            "storage does not know that its opener took epoch 8388607",
        ),
    ];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        for (said, expected) in &lies {
            let told = told_by_shards(&ports, said).await;
            let by_shards = told.iter().filter(|t| t.contains(expected));
            assert_eq!(
                by_shards.count(),
                2,
                "both clusters' shards say `{expected}`: {told:?}"
            );
        }
        let mut by_manager = Vec::new();
        for port in &ports {
            let told = tokio::time::timeout(PATIENCE, told_by_manager(*port)).await;
            by_manager.extend(told.ok().flatten());
        }
        let expected =
            "field `tree.version` has the value 18446744073709551615, outside 0 to 9007199254740992";
        assert!(by_manager.iter().any(|t| t == expected), "{by_manager:?}");
    });
    // What is submitted after it all runs as before, and what ran is not touched.
    standalone.printed(&["job", "run", &example("hello"), "--wait"]);
    assert_eq!(standalone.running("ticker", 2), before);
    standalone.printed(&["job", "stop", "ticker", "--wait"]);
}
