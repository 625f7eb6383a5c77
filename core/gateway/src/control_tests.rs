use super::*;
use crate::testing::{Memory, NOW, Running, run};
use echelon_core_model::{JobId, Version};

fn wanted(off: bool, why: &str) -> Switches {
    Switches {
        kills_off: off,
        by: "ann".to_owned(),
        why: why.to_owned(),
        etag: String::new(),
    }
}

fn update(store: &mut Memory, wanted: Switches) -> Result<Control, ApiError> {
    run(store, move |facts| async move {
        update_control(&facts, wanted, NOW).await
    })
}

#[test]
fn a_switch_is_set_with_who_and_why_and_said_again_changes_nothing() {
    let mut store = Memory::new();
    let none = run(&mut store, |facts| async move { get_control(&facts).await });
    assert_eq!(none.unwrap(), Control::default());
    let off = update(&mut store, wanted(true, "a bad release")).unwrap();
    assert_eq!((off.version, off.kills_off, off.at), (Version(1), true, NOW));
    assert_eq!((off.by.as_str(), off.why.as_str()), ("ann", "a bad release"));
    assert_eq!(update(&mut store, wanted(true, "a bad release")).unwrap(), off);
    let again = update(&mut store, wanted(true, "still")).unwrap();
    assert_eq!(again.version, Version(2));
    let on = update(&mut store, wanted(false, "")).unwrap();
    assert_eq!((on.version, on.kills_off), (Version(3), false));
}

#[test]
fn an_old_etag_changes_nothing() {
    let mut store = Memory::new();
    let first = Switches {
        etag: "0".to_owned(),
        ..wanted(true, "")
    };
    update(&mut store, first.clone()).unwrap();
    let late = update(
        &mut store,
        Switches {
            kills_off: false,
            ..first
        },
    )
    .unwrap_err();
    assert_eq!(late.reason, ErrorReason::EtagStale);
    assert!(store.control.kills_off);
}

#[test]
fn texts_are_one_line_and_bounded() {
    let mut store = Memory::new();
    for (by, why) in [
        ("a\nb".to_owned(), String::new()),
        (String::new(), "\u{1b}[2J".to_owned()),
        ("x".repeat(101), String::new()),
        (String::new(), "x".repeat(1001)),
    ] {
        let bad = Switches {
            by,
            why,
            ..wanted(true, "")
        };
        let refused = update(&mut store, bad).unwrap_err();
        assert_eq!(refused.reason, ErrorReason::FieldInvalid);
    }
    assert_eq!(store.control, Control::default());
}

#[test]
fn of_two_gateways_the_later_wish_stands_and_none_is_lost() {
    let mut store = Memory::new();
    let start = |off: bool| {
        Running::start(move |facts| async move { update_control(&facts, wanted(off, "race"), NOW).await })
    };
    let (mut first, mut second) = (start(true), start(false));
    // Both have read; the first writes, the second finds another row and decides again.
    first.step(&mut store, false);
    second.step(&mut store, false);
    for _ in 0..4 {
        first.step(&mut store, false);
    }
    while !second.is_done() {
        second.step(&mut store, false);
    }
    assert!(first.answer().unwrap().unwrap().kills_off);
    let after = second.answer().unwrap().unwrap();
    assert_eq!((after.version, after.kills_off), (Version(2), false));
    assert_eq!(store.control, after);
}

#[test]
fn a_lost_answer_is_settled_by_asking_again() {
    let mut store = Memory::new();
    let mut call =
        Running::start(|facts| async move { update_control(&facts, wanted(true, "x"), NOW).await });
    call.step(&mut store, false);
    call.step(&mut store, true);
    while !call.is_done() {
        call.step(&mut store, false);
    }
    assert_eq!(call.answer().unwrap().unwrap().version, Version(1));
    assert_eq!(store.control.version, Version(1));
}

#[test]
fn the_key_of_tokens_is_made_once_and_outlives_every_switch() {
    let mut store = Memory::new();
    let ensure = |store: &mut Memory, chance: u128| {
        let made = run(store, move |facts| async move {
            ensure_token_key(&facts, [chance, 2]).await
        });
        made.unwrap().token_key
    };
    update(&mut store, wanted(true, "a bad release")).unwrap();
    let key = ensure(&mut store, 1);
    assert!(key.is_some() && store.control.kills_off);
    assert_eq!(ensure(&mut store, 9), key);
    update(&mut store, wanted(false, "")).unwrap();
    assert_eq!(store.control.token_key, key);
}

#[test]
fn a_token_outlives_one_change_of_the_key_and_not_two() {
    let mut store = Memory::new();
    let rotate = |store: &mut Memory, etag: &'static str, chance: u128| {
        run(store, move |facts| async move {
            rotate_token_key(&facts, etag, [chance, 2]).await
        })
    };
    update(&mut store, wanted(true, "a bad release")).unwrap();
    run(&mut store, |facts| async move {
        ensure_token_key(&facts, [1, 2]).await
    })
    .unwrap();
    let job = JobId(7);
    let token = store.control.token_key.unwrap().sign(job).unwrap();
    assert_eq!(store.control.verify(&token), Some(job));
    let after = rotate(&mut store, "2", 3).unwrap();
    assert_eq!(
        (after.version, after.kills_off, after.by.as_str()),
        (Version(3), true, "ann")
    );
    let newer = after.token_key.unwrap().sign(job).unwrap();
    assert_ne!(newer, token);
    // Repeated, as after a lost answer, it does nothing.
    assert_eq!(
        rotate(&mut store, "2", 4).unwrap_err().reason,
        ErrorReason::EtagStale
    );
    update(&mut store, wanted(false, "")).unwrap();
    assert_eq!([&token, &newer].map(|t| store.control.verify(t)), [Some(job); 2]);
    rotate(&mut store, "", 5).unwrap();
    assert_eq!(
        [&token, &newer].map(|t| store.control.verify(t)),
        [None, Some(job)]
    );
}
