//! Choices made from bytes: the same bytes make the same choices. Fuzzers give the bytes, property tests give random ones, and fewer
//! bytes make smaller choices, so that shrinking the bytes shrinks what was made.

/// Choices from bytes; when they have run out, every choice is the first.
pub struct Choices<'b> {
    bytes: &'b [u8],
}

impl<'b> Choices<'b> {
    /// Choices by these bytes.
    pub fn new(bytes: &'b [u8]) -> Choices<'b> {
        Choices { bytes }
    }

    /// Whether bytes are left.
    pub fn is_left(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.wrapping_sub(low).max(0) as u64 + 1;
        let mut number = self.byte() as u64;
        if span > 256 {
            for _ in 0..3 {
                number = number << 8 | self.byte() as u64;
            }
        }
        low + (number % span) as i64
    }

    /// Whether something that happens once in `times` happens.
    pub fn once_in(&mut self, times: i64) -> bool {
        self.between(0, times - 1) == times - 1
    }

    /// One of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn one_of<'t, T>(&mut self, things: &'t [T]) -> &'t T {
        &things[self.between(0, things.len() as i64 - 1) as usize]
    }
}

/// What an oracle says; a panic is an error, so that what panicked can be told of.
///
/// # Errors
/// The oracle's, or the text of the panic.
pub fn caught<T>(oracle: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(oracle));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}
