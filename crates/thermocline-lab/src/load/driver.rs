//! The event loop of one loader thread: keeps its connections busy through one phase (loading, warm-up, the
//! measured run) and returns what came of it.
//!
//! Closed loop: a connection sends a pipeline of requests in one write, waits for all replies, sends the next.
//! Open loop: requests fall due by a timetable whatever the server does; one that finds its connection's
//! pipeline full waits in the loader, and that wait is part of its response time, not of its service time.

use super::connection::{Checks, Connection};
use super::outcome::Outcome;
use super::source::PhaseOps;
use super::turns::{self, Turns, WAIT_MAX};
use super::wire::Encoder;
use crate::machine::thread_cpu_ns;
use crate::pace::{Budget, Timetable};
use crate::workload::Op;
use anyhow::{Context, Result};
use mio::{Poll, Token};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A phase as one thread sees it.
pub struct Phase<'a> {
    pub source: PhaseOps,
    pub budget: &'a Budget,
    /// Stop issuing after so long.
    pub deadline: Option<Duration>,
    pub timetable: Option<Timetable>,
    pub pipeline: usize,
    pub checks: Checks,
    pub encoder: Encoder<'a>,
    pub timeout: Duration,
}

/// One loader thread with its connections; they stay open from phase to phase.
pub struct Driver {
    poll: Poll,
    connections: Vec<Connection>,
}

impl Driver {
    /// Opens the connections; fails if one cannot be opened, naming how many could.
    pub fn open(targets: &[super::target::Target], connections: usize) -> Result<Driver> {
        let poll = Poll::new().context("cannot create an event poll")?;
        let mut open = Vec::with_capacity(connections);
        for index in 0..connections {
            let target = targets[index % targets.len()].clone();
            let mut connection = Connection::new(target.clone(), Token(index));
            connection.open(&poll).with_context(|| {
                format!(
                    "connection {} of {connections} to {:?}",
                    index + 1,
                    target.place
                )
            })?;
            open.push(connection);
        }
        Ok(Driver {
            poll,
            connections: open,
        })
    }

    /// Runs one phase to its end: every operation taken from the budget is settled when it returns.
    pub fn run(&mut self, phase: Phase<'_>) -> Result<Outcome> {
        Run {
            start: Instant::now(),
            backlog: self.connections.iter().map(|_| VecDeque::new()).collect(),
            driver: self,
            phase,
            outcome: Outcome::default(),
            batch: Vec::new(),
            exhausted: false,
            turn: 0,
        }
        .finish()
    }
}

struct Run<'a, 'd> {
    driver: &'d mut Driver,
    phase: Phase<'a>,
    start: Instant,
    outcome: Outcome,
    batch: Vec<(Op, bool, Option<u64>)>,
    /// Open loop: due, but the connection's pipeline is full.
    backlog: Vec<VecDeque<(Op, u64)>>,
    exhausted: bool,
    turn: usize,
}

impl Turns for Run<'_, '_> {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn poll(&mut self) -> &mut Poll {
        &mut self.driver.poll
    }

    fn issue(&mut self) -> Result<Option<Duration>> {
        self.issue_due();
        if self.is_over() {
            return Ok(None);
        }
        Ok(Some(match (&self.phase.timetable, self.exhausted) {
            (Some(table), false) => table.wait(self.now_ns()),
            _ => WAIT_MAX,
        }))
    }

    fn on_ready(&mut self, index: usize, closed: bool) -> Result<()> {
        let start = self.start;
        let connection = &mut self.driver.connections[index];
        let received = connection.receive(
            closed,
            || start.elapsed().as_nanos() as u64,
            &self.phase.encoder,
            self.phase.checks,
            &mut self.outcome,
        );
        let result = received.and_then(|()| {
            let now_ns = start.elapsed().as_nanos() as u64;
            self.driver.connections[index].flush(now_ns, &mut self.outcome)
        });
        match result {
            Ok(()) => self.refill(index),
            Err(why) => self.dropped(index, &why)?,
        }
        Ok(())
    }

    fn stuck(&mut self, now_ns: u64) -> Vec<usize> {
        if self.past_deadline() {
            self.exhausted = true;
        }
        let timeout_ns = self.phase.timeout.as_nanos() as u64;
        let connections = self.driver.connections.iter().enumerate();
        let stuck = connections.filter(|(_, connection)| connection.is_stuck(now_ns, timeout_ns));
        stuck.map(|(index, _)| index).collect()
    }

    fn dropped(&mut self, index: usize, why: &str) -> Result<()> {
        self.reopen(index, why);
        Ok(())
    }
}

impl Run<'_, '_> {
    fn finish(mut self) -> Result<Outcome> {
        let cpu_before = thread_cpu_ns();
        for index in 0..self.driver.connections.len() {
            self.refill(index);
        }
        turns::take(&mut self)?;
        self.outcome.elapsed_ns = self.now_ns();
        self.outcome.loader_cpu_ns = thread_cpu_ns() - cpu_before;
        Ok(self.outcome)
    }

    fn past_deadline(&self) -> bool {
        self.phase
            .deadline
            .is_some_and(|deadline| self.start.elapsed() >= deadline)
    }

    fn is_over(&mut self) -> bool {
        let connections = &self.driver.connections;
        if connections.iter().all(|connection| !connection.is_open()) {
            self.abandon_backlog("not sent: no connection left");
            return true;
        }
        if !self.exhausted {
            return false;
        }
        if self.phase.timetable.is_some() && self.past_deadline() {
            self.abandon_backlog("not sent by the end: the server does not keep this rate");
        }
        let connections = &self.driver.connections;
        self.backlog.iter().all(VecDeque::is_empty)
            && connections
                .iter()
                .all(|c| !c.is_open() || (c.is_idle() && !c.has_fills()))
    }

    fn abandon_backlog(&mut self, why: &str) {
        let left: usize = self
            .backlog
            .iter_mut()
            .map(|queue| std::mem::take(queue).len())
            .sum();
        self.outcome.fail(why, left as u64);
    }

    fn reopen(&mut self, index: usize, why: &str) {
        let connection = &mut self.driver.connections[index];
        if connection.reopen(why, &self.driver.poll, &mut self.outcome) {
            self.refill(index);
        } else {
            let left = std::mem::take(&mut self.backlog[index]);
            self.outcome
                .fail("not sent: its connection is gone", left.len() as u64);
        }
    }

    /// Gives a connection its next requests, if it may have any.
    fn refill(&mut self, index: usize) {
        let connection = &mut self.driver.connections[index];
        if !connection.is_open() {
            return;
        }
        let open_loop = self.phase.timetable.is_some();
        let room = self.phase.pipeline.saturating_sub(connection.in_flight());
        if room == 0 || (!open_loop && !connection.is_idle()) {
            return;
        }
        self.batch.clear();
        while self.batch.len() < room {
            let Some(op) = connection.next_fill() else {
                break;
            };
            self.batch.push((op, true, None));
        }
        while self.batch.len() < room {
            let Some((op, due)) = self.backlog[index].pop_front() else {
                break;
            };
            self.batch.push((op, false, Some(due)));
        }
        if !open_loop {
            self.take_from_budget(room);
        }
        if self.batch.is_empty() {
            return;
        }
        let queued_ns = self.now_ns();
        let connection = &mut self.driver.connections[index];
        connection.queue(&self.batch, queued_ns, &self.phase.encoder);
        let now_ns = self.start.elapsed().as_nanos() as u64;
        if let Err(why) = connection.flush(now_ns, &mut self.outcome) {
            self.reopen(index, &why);
        }
    }

    fn take_from_budget(&mut self, room: usize) {
        if self.exhausted || self.past_deadline() {
            self.exhausted = true;
            return;
        }
        let want = (room - self.batch.len()) as u64;
        let (first, count) = self.phase.budget.take(want);
        self.exhausted = count < want;
        for index in first..first + count {
            self.batch.push((self.phase.source.op(index), false, None));
        }
    }

    /// Open loop: hands every operation that is due to its connection, in turn.
    fn issue_due(&mut self) {
        if self.phase.timetable.is_none() || self.exhausted {
            return;
        }
        let now_ns = self.now_ns();
        let mut touched = false;
        while let Some(table) = &mut self.phase.timetable {
            let due = table.next_ns();
            if due > now_ns {
                break;
            }
            if self.past_deadline() || self.phase.budget.take(1).1 == 0 {
                self.exhausted = true;
                break;
            }
            if let Some(table) = &mut self.phase.timetable {
                table.advance();
            }
            let op = self.phase.source.op(0);
            let index = self.next_open_connection();
            self.backlog[index].push_back((op, due));
            touched = true;
        }
        if touched {
            for index in 0..self.backlog.len() {
                if !self.backlog[index].is_empty() {
                    self.refill(index);
                }
            }
        }
    }

    fn next_open_connection(&mut self) -> usize {
        let count = self.driver.connections.len();
        for _ in 0..count {
            self.turn = (self.turn + 1) % count;
            if self.driver.connections[self.turn].is_open() {
                break;
            }
        }
        self.turn
    }
}
