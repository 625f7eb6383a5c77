//! Reasons to the public wire, as words for programs and a sentence for people.

use super::quantity::kind;
use crate::echelon::v1;
use echelon_core_model::reason::{Layer, Reason, Shortfall};

/// To the wire.
#[must_use]
pub fn reason(r: &Reason) -> v1::Reason {
    v1::Reason {
        code: r.code.word(),
        number: r.code.number(),
        layer: layer(r.code.layer()).into(),
        message: r.to_string(),
        shortfall: r.shortfall.as_deref().copied().map(shortfall),
        detail: r.detail.as_deref().unwrap_or_default().to_owned(),
    }
}

fn shortfall(s: Shortfall) -> v1::Shortfall {
    v1::Shortfall {
        kind: kind(s.kind).into(),
        have: s.have,
        need: s.need,
    }
}

const fn layer(layer: Layer) -> v1::Layer {
    match layer {
        Layer::Goal => v1::Layer::Goal,
        Layer::Pool => v1::Layer::Pool,
        Layer::Routing => v1::Layer::Routing,
        Layer::Placement => v1::Layer::Placement,
        Layer::Launch => v1::Layer::Launch,
        Layer::Run => v1::Layer::Run,
        Layer::System => v1::Layer::System,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::ReasonCode;

    #[test]
    fn a_reason_carries_word_number_and_sentence() {
        let told = reason(&Reason::new(ReasonCode::PoolLimit).at("/ml"));
        assert_eq!((told.code.as_str(), told.number), ("POOL_LIMIT", 11));
        assert_eq!(told.layer(), v1::Layer::Pool);
        assert_eq!(told.message, "its pool's limit is reached (/ml)");
    }
}
