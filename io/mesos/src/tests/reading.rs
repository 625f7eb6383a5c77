use super::net::{Answer, Net};
use crate::files::{MAX_PIECE, Wanted};
use crate::{FilesError, Piece, Timing, pod_file, read_file, sandbox_file};
use echelon_proto::mesos::v1::agent::{Call, Response, response};
use prost::Message as _;

fn piece(data: &[u8], size: u64) -> Answer {
    let response = Response {
        r#type: Some(response::Type::ReadFile.into()),
        read_file: Some(response::ReadFile {
            size,
            data: data.to_vec(),
        }),
        ..Response::default()
    };
    Answer::Body(
        vec![("content-type", "application/x-protobuf")],
        response.encode_to_vec(),
    )
}

async fn read(net: &Net, agent: &str, length: u64) -> Result<Piece, FilesError> {
    let path = sandbox_file("f-0001", "t.1", "stdout");
    let wanted = Wanted {
        agent,
        path: &path,
        offset: 7,
        length,
    };
    read_file(net, wanted, None, &Timing::usual()).await
}

#[tokio::test(start_paused = true)]
async fn a_piece_of_a_sandbox_file_is_read() {
    let net = Net::with(&["a:5051"]);
    net.answer("a:5051", piece(b"\xff\x00bytes", 99));
    let got = read(&net, "a:5051", u64::MAX).await.unwrap();
    assert_eq!(
        got,
        Piece {
            data: b"\xff\x00bytes".to_vec(),
            size: 99
        }
    );
    let asked = net.look(|s| {
        (
            s.path.clone(),
            Call::decode(s.body.clone()).unwrap().read_file.unwrap(),
        )
    });
    let (path, asked) = &asked[0];
    assert_eq!(path, "/api/v1");
    assert_eq!(asked.path, "/frameworks/f-0001/executors/t.1/runs/latest/stdout");
    assert_eq!((asked.offset, asked.length), (7, Some(MAX_PIECE)));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_says_why() {
    let net = Net::with(&["a:5051"]);
    for (answer, hint, retryable) in [
        (
            Answer::Text(404, ""),
            "has no file /frameworks/f-0001/executors/t.1/runs/latest/stdout",
            false,
        ),
        (
            Answer::Text(403, "not authorized"),
            "refused to read /frameworks/f-0001/executors/t.1/runs/latest/stdout: 403 not authorized",
            false,
        ),
        (
            Answer::Body(vec![], b"<html>".to_vec()),
            "something that is not a piece of a file",
            false,
        ),
        (
            Answer::Body(vec![], vec![]),
            "something that is not a piece of a file",
            false,
        ),
        (
            piece(&[7; 100_000], 100_000),
            "something that is not a piece of a file",
            false,
        ),
        (
            Answer::Cut,
            "agent a:5051 did not answer: the connection broke",
            true,
        ),
        (
            Answer::Hang,
            "agent a:5051 did not answer: no answer within 75s",
            true,
        ),
    ] {
        net.answer("a:5051", answer);
        let error = read(&net, "a:5051", 10).await.unwrap_err();
        assert!(error.to_string().contains(hint), "{hint}: {error}");
        assert_eq!(error.is_retryable(), retryable, "{hint}");
    }
    let error = read(&net, "gone:5051", 10).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "agent gone:5051 did not answer: connecting failed: connection refused"
    );
}

#[test]
fn a_task_of_a_pod_has_a_folder_of_its_own() {
    assert_eq!(
        pod_file("f-1", "t.1", "t.1.log", "stderr"),
        "/frameworks/f-1/executors/t.1/runs/latest/tasks/t.1.log/stderr"
    );
}
