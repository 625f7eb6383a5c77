//! Which streams are obeyed: those whose opener says in its first message which leadership it took, as it is
//! stored. The row is read at SERIAL, once for each epoch. Until then what comes over a stream waits, and
//! nothing is told over it.

use crate::event::{Effect, LinkId};
use crate::purpose::Purpose;
use crate::{Phase, Shard};
use echelon_core_model::Epoch;
use echelon_core_model::directive::{Directive, Order, ReportPart};
use echelon_core_model::store::{Consistency, Leadership, Op, Query, Role};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Streams without proof that are kept open. One more closes the oldest of them.
const MOST_UNPROVEN: usize = 16;

/// Directives that wait for the proof of their stream. More are dropped: the resource manager repeats what it
/// wants.
const MOST_WAITING: usize = 256;

/// What is known of a stream's opener.
#[derive(Debug)]
enum Opener {
    /// It has said nothing yet.
    Unheard,
    /// What it says it took, and what it has said since.
    Unproven(Leadership, VecDeque<Directive>),
    /// It took this.
    Proven(Leadership),
}

/// All open streams. They stay when a leadership of ours ends; what is proven is proven again by the next
/// one.
#[derive(Debug, Default)]
pub(crate) struct Openers(BTreeMap<LinkId, Opener>);

impl Openers {
    /// Streams over which something is told, and whose directives are obeyed.
    pub(crate) fn proven(&self) -> Vec<LinkId> {
        let proven = self.0.iter().filter(|(_, o)| matches!(o, Opener::Proven(_)));
        proven.map(|(link, _)| *link).collect()
    }

    pub(crate) fn any_proven(&self) -> bool {
        self.0.values().any(|o| matches!(o, Opener::Proven(_)))
    }

    /// All that are open.
    pub(crate) fn all(&self) -> Vec<LinkId> {
        self.0.keys().copied().collect()
    }

    pub(crate) fn close(&mut self, link: LinkId) {
        self.0.remove(&link);
    }

    /// What an earlier leadership of ours has compared is compared again.
    pub(crate) fn forget_proofs(&mut self) {
        for opener in self.0.values_mut() {
            if let Opener::Proven(taken) | Opener::Unproven(taken, _) = opener {
                *opener = Opener::Unproven(std::mem::take(taken), VecDeque::new());
            }
        }
    }

    /// Opens a stream; which one is closed for it.
    fn open(&mut self, link: LinkId) -> Option<LinkId> {
        let mut unproven = self.0.iter().filter(|(_, o)| !matches!(o, Opener::Proven(_)));
        let oldest = unproven.next().map(|(link, _)| *link);
        let full = unproven.count() + 1 >= MOST_UNPROVEN;
        self.0.insert(link, Opener::Unheard);
        oldest.filter(|_| full)
    }

    fn unproven(&self) -> Vec<(LinkId, Leadership)> {
        let says = self.0.iter().filter_map(|(link, opener)| match opener {
            Opener::Unproven(taken, _) => Some((*link, taken.clone())),
            Opener::Unheard | Opener::Proven(_) => None,
        });
        says.collect()
    }

    /// The stream is proven; what waited for that.
    fn prove(&mut self, link: LinkId) -> VecDeque<Directive> {
        let Some(opener) = self.0.get_mut(&link) else {
            return VecDeque::new();
        };
        let Opener::Unproven(taken, waiting) = opener else {
            return VecDeque::new();
        };
        let (taken, waiting) = (std::mem::take(taken), std::mem::take(waiting));
        *opener = Opener::Proven(taken);
        waiting
    }
}

/// What is known of the resource manager's row.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// As it was last read.
    row: Option<Leadership>,
    /// Streams that had said what they took before the read began that is under way.
    asking: Option<BTreeSet<LinkId>>,
}

/// Whether a stored leadership is the one that an opener says it took. That storage was resumed is not the
/// opener's to say.
fn is_of(row: &Leadership, taken: &Leadership) -> bool {
    (row.epoch, &row.holder, row.proof) == (taken.epoch, &taken.holder, taken.proof)
}

impl Shard {
    pub(crate) fn on_link_opened(&mut self, link: LinkId) {
        if let Some(oldest) = self.links.open(link) {
            self.refuse(
                oldest,
                "too many streams have no proof yet, and it is the oldest".to_owned(),
            );
        }
    }

    /// A directive of a stream: it waits for the proof, or for what the shard must know before it obeys.
    pub(crate) fn on_directive(&mut self, link: LinkId, directive: Directive) {
        let Some(opener) = self.links.0.get_mut(&link) else {
            return;
        };
        match (opener, directive.order) {
            (opener @ Opener::Unheard, Order::Hello(taken)) if taken.epoch == directive.epoch => {
                *opener = Opener::Unproven(taken, VecDeque::new());
                self.prove_streams();
            }
            (Opener::Unheard, Order::Hello(taken)) => self.refuse(
                link,
                format!(
                    "its opener took epoch {} and orders by epoch {}",
                    taken.epoch, directive.epoch
                ),
            ),
            (Opener::Unheard, _) => self.refuse(link, "its first message is no Hello".to_owned()),
            (_, Order::Hello(_)) => self.refuse(link, "it says Hello twice".to_owned()),
            (Opener::Unproven(taken, _) | Opener::Proven(taken), _) if taken.epoch != directive.epoch => {
                let why = format!(
                    "its opener took epoch {} and orders by epoch {}",
                    taken.epoch, directive.epoch
                );
                self.refuse(link, why);
            }
            (Opener::Unproven(_, waiting), order) if waiting.len() < MOST_WAITING => {
                waiting.push_back(Directive { order, ..directive });
            }
            (Opener::Unproven(..), _) => {}
            (Opener::Proven(_), order) => self.take_directive(link, Directive { order, ..directive }),
        }
    }

    /// Compares what openers say with the row, as far as it is known, and reads it for the others.
    pub(crate) fn prove_streams(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        let mut unknown = BTreeSet::new();
        for (link, taken) in self.links.unproven() {
            match &self.proof.row {
                Some(row) if is_of(row, &taken) => self.obey_stream(link),
                Some(row) if row.epoch > taken.epoch => {
                    let newer = row.epoch;
                    self.supersede(link, newer);
                }
                _ => {
                    unknown.insert(link);
                }
            }
        }
        if !unknown.is_empty() && self.proof.asking.is_none() {
            self.proof.asking = Some(unknown);
            let query = Query::Leadership(Role::ResourceManager);
            self.ask(Op::Read(query, Consistency::Serial), Purpose::Proof);
        }
    }

    /// The row was read: what was said before the read began is true by it or not at all.
    pub(crate) fn on_proof(&mut self, row: Leadership) {
        let asking = self.proof.asking.take().unwrap_or_default();
        for (link, taken) in self.links.unproven() {
            if asking.contains(&link) && !is_of(&row, &taken) && row.epoch <= taken.epoch {
                let why = format!("storage does not know that its opener took epoch {}", taken.epoch);
                self.refuse(link, why);
            }
        }
        self.proof.row = Some(row);
        self.prove_streams();
    }

    fn obey_stream(&mut self, link: LinkId) {
        let waiting = self.links.prove(link);
        self.out.push(Effect::Admit(link));
        // While some groups are not served a full report would say that nothing of them is here.
        if !self.is_recovering() {
            self.report_fully(link);
        }
        for directive in waiting {
            self.take_directive(link, directive);
        }
    }

    fn supersede(&mut self, link: LinkId, newer: Epoch) {
        self.tell(link, ReportPart::Superseded(newer));
        self.refuse(link, format!("epoch {newer} has taken over"));
    }

    /// Ends a stream.
    pub(crate) fn refuse(&mut self, link: LinkId, why: String) {
        self.out.push(Effect::Refuse { link, why });
        self.on_link_closed(link);
    }
}
