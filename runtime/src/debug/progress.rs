//! Progress of long compilations: told at `DEBUG=1`, and shown by whoever asks for it; nothing is told of short ones.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{tell, wants};

/// Shows that so many of so many kernels are made; called last with both equal.
type Show = fn(made: usize, of: usize);

static SHOW: OnceLock<Show> = OnceLock::new();

/// Compilations that take longer than this are told of.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// How often.
const TOLD_EVERY: Duration = Duration::from_millis(500);

/// Has the progress of compilations that last over a second shown by this, from the thread that waits for them. The first who asks counts.
pub fn show_progress(show: fn(made: usize, of: usize)) {
    let _ = SHOW.set(show);
}

/// The progress of one compilation.
pub(crate) struct Progress {
    of: usize,
    started: Instant,
    told: Option<Instant>,
    show: Option<Show>,
}

impl Progress {
    /// Of so many kernels, beginning now.
    pub(crate) fn new(of: usize) -> Progress {
        Progress { of, started: Instant::now(), told: None, show: SHOW.get().copied() }
    }

    /// So many are made.
    pub(crate) fn made(&mut self, made: usize) {
        self.made_at(made, Instant::now());
    }

    fn made_at(&mut self, made: usize, now: Instant) {
        let elapsed = now.duration_since(self.started);
        let is_due = match self.told {
            None => elapsed > SHOWN_AFTER,
            Some(told) => now.duration_since(told) > TOLD_EVERY || made == self.of,
        };
        if !is_due || (self.told.is_none() && made == self.of) {
            return;
        }
        self.told = Some(now);
        if wants(1) {
            tell(1, &format!("making    {made:5} of {} kernels, {:.1} s so far", self.of, elapsed.as_secs_f64()));
        }
        if let Some(show) = self.show {
            show(made, self.of);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    static SHOWN: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

    #[test]
    fn long_compilations_are_shown_and_short_ones_not() {
        let started = Instant::now();
        let show: Show = |made, of| SHOWN.lock().unwrap().push((made, of));
        let mut progress = Progress { of: 9, started, told: None, show: Some(show) };
        let at = |ms: u64| started + Duration::from_millis(ms);
        for (made, ms) in [(1, 10), (2, 900), (3, 1100), (4, 1200), (5, 1300), (6, 1700), (9, 1800)] {
            progress.made_at(made, at(ms));
        }
        assert_eq!(*SHOWN.lock().unwrap(), [(3, 9), (6, 9), (9, 9)]);
        // Ready before anything was shown: nothing to finish.
        let mut progress = Progress { of: 2, started, told: None, show: Some(show) };
        progress.made_at(1, at(500));
        progress.made_at(2, at(1500));
        assert_eq!(SHOWN.lock().unwrap().len(), 3);
    }
}
