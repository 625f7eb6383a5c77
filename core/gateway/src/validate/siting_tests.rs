//! Each rule about where instances may be names its field.

use super::check;
use echelon_core_model::siting::{Affinity, Constraint, Preference, Siting, Test};

fn siting(field: &str, change: impl Fn(&mut Siting)) {
    check(
        |s| change(&mut s.groups[0].siting),
        &format!("spec.groups[0].{field}"),
    );
}

#[test]
fn each_rule_of_a_constraint_names_its_field() {
    let constraint = |field: &str, rule: Constraint| {
        let field = format!("spec.groups[0].constraints[0].{field}");
        check(|s| s.groups[0].constraints = vec![rule.clone()], &field);
    };
    constraint("attribute", Constraint::one_of("", &["a"]));
    constraint("values", Constraint::one_of("rack", &[]));
    let matches = |text: &str| Constraint {
        test: Test::Matches(text.to_owned()),
        ..Constraint::one_of("rack", &[])
    };
    constraint("values", matches("("));
    constraint("values", matches("((a{99}){99}){99}"));
    check(
        |s| s.groups[0].constraints = vec![Constraint::one_of("rack", &["a"]); 65],
        "spec.groups[0].constraints",
    );
}

#[test]
fn each_wish_about_hosts_and_other_jobs_names_its_field() {
    for weight in [0, 101, -101] {
        siting("preferences[0].weight", |s| {
            s.preferences = vec![Preference {
                rule: Constraint::one_of("rack", &["a"]),
                weight,
            }];
        });
    }
    siting("max_per.rack", |s| s.max_per = [("rack".to_owned(), 0)].into());
    siting("spread_over[0]", |s| s.spread_over = vec![String::new()]);
    siting("spread_over[1]", |s| s.spread_over = vec!["a".into(), "a".into()]);
    siting("strategy", |s| s.strategy = Some("best".to_owned()));
    let db = Affinity {
        labels: [("app".to_owned(), "db".to_owned())].into(),
        topology: "rack".to_owned(),
        weight: None,
    };
    let near = |field: &str, rule: Affinity| {
        siting(field, |s| s.affinity = vec![rule.clone()]);
        let field = field.replace("affinity", "anti_affinity");
        siting(&field, |s| s.anti_affinity = vec![rule.clone()]);
    };
    near(
        "affinity[0].labels",
        Affinity {
            labels: [].into(),
            ..db.clone()
        },
    );
    near(
        "affinity[0].topology",
        Affinity {
            topology: String::new(),
            ..db.clone()
        },
    );
    near(
        "affinity[0].weight",
        Affinity {
            weight: Some(0),
            ..db
        },
    );
}
