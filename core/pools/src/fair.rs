//! Who is next in a pool that is fair to its users: among equals in priority the user who has the least of it, by dominant share, with
//! his oldest job. Who is behind catches up at once; where users are level, each gets a small part of what is left, so that a million
//! instances take no million steps, and at the end one at a time: users who want more end within one instance of each other.

use crate::admit::{Admission, Request, Route, admit_one};
use crate::fill::Turn as Fraction;
use crate::hierarchy::PoolIdx;
use crate::queue::{Likeness, Turn};
use crate::rooms::{Left, Rooms};
use echelon_core_model::resources::{Kind, Resources};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// Those who wait in one pool on one side, by user.
pub(crate) struct Users<'a, I> {
    pool: PoolIdx,
    users: Vec<User<'a, I>>,
    /// Who is next: priority, what he has, his first turn, his index. One entry for each user who waits.
    heads: BinaryHeap<Reverse<Head<'a>>>,
    /// The kinds that somebody asks for.
    asked: Resources,
    /// How large a part was when lines without room were last looked for.
    swept: u64,
}

type Head<'a> = (Reverse<u32>, Fraction, &'a Turn, usize);

struct User<'a, I> {
    name: Arc<str>,
    has: Resources,
    lines: Vec<OfUser<'a, I>>,
}

struct OfUser<'a, I> {
    like: &'a Likeness,
    head: &'a Turn,
    behind: I,
    /// What is left of what the head asked for, once it got something.
    asked: Option<Request>,
}

impl<'a, I: Iterator<Item = &'a Turn>> Users<'a, I> {
    /// The lines of one pool.
    pub(crate) fn new(pool: PoolIdx, lines: impl Iterator<Item = (&'a Likeness, I)>, rooms: &Rooms) -> Self {
        let mut by_user: BTreeMap<Arc<str>, Vec<OfUser<'a, I>>> = BTreeMap::new();
        for (like, mut behind) in lines {
            if let (Some(user), Some(head)) = (&like.user, behind.next()) {
                by_user.entry(Arc::clone(user)).or_default().push(OfUser {
                    like,
                    head,
                    behind,
                    asked: None,
                });
            }
        }
        let users = by_user.into_iter().map(|(name, lines)| User {
            has: rooms.user_has(pool, &name),
            name,
            lines,
        });
        let mut out = Self {
            pool,
            users: users.collect(),
            heads: BinaryHeap::new(),
            asked: Resources::ZERO,
            swept: u64::MAX,
        };
        out.note_kinds();
        (0..out.users.len()).for_each(|user| out.queue(user, rooms));
        out
    }

    /// The pool.
    pub(crate) const fn pool(&self) -> PoolIdx {
        self.pool
    }

    /// Whose turn it is.
    pub(crate) fn head(&self) -> Option<&'a Turn> {
        self.heads.peek().map(|Reverse((_, _, turn, _))| *turn)
    }

    /// Puts a user in his place, if he still waits.
    fn queue(&mut self, user: usize, rooms: &Rooms) {
        let Some(of) = self.users.get(user) else { return };
        if let Some(turn) = of.lines.iter().map(|l| l.head).min() {
            let has = share(of.has, rooms.worth(self.pool));
            self.heads.push(Reverse((turn.priority, has, turn, user)));
        }
    }

    /// Gives something to whose turn it is, or takes him off.
    pub(crate) fn step(
        &mut self,
        rooms: &mut Rooms,
        ask: &impl Fn(&Turn) -> Option<Request>,
        route: &impl Route,
    ) -> Option<Vec<Admission>> {
        let Reverse((_, _, turn, user)) = self.heads.pop()?;
        let out = self.serve(user, turn, rooms, (ask, route));
        self.queue(user, rooms);
        out
    }

    fn serve(
        &mut self,
        user: usize,
        turn: &Turn,
        rooms: &mut Rooms,
        (ask, route): (&impl Fn(&Turn) -> Option<Request>, &impl Route),
    ) -> Option<Vec<Admission>> {
        let of = self.users.get_mut(user)?;
        let at = of.lines.iter().position(|l| l.head == turn)?;
        let line = of.lines.get_mut(at)?;
        let left = rooms.left(self.pool, line.like.terms.side);
        if rooms.lacking(&left, line.like).is_some() {
            of.lines.swap_remove(at);
            return None;
        }
        let Some(request) = line.asked.take().or_else(|| ask(turn)) else {
            self.next(user, at);
            return None;
        };
        let (least, most) = self.sizes(user, turn, &request, rooms);
        // Others of his lines may be gone.
        let at = self.users.get(user)?.lines.iter().position(|l| l.head == turn)?;
        let parts = self.parts();
        let parts = if most > least { parts } else { 1 };
        let mut got = admit_one(&request, most.max(least), parts, rooms, route);
        if most > least && got.total() == 0 {
            got = admit_one(&request, least, 1, rooms, route);
        }
        let n = got.total();
        let room = request.unit.shape.times(n);
        let rest = request.clone().less(&got);
        let is_met = n == 0 || rest.is_met();
        let of = self.users.get_mut(user)?;
        of.has = of.has.plus(room);
        rooms.user_takes(self.pool, &of.name, room);
        if is_met {
            self.next(user, at);
        } else if let Some(line) = self.users.get_mut(user).and_then(|of| of.lines.get_mut(at)) {
            line.asked = Some(rest);
        }
        (n > 0).then(|| request.groups_of(got))
    }

    /// Goes on to who is behind in a line.
    fn next(&mut self, user: usize, at: usize) {
        let Some(of) = self.users.get_mut(user) else {
            return;
        };
        let Some(line) = of.lines.get_mut(at) else { return };
        line.asked = None;
        match line.behind.next() {
            Some(head) => line.head = head,
            None => drop(of.lines.swap_remove(at)),
        }
    }

    /// Into how many parts what is left is thought to be divided: everybody may take one without taking from anybody.
    fn parts(&self) -> u64 {
        2 * (self.heads.len() as u64 + 1)
    }

    /// How many more a user gets at once: as many as make him no longer the one who has least, or as many as are a small part of what
    /// is left.
    fn sizes(&mut self, user: usize, turn: &Turn, request: &Request, rooms: &Rooms) -> (u64, u64) {
        let worth = rooms.worth(self.pool);
        let has = self.users.get(user).map(|of| of.has).unwrap_or_default();
        let Some(Reverse((priority, other, _, _))) = self.heads.peek() else {
            return (u64::MAX, u64::MAX);
        };
        if turn.priority < *priority {
            return (u64::MAX, u64::MAX);
        }
        let least = passes(has, request.unit.shape, worth, *other);
        let left = rooms.left(self.pool, request.terms.side);
        let parts = self.parts();
        let own = rooms.pool_count(self.pool, request.terms, request.unit) / parts;
        let mut most = self.part(&left, request.unit.shape, worth).min(own);
        if most == 0 && own > 0 && own <= self.swept / 2 {
            // Somebody asks for a kind of which nothing is left: he is not to keep others from larger steps.
            self.swept = own;
            self.sweep(rooms);
            most = self.part(&left, request.unit.shape, worth).min(own);
        }
        (least, most)
    }

    /// Takes off all lines that have no room.
    fn sweep(&mut self, rooms: &Rooms) {
        for user in 0..self.users.len() {
            let pool = self.pool;
            if let Some(of) = self.users.get_mut(user) {
                of.lines.retain(|l| {
                    let left = rooms.left(pool, l.like.terms.side);
                    rooms.lacking(&left, l.like).is_none()
                });
            }
        }
        self.note_kinds();
    }

    fn note_kinds(&mut self) {
        let all = self.users.iter().flat_map(|of| &of.lines);
        self.asked = all.fold(Resources::ZERO, |sum, l| sum.max_each(l.like.unit.shape.kinds()));
    }

    /// How many of a shape are, in dominant share, one of the parts of the scarcest kind that anybody asks for.
    fn part(&self, left: &Left, shape: Resources, worth: Resources) -> u64 {
        let asked = self.asked.max_each(shape.kinds());
        let room = left.by_limit.min_each(left.by_entitlement);
        let of = |amount: Resources, kind: Kind| Fraction {
            unit: amount.get(kind),
            weight: worth.get(kind).max(1),
        };
        let scarce = Kind::ALL.into_iter().filter(|k| asked.get(*k) > 0);
        let scarce = scarce.map(|k| of(room, k)).min();
        let one = Kind::ALL.into_iter().map(|k| of(shape, k)).max();
        let (Some(scarce), Some(one)) = (scarce, one) else {
            return 0;
        };
        let whole = u128::from(scarce.unit) * u128::from(one.weight);
        let by = u128::from(scarce.weight) * u128::from(one.unit).max(1);
        u64::try_from(whole / by / u128::from(self.parts())).unwrap_or(u64::MAX)
    }
}

/// The largest part of any kind of a pool that a user has.
fn share(has: Resources, worth: Resources) -> Fraction {
    let of = |kind: Kind| Fraction {
        unit: has.get(kind),
        weight: worth.get(kind).max(1),
    };
    let none = Fraction { unit: 0, weight: 1 };
    Kind::ALL.into_iter().map(of).fold(none, Ord::max)
}

/// How many of a shape make a user have more than another's share.
fn passes(has: Resources, shape: Resources, worth: Resources, other: Fraction) -> u64 {
    let kinds = Kind::ALL.into_iter().filter(|k| shape.get(*k) > 0);
    let each = kinds.map(|kind| {
        let of_other = u128::from(other.unit) * u128::from(worth.get(kind).max(1)) / u128::from(other.weight);
        let behind = of_other.saturating_sub(u128::from(has.get(kind)));
        u64::try_from(behind / u128::from(shape.get(kind))).unwrap_or(u64::MAX - 1) + 1
    });
    each.min().unwrap_or(1)
}

#[cfg(test)]
mod tests;
