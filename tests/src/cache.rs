//! Folder outside the clone for what the tests fetch: servers' jars and pinned tools.
//!
//! Everything in it is named with its version and appears whole or not at all, so several runs may share it and a broken
//! download is never taken for a good one. Deleting the folder is always safe.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// `$XDG_CACHE_HOME/echelon`, else `~/.cache/echelon`.
///
/// # Errors
/// When neither variable is set.
pub fn folder() -> Result<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("echelon"))
        .context("no folder for what the tests fetch: set XDG_CACHE_HOME or HOME")
}

/// The folder `name` in the cache, filled by `fill` when it is not there. One process fills at a time.
///
/// # Errors
/// What `fill` fails with, or the file system; nothing of a failed attempt is kept.
pub fn entry(name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let cache = folder()?;
    fs::create_dir_all(&cache).with_context(|| format!("create the cache {}", cache.display()))?;
    entry_in(&cache, name, fill)
}

fn entry_in(cache: &Path, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let wanted = cache.join(name);
    if wanted.is_dir() {
        return Ok(wanted);
    }
    let lock = File::create(cache.join(format!(".{name}.lock")))?;
    lock.lock()
        .with_context(|| format!("wait for another run that fetches {name}"))?;
    if wanted.is_dir() {
        return Ok(wanted);
    }
    let attempt = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .tempdir_in(cache)?;
    let filled = attempt.path().join("content");
    fs::create_dir(&filled)?;
    fill(&filled).with_context(|| format!("fetch {name} into {}", cache.display()))?;
    fs::rename(&filled, &wanted)?;
    Ok(wanted)
}

/// Runs a fetching command and shows what it wrote only when it fails.
///
/// # Errors
/// The command is missing or ends with another status than 0.
pub fn fetch_with<A: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = A>) -> Result<()> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| {
            format!("run {program}: is it installed? `cargo xtask test` installs it on Debian and Ubuntu")
        })?;
    if !output.status.success() {
        let (said, complained) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        bail!("{program} ended with {}\n{said}{complained}", output.status);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_filled_once() {
        let cache = tempfile::tempdir().unwrap();
        let first = entry_in(cache.path(), "tool-1", |to| Ok(fs::write(to.join("file"), "1")?)).unwrap();
        let second = entry_in(cache.path(), "tool-1", |_| bail!("filled twice")).unwrap();
        assert_eq!(first, second);
        assert_eq!(fs::read_to_string(second.join("file")).unwrap(), "1");
    }

    #[test]
    fn a_failed_download_leaves_nothing_behind() {
        let cache = tempfile::tempdir().unwrap();
        let half = |to: &Path| {
            fs::write(to.join("half"), "")?;
            bail!("the line broke")
        };
        let error = entry_in(cache.path(), "tool-1", half).unwrap_err();
        assert!(format!("{error:#}").contains("the line broke"), "{error:#}");
        assert!(!cache.path().join("tool-1").exists());
        entry_in(cache.path(), "tool-1", |_| Ok(())).unwrap();
    }

    #[test]
    fn a_failing_command_shows_what_it_wrote() {
        let error = fetch_with("sh", ["-c", "echo no such artifact >&2; exit 3"]).unwrap_err();
        assert!(error.to_string().contains("no such artifact"), "{error}");
    }
}
