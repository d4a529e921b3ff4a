//! Parts of a tensor: slices, windows, diagonals, the reverse, and whatever strides say.
//!
//! Tests: `conformance views`.

use super::{ViewError, axis_of, with_replaced, without, wrong};
use crate::ir::Dim;
use crate::view::dims::simplified;
use crate::view::view_spec::ViewSpec;

impl ViewSpec {
    /// Every `step`-th position of an axis from `start` to before `end`, both moved into the axis, or counted from its end if negative.
    ///
    /// # Errors
    /// If there is no such axis, or the step is not positive.
    pub fn slice(&self, axis: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<ViewSpec, ViewError> {
        let axis = self.real_axis("slice", axis)?;
        let len = self.known_len("slice", axis)?;
        if step <= 0 {
            return wrong("slice", format!("the step {step} is not positive"));
        }
        let inside = |bound: i64| (if bound < 0 { bound.saturating_add(len) } else { bound }).clamp(0, len);
        let start = inside(start.unwrap_or(0));
        let end = inside(end.unwrap_or(len)).max(start);
        let count = (end - start) / step + i64::from((end - start) % step != 0);
        Ok(ViewSpec {
            shape: with_replaced(&self.shape, axis, Dim::Const(count)),
            strides: with_replaced(&self.strides, axis, simplified(&self.strides[axis] * &Dim::Const(step))),
            offset: self.moved(start, axis),
        })
    }

    /// `count` positions of an axis from `start`.
    ///
    /// # Errors
    /// If they are not within the axis.
    pub fn narrow(&self, axis: i64, start: i64, count: i64) -> Result<ViewSpec, ViewError> {
        let axis = self.real_axis("narrow", axis)?;
        let len = self.known_len("narrow", axis)?;
        let from = if start < 0 { start.saturating_add(len) } else { start };
        if count < 0 || from < 0 || from > len || count > len - from {
            return wrong("narrow", format!("{count} positions from {start} are not within an axis of length {len}"));
        }
        self.slice(axis as i64, Some(from), Some(from + count), 1)
    }

    /// One position of an axis, which goes away.
    ///
    /// # Errors
    /// If there is no such axis or position.
    pub fn select(&self, axis: i64, index: i64) -> Result<ViewSpec, ViewError> {
        let axis = self.real_axis("select", axis)?;
        // A position that the shortest length has is there whatever the length.
        let least = self.shape[axis].min_value();
        let len = if (0..least).contains(&index) { least } else { self.known_len("select", axis)? };
        if !(-len..len).contains(&index) {
            return wrong("select", format!("index {index} is not within an axis of length {len}"));
        }
        let position = if index < 0 { index + len } else { index };
        Ok(ViewSpec {
            shape: without(&self.shape, |other| other == axis).into(),
            strides: without(&self.strides, |other| other == axis).into(),
            offset: self.moved(position, axis),
        })
    }

    /// Windows of `len` positions of an axis, one every `step`; the positions in a window are a new last axis.
    ///
    /// # Errors
    /// If there is no such axis, no window fits, or the step is not positive.
    pub fn unfold(&self, axis: i64, len: i64, step: i64) -> Result<ViewSpec, ViewError> {
        let axis = axis_of("unfold", axis, self.rank())?;
        let have = if self.shape.is_empty() { 1 } else { self.known_len("unfold", axis)? };
        if len < 0 || len > have || step <= 0 {
            return wrong("unfold", format!("no windows of {len} every {step} in an axis of length {have}"));
        }
        let stride = self.strides.get(axis).cloned().unwrap_or(Dim::Const(1));
        let mut shape = self.shape.to_vec();
        let mut strides = self.strides.to_vec();
        if !shape.is_empty() {
            shape[axis] = Dim::Const((have - len) / step + 1);
            strides[axis] = simplified(&stride * &Dim::Const(step));
        }
        shape.push(Dim::Const(len));
        strides.push(stride);
        Ok(ViewSpec { shape: shape.into(), strides: strides.into(), offset: self.offset.clone() })
    }

    /// The positions at which axis `b` is `shift` ahead of axis `a`, as a new last axis in the place of the two.
    ///
    /// # Errors
    /// If there are no such two axes.
    pub fn diagonal(&self, shift: i64, a: i64, b: i64) -> Result<ViewSpec, ViewError> {
        let (first, second) = (axis_of("diagonal", a, self.rank())?, axis_of("diagonal", b, self.rank())?);
        if first == second {
            return wrong("diagonal", format!("axes {a} and {b} are one axis of rank {}", self.rank()));
        }
        let (rows, columns) = (self.known_len("diagonal", first)?, self.known_len("diagonal", second)?);
        let len = match shift >= 0 {
            true => rows.min(columns.saturating_sub(shift)),
            false => rows.saturating_add(shift).min(columns),
        };
        let offset = match (len > 0, shift >= 0) {
            (false, _) => self.offset.clone(),
            (true, true) => self.moved(shift, second),
            (true, false) => self.moved(-shift, first),
        };
        let mut shape = without(&self.shape, |axis| axis == first || axis == second);
        let mut strides = without(&self.strides, |axis| axis == first || axis == second);
        shape.push(Dim::Const(len.max(0)));
        strides.push(simplified(&self.strides[first] + &self.strides[second]));
        Ok(ViewSpec { shape: shape.into(), strides: strides.into(), offset })
    }

    /// Any shape and strides over the storage; the offset counts from the begin of the storage and is this one's if not given.
    ///
    /// # Errors
    /// If a number is negative, lengths and strides are not as many, or the storage (of `storage_len` elements) is too short.
    pub fn as_strided(
        &self,
        shape: &[i64],
        strides: &[i64],
        offset: Option<i64>,
        storage_len: i64,
    ) -> Result<ViewSpec, ViewError> {
        let Some(offset) = offset.or(self.offset.as_const()) else {
            return wrong("as_strided", format!("the offset {} has no known value", self.offset));
        };
        if shape.len() != strides.len() {
            return wrong("as_strided", format!("{} lengths but {} strides", shape.len(), strides.len()));
        }
        if let Some(number) = shape.iter().chain(strides).chain([&offset]).find(|number| **number < 0) {
            return wrong("as_strided", format!("{number} is negative"));
        }
        let steps = shape.iter().zip(strides).map(|(len, stride)| (i128::from(*len) - 1) * i128::from(*stride));
        let last = steps.fold(i128::from(offset), i128::saturating_add);
        if !shape.contains(&0) && last >= i128::from(storage_len) {
            return Err(ViewError::OutOfStorage { last: last.try_into().unwrap_or(i64::MAX), len: storage_len });
        }
        Ok(ViewSpec { shape: shape.into(), strides: strides.into(), offset: Dim::Const(offset) })
    }

    /// The given axes in reverse, as NumPy does it: without a copy.
    ///
    /// # Errors
    /// If there is no such axis, or one is named twice.
    pub fn flip(&self, axes: &[i64]) -> Result<ViewSpec, ViewError> {
        let mut flipped = self.clone();
        let mut seen = vec![false; self.rank()];
        for &axis in axes {
            let axis = self.real_axis("flip", axis)?;
            if std::mem::replace(&mut seen[axis], true) {
                return wrong("flip", format!("{axes:?} names axis {axis} twice"));
            }
            flipped = flipped.flipped(&[axis as u8].into_iter().collect());
        }
        Ok(flipped)
    }

    /// A slice with Python's meaning, whose step may be negative; what is empty keeps stride and offset.
    ///
    /// # Errors
    /// If there is no such axis, or the step is 0.
    pub fn slice_with_sign(
        &self,
        axis: i64,
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    ) -> Result<ViewSpec, ViewError> {
        let axis = self.real_axis("slice", axis)?;
        let len = self.known_len("slice", axis)?;
        if step == 0 {
            return wrong("slice", "the step is 0".to_string());
        }
        // Going down, -1 stands for "before the first".
        let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
        let inside = |bound: i64| (if bound < 0 { bound.saturating_add(len) } else { bound }).clamp(low, high);
        let (first, last) = if step > 0 { (low, high) } else { (high, low) };
        let (start, end) = (start.map_or(first, inside), end.map_or(last, inside));
        let way = if step > 0 { end - start } else { start - end };
        let step_len = step.unsigned_abs().min(i64::MAX as u64) as i64;
        let count = if way > 0 { (way - 1) / step_len + 1 } else { 0 };
        let (start, step) = if count == 0 { (0, 1) } else { (start, step) };
        Ok(ViewSpec {
            shape: with_replaced(&self.shape, axis, Dim::Const(count)),
            strides: with_replaced(&self.strides, axis, simplified(&self.strides[axis] * &Dim::Const(step))),
            offset: self.moved(start, axis),
        })
    }
}
