//! What some instances of a group run in place of what the group says, as a job file writes it.

use super::parts_file::OverrideFile;
use super::runtime::{each, uri, words};
use super::spec::{Reader, texts};
use echelon_core_model::overrides::Override;
use echelon_core_model::{InstanceRange, RangeSet};

/// Reads overrides that stand at `path`.
pub(super) fn read(r: &mut Reader, path: &str, files: Vec<OverrideFile>) -> Vec<Override> {
    each(r, path, Some(files), |r, path, file| {
        let at = |field: &str| format!("{path}.{field}");
        Override {
            instances: r.value(
                &at("instances"),
                Some(&file.instances),
                instances,
                RangeSet::new(),
            ),
            command: file.command.map(|c| c.0).unwrap_or_default(),
            args: words(file.args),
            entrypoint: words(file.entrypoint),
            env: texts(file.env.unwrap_or_default()),
            working_dir: file.working_dir.map(|d| d.0).unwrap_or_default(),
            uris: each(r, &at("uris"), file.uris, uri),
        }
    })
}

/// `7`, `0-3`, or `0-3,8`.
fn instances(text: &str) -> Result<RangeSet, String> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().ok();
        InstanceRange::new(number(first)?, number(last)?)
    };
    let ranges: Option<RangeSet> = text.split(',').map(range).collect();
    ranges
        .ok_or_else(|| format!("`{text}` is not a set of instances: write for example `7`, `0-3` or `0-3,8`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_ranges_and_read_back() {
        for text in ["7", "0-3", "0-3,8", "0-4294967295"] {
            assert_eq!(instances(text).map(|i| i.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(
            instances("8, 0 - 3").map(|i| i.to_string()),
            Ok("0-3,8".to_owned())
        );
        for wrong in ["", "3-0", "-1", "a", "1-", "1,,2", "1-2-3", "4294967296"] {
            assert!(instances(wrong).is_err(), "{wrong}");
        }
    }
}
