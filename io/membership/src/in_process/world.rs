//! The state of an in-process world: who stands in which queue, who is cut off, what is published.
//!
//! Every change happens under the hub's lock and tells the losers before the winners, so that no two candidates of a
//! role ever read as leaders. No clock: the hub calls when a time-out has passed.

use crate::standing::StandingCell;
use crate::{CandidateRecord, LeaderRecord, Member, MembershipError, Role, Sighting, Standing, Term};
use echelon_core_model::store::Stamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// Names a place for its holder; stays the same over rejoins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SeatId(u64);

/// Counts cuts, so that an old cut's timer does nothing to a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CutId(u64);

#[derive(Debug, Default)]
pub(super) struct World {
    last_number: u64,
    cuts: BTreeMap<String, CutId>,
    roles: BTreeMap<Role, Election>,
}

#[derive(Debug, Default)]
struct Election {
    candidates: BTreeMap<SeatId, Candidate>,
    registered: BTreeMap<SeatId, Registered>,
    highest: Option<(Stamp, Term)>,
    sightings: watch::Sender<Sighting>,
}

#[derive(Debug)]
struct Candidate {
    connection: String,
    standing: Arc<StandingCell>,
    record: CandidateRecord,
    /// The place in the queue and, once it leads, the term; none while it has no session.
    place: Option<Term>,
}

#[derive(Debug)]
struct Registered {
    connection: String,
    member: Member,
    present: bool,
}

impl World {
    pub(super) fn join(
        &mut self,
        role: &Role,
        connection: &str,
        candidate: (Arc<StandingCell>, CandidateRecord),
    ) -> SeatId {
        let (standing, record) = candidate;
        let id = SeatId(self.number());
        let place = (!self.is_cut(connection)).then(|| Term(self.number()));
        let candidate = Candidate {
            connection: connection.to_owned(),
            standing,
            record,
            place,
        };
        self.election(role).candidates.insert(id, candidate);
        self.settle();
        id
    }

    pub(super) fn register(&mut self, role: &Role, connection: &str, member: Member) -> SeatId {
        let id = SeatId(self.number());
        let present = !self.is_cut(connection);
        let registered = Registered {
            connection: connection.to_owned(),
            member,
            present,
        };
        self.election(role).registered.insert(id, registered);
        id
    }

    pub(super) fn leave(&mut self, role: &Role, id: SeatId) {
        let election = self.election(role);
        election.registered.remove(&id);
        if let Some(candidate) = election.candidates.remove(&id) {
            candidate.standing.lose();
        }
        self.settle();
    }

    pub(super) fn describe(&mut self, role: &Role, id: SeatId, record: CandidateRecord) {
        if let Some(candidate) = self.election(role).candidates.get_mut(&id) {
            candidate.record = record;
        }
    }

    pub(super) fn candidates(&mut self, role: &Role) -> Vec<CandidateRecord> {
        let candidates = self.election(role).candidates.values();
        let present = candidates.filter(|c| c.place.is_some());
        present.map(|c| c.record.clone()).collect()
    }

    pub(super) fn members(&mut self, role: &Role) -> Vec<Member> {
        let present = self.election(role).registered.values().filter(|r| r.present);
        // A process that came back while its old session lives is one member, where it is now.
        present
            .map(|r| (r.member.id.clone(), r.member.clone()))
            .collect::<BTreeMap<_, _>>()
            .into_values()
            .collect()
    }

    pub(super) fn sightings(&mut self, role: &Role) -> &watch::Sender<Sighting> {
        &self.election(role).sightings
    }

    pub(super) fn newest_stamp(&mut self, role: &Role) -> Option<Stamp> {
        self.election(role).highest.map(|(stamp, _)| stamp)
    }

    pub(super) fn mark(
        &mut self,
        role: &Role,
        id: SeatId,
        (term, stamp): (Term, Stamp),
    ) -> Result<(), MembershipError> {
        let election = self.election(role);
        let leads = election
            .candidates
            .get(&id)
            .is_some_and(|c| c.standing.now() == Standing::Leader(term));
        match &mut election.highest {
            Some((published, by)) if leads && *by == term && published.epoch == stamp.epoch => {
                *published = stamp.max(*published);
                Ok(())
            }
            _ => Err(MembershipError::NotLeader { role: role.clone() }),
        }
    }

    pub(super) fn publish(
        &mut self,
        role: &Role,
        id: SeatId,
        term: Term,
        record: LeaderRecord,
    ) -> Result<(), MembershipError> {
        let election = self.election(role);
        let leads = election
            .candidates
            .get(&id)
            .is_some_and(|c| c.standing.now() == Standing::Leader(term));
        if !leads {
            return Err(MembershipError::NotLeader { role: role.clone() });
        }
        match election.highest {
            Some((published, by))
                if record.epoch < published.epoch || (record.epoch == published.epoch && by != term) =>
            {
                Err(MembershipError::EpochBehind {
                    role: role.clone(),
                    published: published.epoch,
                    offered: record.epoch,
                })
            }
            before => {
                let first = Stamp {
                    epoch: record.epoch,
                    sequence: 0,
                };
                // A repetition takes nothing of what was told since.
                let stamp = before.map_or(first, |(published, _)| first.max(published));
                election.highest = Some((stamp, term));
                election.sightings.send_replace(Sighting::Held(record));
                Ok(())
            }
        }
    }

    pub(super) fn is_cut(&self, connection: &str) -> bool {
        self.cuts.contains_key(connection)
    }

    /// Nothing if the connection is cut already.
    pub(super) fn cut(&mut self, connection: &str) -> Option<CutId> {
        if self.is_cut(connection) {
            return None;
        }
        let cut = CutId(self.number());
        self.cuts.insert(connection.to_owned(), cut);
        self.candidates_of(connection).for_each(|c| c.standing.suspend());
        Some(cut)
    }

    /// The members' own deadline is over: they no longer count on their places.
    pub(super) fn give_up(&mut self, connection: &str, cut: CutId) {
        if self.cuts.get(connection) == Some(&cut) {
            self.candidates_of(connection).for_each(|c| c.standing.lose());
        }
    }

    /// The session timeout is over: the places are free.
    pub(super) fn forget(&mut self, connection: &str, cut: CutId) {
        if self.cuts.get(connection) == Some(&cut) {
            self.end_sessions(connection);
            self.settle();
        }
    }

    pub(super) fn heal(&mut self, connection: &str) {
        if self.cuts.remove(connection).is_some() {
            self.rejoin(connection);
            self.settle();
        }
    }

    pub(super) fn expire(&mut self, connection: &str) {
        self.end_sessions(connection);
        // Whoever stood behind goes first.
        self.settle();
        if !self.is_cut(connection) {
            self.rejoin(connection);
            self.settle();
        }
    }

    fn end_sessions(&mut self, connection: &str) {
        for election in self.roles.values_mut() {
            for candidate in election
                .candidates
                .values_mut()
                .filter(|c| c.connection == connection)
            {
                candidate.standing.lose();
                candidate.place = None;
            }
            for registered in election
                .registered
                .values_mut()
                .filter(|r| r.connection == connection)
            {
                registered.present = false;
            }
        }
    }

    /// Gives new places to who has none or has given up its own.
    fn rejoin(&mut self, connection: &str) {
        let mut last_number = self.last_number;
        for election in self.roles.values_mut() {
            for candidate in election
                .candidates
                .values_mut()
                .filter(|c| c.connection == connection)
            {
                if candidate.place.is_none() || matches!(candidate.standing.now(), Standing::Lost(_)) {
                    last_number += 1;
                    candidate.place = Some(Term(last_number));
                    candidate.standing.follow();
                }
            }
            for registered in election
                .registered
                .values_mut()
                .filter(|r| r.connection == connection)
            {
                registered.present = true;
            }
        }
        self.last_number = last_number;
    }

    /// The first of each queue leads, if it can hear of it; a record whose leader is gone goes.
    fn settle(&mut self) {
        for election in self.roles.values() {
            let first = election
                .candidates
                .values()
                .filter(|c| c.place.is_some())
                .min_by_key(|c| c.place);
            let term = first.and_then(|c| c.place);
            if election.highest.map(|(_, by)| by) != term {
                election
                    .sightings
                    .send_if_modified(|seen| std::mem::replace(seen, Sighting::Vacant) != Sighting::Vacant);
            }
            if let (Some(first), Some(term)) = (first, term)
                && !self.cuts.contains_key(&first.connection)
            {
                first.standing.lead(term, None);
            }
        }
    }

    fn candidates_of(&self, connection: &str) -> impl Iterator<Item = &Candidate> {
        self.roles
            .values()
            .flat_map(|e| e.candidates.values())
            .filter(move |c| c.connection == connection)
    }

    fn election(&mut self, role: &Role) -> &mut Election {
        self.roles.entry(role.clone()).or_insert_with(|| Election {
            sightings: watch::Sender::new(Sighting::Vacant),
            ..Election::default()
        })
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}
