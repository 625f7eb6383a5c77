//! Exact amounts of the five kinds that are simulated: thousandths of the four scalars, and ranges of ports (rule R79).

/// An amount of each kind. Scalars count thousandths, so sums are exact; ports are sorted, disjoint, inclusive ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Amount {
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

impl Amount {
    /// The scalar kinds in a fixed order.
    pub(crate) const fn scalars(&self) -> [(&'static str, u64); 4] {
        [
            ("cpus", self.cpus),
            ("mem", self.mem),
            ("disk", self.disk),
            ("gpus", self.gpus),
        ]
    }

    /// The scalar kind of a name.
    pub(crate) fn scalar_mut(&mut self, name: &str) -> Option<&mut u64> {
        match name {
            "cpus" => Some(&mut self.cpus),
            "mem" => Some(&mut self.mem),
            "disk" => Some(&mut self.disk),
            "gpus" => Some(&mut self.gpus),
            _ => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.scalars().iter().all(|(_, amount)| *amount == 0) && self.ports.is_empty()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.add_scalars(other);
        self.add_ports(&other.ports);
    }

    pub(crate) const fn add_scalars(&mut self, other: &Self) {
        self.cpus = self.cpus.saturating_add(other.cpus);
        self.mem = self.mem.saturating_add(other.mem);
        self.disk = self.disk.saturating_add(other.disk);
        self.gpus = self.gpus.saturating_add(other.gpus);
    }

    pub(crate) fn add_ports(&mut self, ports: &[(u64, u64)]) {
        if !ports.is_empty() {
            self.ports = merge_ranges(self.ports.iter().chain(ports).copied().collect());
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

    /// The names of the kinds of which there is any.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &'static str> + '_ {
        let scalars = self.scalars().into_iter().filter(|(_, amount)| *amount > 0);
        let ports = (!self.ports.is_empty()).then_some("ports");
        scalars.map(|(name, _)| name).chain(ports)
    }
}

/// Rounds to thousandths; what is negative or no number is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such casts saturate, NaN is 0"
)]
pub(crate) fn to_thousandths(value: f64) -> u64 {
    (value * 1000.0).round() as u64
}

#[expect(clippy::cast_precision_loss, reason = "no amount reaches 2^53 thousandths")]
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
