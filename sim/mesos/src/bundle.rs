//! Amounts of resources: exact thousandths of the four scalar kinds and ranges of ports (rule R79), and their form on
//! the wire. Other kinds, reservations and volumes are not simulated.

use echelon_proto::mesos::v1::{Attribute, Resource, resource::AllocationInfo, value};

/// An amount of each kind. Scalars count thousandths, so sums are exact; ports are sorted, disjoint, inclusive ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bundle {
    /// Thousandths of a CPU.
    pub cpus: u64,
    /// Thousandths of a MiB.
    pub mem: u64,
    /// Thousandths of a MiB.
    pub disk: u64,
    /// Thousandths of a GPU.
    pub gpus: u64,
    /// Ranges of ports, both ends included.
    pub ports: Vec<(u64, u64)>,
}

/// What is wrong with resources, in Mesos' words.
pub(crate) type Problem = String;

impl Bundle {
    /// Whole CPUs and MiB, without ports and GPUs.
    #[must_use]
    pub const fn of(cpus: u64, mem: u64, disk: u64) -> Self {
        let (cpus, mem, disk) = (cpus * 1000, mem * 1000, disk * 1000);
        Self {
            cpus,
            mem,
            disk,
            gpus: 0,
            ports: Vec::new(),
        }
    }

    /// Adds a range of ports, both ends included.
    #[must_use]
    pub fn with_ports(mut self, first: u64, last: u64) -> Self {
        self.ports = merge_ranges(self.ports.into_iter().chain([(first, last)]).collect());
        self
    }

    /// Adds whole GPUs.
    #[must_use]
    pub const fn with_gpus(mut self, gpus: u64) -> Self {
        self.gpus = gpus * 1000;
        self
    }

    /// The scalar kinds in a fixed order.
    pub(crate) const fn scalars(&self) -> [(&'static str, u64); 4] {
        [
            ("cpus", self.cpus),
            ("mem", self.mem),
            ("disk", self.disk),
            ("gpus", self.gpus),
        ]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.scalars().iter().all(|(_, amount)| *amount == 0) && self.ports.is_empty()
    }

    /// Whether an offer of it would be of use: 0.01 CPUs or 32 MiB (rule R69).
    pub(crate) const fn is_allocatable(&self) -> bool {
        self.cpus >= 10 || self.mem >= 32_000
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.cpus = self.cpus.saturating_add(other.cpus);
        self.mem = self.mem.saturating_add(other.mem);
        self.disk = self.disk.saturating_add(other.disk);
        self.gpus = self.gpus.saturating_add(other.gpus);
        if !other.ports.is_empty() {
            self.ports = merge_ranges(self.ports.iter().chain(&other.ports).copied().collect());
        }
    }

    /// Takes `other` away as far as it is there.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.cpus = self.cpus.saturating_sub(other.cpus);
        self.mem = self.mem.saturating_sub(other.mem);
        self.disk = self.disk.saturating_sub(other.disk);
        self.gpus = self.gpus.saturating_sub(other.gpus);
        for taken in &other.ports {
            self.ports = self
                .ports
                .iter()
                .flat_map(|range| cut(*range, *taken))
                .flatten()
                .collect();
        }
    }

    pub(crate) fn contains(&self, other: &Self) -> bool {
        let enough = self
            .scalars()
            .iter()
            .zip(other.scalars())
            .all(|((_, have), (_, need))| *have >= need);
        enough
            && other
                .ports
                .iter()
                .all(|(first, last)| self.ports.iter().any(|(a, b)| a <= first && last <= b))
    }

    /// Reads a task's resources. Kinds that are not simulated count as a problem: no agent has any.
    pub(crate) fn read(resources: &[Resource]) -> Result<Self, Problem> {
        let mut bundle = Self::default();
        for resource in resources {
            bundle.add(&read_one(resource)?);
        }
        Ok(bundle)
    }

    /// The resources of an offer: in the order and form of a real master, allocated to `role`.
    pub(crate) fn write(&self, role: Option<&str>) -> Vec<Resource> {
        let allocation = role.map(|role| AllocationInfo {
            role: Some(role.to_owned()),
        });
        let plain = |name: &str, kind: value::Type| Resource {
            name: name.to_owned(),
            r#type: kind.into(),
            allocation_info: allocation.clone(),
            ..Default::default()
        };
        let ports = (!self.ports.is_empty()).then(|| Resource {
            ranges: Some(value::Ranges {
                range: self
                    .ports
                    .iter()
                    .map(|(begin, end)| value::Range {
                        begin: *begin,
                        end: *end,
                    })
                    .collect(),
            }),
            ..plain("ports", value::Type::Ranges)
        });
        let scalars = self
            .scalars()
            .into_iter()
            .filter(|(_, amount)| *amount > 0)
            .map(|(name, amount)| {
                let scalar = Some(value::Scalar {
                    value: from_thousandths(amount),
                });
                Resource {
                    scalar,
                    ..plain(name, value::Type::Scalar)
                }
            });
        ports.into_iter().chain(scalars).collect()
    }

    /// As Mesos prints it in messages: `cpus(allocated: *):0.1; mem(allocated: *):32`.
    pub(crate) fn text(&self, role: &str) -> String {
        let mut parts = Vec::new();
        if !self.ports.is_empty() {
            let ranges: Vec<String> = self.ports.iter().map(|(a, b)| format!("{a}-{b}")).collect();
            parts.push(format!("ports(allocated: {role}):[{}]", ranges.join(", ")));
        }
        for (name, amount) in self.scalars().into_iter().filter(|(_, amount)| *amount > 0) {
            parts.push(format!("{name}(allocated: {role}):{}", from_thousandths(amount)));
        }
        parts.join("; ")
    }
}

fn read_one(resource: &Resource) -> Result<Bundle, Problem> {
    let mut bundle = Bundle::default();
    let name = resource.name.as_str();
    if name == "ports" {
        let ranges = resource
            .ranges
            .as_ref()
            .map(|ranges| ranges.range.as_slice())
            .unwrap_or_default();
        if let Some(bad) = ranges.iter().find(|range| range.begin > range.end) {
            return Err(format!(
                "Resource 'ports:[{}-{}]' is invalid: Invalid ranges resource: begin > end",
                bad.begin, bad.end
            ));
        }
        bundle.ports = merge_ranges(ranges.iter().map(|range| (range.begin, range.end)).collect());
        return Ok(bundle);
    }
    let value = resource.scalar.as_ref().map_or(0.0, |scalar| scalar.value);
    let amount = to_thousandths(value);
    if amount == 0 {
        return Err(format!(
            "Resource '{name}:{value}' is invalid: Invalid scalar resource: value <= 0"
        ));
    }
    match name {
        "cpus" => bundle.cpus = amount,
        "mem" => bundle.mem = amount,
        "disk" => bundle.disk = amount,
        "gpus" if amount.is_multiple_of(1000) => bundle.gpus = amount,
        "gpus" => {
            return Err(
                "Task uses invalid resources: Invalid 'gpus' resource: The 'gpus' resource must be an \
                        unsigned integer"
                    .to_owned(),
            );
        }
        other => return Err(format!("Resource '{other}' is not simulated: no agent offers it")),
    }
    Ok(bundle)
}

/// Rounds to thousandths; what is negative or no number is 0.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such casts saturate, NaN is 0"
)]
pub(crate) fn to_thousandths(value: f64) -> u64 {
    (value * 1000.0).round() as u64
}

#[allow(clippy::cast_precision_loss, reason = "no amount reaches 2^53 thousandths")]
pub(crate) fn from_thousandths(amount: u64) -> f64 {
    amount as f64 / 1000.0
}

/// What is left of `range` below and above `taken`.
fn cut(range: (u64, u64), taken: (u64, u64)) -> [Option<(u64, u64)>; 2] {
    let (first, last) = range;
    if taken.1 < first || last < taken.0 {
        return [Some(range), None];
    }
    let below = (first < taken.0).then(|| (first, taken.0.saturating_sub(1)));
    let above = (taken.1 < last).then(|| (taken.1.saturating_add(1), last));
    [below, above]
}

fn merge_ranges(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(previous) if first <= previous.1.saturating_add(1) => previous.1 = previous.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// An attribute with a text value, as `--attributes=rack:r1` makes it.
#[must_use]
pub fn text_attribute(name: &str, value: &str) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: value::Type::Text.into(),
        text: Some(value::Text {
            value: value.to_owned(),
        }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let all = Bundle::of(4, 1024, 100).with_ports(31000, 31010).with_gpus(2);
        let part = Bundle {
            cpus: 100,
            mem: 32_000,
            ports: vec![(31002, 31003)],
            ..Bundle::default()
        };
        let mut free = all.clone();
        free.subtract(&part);
        assert_eq!(free.ports, [(31000, 31001), (31004, 31010)]);
        assert!(all.contains(&part) && all.contains(&free) && !free.contains(&part) && !free.contains(&all));
        free.add(&part);
        assert_eq!(free, all);
        assert_eq!(Bundle::read(&all.write(Some("*"))), Ok(all));
    }

    #[test]
    fn a_tenth_of_a_cpu_ten_times_is_a_cpu() {
        let mut sum = Bundle::default();
        for _ in 0..10 {
            sum.add(&Bundle {
                cpus: to_thousandths(0.1),
                ..Bundle::default()
            });
        }
        assert_eq!(sum, Bundle::of(1, 0, 0));
    }

    #[test]
    fn bad_amounts_are_refused_in_the_words_of_mesos() {
        let scalar = |name: &str, value: f64| Resource {
            name: name.to_owned(),
            scalar: Some(value::Scalar { value }),
            ..Default::default()
        };
        for (resource, words) in [
            (scalar("cpus", -1.0), "value <= 0"),
            (scalar("cpus", f64::NAN), "value <= 0"),
            (scalar("mem", 0.0), "value <= 0"),
            (scalar("gpus", 0.5), "unsigned integer"),
            (scalar("unicorns", 1.0), "not simulated"),
            (
                Resource {
                    name: "ports".to_owned(),
                    ranges: Some(value::Ranges {
                        range: vec![value::Range { begin: 5, end: 1 }],
                    }),
                    ..Default::default()
                },
                "begin > end",
            ),
        ] {
            let error = Bundle::read(&[resource]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(Bundle::read(&[scalar("cpus", f64::INFINITY)]).unwrap().cpus == u64::MAX);
    }
}
