//! What masters write into their group's node: one child each, its name with a sequence number, its data a MasterInfo (R14,
//! R15).

use crate::master::Endpoint;
use echelon_proto::mesos::v1::MasterInfo as Wire;
use prost::Message as _;
use serde::Deserialize;
use std::net::Ipv4Addr;

/// A MasterInfo in JSON, and in protobuf as masters before 0.28 wrote it.
const FORMS: [(&str, Form); 2] = [("json.info_", Form::Json), ("info_", Form::Protobuf)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Protobuf,
}

/// A master that contends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) form: Form,
}

/// The one that leads: that with the lowest sequence number. Other children of the node are no candidates.
pub(super) fn leading(children: &[String]) -> Option<Candidate> {
    let numbered = children.iter().filter_map(|name| Some((sequence(name)?, name)));
    let ((_, form), name) = numbered.min_by_key(|((number, _), _)| *number)?;
    Some(Candidate {
        name: name.clone(),
        form,
    })
}

fn sequence(name: &str) -> Option<(u64, Form)> {
    FORMS.into_iter().find_map(|(label, form)| {
        let digits = name.strip_prefix(label)?;
        let plain = digits.len() == 10 && digits.bytes().all(|b| b.is_ascii_digit());
        plain
            .then(|| digits.parse().ok())
            .flatten()
            .map(|number| (number, form))
    })
}

/// The parts of a MasterInfo that tell where the master is.
#[derive(Debug, Default, Deserialize)]
struct Info {
    address: Option<Address>,
    ip: Option<u32>,
    port: Option<u32>,
    pid: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Address {
    hostname: Option<String>,
    ip: Option<String>,
    port: u32,
}

/// Where the candidate listens; none when its data does not say it.
pub(super) fn endpoint(form: Form, data: &[u8]) -> Option<Endpoint> {
    let info = match form {
        Form::Json => serde_json::from_slice(data).ok()?,
        Form::Protobuf => from_wire(Wire::decode(data).ok()?),
    };
    let Info {
        address,
        ip,
        port,
        pid,
    } = info;
    let told = address.and_then(|a| {
        // The IP where both are told: it needs no resolver.
        let known = |text: Option<String>| text.filter(|t| !matches!(t.as_str(), "" | "0.0.0.0" | "::"));
        Endpoint::at(&known(a.ip).or_else(|| known(a.hostname))?, a.port)
    });
    told.or_else(|| {
        // The number's bytes in memory are the address in network byte order, on masters of our byte order.
        let ip = ip.filter(|ip| *ip != 0)?;
        Endpoint::at(&Ipv4Addr::from(ip.to_le_bytes()).to_string(), port?)
    })
    .or_else(|| pid?.split_once('@')?.1.parse().ok())
}

fn from_wire(wire: Wire) -> Info {
    Info {
        address: wire.address.map(|a| Address {
            hostname: a.hostname,
            ip: a.ip,
            port: u32::try_from(a.port).unwrap_or_default(),
        }),
        ip: Some(wire.ip),
        port: Some(wire.port),
        pid: wire.pid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_lowest_sequence_leads_and_strangers_do_not_contend() {
        for (children, leads) in [
            (&[][..], None),
            (&["log_replicas"], None),
            (
                &["json.info_0000000002", "log_replicas", "json.info_0000000001"],
                Some("json.info_0000000001"),
            ),
            (
                &["json.info_0000000010", "json.info_0000000009"],
                Some("json.info_0000000009"),
            ),
            (
                &["json.info_0000000002", "info_0000000001"],
                Some("info_0000000001"),
            ),
            (
                &["json.info_1", "json.info_", "json.info_00000000x1", "0000000001"],
                None,
            ),
            (&["json.info_2147483648"], Some("json.info_2147483648")),
        ] {
            let found = leading(&names(children)).map(|c| c.name);
            assert_eq!(found.as_deref(), leads, "{children:?}");
        }
    }

    #[test]
    fn a_master_is_where_its_info_says() {
        for (info, there) in [
            (
                r#"{"address":{"hostname":"m1","ip":"10.0.0.1","port":5051},"ip":16777343,"port":1,"pid":"master@9.9.9.9:9"}"#,
                Some("10.0.0.1:5051"),
            ),
            (r#"{"address":{"hostname":"m1","port":5051}}"#, Some("m1:5051")),
            (
                r#"{"address":{"hostname":"m1","ip":"0.0.0.0","port":5051}}"#,
                Some("m1:5051"),
            ),
            (
                r#"{"address":{"ip":"fe80::1","port":5051}}"#,
                Some("[fe80::1]:5051"),
            ),
            (
                r#"{"ip":16777343,"port":5050,"pid":"master@9.9.9.9:9"}"#,
                Some("127.0.0.1:5050"),
            ),
            (r#"{"pid":"master@9.9.9.9:9"}"#, Some("9.9.9.9:9")),
            (r#"{"address":{"ip":"10.0.0.1","port":99999}}"#, None),
            (r#"{"pid":"master"}"#, None),
            ("{}", None),
            ("[]", None),
            ("", None),
        ] {
            let found = endpoint(Form::Json, info.as_bytes()).map(|e| e.to_string());
            assert_eq!(found.as_deref(), there, "{info}");
        }
    }

    #[test]
    fn an_old_masters_info_is_protobuf() {
        let wire = Wire {
            id: "m".to_owned(),
            ip: 16_777_343,
            port: 5050,
            ..Wire::default()
        };
        let read = |data: &[u8]| endpoint(Form::Protobuf, data).map(|e| e.to_string());
        assert_eq!(read(&wire.encode_to_vec()).as_deref(), Some("127.0.0.1:5050"));
        assert_eq!(read(b"\xff"), None);
    }
}
