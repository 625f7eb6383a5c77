//! JSON over HTTP.

use crate::http::ask;
use crate::world::{HELLO, World};
use echelon_core_model::cluster::{Cluster, Heartbeat, MassLoss};
use echelon_core_model::store::{Batch, Decision, Role, Stamp, Write};
use echelon_core_model::{ClusterId, Epoch, Timestamp};

#[tokio::test]
async fn a_job_goes_from_create_to_delete() {
    let world = World::start().await;
    let made = world.change("POST", "/v1/jobs?requestId=r1", HELLO).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let job = made.json();
    assert_eq!(
        (
            job["displayName"].as_str(),
            job["pool"].as_str(),
            job["etag"].as_str()
        ),
        (Some("hello"), Some("/default"), Some("1"))
    );
    assert_eq!(job["spec"]["groups"][0]["grace"], "10s");
    let again = world.change("POST", "/v1/jobs?request_id=r1", HELLO).await.json();
    assert_eq!(again["name"], job["name"]);

    let name = job["name"].as_str().unwrap();
    for path in ["/v1/jobs/hello".to_owned(), format!("/v1/{name}")] {
        assert_eq!(world.get(&path).await.json()["jobId"], job["jobId"], "{path}");
    }
    let listed = world
        .get("/v1/jobs?pool=/default&states=waiting&pageSize=5")
        .await
        .json();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(listed["jobs"][0]["spec"], serde_json::Value::Null);
    assert_eq!(
        world.get("/v1/jobs?states=failed").await.json()["jobs"],
        serde_json::Value::Null
    );

    let instances = world.get("/v1/jobs/hello/instances?page_size=3").await.json();
    assert_eq!(instances["instances"].as_array().unwrap().len(), 3);
    assert_eq!(instances["instances"][0]["state"], "RUN_STATE_PENDING");
    assert_eq!(instances["instances"][0]["reason"]["code"], "NO_RESOURCE_MANAGER");
    let token = instances["nextPageToken"].as_str().unwrap();
    let rest = world
        .get(&format!(
            "/v1/jobs/hello/instances?page_size=100&page_token={token}"
        ))
        .await
        .json();
    assert_eq!(rest["instances"].as_array().unwrap().len(), 5);
    assert_eq!(rest["instances"][0]["number"], 3);

    let stopped = world
        .change("POST", "/v1/jobs/hello:stop", r#"{"etag": "1"}"#)
        .await
        .json();
    assert_eq!(
        (stopped["desired"].as_str(), stopped["etag"].as_str()),
        (Some("DESIRED_STOPPED"), Some("2"))
    );
    let stale = world
        .change("POST", "/v1/jobs/hello:restart", r#"{"etag": "1"}"#)
        .await;
    assert_eq!((stale.status, stale.reason().as_str()), (409, "ETAG_STALE"));
    let deleted = world.change("DELETE", "/v1/jobs/hello", "").await;
    assert_eq!(deleted.json()["desired"], "DESIRED_DELETED");
    let explained = world.get("/v1/jobs/hello:explain").await.json();
    assert!(
        explained["advice"][0]
            .as_str()
            .unwrap()
            .contains("no resource manager")
    );
}

#[tokio::test]
async fn wrong_requests_name_the_field_and_store_nothing() {
    let world = World::start().await;
    let job = |groups: &str| format!(r#"{{"spec": {{"name": "x", "kind": "batch", "groups": [{groups}]}}}}"#);
    let plain = [
        r#""instances": 1"#,
        r#""command": "true""#,
        r#""resources": {"cpusMilli": 1}"#,
    ];
    let name = |field: &str| field.split('"').nth(1).unwrap().to_owned();
    let one = |field: &str| {
        let others = plain.iter().filter(|other| name(other) != name(field));
        let all: Vec<&str> = others.copied().chain([field]).collect();
        job(&format!("{{{}}}", all.join(", ")))
    };
    let twice = job(r#"{"resources": {"cpusMilli": 1}, "resources": {"cpusMilli": 2}}"#);
    let table = [
        (twice.as_str(), "job.spec.groups[0].resources"),
        ("{", "body"),
        ("[]", "job"),
        ("", "body"),
        (r#"{"spec": 7}"#, "job.spec"),
        (r#"{"spce": {}}"#, "job.spce"),
        (&job(""), "job.spec.groups"),
        (&one(r#""comand": "x""#), "job.spec.groups[0].comand"),
        (&one(r#""instances": -1"#), "job.spec.groups[0].instances"),
        (&one(r#""instances": 0"#), "job.spec.groups[0].instances"),
        (&one(r#""instances": 10000001"#), "job.spec.groups[0].instances"),
        (&one(r#""instances": 1.5"#), "job.spec.groups[0].instances"),
        (&one(r#""instances": "many""#), "job.spec.groups[0].instances"),
        (&one(r#""command": """#), "job.spec.groups[0].command"),
        (
            &one(r#""resources": {"cpusMilli": -5}"#),
            "job.spec.groups[0].resources.cpus_milli",
        ),
        (
            &one(r#""resources": {"cpusMilli": 1e30}"#),
            "job.spec.groups[0].resources.cpus_milli",
        ),
        (
            &one(r#""resources": {"cpusMilli": 5, "memoryMib": "18446744073709551615"}"#),
            "job.spec.groups[0].resources.memory_mib",
        ),
        (&one(r#""grace": "10 minutes""#), "job.spec.groups[0].grace"),
        (&one(r#""grace": "-1s""#), "job.spec.groups[0].grace"),
        (&one(r#""env": {"A B": "c"}"#), "job.spec.groups[0].env[A B]"),
        (&one(r#""env": {"A": 1}"#), "job.spec.groups[0].env[A]"),
        (r#"{"spec": {"kind": "cron"}}"#, "job.spec.kind"),
    ];
    for (body, field) in table {
        let refused = world.change("POST", "/v1/jobs", body).await;
        assert_eq!(refused.status, 400, "{body}: {}", refused.body);
        assert_eq!(
            refused.fields().first().map(String::as_str),
            Some(field),
            "{body}: {}",
            refused.body
        );
    }
    let near = world.change("POST", "/v1/jobs", &one(r#""comand": "x""#)).await;
    assert!(near.body.contains("did you mean `command`?"), "{}", near.body);
    let pool = HELLO.replace(r#""name": "hello","#, r#""name": "hello", "pool": "/nowhere","#);
    assert_eq!(
        world.change("POST", "/v1/jobs", &pool).await.fields(),
        ["job.spec.pool"]
    );
    for (kind, problem) in [
        ("stateful", "instances of kind stateful have one"),
        ("daemon", "one instance on each host"),
    ] {
        let refused = world
            .change("POST", "/v1/jobs", &HELLO.replace("batch", kind))
            .await;
        assert!(refused.body.contains(problem), "{}", refused.body);
    }
    assert_eq!(
        world.get("/v1/jobs").await.json(),
        serde_json::json!({"totalSize": "0"})
    );
}

#[tokio::test]
async fn all_problems_are_told_at_once() {
    let world = World::start().await;
    let body =
        r#"{"spec": {"name": "-", "pool": "/x", "groups": [{"instances": 0, "env": {"MESOS_X": ""}}]}}"#;
    let refused = world.change("POST", "/v1/jobs", body).await;
    assert_eq!(
        refused.fields(),
        [
            "job.spec.kind",
            "job.spec.name",
            "job.spec.groups[0].instances",
            "job.spec.groups[0].command",
            "job.spec.groups[0].env[MESOS_X]",
            "job.spec.groups[0].resources.cpus_milli",
            "job.spec.pool",
        ]
    );
}

#[tokio::test]
async fn what_is_not_there_and_what_cannot_be_are_told_apart() {
    let world = World::start().await;
    for (verb, path, status, reason) in [
        ("GET", "/v1/jobs/nobody", 404, "JOB_NOT_FOUND"),
        ("GET", "/v1/pools/nobody", 404, "POOL_NOT_FOUND"),
        ("GET", "/v1/clusters/nobody", 404, "CLUSTER_NOT_FOUND"),
        ("GET", "/v1/clusters/a/hosts/b", 404, "CLUSTER_NOT_FOUND"),
        ("GET", "/v1/jobs/Nobody", 400, "FIELD_INVALID"),
        ("GET", "/v1/jobs?page_token=abc", 400, "TOKEN_INVALID"),
        ("GET", "/v1/jobs?page_size=-1", 400, "FIELD_INVALID"),
        ("GET", "/v1/jobs?pagesize=1", 400, "FIELD_INVALID"),
        ("GET", "/v1/jobs?states=walking", 400, "FIELD_INVALID"),
        ("GET", "/v1/nothing", 404, "ROUTE_NOT_FOUND"),
        ("PUT", "/v1/jobs/x", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/v1/jobs:plan", 400, "FIELD_INVALID"),
    ] {
        let answer = world.change(verb, path, "").await;
        assert_eq!(
            (answer.status, answer.reason().as_str()),
            (status, reason),
            "{verb} {path}: {}",
            answer.body
        );
    }
}

#[tokio::test]
async fn foreign_pages_cannot_change_or_read_anything() {
    let world = World::start().await;
    let json = ("content-type", "application/json");
    for (headers, status) in [
        (vec![("host", "evil.example.org"), json], 403),
        (vec![("origin", "http://evil.example.org"), json], 403),
        (vec![("origin", "null"), json], 403),
        (vec![("content-type", "text/plain")], 415),
        (vec![], 415),
        (vec![json], 200),
    ] {
        let answer = ask(world.address, "POST", "/v1/jobs?requestId=1", &headers, HELLO).await;
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.body);
    }
    for path in ["/v1/jobs", "/metrics", "/"] {
        let answer = ask(world.address, "GET", path, &[("host", "evil.example.org")], "").await;
        assert_eq!(answer.status, 403, "{path}");
    }
    let own = format!("http://{}", world.address);
    let same = ask(world.address, "GET", "/v1/jobs", &[("origin", &own)], "").await;
    assert_eq!(same.status, 200);
}

#[tokio::test]
async fn too_large_a_message_is_refused_clearly() {
    let world = World::start().await;
    let huge = HELLO.replace("echo hello", &"x".repeat(1 << 20));
    let refused = world.change("POST", "/v1/jobs", &huge).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.body.contains("larger than 1048576 bytes"),
        "{}",
        refused.body
    );
    let large = HELLO.replace("echo hello", &"x".repeat(300 << 10));
    let refused = world.change("POST", "/v1/jobs", &large).await;
    assert_eq!(refused.fields(), ["job.spec", "job.spec.groups[0].command"]);
    let deep = format!(r#"{{"spec": {}{}}}"#, r#"{"a":"#.repeat(5000), "}".repeat(5000));
    assert_eq!(world.change("POST", "/v1/jobs", &deep).await.status, 400);
}

#[tokio::test]
async fn a_cluster_is_added_once_and_its_labels_select_it() {
    let world = World::start().await;
    let north = r#"{"displayName": "north", "desiredState": "CLUSTER_DESIRED_STATE_CORDONED", "labels": {"region": "eu"}}"#;
    for _ in 0..2 {
        let added = world.change("POST", "/v1/clusters", north).await;
        assert_eq!(added.status, 200, "{}", added.body);
        let added = added.json();
        assert_eq!(added["name"], "clusters/north");
        assert_eq!(
            (&added["desiredState"], &added["health"]),
            (&"CLUSTER_DESIRED_STATE_CORDONED".into(), &"HEALTH_JOINING".into())
        );
    }
    let other = world
        .change("POST", "/v1/clusters", r#"{"displayName": "north"}"#)
        .await;
    assert_eq!((other.status, other.reason()), (409, "CLUSTER_EXISTS".to_owned()));
    let wrong = r#"{"displayName": "North", "desiredState": "CLUSTER_DESIRED_STATE_REMOVED", "labels": {"cost_gpu_hour": "dear"}}"#;
    let wrong = world.change("POST", "/v1/clusters", wrong).await;
    assert_eq!(
        wrong.fields(),
        [
            "cluster.display_name",
            "cluster.desired_state",
            "cluster.labels[cost_gpu_hour]"
        ]
    );
    let path = "/v1/clusters/north?updateMask=labels";
    let changed = world
        .change("PATCH", path, r#"{"labels": {"region": "us"}}"#)
        .await;
    assert_eq!(changed.json()["labels"]["region"], "us");
    let only = |selector: &str| {
        let field = format!(r#""spec": {{"clusters": {{"only": ["{selector}"]}}, "#);
        HELLO.replacen(r#""spec": {"#, &field, 1)
    };
    let taken = world.change("POST", "/v1/jobs", &only("region=us")).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
    let other = only("region=eu").replace("\"hello\"", "\"second\"");
    let nowhere = world.change("POST", "/v1/jobs", &other).await;
    assert_eq!(nowhere.fields(), ["job.spec.clusters.only[0]"]);
    assert!(
        nowhere
            .body
            .contains("no cluster has the label `region` with the value `eu`"),
        "{}",
        nowhere.body
    );
}

#[tokio::test]
async fn pools_and_clusters_are_managed() {
    let world = World::start().await;
    let ml = r#"{"path": "/ml", "limit": {"cpusMilli": "4000"}, "reservation": {"cpusMilli": 1000}}"#;
    assert_eq!(
        world.change("POST", "/v1/pools", ml).await.json()["name"],
        "pools/ml"
    );
    assert_eq!(
        world.change("POST", "/v1/pools", ml).await.reason(),
        "POOL_EXISTS"
    );
    let orphan = world.change("POST", "/v1/pools", r#"{"path": "/a/b"}"#).await;
    assert_eq!(orphan.fields(), ["pool.path"]);
    let path = "/v1/pools/ml?updateMask=limit.cpus_milli";
    let after = world
        .change("PATCH", path, r#"{"limit": {"cpusMilli": 500}}"#)
        .await;
    assert_eq!(after.fields(), ["pool.reservation.cpus_milli"], "{}", after.body);
    let after = world
        .change("PATCH", path, r#"{"limit": {"cpusMilli": 5000}}"#)
        .await
        .json();
    assert_eq!(
        (after["limit"]["cpusMilli"].as_str(), after["etag"].as_str()),
        (Some("5000"), Some("2"))
    );
    assert_eq!(after["reservation"]["cpusMilli"], "1000");
    let listed = world.get("/v1/pools").await.json();
    assert_eq!(listed["pools"][0]["path"], "/default");
    world.change("POST", "/v1/jobs", HELLO).await;
    let goes = world.change("DELETE", "/v1/pools/default", "").await.json();
    assert_eq!(goes["pool"]["deleting"], true);
    let second = HELLO.replace("\"hello\"", "\"second\"");
    let refused = world.change("POST", "/v1/jobs", &second).await;
    assert_eq!(refused.fields(), ["job.spec.pool"]);
    let kept = world
        .change("POST", "/v1/pools/default:undelete", "{}")
        .await
        .json();
    assert_eq!(kept["deleting"], serde_json::Value::Null, "{kept}");
    let gone = world.change("DELETE", "/v1/pools/ml", "").await;
    assert_eq!((gone.status, gone.json()["pool"].is_null()), (200, true));
    assert_eq!(world.get("/v1/pools/ml").await.status, 404);
    let below = world
        .change("POST", "/v1/pools", r#"{"path": "/default/x"}"#)
        .await;
    assert_eq!(below.reason(), "POOL_IN_USE");
}

#[tokio::test]
async fn metrics_and_health_are_served() {
    let world = World::start().await;
    world.get("/v1/jobs/nobody").await;
    let metrics = world.get("/metrics").await.body;
    assert!(
        metrics.contains(
            r#"echelon_gateway_requests_total{code="NotFound",method="JobService/GetJob",role="gateway"} 1"#
        ),
        "{metrics}"
    );
    assert!(metrics.contains("echelon_gateway_request_seconds_bucket"));
    assert_eq!(world.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_mass_loss_is_shown_and_accepted() {
    let world = World::start().await;
    let cluster = ClusterId::new("east");
    let added = Cluster {
        mesos: "http://127.0.0.1:1".into(),
        ..Cluster::new(cluster.clone(), "east")
    };
    let add = Decision::PutCluster {
        cluster: added,
        expected: None,
    };
    world.store.decide(add).await.unwrap();
    let accept = "/v1/clusters/east:acceptLoss";
    let nothing = world.change("POST", accept, "{}").await;
    assert_eq!(
        (nothing.status, nothing.reason().as_str()),
        (400, "NO_LOSS_TO_ACCEPT")
    );
    let loss = MassLoss {
        number: 70,
        since: Timestamp(1),
        running: 20,
        lost: 10,
        missing: 9,
    };
    let heartbeat = Heartbeat {
        cluster: cluster.clone(),
        epoch: Epoch(1),
        at: Timestamp(1),
        signs: Default::default(),
        address: String::new(),
        trouble: None,
        loss: Some(loss),
        no_manager_since: None,
    };
    let batch = Batch {
        owner: Role::Shard(cluster),
        stamp: Stamp {
            epoch: Epoch(1),
            sequence: 1,
        },
        writes: vec![Write::Heartbeat(heartbeat)],
    };
    world.store.commit(batch).await.unwrap();
    let shown = world.get("/v1/clusters/east").await.json();
    assert_eq!(shown["loss"]["missing"], "9");
    assert_ne!(shown["loss"]["accepted"], true);
    for body in [r#"{"lossNumber": "70"}"#, "{}"] {
        let accepted = world.change("POST", accept, body).await;
        assert_eq!(accepted.json()["loss"]["accepted"], true, "{}", accepted.body);
    }
    let page = world.get("/clusters/east").await;
    assert!(
        page.body.contains("10 of 20 running tasks lost at once"),
        "{}",
        page.body
    );
}
