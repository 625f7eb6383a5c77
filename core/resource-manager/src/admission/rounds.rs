//! The rounds of an admission: first what pools are entitled to, then what nobody can use.

use crate::admission::second_round::{Again, BothLeft, usable};
use crate::demand::ledger::Ledger;
use crate::division::Entitled;
use crate::picture::Picture;
use crate::preemption::claimants::admit_claims;
use echelon_core_model::{GroupName, JobId, ReasonCode};
use echelon_core_pools::{
    Admission, Holds, Likeness, Line, Queue, Request, Rooms, Route, Side, Turn, Usable, admit, give_out_again,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Admits into the room that is made for claims, then within round 0, then within the second round, and then, in whole instances, what is too little for any pool's share.
pub(crate) fn admissions(
    (picture, ledger, holds): (&Picture, &Ledger, &Holds),
    first: &Entitled,
    rooms: &mut Rooms,
    (ask, route): (impl Fn(&Turn) -> Option<Request>, &impl Route),
    hopeful: impl Fn(&Line) -> bool,
) -> (Vec<Admission>, Option<Again>) {
    let queue = ledger.queue();
    let mut admitted = Admitted::new();
    add_to(&mut admitted, admit_claims(picture, rooms));
    round((queue, holds), rooms, (&ask, route), &mut admitted);
    let most = rooms
        .most_left(Side::Ordinary)
        .max_each(rooms.most_left(Side::Revocable));
    let mut open = queue.pools().filter(|(_, lines)| lines.least().fits(most));
    let somebody_waits = open.any(|(pool, lines)| {
        let left = BothLeft::of(rooms, pool);
        let why = |like: &Likeness| left.lacking(rooms, like);
        lines
            .likenesses()
            .any(|like| why(like) == Some(ReasonCode::PoolEntitlement))
    });
    let mut given = None;
    if somebody_waits {
        let usable = usable((picture, ledger, holds), rooms, hopeful);
        let again = |hierarchy, first, usable: &[Usable]| give_out_again(hierarchy, first, usable);
        let second = Entitled {
            ordinary: Arc::new(again(&picture.hierarchy, &first.ordinary, &usable.ordinary)),
            lent: again(&picture.by_shares, &first.lent, &usable.lent),
        };
        rooms.entitle(&second.ordinary, &second.lent);
        round((queue, holds), rooms, (&ask, route), &mut admitted);
        let before = rooms.opened(usable.not_taken(rooms));
        let mut after = before.clone();
        round((queue, holds), &mut after, (&ask, route), &mut admitted);
        rooms.take_between(&before, after);
        given = Some(usable.gave(picture, first, &second));
    }
    (admitted.into_values().collect(), given)
}

type Admitted = BTreeMap<(JobId, GroupName), Admission>;

pub(crate) fn round(
    (queue, holds): (&Queue, &Holds),
    rooms: &mut Rooms,
    (ask, route): (&impl Fn(&Turn) -> Option<Request>, &impl Route),
    admitted: &mut Admitted,
) {
    for side in [Side::Ordinary, Side::Revocable] {
        let again = |turn: &Turn| {
            let request = ask(turn)?;
            // Whichever group of a gang it was: all of it was admitted.
            let group = request.gang.first().map_or(&turn.group, |m| &m.group);
            Some(match admitted.get(&(turn.job, group.clone())) {
                Some(before) => request.less(before),
                None => request,
            })
        };
        let more = admit(queue, side, rooms, holds, again, route);
        add_to(admitted, more);
    }
}

fn add_to(admitted: &mut Admitted, more: Vec<Admission>) {
    for more in more {
        let key = (more.job, more.group.clone());
        match admitted.get_mut(&key) {
            Some(before) => before.add(more),
            None => {
                admitted.insert(key, more);
            }
        }
    }
}
