//! Jobs whose instances leave marks in a folder: that they began, that they are done, and whether another one of the same
//! instance was there at that time.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use crate::federation::Federation;

/// The folder of marks.
pub struct Marks(PathBuf);

impl Marks {
    pub fn new(federation: &Federation) -> Result<Self> {
        Ok(Self(federation.folder("marks")?))
    }

    /// A job whose instances end after some seconds.
    pub fn batch(&self, name: &str, instances: u32, seconds: u32) -> Value {
        let end = format!("sleep {seconds}; rmdir \"$me.lock\"; echo done >> \"$me.done\"",);
        self.job(name, ("JOB_KIND_BATCH", instances), &end)
    }

    /// A job whose instances never end.
    pub fn service(&self, name: &str, instances: u32) -> Value {
        self.job(name, ("JOB_KIND_SERVICE", instances), "exec sleep 100000")
    }

    /// A job of this kind whose instances do this after they began.
    pub fn job(&self, name: &str, (kind, instances): (&str, u32), end: &str) -> Value {
        let me = format!("{}/{name}.$ECHELON_INSTANCE", self.0.display());
        let command = format!(
            "me={me}; echo begun >> \"$me.begun\"; mkdir \"$me.lock\" || echo \"$me\" >> \"$me.twice\"; {end}"
        );
        json!({"spec": {
            "name": name,
            "pool": "/default",
            "kind": kind,
            "clusters": {"spread": "SPREAD_EVEN"},
            "groups": [{
                "name": "main",
                "instances": instances,
                "command": command,
                "resources": {"cpusMilli": "100", "memoryMib": "32"},
            }],
        }})
    }

    /// Ends of all instances of a job, counted.
    pub fn done(&self, job: &str) -> usize {
        self.lines(job, "done").len()
    }

    /// Beginnings of all instances of a job, counted.
    pub fn begun(&self, job: &str) -> usize {
        self.lines(job, "begun").len()
    }

    /// Instances that found another one of theirs at work.
    pub fn twice(&self) -> Vec<String> {
        self.lines("", "twice")
    }

    fn lines(&self, job: &str, kind: &str) -> Vec<String> {
        let files = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let wanted = files.filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(job) && name.ends_with(&format!(".{kind}"))
        });
        let texts: Vec<String> = wanted.map(|path| fs::read_to_string(path).unwrap()).collect();
        texts
            .iter()
            .flat_map(|text| text.lines())
            .map(str::to_owned)
            .collect()
    }
}
