//! Rows written by hand that this build cannot read: one job is set aside, everything else goes on, and its tasks live on.

use super::Standalone;
use echelon_core_model::JobId;
use std::path::Path;
use std::time::{Duration, Instant};

/// Writes garbage over each row of a table that names a job, and tells how many there were.
fn spoil(folder: &Path, table: &str, job: &str) -> usize {
    use redb::ReadableTable as _;
    let id: JobId = job.parse().unwrap();
    let id = id.0.to_be_bytes();
    let names = redb::TableDefinition::<&[u8], &[u8]>::new(table);
    let raw = redb::Database::open(folder.join("storage")).unwrap();
    let transaction = raw.begin_write().unwrap();
    let mut rows = Vec::new();
    {
        let mut table = transaction.open_table(names).unwrap();
        for row in table.range::<&[u8]>(..).unwrap() {
            let (key, value) = row.unwrap();
            let value = value.value();
            if value.windows(id.len()).any(|w| w == id) {
                // What stands before the message says when it was written.
                let header = value.get(..9).unwrap();
                rows.push((key.value().to_vec(), [header, &[0xff; 5]].concat()));
            }
        }
        for (key, value) in &rows {
            table.insert(key.as_slice(), value.as_slice()).unwrap();
        }
    }
    transaction.commit().unwrap();
    rows.len()
}

fn job_file(folder: &Path, name: &str) -> String {
    let file = folder.join(format!("{name}.yaml"));
    let text = format!(
        "name: {name}\npool: /default\nkind: service\ninstances: 1\ncommand: sleep 1000\n\
         resources: {{cpus: 0.1, memory: 32MiB}}\n"
    );
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn rows_that_cannot_be_read_stop_nothing_else() {
    let folder = super::work();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mut first = Standalone::start(&data);
    let names = ["head", "block", "good"];
    let ids = names.map(|name| {
        first.printed(&["job", "run", &job_file(folder.path(), name)]);
        let job = first.printed(&["job", "get", name, "-o", "json"]);
        let job: serde_json::Value = serde_json::from_str(&job).unwrap();
        job["name"]
            .as_str()
            .unwrap()
            .trim_start_matches("jobs/")
            .to_owned()
    });
    let tasks = names.map(|name| first.running(name, 1));
    assert_eq!(first.interrupt(), Some(0));
    assert_eq!(spoil(&data, "heads", &ids[0]), 1);
    assert!(spoil(&data, "instances", &ids[1]) > 0);

    let again = Standalone::start(&data);
    assert_eq!(again.running("good", 1), tasks[2], "it runs on");
    // The list goes on and names what it lacks.
    let listed = again.echelon(&["job", "list", "-o", "name"]);
    let (out, told) = (
        String::from_utf8_lossy(&listed.stdout),
        String::from_utf8_lossy(&listed.stderr),
    );
    assert!(listed.status.success(), "{told}");
    let names: Vec<&str> = out.lines().collect();
    assert!(names.contains(&"good") && !names.contains(&"head"), "{out}");
    assert!(told.contains("of table heads cannot be read"), "{told}");
    // The jobs say it themselves.
    let head = again.echelon(&["job", "get", &ids[0]]);
    assert_eq!(head.status.code(), Some(4));
    let told = String::from_utf8_lossy(&head.stderr);
    assert!(
        told.contains("ROW_UNREAD") && told.contains("of table heads"),
        "{told}"
    );
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let explained = again.printed(&["job", "explain", "block"]);
        if explained.contains("cannot be read by this build") {
            break;
        }
        assert!(Instant::now() < deadline, "{explained}");
        std::thread::sleep(Duration::from_millis(100));
    }
    // New work runs, and nothing of what is set aside was stopped.
    again.printed(&["job", "run", &job_file(folder.path(), "later")]);
    again.running("later", 1);
    let tracked = again.printed(&["cluster", "list", "-o", "json"]);
    assert!(tracked.contains("healthy"), "{tracked}");
}
