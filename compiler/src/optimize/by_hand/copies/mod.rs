//! Copies that the choice by hand makes on a CPU: an operand that lies badly, or does not fit the near caches, is copied to scratch in the order in which it is read.
//!
//! [`product`] copies both operands of a matrix product, block by block (also of narrow numbers); [`panels`] the awkward operand of any contraction, [`dot_panels`] that of narrow numbers, [`tile_panels`] for tiles of these, [`panel_blocks`] and [`term_blocks`]
//! some terms of it at a time; [`row_lanes`] both operands of a contraction whose results lie in short rows; [`windows`] the input of overlapping windows, [`frames`] where some rows share it;
//! [`pack`] the operand that all tiles of rows share, [`row_blocks`] for blocks of these where they are many.

pub(super) mod dot_panels;
pub(super) mod frames;
pub(super) mod pack;
pub(super) mod panel_blocks;
pub(super) mod panels;
pub(super) mod product;
pub(super) mod row_blocks;
pub(super) mod row_lanes;
pub(super) mod term_blocks;
mod terms;
pub(super) mod tile_panels;
pub(super) mod windows;

#[cfg(test)]
mod tests {
    //! Convolutions of which the tests of these modules ask for the choice by hand.

    use crate::ir::text::parse;
    use crate::optimize::{Opts, choose};
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    /// A convolution of square images with square windows, padded so that the result of steps of one is as long as the image: `channels` of the image, `rows` of the result, `window` the length of a window.
    #[derive(Clone, Copy)]
    pub(super) struct Convolution {
        pub(super) dtype: &'static str,
        pub(super) images: i64,
        pub(super) channels: i64,
        pub(super) side: i64,
        pub(super) rows: i64,
        pub(super) window: i64,
        /// From one window to the next.
        pub(super) step: i64,
        /// Whether the gradient of the result is part of more memory, and a variable says where it begins.
        pub(super) is_view: bool,
    }

    impl Convolution {
        /// One of `f32` and windows of 3 x 3.
        pub(super) fn new([images, channels, side, rows]: [i64; 4]) -> Convolution {
            Convolution { dtype: "f32", images, channels, side, rows, window: 3, step: 1, is_view: false }
        }

        /// The opts by hand of the result.
        pub(super) fn result(self, target: &Target) -> String {
            let Convolution { dtype, images, channels, side, rows, window, step, .. } = self;
            let (padding, width) = (window / 2, side + window / 2 * 2);
            let out = (width - window) / step + 1;
            opts(
                &format!(
                    "graph %c(z: {dtype}[{images}, {rows}, {out}, {out}], x: {dtype}[{images}, {channels}, {side}, {side}], w: {dtype}[{rows}, {channels}, {window}, {window}]) {{
  p = pad x, [0:0, 0:0, {padding}:{padding}, {padding}:{padding}]
  v = as_strided p, [{images}, 1, {out}, {out}, {channels}, {window}, {window}] strides [{}, 0, {}, {step}, {}, {width}, 1] offset 0
  e = expand v, [{images}, {rows}, {out}, {out}, {channels}, {window}, {window}]
  f = reshape w, [1, {rows}, 1, 1, {channels}, {window}, {window}]
  h = expand f, [{images}, {rows}, {out}, {out}, {channels}, {window}, {window}]
  m = mul e, h
  y = reduce m, add (4, 5, 6)
  done = store z, y
  k = sink done
  return k
}}",
                    channels * width * width,
                    step * width,
                    width * width,
                ),
                target,
            )
        }

        /// The opts by hand of the gradient by the weight.
        pub(super) fn gradient_by_weight(self, target: &Target) -> String {
            let Convolution { dtype, images, channels, side, rows, window, is_view, .. } = self;
            let (padding, width) = (window / 2, side + window / 2 * 2);
            let area = side * side;
            let (begin, offset) = if is_view { (", at: index 0..1000000 named \"at\"", "at") } else { ("", "0") };
            opts(
                &format!(
                    "graph %g(z: {dtype}[{rows}, {channels}, {window}, {window}], x: {dtype}[{images}, {channels}, {side}, {side}], g: {dtype}[{images}, {rows}, {side}, {side}]{begin}) {{
  p = pad x, [0:0, 0:0, {padding}:{padding}, {padding}:{padding}]
  v = as_strided p, [{images}, 1, {channels}, {side}, {side}, {window}, {window}] strides [{}, 0, {}, {width}, 1, {width}, 1] offset 0
  e = expand v, [{images}, {rows}, {channels}, {side}, {side}, {window}, {window}]
  f = as_strided g, [{images}, {rows}, 1, {side}, {side}, 1, 1] strides [{}, {area}, 0, {side}, 1, 0, 0] offset {offset}
  h = expand f, [{images}, {rows}, {channels}, {side}, {side}, {window}, {window}]
  m = mul e, h
  y = reduce m, add (0, 3, 4)
  done = store z, y
  k = sink done
  return k
}}",
                    channels * width * width,
                    width * width,
                    rows * area,
                ),
                target,
            )
        }
    }

    pub(super) fn opts(text: &str, target: &Target) -> String {
        let ast = parse(text).expect("a graph").roots[0].clone();
        Opts::List(choose(&loops_of(&ast, &mut Silent), target).applied).to_string()
    }
}
