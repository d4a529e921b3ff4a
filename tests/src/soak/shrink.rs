//! Bytes that fail made fewer and smaller, while they still fail: what they make shrinks with them.

use std::time::{Duration, Instant};

/// Fewer and smaller bytes for which `fails` holds too, in about this time.
pub fn shrink(bytes: &[u8], time: Duration, fails: &mut dyn FnMut(&[u8]) -> bool) -> Vec<u8> {
    let end = Instant::now() + time;
    let mut best = bytes.to_vec();
    loop {
        let before = best.clone();
        let mut size = best.len().div_ceil(2);
        while size > 0 {
            // From the end: what was made last is needed least.
            let mut at = best.len().saturating_sub(size);
            loop {
                if Instant::now() > end {
                    return best;
                }
                let mut fewer = best.clone();
                fewer.drain(at..(at + size).min(best.len()));
                if fewer.len() < best.len() && fails(&fewer) {
                    best = fewer;
                }
                if at == 0 {
                    break;
                }
                at = at.saturating_sub(size).min(best.len());
            }
            size /= 2;
        }
        for at in 0..best.len() {
            for smaller in [0, best[at] / 2, best[at].saturating_sub(1)] {
                if Instant::now() > end {
                    return best;
                }
                let mut other = best.clone();
                other[at] = smaller;
                if smaller < best[at] && fails(&other) {
                    best = other;
                    break;
                }
            }
        }
        if best == before {
            return best;
        }
    }
}

/// What sort of failure a message tells of: what is smaller must fail in the same way, not in any.
pub fn sort_of(why: &str) -> String {
    if why.contains("elements are wrong") || why.contains(" instead of ") {
        return "wrong".to_string();
    }
    // Statements of programs stand in lines of their own, and differ from program to program.
    let is_statement = |line: &&str| line.starts_with("step ") || line.contains("let ") || line.ends_with(';');
    let line = why.lines().find(|line| line.contains(':') && !is_statement(line));
    line.or(why.lines().next()).unwrap_or_default().chars().filter(|letter| letter.is_alphabetic()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_goes() {
        let bytes: Vec<u8> = (0..200).collect();
        let mut tried = 0;
        let smaller = shrink(&bytes, Duration::from_secs(60), &mut |bytes| {
            tried += 1;
            // Fails with a byte from 40 on anywhere after one from 20 on.
            let first = bytes.iter().position(|byte| *byte >= 20);
            first.is_some_and(|first| bytes[first + 1..].iter().any(|byte| *byte >= 40))
        });
        assert_eq!(smaller, [20, 40]);
        assert!(tried < 2000, "{tried} candidates were tried");
    }

    #[test]
    fn sorts_tell_failures_apart() {
        let wrong = "at the end, t0: 3 of 15 elements are wrong: element 1 of [3] is 1";
        assert_eq!(sort_of(wrong), "wrong");
        assert_eq!(sort_of("step 3, t1.fill(2)?;\na panic: index 7 out of range"), "apanicindexoutofrange");
        assert_eq!(sort_of("a panic: index 9 out of range"), "apanicindexoutofrange");
    }
}
