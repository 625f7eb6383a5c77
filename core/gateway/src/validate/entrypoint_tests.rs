//! Rules of what is started in place of an image's entry point.

use super::runtime::{docker, refused, wrong};
use echelon_core_model::runtime::{Container, Containerizer};

#[test]
fn an_entry_point_needs_an_image_and_stands_alone() {
    let words = |words: &[&str]| Some(words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    for containerizer in [Containerizer::Mesos, Containerizer::Docker] {
        let fine = wrong(|r| {
            r.command.clear();
            r.entrypoint = words(&["/bin/server", "-v"]);
            r.args = words(&["x"]);
            r.container = Some(Container {
                containerizer,
                ..docker()
            });
        });
        assert!(fine.is_empty(), "{fine:?}");
    }
    refused("entrypoint", "stands in place of `command`", |r| {
        r.entrypoint = words(&["/bin/server"]);
        r.container = Some(docker());
    });
    let bare = wrong(|r| {
        r.command.clear();
        r.entrypoint = words(&["/bin/server"]);
    });
    assert!(
        bare.iter()
            .any(|w| w.starts_with("entrypoint: ") && w.contains("there is no image")),
        "{bare:?}"
    );
    for bad in [vec![], vec![""], vec!["a", "b\0"]] {
        refused("entrypoint", "must be a program", |r| {
            r.command.clear();
            r.entrypoint = words(&bad);
            r.container = Some(docker());
        });
    }
}
