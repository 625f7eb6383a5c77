//! A strategy of one's own: of two hosts drawn by the group's and the instance's numbers the roomier one, so that no host is everybody's
//! first choice. docs/placement.md shows this file.

use super::{group, host, judged, problem};
use crate::place_by;
use crate::strategy::{Candidate, Cost, Draws, Strategy, TABLE, number};
use echelon_core_model::spec::JobKind;
use echelon_core_testkit::build::shape;

#[derive(Debug)]
struct Scatter;

impl Strategy for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    // The cost of a host follows no order that is kept, so all of them are looked at.
    fn draws(&self) -> Draws {
        Draws::All
    }

    // Hosts fall into halves by a number that changes with each instance there; ties go by index, since no two may cost the same.
    fn cost(&self, of: Candidate) -> Cost {
        let drawn = (number(of.host) + u64::from(of.count)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63;
        [drawn, u64::MAX - of.size, number(of.host)]
    }
}

#[test]
fn a_strategy_is_a_file_and_a_line_in_the_table() {
    let mut table = TABLE.to_vec();
    table.push(&Scatter);
    let mut wanted = group(1, JobKind::Batch, 9, shape(1, 1));
    wanted.siting.strategy = Some("scatter".to_owned());
    wanted.siting.max_per.insert("hostname".to_owned(), 2);
    let hosts = (0..5).map(|n| host(&format!("h{n}"), shape(4, 9)));
    let problem = problem(1, vec![wanted], hosts.collect());
    let (answer, _) = place_by(&problem, &table);
    assert_eq!(
        answer.choices.len(),
        9,
        "rules and room are kept whatever a strategy says"
    );
    assert_eq!(crate::check(&problem, &answer), []);
    assert_ne!(answer.choices, judged(&problem).choices, "nobody else knows it");
}

#[test]
fn the_page_shows_this_strategy() {
    let page = include_str!("../../../../docs/placement.md");
    let (_, own) = include_str!("example.rs").split_once("#[derive(Debug)]").unwrap();
    let (own, _) = own.split_once("#[test]").unwrap();
    assert!(
        page.contains(own.trim()),
        "docs/placement.md and this file differ"
    );
    let names: Vec<&str> = TABLE.iter().map(|s| s.name()).collect();
    assert_eq!(
        names,
        echelon_core_model::siting::STRATEGIES,
        "names that job files may use"
    );
    assert!(names.iter().all(|n| page.contains(&format!("`{n}`"))));
}
