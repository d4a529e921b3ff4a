//! Numbers as callers have them: integers of any type that lengths come in, alone or in lists.

/// A number of elements, entries or axes: any of these integers. One that no length can be is refused where it is used.
pub trait Length: Copy {
    /// As the type that lengths have.
    fn length(self) -> i64;
}

macro_rules! lengths {
    ($($type:ident)*) => { $(
        impl Length for $type {
            fn length(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
    )* };
}

lengths! { i32 i64 u32 usize }

/// A list of axes or lengths: `0`, `[0, -1]`, a vector, a slice, or `()` for all.
pub trait AxisList {
    /// The axes; none named means all.
    fn axes(&self) -> Vec<i64>;
}

impl AxisList for () {
    fn axes(&self) -> Vec<i64> {
        Vec::new()
    }
}

impl<L: Length> AxisList for L {
    fn axes(&self) -> Vec<i64> {
        vec![self.length()]
    }
}

macro_rules! axis_lists {
    ($([$($generics:tt)*] $list:ty;)*) => { $(
        impl<L: Length, $($generics)*> AxisList for $list {
            fn axes(&self) -> Vec<i64> {
                self.iter().map(|length| length.length()).collect()
            }
        }
    )* };
}

axis_lists! {
    [const N: usize] [L; N];
    [const N: usize] &[L; N];
    [] &[L];
    [] Vec<L>;
    [] &Vec<L>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_integers_alone_or_in_lists() {
        let wanted = vec![2i64, -1];
        assert_eq!([2, -1].axes(), wanted);
        assert_eq!((vec![2i32, -1].axes(), (&[2i64, -1][..]).axes()), (wanted.clone(), wanted));
        assert_eq!((3usize.axes(), ().axes(), usize::MAX.length()), (vec![3], vec![], i64::MAX));
    }
}
