use super::config;
use super::net::{Answer, Net};
use crate::{MasterAnswer, Probe};
use std::sync::Arc;

#[tokio::test(start_paused = true)]
async fn any_answer_of_a_leading_master_will_do() {
    let net = Net::with(&["m1:5050", "m2:5050"]);
    let mut probe = Probe::new(&config("m0,m1,m2"), Arc::new(net.clone()));
    net.answer("m1:5050", Answer::Cut);
    net.answer("m2:5050", Answer::Text(401, "who are you?"));
    assert_eq!(probe.ask().await, Ok(MasterAnswer::Leading));
    // The one that answered last is asked first.
    net.answer("m2:5050", Answer::Text(200, "{}"));
    assert_eq!(probe.ask().await, Ok(MasterAnswer::Leading));
    let seen = net.look(|s| s.authority.clone());
    assert_eq!(seen, ["m1:5050", "m2:5050", "m2:5050"]);
}

#[tokio::test(start_paused = true)]
async fn masters_that_hang_or_cannot_be_reached_are_no_contact() {
    let net = Net::with(&["m1:5050"]);
    let mut probe = Probe::new(&config("m0,m1"), Arc::new(net.clone()));
    net.answer("m1:5050", Answer::Hang);
    let why = probe.ask().await.unwrap_err();
    assert!(why.contains("m0:5050") && why.contains("m1:5050"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_master_that_does_not_lead_is_not_the_one_that_counts() {
    let net = Net::with(&["m1:5050", "m2:5050"]);
    let mut probe = Probe::new(&config("m1,m2"), Arc::new(net.clone()));
    net.answer("m1:5050", Answer::Hang);
    net.answer("m2:5050", Answer::Text(503, "no leading master"));
    assert_eq!(probe.ask().await, Ok(MasterAnswer::NotLeading));
    // It is asked once more, since the other one names it.
    net.answer("m1:5050", Answer::Hang);
    net.answer("m1:5050", Answer::Hang);
    net.answer("m2:5050", Answer::Redirect("//m1:5050"));
    assert_eq!(probe.ask().await, Ok(MasterAnswer::NotLeading));
    net.answer("m1:5050", Answer::Text(200, "{}"));
    assert_eq!(probe.ask().await, Ok(MasterAnswer::Leading));
}
