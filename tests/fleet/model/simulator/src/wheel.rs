//! The event queue: at most one event per session, in buckets of one second. The current bucket is a heap.

use std::{cmp::Reverse, collections::BinaryHeap};

const NONE: u32 = u32::MAX;

/// Events ordered by time. An event is identified by its owner's number.
pub struct Wheel {
    end_s: f64,
    /// Linked lists of the events in each second: `first` is indexed by second, `next` by event.
    first: Vec<u32>,
    next: Vec<u32>,
    time_s: Vec<f64>,
    /// Events in the current second: the bits of the time, and the owner's number. Times are never negative, so their
    /// bits sort like the times.
    current: BinaryHeap<Reverse<(u64, u32)>>,
    second: usize,
}

impl Wheel {
    /// Creates a queue for `count` owners. Events at or after `end_s` are dropped.
    pub fn new(count: usize, end_s: f64) -> Self {
        Self {
            end_s,
            first: vec![NONE; end_s.ceil() as usize + 1],
            next: vec![NONE; count],
            time_s: vec![f64::INFINITY; count],
            current: BinaryHeap::new(),
            second: 0,
        }
    }

    /// Adds an owner and returns its number.
    pub fn grow(&mut self) -> u32 {
        self.next.push(NONE);
        self.time_s.push(f64::INFINITY);
        (self.time_s.len() - 1) as u32
    }

    /// Returns the time of the event owned by `who`.
    pub fn time_s(&self, who: u32) -> f64 {
        self.time_s[who as usize]
    }

    /// Schedules an event for `who`, which must not have a pending event.
    pub fn set(&mut self, who: u32, time_s: f64) {
        self.time_s[who as usize] = time_s;
        if time_s >= self.end_s {
            return;
        }
        let second = time_s as usize;
        if second <= self.second {
            self.current.push(Reverse((time_s.to_bits(), who)));
        } else {
            self.next[who as usize] = self.first[second];
            self.first[second] = who;
        }
    }

    /// Reschedules pending events.
    pub fn move_all(&mut self, moved: &[(u32, f64)]) {
        for (who, time_s) in moved {
            self.time_s[*who as usize] = *time_s;
        }
        let now = self.second;
        let times = std::mem::take(&mut self.time_s);
        // An event in the current second is pending only if it is in the heap.
        let mut waiting: Vec<u32> = self.current.drain().map(|Reverse((_, who))| who).collect();
        waiting.extend(moved.iter().map(|(who, _)| *who));
        waiting.extend((0..times.len() as u32).filter(|who| times[*who as usize] >= (now + 1) as f64));
        waiting.sort_unstable();
        waiting.dedup();
        self.first.fill(NONE);
        self.time_s = times;
        for who in waiting {
            self.set(who, self.time_s[who as usize]);
        }
    }

    /// Removes the next event and returns its time and owner.
    pub fn pop(&mut self) -> Option<(f64, u32)> {
        loop {
            if let Some(Reverse((bits, who))) = self.current.pop() {
                return Some((f64::from_bits(bits), who));
            }
            self.second += 1;
            let mut who = *self.first.get(self.second)?;
            while who != NONE {
                self.current.push(Reverse((self.time_s[who as usize].to_bits(), who)));
                who = self.next[who as usize];
            }
        }
    }
}
