//! Which path is which method. A path is `/v1/` and a resource (which becomes a field of the request), then a collection
//! or a verb. `*` is one part without `:`, `**` one or more.

use http::Method;

/// What of the request is in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// Nothing; the query has the fields.
    Nothing,
    /// All fields.
    All,
    /// One field; the query has the others.
    Field(&'static str),
}

/// The method that takes a whole tree of pools.
pub(super) const APPLY_POOLS: &str = "PoolService/ApplyPools";

/// A way to call a method.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) verb: Method,
    /// Pattern of the resource.
    resource: &'static str,
    /// What follows it.
    rest: &'static str,
    /// Field that gets the resource.
    pub(super) field: Option<&'static str>,
    pub(super) method: &'static str,
    pub(super) body: Body,
    /// The one field of the answer that is shown; all when `None`.
    pub(super) answer: Option<&'static str>,
}

const fn get(resource: &'static str, rest: &'static str, field: &'static str, method: &'static str) -> Route {
    Route {
        verb: Method::GET,
        resource,
        rest,
        field: Some(field),
        method,
        body: Body::Nothing,
        answer: None,
    }
}

const fn list(collection: &'static str, method: &'static str) -> Route {
    Route {
        verb: Method::GET,
        resource: "",
        rest: collection,
        field: None,
        method,
        body: Body::Nothing,
        answer: None,
    }
}

const fn post(resource: &'static str, rest: &'static str, method: &'static str) -> Route {
    Route {
        verb: Method::POST,
        resource,
        rest,
        field: Some("name"),
        method,
        body: Body::All,
        answer: Some("job"),
    }
}

impl Route {
    const fn create(collection: &'static str, method: &'static str, thing: &'static str) -> Self {
        Self {
            verb: Method::POST,
            resource: "",
            rest: collection,
            field: None,
            method,
            body: Body::Field(thing),
            answer: Some(thing),
        }
    }

    const fn patch(
        resource: &'static str,
        field: &'static str,
        method: &'static str,
        thing: &'static str,
    ) -> Self {
        Self {
            verb: Method::PATCH,
            resource,
            rest: "",
            field: Some(field),
            method,
            body: Body::Field(thing),
            answer: Some(thing),
        }
    }

    const fn delete(resource: &'static str, method: &'static str, answer: Option<&'static str>) -> Self {
        Self {
            verb: Method::DELETE,
            resource,
            rest: "",
            field: Some("name"),
            method,
            body: Body::Nothing,
            answer,
        }
    }

    /// The resource is what the method's things lie in.
    const fn within(mut self) -> Self {
        self.field = Some("parent");
        self.answer = None;
        self
    }

    const fn showing(mut self, answer: &'static str) -> Self {
        self.answer = Some(answer);
        self
    }
}

/// All routes.
pub(super) static ROUTES: [Route; 65] = [
    Route::create("jobs", "JobService/CreateJob", "job"),
    list("jobs", "JobService/ListJobs"),
    Route {
        verb: Method::POST,
        resource: "",
        rest: "jobs:plan",
        field: None,
        method: "JobService/PlanJob",
        body: Body::All,
        answer: None,
    },
    get("jobs/*", "", "name", "JobService/GetJob").showing("job"),
    Route::patch("jobs/*", "job.name", "JobService/UpdateJob", "job"),
    Route::delete("jobs/*", "JobService/DeleteJob", Some("job")),
    post("jobs/*", ":stop", "JobService/StopJob"),
    post("jobs/*", ":restart", "JobService/RestartJob"),
    post("jobs/*", ":steerRollout", "JobService/SteerRollout"),
    post("jobs/*", ":rollBack", "JobService/RollBackJob"),
    post("jobs/*", ":scale", "JobService/ScaleJob"),
    post("jobs/*", ":endInstances", "JobService/EndInstances"),
    post("jobs/*", ":steerSchedule", "JobService/SteerSchedule"),
    post("jobs/*", ":trigger", "JobService/TriggerJob"),
    get("jobs/*", ":watch", "name", "JobService/WatchJob"),
    get("jobs/*", ":explain", "name", "JobService/ExplainJob"),
    get("jobs/*", "/endpoints", "parent", "InstanceService/ListEndpoints"),
    get(
        "jobs/*",
        "/endpoints:watch",
        "parent",
        "InstanceService/WatchEndpoints",
    ),
    get(
        "jobs/*/groups/*",
        "/endpoints:watch",
        "parent",
        "InstanceService/WatchEndpoints",
    ),
    get(
        "jobs/*/groups/*",
        "/endpoints",
        "parent",
        "InstanceService/ListEndpoints",
    ),
    get("jobs/*", "/instances", "parent", "InstanceService/ListInstances"),
    get(
        "jobs/*/groups/*",
        "/instances",
        "parent",
        "InstanceService/ListInstances",
    ),
    get(
        "jobs/*/groups/*/instances/*",
        "",
        "name",
        "InstanceService/GetInstance",
    ),
    post(
        "jobs/*/groups/*/instances/*",
        ":replace",
        "InstanceService/ReplaceInstance",
    )
    .showing("instance"),
    get(
        "jobs/*/groups/*/instances/*",
        ":readLog",
        "name",
        "InstanceService/ReadLog",
    ),
    get("jobs/*", "/events", "parent", "EventService/ListEvents"),
    Route::create("pools", "PoolService/CreatePool", "pool"),
    list("pools", "PoolService/ListPools"),
    Route {
        verb: Method::POST,
        resource: "",
        rest: "pools:apply",
        field: None,
        method: APPLY_POOLS,
        body: Body::All,
        answer: None,
    },
    Route {
        verb: Method::GET,
        resource: "",
        rest: "pools:figures",
        field: None,
        method: "PoolService/GetPoolFigures",
        body: Body::Nothing,
        answer: Some("figures"),
    },
    get("pools/**", "", "name", "PoolService/GetPool").showing("pool"),
    Route::patch("pools/**", "pool.name", "PoolService/UpdatePool", "pool"),
    Route::delete("pools/**", "PoolService/DeletePool", None),
    post("pools/**", ":undelete", "PoolService/UndeletePool").showing("pool"),
    list("status", "StatusService/GetStatus").showing("status"),
    list("control", "ControlService/GetControl").showing("control"),
    Route {
        verb: Method::PATCH,
        resource: "",
        rest: "control",
        field: None,
        method: "ControlService/UpdateControl",
        body: Body::Field("control"),
        answer: Some("control"),
    },
    Route {
        verb: Method::POST,
        resource: "",
        rest: "control:rotateTokenKey",
        field: None,
        method: "ControlService/RotateTokenKey",
        body: Body::All,
        answer: Some("control"),
    },
    Route::create("clusters", "ClusterService/AddCluster", "cluster"),
    Route {
        verb: Method::POST,
        resource: "",
        rest: "clusters:plan",
        field: None,
        method: "ClusterService/PlanCluster",
        body: Body::All,
        answer: None,
    },
    list("clusters", "ClusterService/ListClusters"),
    get("clusters/*", "", "name", "ClusterService/GetCluster").showing("cluster"),
    Route::patch(
        "clusters/*",
        "cluster.name",
        "ClusterService/UpdateCluster",
        "cluster",
    ),
    post("clusters/*", ":remove", "ClusterService/RemoveCluster").showing("cluster"),
    post("clusters/*", ":acceptLoss", "ClusterService/AcceptClusterLoss").showing("cluster"),
    post("clusters/*", ":declareLost", "ClusterService/DeclareClusterLost").showing("cluster"),
    post(
        "clusters/*",
        ":declareAlive",
        "ClusterService/DeclareClusterAlive",
    )
    .showing("cluster"),
    get("clusters/*", "/hosts", "parent", "HostService/ListHosts"),
    get("clusters/*/hosts/*", "", "name", "HostService/GetHost").showing("host"),
    get(
        "clusters/*/hosts/*",
        "/runs",
        "parent",
        "HostService/ListHostRuns",
    ),
    get(
        "clusters/*",
        "/unreachableRuns",
        "parent",
        "HostService/ListHostRuns",
    ),
    post("clusters/*", "/hosts:drain", "HostService/DrainHosts").within(),
    post("clusters/*", "/hosts:undrain", "HostService/UndrainHosts").within(),
    post("clusters/*/hosts/*", ":drain", "HostService/DrainHost").showing("host"),
    post("clusters/*/hosts/*", ":undrain", "HostService/UndrainHost").showing("host"),
    post("clusters/*/hosts/*", ":forget", "HostService/ForgetHost"),
    get(
        "clusters/*",
        "/hostPools",
        "parent",
        "HostPoolService/ListHostPools",
    ),
    post("clusters/*", "/hostPools", "HostPoolService/CreateHostPool").within(),
    Route::delete("clusters/*/hostPools/*", "HostPoolService/DeleteHostPool", None),
    post("clusters/*", "/hosts:planMoves", "HostPoolService/PlanHostMoves").within(),
    post("clusters/*", "/hosts:move", "HostPoolService/MoveHosts").within(),
    post("clusters/*", "/hosts:undoMoves", "HostPoolService/UndoHostMoves").within(),
    get("clusters/*", "/volumes", "parent", "VolumeService/ListVolumes"),
    post("clusters/*/volumes/*", ":destroy", "VolumeService/DestroyVolume").showing("volume"),
    post("clusters/*/volumes/*", ":adopt", "VolumeService/AdoptVolume").showing("volume"),
];

/// What a path means.
pub(super) enum Found {
    /// A method, with its resource.
    Route(&'static Route, String),
    /// Other verbs than this one.
    OtherMethod(Vec<Method>),
    /// Nothing of ours.
    Nothing,
}

/// Finds the method of a verb and a path.
pub(super) fn find(verb: &Method, path: &str) -> Found {
    let Some(path) = path.strip_prefix("/v1/").and_then(decode) else {
        return Found::Nothing;
    };
    let fitting: Vec<(&Route, String)> = ROUTES
        .iter()
        .filter_map(|r| fit(r, &path).map(|resource| (r, resource)))
        .collect();
    let verb = if *verb == Method::HEAD { &Method::GET } else { verb };
    let others: Vec<Method> = fitting.iter().map(|(r, _)| r.verb.clone()).collect();
    match fitting.into_iter().find(|(r, _)| r.verb == *verb) {
        Some((route, resource)) => Found::Route(route, resource),
        None if others.is_empty() => Found::Nothing,
        None => Found::OtherMethod(others),
    }
}

/// The resource in a path, if the route is its.
fn fit(route: &Route, path: &str) -> Option<String> {
    if route.resource.is_empty() {
        return (path == route.rest).then(String::new);
    }
    let resource = path.strip_suffix(route.rest)?;
    let mut parts = resource.split('/');
    for pattern in route.resource.split('/') {
        match pattern {
            "**" => {
                let mut rest = parts.by_ref().peekable();
                rest.peek()?;
                return rest.all(is_part).then(|| resource.to_owned());
            }
            "*" => {
                parts.next().filter(|p| is_part(p))?;
            }
            literal => {
                parts.next().filter(|p| *p == literal)?;
            }
        }
    }
    parts.next().is_none().then(|| resource.to_owned())
}

fn is_part(part: &str) -> bool {
    !part.is_empty() && !part.contains(':')
}

/// Undoes percent-encoding.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(verb: &Method, path: &str) -> String {
        match find(verb, path) {
            Found::Route(route, resource) => format!("{} {resource}", route.method),
            Found::OtherMethod(verbs) => format!("{verbs:?}"),
            Found::Nothing => "nothing".into(),
        }
    }

    #[test]
    fn paths_lead_to_methods() {
        for (verb, path, expected) in [
            (Method::POST, "/v1/jobs", "JobService/CreateJob "),
            (Method::GET, "/v1/jobs", "JobService/ListJobs "),
            (Method::POST, "/v1/jobs:plan", "JobService/PlanJob "),
            (Method::POST, "/v1/pools:apply", "PoolService/ApplyPools "),
            (Method::GET, "/v1/pools:figures", "PoolService/GetPoolFigures "),
            (
                Method::POST,
                "/v1/pools/ml/training:undelete",
                "PoolService/UndeletePool pools/ml/training",
            ),
            (Method::GET, "/v1/status", "StatusService/GetStatus "),
            (Method::GET, "/v1/control", "ControlService/GetControl "),
            (Method::PATCH, "/v1/control", "ControlService/UpdateControl "),
            (Method::DELETE, "/v1/control", "[GET, PATCH]"),
            (
                Method::POST,
                "/v1/control:rotateTokenKey",
                "ControlService/RotateTokenKey ",
            ),
            (Method::GET, "/v1/jobs/hello", "JobService/GetJob jobs/hello"),
            (Method::HEAD, "/v1/jobs/hello", "JobService/GetJob jobs/hello"),
            (
                Method::POST,
                "/v1/jobs/hello:stop",
                "JobService/StopJob jobs/hello",
            ),
            (
                Method::POST,
                "/v1/jobs/hello%3Astop",
                "JobService/StopJob jobs/hello",
            ),
            (Method::GET, "/v1/jobs/a/events", "EventService/ListEvents jobs/a"),
            (
                Method::GET,
                "/v1/jobs/a/groups/main/instances/3:readLog",
                "InstanceService/ReadLog jobs/a/groups/main/instances/3",
            ),
            (
                Method::GET,
                "/v1/pools/ml/training",
                "PoolService/GetPool pools/ml/training",
            ),
            (
                Method::GET,
                "/v1/clusters/a/hosts/b",
                "HostService/GetHost clusters/a/hosts/b",
            ),
            (
                Method::GET,
                "/v1/clusters/a/hosts/b/runs",
                "HostService/ListHostRuns clusters/a/hosts/b",
            ),
            (
                Method::GET,
                "/v1/clusters/a/unreachableRuns",
                "HostService/ListHostRuns clusters/a",
            ),
            (
                Method::POST,
                "/v1/clusters/a/hosts:drain",
                "HostService/DrainHosts clusters/a",
            ),
            (
                Method::POST,
                "/v1/clusters/a/hosts/b:drain",
                "HostService/DrainHost clusters/a/hosts/b",
            ),
            (Method::POST, "/v1/clusters:plan", "ClusterService/PlanCluster "),
            (
                Method::POST,
                "/v1/clusters/a:remove",
                "ClusterService/RemoveCluster clusters/a",
            ),
            (
                Method::POST,
                "/v1/clusters/a:acceptLoss",
                "ClusterService/AcceptClusterLoss clusters/a",
            ),
            (
                Method::POST,
                "/v1/clusters/a:declareLost",
                "ClusterService/DeclareClusterLost clusters/a",
            ),
            (
                Method::POST,
                "/v1/clusters/a:declareAlive",
                "ClusterService/DeclareClusterAlive clusters/a",
            ),
            (Method::PUT, "/v1/jobs/hello", "[GET, PATCH, DELETE]"),
            (Method::GET, "/v1/jobs/hello:stop", "[POST]"),
            (Method::GET, "/v1/jobs/", "nothing"),
            (Method::GET, "/v1/jobs/a/b", "nothing"),
            (Method::GET, "/v1/pools/", "nothing"),
            (Method::GET, "/v1/jobs/%zz", "nothing"),
            (Method::GET, "/v1/jobs/%ff", "nothing"),
            (Method::GET, "/v1/jobs/a:unknown", "nothing"),
        ] {
            assert_eq!(found(&verb, path), expected, "{verb} {path}");
        }
    }
}
