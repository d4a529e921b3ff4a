//! Images of other sizes, at other points, in regions; and boxes that do not cover each other.

use super::super::call::{Call, Done, one, resolve};
use super::super::error::{Failure, unsupported, wrong};
use super::Op;
use crate::DType;
use crate::tensor::{Beyond, Kernel, NearestRounding, Resampling, SampleMode, Tensor};

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("AffineGrid", |call| {
        let sizes = call.sizes(1)?;
        let spatial = sizes.get(2..).unwrap_or(&[]);
        one(call.tensor(0)?.affine_grid(spatial, call.flag("align_corners")?))
    }),
    ("GridSample", grid_sample),
    ("NonMaxSuppression", non_max_suppression),
    ("Resize", resize),
    ("RoiAlign", roi_align),
    ("Upsample", resize),
];

/// An axis of an image that is to be of another length.
struct Axis {
    axis: usize,
    length: i64,
    wanted: i64,
    scale: f64,
    /// The part of the axis that is looked at, from 0 to 1.
    part: (f64, f64),
}

impl Axis {
    /// Where new element `at` lies among the old ones.
    fn position(&self, at: i64, coordinates: &str) -> Result<f64, Failure> {
        let (x, length, wanted) = (at as f64, self.length as f64, self.wanted as f64);
        // As many elements as there would be, were there parts of them.
        let exact = self.scale * length;
        let half_pixel = (x + 0.5) / self.scale - 0.5;
        Ok(match coordinates {
            "half_pixel" => half_pixel,
            "half_pixel_symmetric" => {
                // The middle stays where it is, although lengths are rounded.
                let adjustment = wanted / (self.scale * length);
                length / 2.0 * (1.0 - adjustment) + half_pixel
            }
            "pytorch_half_pixel" => {
                if self.wanted > 1 {
                    half_pixel
                } else {
                    0.0
                }
            }
            "align_corners" => {
                if self.wanted > 1 {
                    x * (length - 1.0) / (exact - 1.0)
                } else {
                    0.0
                }
            }
            "asymmetric" => x / self.scale,
            "tf_crop_and_resize" => {
                let (start, end) = self.part;
                match self.wanted > 1 {
                    true => start * (length - 1.0) + x * (end - start) * (length - 1.0) / (wanted - 1.0),
                    false => 0.5 * (start + end) * (length - 1.0),
                }
            }
            other => wrong!("attribute 'coordinate_transformation_mode' is '{other}', which there is not"),
        })
    }
}

/// The axes that change, from scales or sizes.
fn axes_of(call: &Call<'_>, crops: bool) -> Result<Vec<Axis>, Failure> {
    let lengths = call.lengths(0)?;
    let axes = match call.ints("axes")? {
        Some(axes) => axes.iter().map(|&axis| resolve(axis, lengths.len())).collect::<Result<Vec<usize>, Failure>>()?,
        None => (0..lengths.len()).collect(),
    };
    // Before version 11 the scales come first, before version 9 they are an attribute.
    let is_old = call.node.op == "Upsample" || call.version < 11;
    let given = |number: usize| -> Result<Option<Vec<f64>>, Failure> {
        let found = if call.has(number) { call.floats(number)? } else { Vec::new() };
        Ok(Some(found).filter(|found| !found.is_empty()))
    };
    let listed = call.float_list("scales")?.map(|scales| scales.iter().map(|&scale| scale as f64).collect());
    let scales = if is_old { listed.map_or_else(|| given(1), |scales| Ok(Some(scales)))? } else { given(2)? };
    let sizes = if is_old { None } else { given(3)? };
    let region = if crops && !is_old { given(1)? } else { None };
    let numbers = match (&scales, &sizes) {
        (Some(scales), None) => scales,
        (_, Some(sizes)) => sizes,
        (None, None) => wrong!("there must be scales or sizes"),
    };
    if numbers.len() != axes.len() || region.as_ref().is_some_and(|region| region.len() != 2 * axes.len()) {
        wrong!("{} scales or sizes, or as many regions twice, for {} axes", numbers.len(), axes.len());
    }
    let ratio = |number: usize| numbers[number] / lengths[axes[number]].max(1) as f64;
    let ratios = || (0..axes.len()).map(ratio);
    let kept = match &*call.text_or("keep_aspect_ratio_policy", "stretch")? {
        "stretch" => None,
        "not_larger" => Some(ratios().fold(f64::INFINITY, f64::min)),
        "not_smaller" => Some(ratios().fold(0.0, f64::max)),
        other => wrong!(
            "attribute 'keep_aspect_ratio_policy' is '{other}', and must be 'stretch', 'not_larger' or 'not_smaller'"
        ),
    };
    let axis = |(number, &axis): (usize, &usize)| {
        let length = lengths[axis];
        let part = region.as_ref().map_or((0.0, 1.0), |region| (region[number], region[number + axes.len()]));
        let (wanted, scale) = match (&sizes, kept) {
            (None, _) => ((length as f64 * (part.1 - part.0) * numbers[number]).floor(), numbers[number]),
            (Some(_), None) => (numbers[number], ratio(number)),
            (Some(_), Some(scale)) => ((scale * length as f64 + 0.5).floor(), scale),
        };
        Axis { axis, length, wanted: wanted as i64, scale, part }
    };
    Ok(axes.iter().enumerate().map(axis).collect())
}

fn resize(call: &Call<'_>) -> Done {
    let is_old = call.node.op == "Upsample" || call.version < 11;
    let coordinates =
        call.text_or("coordinate_transformation_mode", if is_old { "asymmetric" } else { "half_pixel" })?;
    let crops = coordinates == "tf_crop_and_resize";
    let rounding = match &*call.text_or("nearest_mode", if is_old { "floor" } else { "round_prefer_floor" })? {
        "round_prefer_floor" => NearestRounding::HalfDown,
        "round_prefer_ceil" => NearestRounding::HalfUp,
        "floor" => NearestRounding::Floor,
        "ceil" => NearestRounding::Ceil,
        other => wrong!("attribute 'nearest_mode' is '{other}', which there is not"),
    };
    let kernel = match &*call.text_or("mode", "nearest")? {
        "nearest" => Kernel::Nearest(rounding),
        "linear" | "bilinear" => Kernel::Linear,
        "cubic" => Kernel::Cubic(call.float_or("cubic_coeff_a", -0.75)?),
        other => wrong!("attribute 'mode' is '{other}', and must be 'nearest', 'linear' or 'cubic'"),
    };
    let (antialias, exclude_outside) = (call.flag("antialias")?, call.flag("exclude_outside")?);
    let mut x = call.tensor(0)?.clone();
    let dtype = x.dtype()?;
    let mut outside: Option<Tensor> = None;
    for change in axes_of(call, crops)? {
        if !(0..=1 << 24).contains(&change.wanted) {
            wrong!("axis {} cannot have {} elements", change.axis, change.wanted);
        }
        if change.wanted == change.length && change.scale == 1.0 && !crops {
            continue;
        }
        let positions =
            (0..change.wanted).map(|at| change.position(at, &coordinates)).collect::<Result<Vec<f64>, Failure>>()?;
        x = x.resample(
            change.axis as i64,
            &positions,
            &Resampling::default()
                .kernel(kernel)
                .scale(change.scale)
                .antialias(antialias)
                .exclude_outside(exclude_outside),
        );
        let beyond: Vec<bool> = positions.iter().map(|&at| at < 0.0 || at > (change.length - 1) as f64).collect();
        if crops && beyond.contains(&true) {
            let mut line = vec![1i64; x.rank()?];
            line[change.axis] = change.wanted;
            let here = Tensor::from_vec(beyond, line);
            outside = Some(outside.map_or_else(|| here.clone(), |other| other.logical_or(&here)));
        }
    }
    if let Some(outside) = outside {
        x = outside.where_(Tensor::full_of([0i64; 0], call.float_or("extrapolation_value", 0.0)?, dtype), x);
    }
    one(x)
}

fn grid_sample(call: &Call<'_>) -> Done {
    let mode = match &*call.text_or("mode", "linear")? {
        "linear" | "bilinear" => SampleMode::Linear,
        "nearest" => SampleMode::Nearest,
        "cubic" | "bicubic" => SampleMode::Cubic,
        other => wrong!("attribute 'mode' is '{other}', and must be 'linear', 'nearest' or 'cubic'"),
    };
    let beyond = match &*call.text_or("padding_mode", "zeros")? {
        "zeros" => Beyond::Zeros,
        "border" => Beyond::Border,
        "reflection" => Beyond::Reflection,
        other => wrong!("attribute 'padding_mode' is '{other}', and must be 'zeros', 'border' or 'reflection'"),
    };
    one(call.tensor(0)?.grid_sample(call.tensor(1)?, mode, beyond, call.flag("align_corners")?))
}

fn roi_align(call: &Call<'_>) -> Done {
    let (x, rois, batch) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let [_, channels, height, width] = call.lengths(0)?[..] else { wrong!("x must have 4 axes") };
    let [count, 4] = call.lengths(1)?[..] else { wrong!("the regions must be [regions, 4]") };
    let (oh, ow) = (call.int_or("output_height", 1)?, call.int_or("output_width", 1)?);
    let ratio = call.int_or("sampling_ratio", 0)?;
    if !(1..=1 << 16).contains(&oh) || !(1..=1 << 16).contains(&ow) || !(0..=1 << 12).contains(&ratio) {
        wrong!("the output must have 1 element or more along each axis, and the sampling ratio be 0 or more");
    }
    let scale = call.float_or("spatial_scale", 1.0)?;
    let default = if call.version < 16 { "output_half_pixel" } else { "half_pixel" };
    let half = call.text_or("coordinate_transformation_mode", default)? == "half_pixel";
    let largest = match &*call.text_or("mode", "avg")? {
        "avg" => false,
        "max" => true,
        other => wrong!("attribute 'mode' is '{other}', and must be 'avg' or 'max'"),
    };
    let known = if ratio == 0 { call.floats(1)? } else { Vec::new() };
    let images = x.index(&[0], &[batch]);
    let moved = rois * scale - if half { 0.5 } else { 0.0 };
    // One region after the other if each is looked at in as many points as it is large.
    let groups: Vec<(i64, i64, i64, i64)> = if ratio > 0 {
        vec![(0, count, ratio, ratio)]
    } else {
        let points = |number: i64, low: usize, cells: i64| {
            let ends = [low, low + 2].map(|k| known.get(number as usize * 4 + k).copied().unwrap_or(0.0) * scale);
            let size = if half { ends[1] - ends[0] } else { (ends[1] - ends[0]).max(1.0) };
            ((size / cells as f64).ceil() as i64).clamp(1, 4096)
        };
        (0..count).map(|number| (number, 1, points(number, 1, oh), points(number, 0, ow))).collect()
    };
    let mut parts = Vec::new();
    for (start, count, rows, columns) in groups {
        let region = moved.narrow(0, start, count);
        let along = |low: i64, cells: i64, points: i64| {
            let (begin, end) = (region.narrow(1, low, 1i64), region.narrow(1, low + 2, 1i64));
            let size = if half { end - &begin } else { (end - &begin).maximum(1.0) };
            let steps = (Tensor::iota(cells * points).cast(DType::F32) + 0.5) / (cells * points) as f64;
            begin + size * steps.cast(rois.dtype().unwrap_or(DType::F32)).unsqueeze(0)
        };
        let (y, x) = (along(1, oh, rows), along(0, ow, columns));
        let all = [count, oh * rows, ow * columns];
        let wide = |points: &Tensor, axis: i64| points.unsqueeze(axis).expand(all).reshape([count, all[1] * all[2]]);
        let (y, x) = (wide(&y, 2), wide(&x, 1));
        let outside = |at: &Tensor, length: i64| at.lt(-1.0).logical_or(at.gt(length as f64));
        let seen = outside(&y, height).logical_or(outside(&x, width)).logical_not().unsqueeze(1);
        let part = images.narrow(0, start, count);
        let found = if largest { largest_share(&part, &y, &x, [height, width]) } else { lines(&part, &y, &x) };
        let cells = seen.where_(found, 0.0).reshape([count, channels, oh, rows, ow, columns]);
        parts.push(if largest { cells.max([3, 5]) } else { cells.mean([3, 5]) });
    }
    if parts.is_empty() {
        return one(Tensor::zeros_of([0, channels, oh, ow], x.dtype()?));
    }
    one(Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0))
}

/// Images at points, by straight lines between elements.
fn lines(images: &Tensor, y: &Tensor, x: &Tensor) -> Tensor {
    images.sample_at(&[y.clone(), x.clone()], SampleMode::Linear, Beyond::Border, true)
}

/// The largest of what the four neighbours of a point give to it.
fn largest_share(images: &Tensor, y: &Tensor, x: &Tensor, lengths: [i64; 2]) -> Tensor {
    let ends = |at: &Tensor, length: i64| {
        let at = at.clamp(Some(0.0.into()), Some(((length - 1) as f64).into()));
        let low = at.floor();
        let part = &at - &low;
        [(low.clone(), 1.0 - &part), ((low + 1.0).clamp(None, Some(((length - 1) as f64).into())), part)]
    };
    let (rows, columns) = (ends(y, lengths[0]), ends(x, lengths[1]));
    let corner = |row: &(Tensor, Tensor), column: &(Tensor, Tensor)| {
        let at = [row.0.clone(), column.0.clone()];
        images.sample_at(&at, SampleMode::Nearest, Beyond::Border, true) * (&row.1 * &column.1).unsqueeze(1)
    };
    let all = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(row, column)| corner(&rows[row], &columns[column]));
    all[1..].iter().fold(all[0].clone(), |most, next| most.maximum(next))
}

/// A box by its corners.
#[derive(Clone, Copy)]
struct Corners {
    low: [f64; 2],
    high: [f64; 2],
}

impl Corners {
    fn area(self) -> f64 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// The share of what both cover that is in both.
    fn overlap(self, other: Corners) -> f64 {
        let side = |k: usize| (self.high[k].min(other.high[k]) - self.low[k].max(other.low[k])).max(0.0);
        let both = side(0) * side(1);
        let all = self.area() + other.area() - both;
        if all > 0.0 { both / all } else { 0.0 }
    }
}

/// Boxes in the order of their scores that overlap no better one too much; scores and boxes must be known, for how many there are is the shape.
fn non_max_suppression(call: &Call<'_>) -> Done {
    let ([batches, count, 4], [_, classes, others]) = (&call.lengths(0)?[..], &call.lengths(1)?[..]) else {
        wrong!("the boxes must be [batch, boxes, 4] and the scores [batch, classes, boxes]");
    };
    if others != count {
        unsupported!("{count} boxes and scores of {others}");
    }
    let (batches, count, classes) = (*batches as usize, *count as usize, *classes as usize);
    let (boxes, scores) = (call.floats(0)?, call.floats(1)?);
    let most = if call.has(2) { call.integer(2)?.max(0) as usize } else { 0 };
    let overlap = if call.has(3) { call.float(3)? } else { 0.0 };
    let least = if call.has(4) { call.float(4)? } else { f64::NEG_INFINITY };
    let centred = call.flag("center_point_box")?;
    let corners = |batch: usize, number: usize| {
        let at = &boxes[(batch * count + number) * 4..][..4];
        if centred {
            let (x, y, w, h) = (at[0], at[1], at[2] / 2.0, at[3] / 2.0);
            return Corners { low: [y - h, x - w], high: [y + h, x + w] };
        }
        let ends = |k: usize| (at[k].min(at[k + 2]), at[k].max(at[k + 2]));
        let (y, x) = (ends(0), ends(1));
        Corners { low: [y.0, x.0], high: [y.1, x.1] }
    };
    let mut chosen: Vec<i64> = Vec::new();
    for batch in 0..batches {
        for class in 0..classes {
            let score = |number: usize| scores[(batch * classes + class) * count + number];
            let mut order: Vec<usize> = (0..count).filter(|&number| score(number) > least).collect();
            order.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
            let mut kept: Vec<usize> = Vec::new();
            for number in order {
                let is_apart = |&other: &usize| corners(batch, number).overlap(corners(batch, other)) <= overlap;
                if kept.len() < most && kept.iter().all(is_apart) {
                    kept.push(number);
                }
            }
            chosen.extend(kept.into_iter().flat_map(|number| [batch as i64, class as i64, number as i64]));
        }
    }
    let rows = chosen.len() / 3;
    one(Tensor::from_vec(chosen, [rows, 3]))
}
