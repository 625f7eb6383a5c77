//! Events that wait for their reader, and how many they are: one OFFERS event may weigh as much as a hundred thousand updates.

use echelon_core_hosts::Event;
use std::collections::VecDeque;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Waiting events.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: VecDeque<Event>,
    weight: usize,
}

/// An event with the offers or agents in it.
const fn weight(event: &Event) -> usize {
    match event {
        Event::Offers(offers) => offers.len().saturating_add(1),
        Event::Agents { agents, .. } => agents.len().saturating_add(1),
        _ => 1,
    }
}

impl Outbox {
    /// Puts an event at the end.
    pub fn push(&mut self, event: Event) {
        self.weight = self.weight.saturating_add(weight(&event));
        self.waiting.push_back(event);
    }

    /// Takes the first one.
    pub fn pop(&mut self) -> Option<Event> {
        let event = self.waiting.pop_front()?;
        self.weight = self.weight.saturating_sub(weight(&event));
        Some(event)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether more wait than this. One alone never does: it would come again as long as ever.
    pub fn is_over(&self, most: usize) -> bool {
        self.weight > most && self.waiting.len() > 1
    }

    /// Hands events over while there is room; false when nobody reads them any more.
    pub fn pass_on(&mut self, reader: &mpsc::Sender<Event>) -> bool {
        while let Some(event) = self.waiting.pop_front() {
            let heavy = weight(&event);
            match reader.try_send(event) {
                Ok(()) => self.weight = self.weight.saturating_sub(heavy),
                Err(TrySendError::Full(event)) => {
                    self.waiting.push_front(event);
                    return true;
                }
                Err(TrySendError::Closed(_)) => return false,
            }
        }
        true
    }
}
