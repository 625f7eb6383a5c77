//! Files that are put into the sandbox before the task starts: copied from this machine or got over plain HTTP, unpacked by
//! `tar` and `unzip` as a real agent's fetcher does.

use super::http;
use super::sandbox::Sandbox;
use echelon_proto::mesos::v1::command_info::Uri;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// A file to fetch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct File {
    uri: String,
    extract: bool,
    executable: bool,
    output_file: Option<String>,
}

impl From<&Uri> for File {
    fn from(uri: &Uri) -> Self {
        Self {
            uri: uri.value.clone(),
            extract: uri.extract() && !uri.executable(),
            executable: uri.executable(),
            output_file: uri.output_file.clone(),
        }
    }
}

/// Fetches all files, in order.
///
/// # Errors
/// Why one of them cannot be had, in words.
pub(crate) async fn all(files: &[File], sandbox: &Sandbox) -> Result<(), String> {
    for file in files {
        let told = |error: io::Error| format!("Failed to fetch '{}': {error}", file.uri);
        let at = one(file, sandbox.path()).await.map_err(told)?;
        if file.executable {
            fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).map_err(told)?;
        }
        if file.extract {
            unpack(&at, sandbox.path()).await.map_err(told)?;
        }
    }
    Ok(())
}

async fn one(file: &File, into: &Path) -> io::Result<PathBuf> {
    let last = file.uri.rsplit('/').next().unwrap_or_default();
    let name = file.output_file.as_deref().unwrap_or(last);
    let at = into.join(name);
    let inside = !name.is_empty() && !Path::new(name).components().any(|c| c.as_os_str() == "..");
    if !inside || !at.starts_with(into) {
        return Err(io::Error::other("it has no name within the sandbox"));
    }
    if let Some(folder) = at.parent() {
        fs::create_dir_all(folder)?;
    }
    if let Some(rest) = file.uri.strip_prefix("http://") {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let authority = if authority.contains(':') {
            authority.to_owned()
        } else {
            format!("{authority}:80")
        };
        let answer = http::get(&authority, &format!("/{path}")).await?;
        if !answer.status().is_success() {
            return Err(io::Error::other(format!("HTTP status {}", answer.status())));
        }
        fs::write(&at, answer.body())?;
        return Ok(at);
    }
    let path = file.uri.strip_prefix("file://").unwrap_or(&file.uri);
    if !path.starts_with('/') {
        return Err(io::Error::other(
            "the simulated agent fetches only files and by plain http",
        ));
    }
    fs::copy(path, &at)?;
    Ok(at)
}

/// Unpacks an archive; any other file stays as it is.
async fn unpack(at: &Path, into: &Path) -> io::Result<()> {
    let name = at.to_string_lossy();
    let tar = [".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz"];
    let mut command = if tar.iter().any(|end| name.ends_with(end)) {
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(into).arg("-xf").arg(at);
        tar
    } else if name.ends_with(".zip") {
        let mut unzip = Command::new("unzip");
        unzip.arg("-o").arg("-d").arg(into).arg(at);
        unzip
    } else {
        return Ok(());
    };
    let output = command.output().await?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    }
}
