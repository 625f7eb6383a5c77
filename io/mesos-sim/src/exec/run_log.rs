//! What really ran: one line of JSON for each begin and end of a task's process, for judges that trust nobody else.

use super::sandbox::Ended;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::SystemTime;

/// The log of one run's process, in a file that all runs share.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunLog {
    /// The file.
    pub path: PathBuf,
    /// The task's id.
    pub task: String,
    /// The agent's id.
    pub agent: String,
}

impl RunLog {
    /// Writes that the task's process began.
    pub(crate) fn began(&self, pid: u32) -> io::Result<()> {
        self.write(json!({"event": "began", "pid": pid}))
    }

    /// Writes how it ended; `None` where its supervisor did not live to see it.
    pub(crate) fn ended(&self, how: Option<&Ended>) -> io::Result<()> {
        let how = match how {
            Some(Ended::Code(code)) => json!({"exit": code}),
            Some(Ended::Signal(signal)) => json!({"signal": signal}),
            Some(Ended::NotStarted(why)) => json!({"not_started": why}),
            None => json!("lost"),
        };
        self.write(json!({"event": "ended", "how": how}))
    }

    /// Adds the line in one write, which no other process's line comes into.
    fn write(&self, mut line: Value) -> io::Result<()> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let at = since.map_or(0, |since| since.as_millis());
        if let Value::Object(fields) = &mut line {
            fields.insert("task".to_owned(), json!(self.task));
            fields.insert("agent".to_owned(), json!(self.agent));
            fields.insert("at_ms".to_owned(), json!(u64::try_from(at).unwrap_or(u64::MAX)));
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(format!("{line}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_begin_and_end_is_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let log = RunLog {
            path: folder.path().join("runs.jsonl"),
            task: "t.main.0.1.1".to_owned(),
            agent: "S0".to_owned(),
        };
        log.began(77).unwrap();
        log.ended(Some(&Ended::Code(3))).unwrap();
        log.ended(None).unwrap();
        let text = std::fs::read_to_string(&log.path).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let told: Vec<(&str, &Value)> = lines
            .iter()
            .map(|line| (line["event"].as_str().unwrap(), &line["how"]))
            .collect();
        assert_eq!(
            told,
            [
                ("began", &Value::Null),
                ("ended", &json!({"exit": 3})),
                ("ended", &json!("lost"))
            ]
        );
        assert_eq!(
            (&lines[0]["pid"], &lines[0]["task"]),
            (&json!(77), &json!("t.main.0.1.1"))
        );
    }
}
