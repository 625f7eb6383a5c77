//! A small client of Cassandra's own protocol: one connection for each statement, without log-in. It shares nothing with the
//! driver of the product, so that what it reads was not read by what is judged.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// How long a node may take to take a connection and for each read.
const PATIENCE: Duration = Duration::from_secs(10);

const VERSION: u8 = 4;
const STARTUP: u8 = 1;
const READY: u8 = 2;
const QUERY: u8 = 7;
const RESULT: u8 = 8;

/// A majority of the copies.
const QUORUM: u16 = 4;

/// Longest answer that is taken: the server's own limit.
const MAX_ANSWER: u32 = 256 * 1024 * 1024;

/// The values of a row in the order of its columns; none where a value is absent.
pub type Row = Vec<Option<Vec<u8>>>;

/// Nodes of one cluster.
#[derive(Debug, Clone)]
pub struct Cql {
    nodes: Vec<SocketAddr>,
}

impl Cql {
    /// A client of these nodes.
    #[must_use]
    pub const fn new(nodes: Vec<SocketAddr>) -> Self {
        Self { nodes }
    }

    /// Carries out a statement at the first node that answers, with a majority of the copies; its rows.
    ///
    /// # Errors
    /// No node answers, or one refuses the statement.
    pub fn rows(&self, statement: &str) -> Result<Vec<Row>> {
        let mut last = None;
        for node in &self.nodes {
            match ask(*node, statement) {
                Ok(rows) => return Ok(rows),
                Err(error) => last = Some(error.context(format!("{node}: {}", shown(statement)))),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("there is no node")))
    }
}

/// A statement without its long values.
fn shown(statement: &str) -> String {
    statement.chars().take(200).collect()
}

fn ask(node: SocketAddr, statement: &str) -> Result<Vec<Row>> {
    let mut stream = TcpStream::connect_timeout(&node, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // a map of one entry
    let options = [&1u16.to_be_bytes()[..], &text("CQL_VERSION")?, &text("3.0.0")?].concat();
    send(&mut stream, STARTUP, &options)?;
    let (opcode, body) = receive(&mut stream)?;
    ensure!(opcode == READY, "{}", refusal(opcode, &body));
    let length = u32::try_from(statement.len())?;
    let no_flags = [0];
    let query = [
        &length.to_be_bytes()[..],
        statement.as_bytes(),
        &QUORUM.to_be_bytes(),
        &no_flags,
    ];
    send(&mut stream, QUERY, &query.concat())?;
    let (opcode, body) = receive(&mut stream)?;
    ensure!(opcode == RESULT, "{}", refusal(opcode, &body));
    result(&body).context("an answer that breaks off or is of an unknown kind")
}

fn text(text: &str) -> Result<Vec<u8>> {
    let length = u16::try_from(text.len())?;
    Ok([&length.to_be_bytes()[..], text.as_bytes()].concat())
}

fn send(stream: &mut TcpStream, opcode: u8, body: &[u8]) -> Result<()> {
    let length = u32::try_from(body.len())?;
    let head = [VERSION, 0, 0, 0, opcode];
    Ok(stream.write_all(&[&head[..], &length.to_be_bytes(), body].concat())?)
}

fn receive(stream: &mut TcpStream) -> Result<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let [_, _, _, _, opcode, length @ ..] = head;
    let length = u32::from_be_bytes(length);
    if length > MAX_ANSWER {
        bail!("an answer of {length} bytes");
    }
    let mut body = vec![0; usize::try_from(length)?];
    stream.read_exact(&mut body)?;
    Ok((opcode, body))
}

/// What a node says instead of an answer: a number and a sentence.
fn refusal(opcode: u8, body: &[u8]) -> String {
    let mut from = Reader(body);
    let told = from.number().zip(from.text());
    told.map_or_else(
        || format!("answer {opcode} was not expected"),
        |(code, text)| format!("error {code:#x}: {text}"),
    )
}

/// What is left of an answer.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<String> {
        let length = self.short()?;
        Some(String::from_utf8_lossy(self.take(length.into())?).into_owned())
    }

    /// A value; the inner none: it is absent.
    fn value(&mut self) -> Option<Option<Vec<u8>>> {
        match usize::try_from(self.number()?) {
            Ok(length) => Some(Some(self.take(length)?.to_vec())),
            Err(_) => Some(None),
        }
    }
}

/// The rows of a result; none of a result that has no rows.
fn result(body: &[u8]) -> Option<Vec<Row>> {
    const ROWS: i32 = 2;
    const ONE_TABLE: i32 = 1;
    const MORE_PAGES: i32 = 2;
    /// The first type that has others in it: lists, maps and the like, which no table of Echelon has.
    const NESTED: u16 = 0x20;
    let mut from = Reader(body);
    if from.number()? != ROWS {
        return Some(Vec::new());
    }
    let flags = from.number()?;
    let n_columns = usize::try_from(from.number()?).ok()?;
    if flags & MORE_PAGES != 0 {
        // no page size was asked for
        return None;
    }
    if flags & ONE_TABLE != 0 {
        from.text()?;
        from.text()?;
    }
    for _ in 0..n_columns {
        if flags & ONE_TABLE == 0 {
            from.text()?;
            from.text()?;
        }
        from.text()?;
        let kind = from.short()?;
        if kind == 0 || kind >= NESTED {
            return None;
        }
    }
    let n_rows = from.number()?;
    (0..n_rows)
        .map(|_| (0..n_columns).map(|_| from.value()).collect())
        .collect()
}

/// Bytes as a statement has them: `0x0aff`.
#[must_use]
pub fn blob(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// The number of a `bigint`.
#[must_use]
pub fn bigint(value: Option<&Option<Vec<u8>>>) -> Option<i64> {
    let bytes = value?.as_ref()?.as_slice();
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

/// The text of a `text`.
#[must_use]
pub fn string(value: Option<&Option<Vec<u8>>>) -> Option<String> {
    String::from_utf8(value?.clone()?).ok()
}

/// Whether the transaction of a statement with a condition was carried out.
#[must_use]
pub fn applied(rows: &[Row]) -> bool {
    let first = rows.first().and_then(|row| row.first());
    matches!(first, Some(Some(value)) if value == &[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result of one column `name` of type text with these values.
    fn answer(values: &[Option<&str>]) -> Vec<u8> {
        let mut body = Vec::new();
        for number in [2i32, 1, 1] {
            body.extend(number.to_be_bytes());
        }
        for word in ["soak", "names", "name"] {
            body.extend(text(word).unwrap());
        }
        body.extend(13u16.to_be_bytes());
        body.extend(i32::try_from(values.len()).unwrap().to_be_bytes());
        for value in values {
            match value {
                Some(value) => {
                    body.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
                    body.extend(value.as_bytes());
                }
                None => body.extend((-1i32).to_be_bytes()),
            }
        }
        body
    }

    #[test]
    fn rows_are_read_from_an_answer() {
        let rows = result(&answer(&[Some("a"), None])).unwrap();
        assert_eq!(rows, [vec![Some(b"a".to_vec())], vec![None]]);
        assert_eq!(string(rows[0].first()), Some("a".to_owned()));
        assert_eq!(bigint(Some(&Some(vec![0, 0, 0, 0, 0, 0, 1, 2]))), Some(258));
        // nothing but that it was done
        assert_eq!(result(&1i32.to_be_bytes()), Some(vec![]));
        let whole = answer(&[Some("a")]);
        assert_eq!(result(&whole[..whole.len() - 1]), None);
    }

    #[test]
    fn a_statement_has_its_bytes_as_digits() {
        assert_eq!(blob(&[0, 0x1f, 0xff]), "0x001fff");
        assert!(applied(&[vec![Some(vec![1])]]));
        assert!(!applied(&[vec![Some(vec![0])]]) && !applied(&[]));
    }
}
