//! HTTP basic authentication of frameworks, as a master with `--authenticate_http_frameworks` does it (rule R5), and of operators.

use crate::http::Refusal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;

/// Who may call.
#[derive(Debug)]
pub(crate) struct Credentials(pub Vec<(String, String)>);

impl Credentials {
    /// The principal of a request; `None` where nobody is asked. This comes before any other check.
    pub(crate) fn principal(&self, authorization: Option<&str>) -> Result<Option<String>, Refusal> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let given = authorization.and_then(|text| text.strip_prefix("Basic "));
        let given = given.and_then(|text| STANDARD.decode(text).ok());
        let known = self
            .0
            .iter()
            .find(|(principal, secret)| given.as_deref() == Some(format!("{principal}:{secret}").as_bytes()));
        match known {
            Some((principal, _)) => Ok(Some(principal.clone())),
            None => Err(Refusal::new(StatusCode::UNAUTHORIZED, "401 Unauthorized.")),
        }
    }
}
