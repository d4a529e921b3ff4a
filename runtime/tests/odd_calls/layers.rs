//! Convolutions, pooling, attention, normalisations and losses.

use warpweft::tensor::{
    AttentionOptions, ClassOptions, ConvOptions, CtcOptions, MultiMarginOptions, PoolOptions, Reduction, Resize,
};

use super::{LEAST, MOST, case, check, floats, integers};

// tidy: table
#[test]
fn each_odd_call_says_what_was_wrong() {
    let (x, image) = (floats(&[2, 3]), floats(&[1, 4, 5, 5]));
    let conv = ConvOptions::default;
    let pool = PoolOptions::default;
    let three = floats(&[2, 3, 4]);
    check(vec![
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().stride([0])),
            "stride 0 is out of range: it must be 1 or more",
        ),
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().stride([LEAST])),
            "stride -9223372036854775808 is out of range: it must be 1 or more",
        ),
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().padding([MOST])),
            "padding 9223372036854775807 is out of range: it must be 0 or more",
        ),
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().dilation([MOST])),
            "dilation 9223372036854775807 is out of range: it must be 1 or more",
        ),
        case(|| image.conv(&floats(&[2, 4, 3, 3]), None, &conv().groups(0)), "0 groups do not divide 4 channels"),
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().groups(LEAST)),
            "-9223372036854775808 groups do not divide 4 channels",
        ),
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().stride([1, 1, 1])),
            "3 numbers of stride for 2 spatial axes",
        ),
        case(
            || image.conv(&integers(&[9]), None, &conv()),
            "x needs axes [batch, channels, ..] and the weight as many, not [1, 4, 5, 5] and [9]",
        ),
        case(
            || floats(&[3]).conv(&floats(&[3]), None, &conv()),
            "x needs axes [batch, channels, ..] and the weight as many, not [3] and [3]",
        ),
        case(
            || image.conv_transpose(&floats(&[4, 1, 3, 3]), None, &conv().output_padding([MOST])),
            "output padding 9223372036854775807 is out of range: it must be 0 or more",
        ),
        case(|| image.max_pool(&pool().kernel([0])), "kernel size 0 is out of range: it must be 1 or more"),
        case(
            || image.max_pool(&pool().kernel([MOST])),
            "kernel size 9223372036854775807 is out of range: it must be 1 or more",
        ),
        case(|| image.max_pool(&pool().kernel([2, 2, 2, 2, 2])), "[1, 4, 5, 5] has fewer than the 5 axes to pool"),
        case(|| image.avg_pool(&pool().stride([-1])), "stride -1 is out of range: it must be 1 or more"),
        case(
            || image.adaptive_avg_pool([0, 0]),
            "the sizes [0, 0] must be 1 or more, for as many axes that have elements, and a",
        ),
        case(
            || image.adaptive_avg_pool([-1i64]),
            "the sizes [-1] must be 1 or more, for as many axes that have elements, and a",
        ),
        case(
            || image.adaptive_max_pool([MOST, MOST]),
            "the sizes [9223372036854775807, 9223372036854775807] must be 1 or more, for as many axes that have",
        ),
        case(
            || image.interpolate([MOST, MOST], Resize::Nearest),
            "the shape [1, 4, 9223372036854775807, 9223372036854775807] has more elements than memory can hold",
        ),
        case(|| image.interpolate([1usize, 1, 1, 1, 1], Resize::Nearest), "5 sizes for [1, 4, 5, 5]"),
        case(
            || image.interpolate_area([0]),
            "the sizes [0] must be 1 or more, for as many axes that have elements, and a",
        ),
        case(
            || image.interpolate_cubic([-1i64, 2], false),
            "the sizes [-1, 2] must be 1 or more, for as many axes that have elements, and a",
        ),
        case(
            || image.pixel_shuffle(0),
            "there must be three axes at least, the third last of a length that is a number, and the factor 1 or",
        ),
        case(
            || image.pixel_shuffle(MOST),
            "there must be three axes at least, the third last of a length that is a number, and the factor 1 or",
        ),
        case(|| image.pixel_unshuffle(-2), "5 rows and 5 columns must be multiples of the factor -2"),
        case(|| x.layer_norm(&[0i64; 0], None, None, 1e-5), "[2, 3] does not end in the normalised shape []"),
        case(
            || x.layer_norm(&[3], Some(&floats(&[4])), None, 1e-5),
            "[4] does not broadcast to [2, 3]: length 4 meets 3",
        ),
        case(|| x.rms_norm(Some(&floats(&[2])), 1e-5), "[2] does not broadcast to [2, 3]: length 2 meets 3"),
        case(|| image.group_norm(0, None, None, 1e-5), "0 groups do not divide 4 channels"),
        case(|| image.group_norm(MOST, None, None, 1e-5), "9223372036854775807 groups do not divide 4 channels"),
        case(
            || x.attention(&three, &three, &AttentionOptions::default()),
            "the lengths to sum over differ: 3 on the left, 4 on the right",
        ),
        case(
            || three.attention(&three, &floats(&[2, 9, 4]), &AttentionOptions::default()),
            "the lengths to sum over differ: 3 on the left, 9 on the right",
        ),
        case(
            || three.attention(&three, &three, &AttentionOptions::default().mask(floats(&[7, 7]))),
            "the shapes [2, 3, 3] and [7, 7] do not broadcast: lengths 3 and 7 meet",
        ),
        case(|| x.embedding(&floats(&[2])), "the index is f32, not an integer"),
        case(|| floats(&[]).embedding(&integers(&[2])), "the table [] has 0 axes, not 2"),
        case(|| x.dropout(f64::NAN), "NaN is no probability"),
        case(|| x.dropout(-0.5), "-0.5 is no probability"),
        case(
            || x.cross_entropy(&floats(&[9]), &ClassOptions::default()),
            "target probabilities [9] do not have the logits' shape [2, 3]",
        ),
        case(
            || x.cross_entropy(&integers(&[2]), &ClassOptions::default().weight(floats(&[7]))),
            "the weight [7] is not one number for each of 3 classes",
        ),
        case(
            || x.cross_entropy(&integers(&[2]), &ClassOptions::default().label_smoothing(2.0)),
            "label smoothing 2 is not between 0 and 1",
        ),
        case(
            || x.nll_loss(&integers(&[5]), &ClassOptions::default()),
            "targets [5] do not fit scores [2, 3], whose axis 1 holds the classes",
        ),
        case(
            || x.mse_loss(&floats(&[4]), Reduction::Sum),
            "the shapes [2, 3] and [4] do not broadcast: lengths 3 and 4 meet",
        ),
        case(|| x.huber_loss(&x, -1.0, Reduction::Mean), "delta is -1, and must be above 0"),
        case(|| x.smooth_l1_loss(&x, -1.0, Reduction::Mean), "beta is -1, and must be 0 or more"),
        case(
            || floats(&[2, 3, 4]).multi_margin_loss(&integers(&[2]), &MultiMarginOptions::default()),
            "scores must be [batch, classes] or [classes]",
        ),
        case(
            || x.multi_margin_loss(&integers(&[1]), &MultiMarginOptions::default()),
            "the target must be [2], as the scores are [2, 3]",
        ),
        case(
            || x.multilabel_margin_loss(&integers(&[2]), Reduction::Mean),
            "the target must be [2, 3], as the scores are [2, 3]",
        ),
        case(|| x.cosine_similarity(&x, 4, 1e-8), "axis 4 is out of range: 2 axes take -2 to 1"),
        case(
            || x.ctc_loss(&integers(&[2, 2]), &integers(&[2]), &integers(&[2]), &CtcOptions::default()),
            "log-probabilities must be [steps, batch, classes] and targets [batch, length], with lengths that",
        ),
    ]);
}
