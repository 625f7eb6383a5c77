//! The source tree as data: its packages, their arrows, its Rust files. Read by the tests that hold the architecture and
//! by `cargo xtask sizes`.

mod crates;
mod rust;
pub mod sizes;
mod test_module;

pub use crates::{Crate, all as all_crates};
pub use rust::RustFile;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The workspace that this crate stands in.
pub struct Tree {
    /// Its root folder.
    pub root: PathBuf,
    /// Its packages, by folder.
    pub packages: Vec<Package>,
}

/// One package of the workspace.
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder below the root, with `/`.
    pub folder: String,
    /// What it depends on, as its manifest says.
    pub dependencies: Vec<Dependency>,
    /// Its manifest.
    pub manifest: toml::Table,
    /// The root files of its library and binaries, below the tree's root.
    pub roots: Vec<String>,
}

/// An arrow from one package to another one or to an outside crate.
pub struct Dependency {
    /// Name of the crate.
    pub name: String,
    /// What it is needed for.
    pub kind: Kind,
    /// Features that it is asked for.
    pub features: Vec<String>,
    /// Its folder below the root when it belongs to the workspace.
    pub folder: Option<String>,
}

/// What a dependency is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The product.
    Normal,
    /// Tests, examples and benches.
    Dev,
    /// The build script.
    Build,
}

impl Tree {
    /// Reads it by `cargo metadata`, without network.
    ///
    /// # Errors
    /// Cargo refuses a manifest.
    pub fn read() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
        let metadata = metadata(&root, &["--no-deps"])?;
        let packages = array(&metadata, "packages")?;
        let mut packages = packages
            .iter()
            .map(|package| read_package(&root, package))
            .collect::<Result<Vec<_>>>()?;
        packages.sort_by(|a, b| a.folder.cmp(&b.folder));
        Ok(Self { root, packages })
    }

    /// All Rust files of the tree, by path.
    ///
    /// # Errors
    /// One cannot be read or parsed.
    pub fn rust_files(&self) -> Result<Vec<RustFile>> {
        let mut paths = Vec::new();
        for folder in self.top_folders()? {
            collect(&self.root.join(folder), "rs", &mut paths)?;
        }
        paths.sort();
        let files = paths.iter().map(|path| RustFile::read(&self.root, path));
        let mut files = files.collect::<Result<Vec<_>>>()?;
        let for_tests: Vec<String> = files.iter().flat_map(|file| file.test_modules.clone()).collect();
        for file in &mut files {
            file.is_test_module = for_tests.iter().any(|module| file.belongs_to(module));
        }
        Ok(files)
    }

    /// Files with this extension below a folder of the tree; none when there is no such folder.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn files(&self, folder: &str, extension: &str) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        if self.root.join(folder).is_dir() {
            collect(&self.root.join(folder), extension, &mut paths)?;
        }
        paths.sort();
        Ok(paths)
    }

    /// Text of a file of the tree.
    ///
    /// # Errors
    /// It is missing.
    pub fn text(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.root.join(path)).with_context(|| format!("read {path}"))
    }

    /// The first parts of the packages' folders.
    fn top_folders(&self) -> Result<Vec<String>> {
        let mut tops: Vec<String> = Vec::new();
        for package in &self.packages {
            let top = package
                .folder
                .split('/')
                .next()
                .context("a package at the root")?;
            if !tops.iter().any(|known| known == top) {
                tops.push(top.to_owned());
            }
        }
        Ok(tops)
    }
}

/// Answer of `cargo metadata` at `root`.
fn metadata(root: &Path, arguments: &[&str]) -> Result<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--format-version", "1"])
        .args(arguments)
        .current_dir(root)
        .output()
        .context("run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn read_package(root: &Path, package: &Value) -> Result<Package> {
    let manifest = PathBuf::from(text(package, "manifest_path")?);
    let dependencies = array(package, "dependencies")?;
    let targets = array(package, "targets")?.iter();
    let programs = targets.filter(|target| {
        let kinds = target
            .get("kind")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        kinds.into_iter().any(|kind| kind == "lib" || kind == "bin")
    });
    Ok(Package {
        name: text(package, "name")?,
        folder: below(root, manifest.parent().context("a manifest in no folder")?),
        dependencies: dependencies
            .iter()
            .map(|d| read_dependency(root, d))
            .collect::<Result<_>>()?,
        manifest: fs::read_to_string(&manifest)?.parse()?,
        roots: programs
            .map(|target| Ok(below(root, Path::new(&text(target, "src_path")?))))
            .collect::<Result<_>>()?,
    })
}

fn read_dependency(root: &Path, dependency: &Value) -> Result<Dependency> {
    let kind = match dependency.get("kind").and_then(Value::as_str) {
        None => Kind::Normal,
        Some("dev") => Kind::Dev,
        Some("build") => Kind::Build,
        Some(other) => bail!("cargo metadata tells of a dependency of kind {other}"),
    };
    let features = array(dependency, "features")?
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let folder = dependency
        .get("path")
        .and_then(Value::as_str)
        .map(|path| below(root, Path::new(path)));
    Ok(Dependency {
        name: text(dependency, "name")?,
        kind,
        features,
        folder,
    })
}

fn text(value: &Value, key: &str) -> Result<String> {
    let text = value.get(key).and_then(Value::as_str);
    text.map(str::to_owned)
        .with_context(|| format!("cargo metadata without {key}"))
}

fn array<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value
        .get(key)
        .and_then(Value::as_array)
        .with_context(|| format!("cargo metadata without {key}"))
}

/// `path` as seen from `root`, with `/`.
fn below(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/")
}

fn collect(folder: &Path, extension: &str, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden || path.file_name().is_some_and(|name| name == "target") {
            continue;
        }
        if path.is_dir() {
            collect(&path, extension, into)?;
        } else if path.extension().is_some_and(|found| found == extension) {
            into.push(path);
        }
    }
    Ok(())
}
