//! The labels of a cluster: known ones, which routing and people understand, and a user's own.

use std::collections::BTreeMap;
use std::fmt;

/// Most labels of a cluster.
pub const MAX_CLUSTER_LABELS: usize = 64;

/// A label that Echelon knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownLabel {
    /// Company that runs the machines, such as `aws`.
    Provider,
    /// Region of that provider.
    Region,
    /// Zone of that region.
    Zone,
    /// Price of one core for one hour: a decimal number in the currency of all clusters.
    CoreHour,
    /// Price of one GPU for one hour.
    GpuHour,
    /// Price of one gigabyte that leaves the cluster.
    EgressGigabyte,
    /// Kinds of GPU that its hosts have, separated by commas.
    GpuKinds,
}

impl KnownLabel {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Provider,
        Self::Region,
        Self::Zone,
        Self::CoreHour,
        Self::GpuHour,
        Self::EgressGigabyte,
        Self::GpuKinds,
    ];

    /// Its key.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Region => "region",
            Self::Zone => "zone",
            Self::CoreHour => "cost_core_hour",
            Self::GpuHour => "cost_gpu_hour",
            Self::EgressGigabyte => "cost_egress_gb",
            Self::GpuKinds => "gpu_kinds",
        }
    }

    /// Whether its value is a price.
    #[must_use]
    pub const fn is_price(self) -> bool {
        matches!(self, Self::CoreHour | Self::GpuHour | Self::EgressGigabyte)
    }
}

/// An amount of money in millionths of the currency that all clusters use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(pub u64);

impl Price {
    /// Largest price: a million.
    pub const MAX: Self = Self(1_000_000_000_000);

    /// Reads a decimal number with at most six places, from 0 to a million.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, places) = text.split_once('.').unwrap_or((text, ""));
        let are_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !are_digits(whole) || !are_digits(places) || places.len() > 6 {
            return None;
        }
        let whole: u64 = whole.parse().ok()?;
        let places: u64 = format!("{places:0<6}").parse().ok()?;
        let millionths = whole.checked_mul(1_000_000)?.checked_add(places)?;
        Some(Self(millionths)).filter(|price| *price <= Self::MAX)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The price that a label states. `None` if there is no such label, or no price in it.
#[must_use]
pub fn price(labels: &BTreeMap<String, String>, label: KnownLabel) -> Option<Price> {
    labels.get(label.key()).and_then(|text| Price::parse(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_and_written_exactly() {
        for (text, millionths) in [
            ("0", 0),
            ("0.034", 34_000),
            ("12", 12_000_000),
            ("1.000001", 1_000_001),
            ("1000000", 1_000_000_000_000),
        ] {
            let price = Price::parse(text).unwrap();
            assert_eq!(price, Price(millionths), "{text}");
            assert_eq!(price.to_string(), text);
        }
        for wrong in ["", ".5", "-1", "1e3", "0.1234567", "1000001", "free", "1.5 "] {
            assert_eq!(Price::parse(wrong), None, "{wrong}");
        }
    }
}
