//! Who leads, and when leadership passes.

use super::ground::{Ground, stand, until, until_leads, until_one_leads, until_standing};
use crate::{Candidacy, Role, Standing, Term};
use tokio::time::Instant;

const ROLE: Role = Role::ResourceManager;

/// Leaders are silenced, resign and come back; whenever any standing changes, at most one reads as leader.
pub(super) async fn one_leader_at_a_time(ground: &dyn Ground) {
    let mut candidates = Vec::new();
    for name in ["a", "b", "c"] {
        candidates.push(stand(ground, name, &ROLE).await);
    }
    let mut terms = Vec::new();
    for round in 0..4 {
        let leader = until_one_leads(&candidates).await;
        terms.push(candidates[leader].standing().leads().expect("it leads"));
        let name = candidates[leader].member().id.clone();
        if round % 2 == 0 {
            candidates.remove(leader).resign().await;
        } else {
            ground.cut(&name).await;
        }
        watch_handover(&candidates, terms[round]).await;
        if round % 2 == 0 {
            candidates.push(stand(ground, &name, &ROLE).await);
        } else {
            ground.heal(&name).await;
        }
    }
    assert!(
        terms.is_sorted() && terms.windows(2).all(|t| t[0] < t[1]),
        "terms grow: {terms:?}"
    );
}

/// Looks at all standings at each change until a newer term leads.
async fn watch_handover(candidates: &[Candidacy], past: Term) {
    let mut watches: Vec<_> = candidates.iter().map(Candidacy::watch).collect();
    loop {
        let leading: Vec<Term> = candidates.iter().filter_map(|c| c.standing().leads()).collect();
        assert!(leading.len() <= 1, "two lead: {candidates:?}");
        if leading.iter().any(|term| *term > past) {
            return;
        }
        let changes = watches.iter_mut().map(|watch| Box::pin(watch.changed()));
        let change = tokio::time::timeout(super::PATIENCE, futures::future::select_all(changes));
        change
            .await
            .expect("another one leads in the end")
            .0
            .expect("candidates outlive the case");
    }
}

pub(super) async fn resigning_passes_leadership_on(ground: &dyn Ground) {
    let a = stand(ground, "a", &ROLE).await;
    let first = until_leads(&a).await;
    let b = stand(ground, "b", &ROLE).await;
    let standing = a.watch();
    a.resign().await;
    assert_eq!(*standing.borrow(), Standing::Lost(first));
    assert!(until_leads(&b).await > first);
}

pub(super) async fn dropping_passes_leadership_on(ground: &dyn Ground) {
    let a = stand(ground, "a", &ROLE).await;
    until_leads(&a).await;
    let b = stand(ground, "b", &ROLE).await;
    drop(a);
    until_leads(&b).await;
}

/// The old leader stops by itself, before the servers give its place away; when it is heard again it follows, and may
/// lead later in a newer term.
pub(super) async fn silence_is_told_first(ground: &dyn Ground) {
    let a = stand(ground, "a", &ROLE).await;
    let first = until_leads(&a).await;
    let b = stand(ground, "b", &ROLE).await;
    ground.cut("a").await;
    let told = async {
        until("a acts no more", a.watch(), |s| s.leads().is_none()).await;
        Instant::now()
    };
    let elected = async {
        let term = until_leads(&b).await;
        assert_eq!(a.standing().leads(), None, "two lead");
        (Instant::now(), term)
    };
    let (told, (elected, second)) = tokio::join!(told, elected);
    assert!(
        told < elected,
        "a was told {:?} after b was elected",
        told - elected
    );
    assert!(second > first);
    until_standing(&a, Standing::Lost(first)).await;

    ground.heal("a").await;
    until_standing(&a, Standing::Follower).await;
    b.resign().await;
    assert!(until_leads(&a).await > second);
}

pub(super) async fn a_short_silence_keeps_the_term(ground: &dyn Ground) {
    let a = stand(ground, "a", &ROLE).await;
    let term = until_leads(&a).await;
    let b = stand(ground, "b", &ROLE).await;
    let others = b.watch();
    ground.cut("a").await;
    until_standing(&a, Standing::Suspended(term)).await;
    ground.heal("a").await;
    let next = until("a's fate is known", a.watch(), |s| {
        !matches!(s, Standing::Suspended(_))
    })
    .await;
    assert_eq!(next, Standing::Leader(term));
    assert!(!others.has_changed().unwrap(), "b saw {:?}", *others.borrow());
    assert_eq!(
        a.publish(echelon_core_model::Epoch(1))
            .await
            .map_err(|e| e.to_string()),
        Ok(())
    );
}

/// A follower that is away when the leader goes must not hold the others up for ever, nor lead without knowing.
pub(super) async fn a_silent_follower_stands_again(ground: &dyn Ground) {
    let a = stand(ground, "a", &ROLE).await;
    until_leads(&a).await;
    let b = stand(ground, "b", &ROLE).await;
    let c = stand(ground, "c", &ROLE).await;
    ground.cut("b").await;
    a.resign().await;
    let term = until_leads(&c).await;
    assert_eq!(b.standing().leads(), None);
    ground.heal("b").await;
    c.resign().await;
    assert!(until_leads(&b).await > term);
}

/// Servers that do not answer yet, as when everything starts at once, only delay.
pub(super) async fn who_stands_in_silence_leads_after_it(ground: &dyn Ground) {
    ground.connect("a").await;
    ground.cut("a").await;
    let a = stand(ground, "a", &ROLE).await;
    let b = stand(ground, "b", &ROLE).await;
    let first = until_leads(&b).await;
    assert_eq!(a.standing(), Standing::Follower);
    ground.heal("a").await;
    b.resign().await;
    assert!(until_leads(&a).await > first);
}
