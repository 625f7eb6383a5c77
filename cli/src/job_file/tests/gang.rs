//! What a job file says of its gang.

use super::{HELLO, parse};
use echelon_core_model::gang::{Gang, OnMemberFailure, Topology};
use echelon_core_model::spec::defaults;
use echelon_core_model::time::Span;

fn gang(text: &str) -> Result<Gang, String> {
    let spec = parse(format!("{HELLO}gang: {text}\n").as_bytes());
    spec.map(|s| s.gang.unwrap()).map_err(|e| e.to_string())
}

#[test]
fn a_gang_is_read_with_its_defaults_and_with_all_that_can_be_said() {
    assert_eq!(gang("{}"), Ok(Gang::new(defaults::START_WITHIN)));
    let all = "{start_within: 1m, on_failure: gang, topology: [hostname, rack], topology_required: true}";
    let expected = Gang {
        start_within: Span::minutes(1),
        on_failure: OnMemberFailure::Gang,
        topology: Topology {
            levels: vec!["hostname".to_owned(), "rack".to_owned()],
            required: true,
        },
    };
    assert_eq!(gang(all), Ok(expected));
    for on_failure in OnMemberFailure::ALL {
        let read = gang(&format!("{{on_failure: {on_failure}}}")).unwrap();
        assert_eq!(read.on_failure, on_failure);
    }
}

#[test]
fn what_is_no_policy_is_told_with_those_that_are() {
    let wrong = gang("{on_failure: all}").unwrap_err();
    assert!(
        wrong.contains("gang.on_failure: `all`") && wrong.contains("use member, gang or job"),
        "{wrong}"
    );
    let unknown = gang("{on_fail: gang}").unwrap_err();
    assert!(unknown.contains("on_fail"), "{unknown}");
}
