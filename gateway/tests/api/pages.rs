//! Pages.

use crate::http::ask;
use crate::world::{HELLO, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn every_page_is_whole_and_tells_its_command() {
    let world = World::start().await;
    let evil = HELLO.replace(
        r#""name": "hello","#,
        r#""name": "hello", "owner": "<script>alert(1)</script>", "labels": {"a": "\"><img src=x>"},"#,
    );
    assert_eq!(world.change("POST", "/v1/jobs", &evil).await.status, 200);
    for (path, title, command) in [
        ("/", "Clusters", "echelon cluster list"),
        ("/clusters", "Clusters", "echelon cluster list"),
        ("/pools", "Pools", "echelon pool list"),
        ("/jobs", "Jobs", "echelon job list"),
        (
            "/jobs?state=waiting&pool=/default&name=he",
            "Jobs",
            "echelon job list",
        ),
        ("/jobs/hello", "Job hello", "echelon job explain hello"),
        ("/jobs/hello?state=running", "Job hello", "echelon job get hello"),
        (
            "/jobs/hello/main/0",
            "Instance 0 of group main",
            "echelon job logs hello",
        ),
    ] {
        let page = world.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        assert!(
            page.body.contains(&format!("<h1>{title}</h1>")),
            "{path}: {}",
            page.body
        );
        assert!(page.body.contains(command), "{path}: {}", page.body);
        assert!(
            !page.body.contains("<script>alert") && !page.body.contains("<img"),
            "{path}: {}",
            page.body
        );
        assert!(
            !page.body.contains("http://") && !page.body.contains("https://"),
            "{path} asks elsewhere"
        );
        assert!(
            !page.body.contains("\" class=\""),
            "{path}: a second class of an element is ignored by browsers"
        );
        let head = page.head.to_ascii_lowercase();
        assert!(
            head.contains("content-security-policy: default-src 'none'"),
            "{path}: {head}"
        );
    }
    assert!(world.get("/jobs").await.body.contains("&lt;script&gt;"));
    for (path, status) in [
        ("/jobs/nobody", 404),
        ("/nothing", 404),
        ("/jobs?page=x", 400),
        ("/jobs/hello/main/9", 404),
    ] {
        let page = world.get(path).await;
        assert_eq!(page.status, status, "{path}");
        assert!(page.body.contains("role=\"alert\""), "{path}");
    }
    for path in ["/assets/style.css", "/assets/live.js"] {
        assert_eq!(world.get(path).await.status, 200);
    }
}

#[tokio::test]
async fn pages_only_read() {
    let world = World::start().await;
    for verb in ["POST", "PUT", "DELETE"] {
        assert_eq!(
            ask(world.address, verb, "/jobs", &[], "").await.status,
            405,
            "{verb}"
        );
    }
}

#[tokio::test]
async fn a_page_is_sent_again_when_it_changes() {
    let world = World::start().await;
    let mut stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let ask = format!("GET /live/jobs HTTP/1.1\r\nhost: {}\r\n\r\n", world.address);
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut seen = String::new();
    read_until(&mut stream, &mut seen, "No job passes").await;
    assert!(seen.contains("text/event-stream"));
    world.change("POST", "/v1/jobs", HELLO).await;
    read_until(&mut stream, &mut seen, ">hello</a>").await;
    world.shutdown.begin();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn the_first_page_is_live_too() {
    // The script asks for "/live" and the page's own path, which is "/" here.
    let world = World::start().await;
    let mut stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let ask = format!("GET /live/ HTTP/1.1\r\nhost: {}\r\n\r\n", world.address);
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut seen = String::new();
    read_until(&mut stream, &mut seen, "text/event-stream").await;
    assert!(seen.starts_with("HTTP/1.1 200"), "{seen}");
    world.shutdown.begin();
}

async fn read_until(stream: &mut tokio::net::TcpStream, seen: &mut String, text: &str) {
    let mut buffer = [0; 4096];
    while !seen.contains(text) {
        let n = stream.read(&mut buffer).await.unwrap();
        assert!(n > 0, "ended before `{text}`: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
}
