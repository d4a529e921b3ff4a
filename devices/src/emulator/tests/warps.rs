//! What threads do together, in every order: shuffles, votes, barriers, matrices, copies.

use warpweft_compiler::program::Access;

use super::Case;

/// Stores `%r0` of each thread to its element of the first buffer.
const STORE: &str = "
    mul.wide.u32 %rd8, %r31, 4;
    add.s64 %rd8, %rd0, %rd8;
    st.global.b32 [%rd8], %r0;";

/// What each lane of a warp has after a body that leaves it in `%r0`.
fn lanes(body: &str) -> Vec<u32> {
    let case = |seed| Case::new(&format!("{body}{STORE}")).threads(32).buffers(&[(32, Access::Write)]).seed(seed);
    let first = case(0).run();
    (1..5).for_each(|seed| assert_eq!(case(seed).run(), first, "another order, another value: {body}"));
    first
}

/// A shuffle of the lanes' numbers with these operands; 100 more where the lane that is named is outside.
fn shuffled(mode: &str, b: &str, c: &str) -> Vec<u32> {
    lanes(&format!("shfl.sync.{mode}.b32 %r0|%p0, %r31, {b}, {c}, -1;\n@!%p0 add.u32 %r0, %r0, 100;"))
}

#[test]
fn shuffles_take_from_the_lane_that_the_manual_says() {
    let expected = |from: &dyn Fn(u32) -> Option<u32>| -> Vec<u32> {
        (0..32).map(|lane| from(lane).unwrap_or(lane + 100)).collect()
    };
    // A clamp of 31 is the whole warp; up goes down to 0, so its clamp is 0.
    assert_eq!(shuffled("up", "3", "0"), expected(&|lane| lane.checked_sub(3)));
    assert_eq!(shuffled("down", "3", "31"), expected(&|lane| (lane + 3 < 32).then_some(lane + 3)));
    assert_eq!(shuffled("bfly", "5", "31"), expected(&|lane| Some(lane ^ 5)));
    assert_eq!(shuffled("idx", "7", "31"), expected(&|_| Some(7)));
    // Segments of 8 lanes: the mask of the segment stands in bits 8 to 12.
    let segment = (24 << 8).to_string();
    let clamped = (24 << 8 | 7).to_string();
    assert_eq!(shuffled("up", "2", &segment), expected(&|lane| (lane % 8 >= 2).then(|| lane - 2)));
    assert_eq!(shuffled("down", "2", &clamped), expected(&|lane| (lane % 8 < 6).then_some(lane + 2)));
    assert_eq!(shuffled("idx", "2", &clamped), expected(&|lane| Some(lane / 8 * 8 + 2)));
    // A butterfly may leave the segment only upward.
    assert_eq!(shuffled("bfly", "9", "15"), expected(&|lane| (lane ^ 9 <= 15).then_some(lane ^ 9)));
}

#[test]
fn halves_of_a_warp_shuffle_apart() {
    let body = "
        setp.lt.u32 %p0, %r31, 16;
        @%p0 bra low;
        shfl.sync.bfly.b32 %r0, %r31, 8, 31, 0xFFFF0000;
        bra end;
      low:
        shfl.sync.bfly.b32 %r0, %r31, 1, 31, 0x0000FFFF;
      end:";
    let expected: Vec<u32> = (0..32).map(|lane| if lane < 16 { lane ^ 1 } else { lane ^ 8 }).collect();
    assert_eq!(lanes(body), expected);
}

#[test]
fn votes_are_of_all_that_take_part() {
    let body = |vote: &str| format!("setp.ge.u32 %p0, %r31, 4;\n{vote}\n");
    let pred = |mode| lanes(&body(&format!("vote.sync.{mode}.pred %p1, %p0, -1;\nselp.b32 %r0, 1, 0, %p1;")));
    assert_eq!((pred("all")[9], pred("any")[9], pred("uni")[9]), (0, 1, 0));
    assert_eq!(lanes(&body("vote.sync.ballot.b32 %r0, %p0, -1;")), [0xffff_fff0; 32]);
}

#[test]
fn threads_exchange_through_shared_memory() {
    // Each thread stores its number; behind the barrier it takes that of the thread across.
    let body = "
        mov.u64 %rd9, tile;
        mad.wide.u32 %rd10, %r31, 4, %rd9;
        st.shared.b32 [%rd10], %r31;
        bar.sync 0;
        xor.b32 %r1, %r31, 127;
        mad.wide.u32 %rd11, %r1, 4, %rd9;
        ld.shared.b32 %r0, [%rd11];";
    let expected: Vec<u32> = (0..128).map(|thread| thread ^ 127).collect();
    for seed in 0..8 {
        let case = Case::new(&format!("{body}{STORE}")).module(".shared .align 16 .b8 tile[512];").threads(128);
        assert_eq!(case.buffers(&[(128, Access::Write)]).seed(seed).run(), expected);
    }
}

#[test]
fn blocks_have_shared_memory_of_their_own_and_dynamic_memory_is_that_of_the_launch() {
    let body = "
        mov.u32 %r1, %ctaid.x;
        mov.u32 %r2, %nctaid.x;
        mov.u32 %r3, %ntid.x;
        mad.lo.u32 %r4, %r1, %r3, %r31;
        st.shared.b32 [pool+4], %r1;
        ld.shared.b32 %r0, [pool+4];
        mad.lo.u32 %r0, %r0, %r2, %r2;
        mul.wide.u32 %rd8, %r4, 4;
        add.s64 %rd8, %rd0, %rd8;
        st.global.b32 [%rd8], %r0;";
    let mut case = Case::new(body).module(".extern .shared .align 16 .b8 pool[];").blocks(3);
    (case.shared_bytes, case.buffers) = (8, vec![(3, Access::Write)]);
    assert_eq!(case.run(), [3, 6, 9]);
    case.shared_bytes = 4;
    let (_, message) = case.fault(&[]);
    assert_eq!(message, "4 bytes at byte 4 of `pool`, which has 4: out of bounds");
}

/// Numbers that the formats hold exactly, by row and column.
fn number(row: usize, column: usize, seed: usize) -> f32 {
    ((row * 7 + column * 3 + seed) % 11) as f32 - 5.0
}

/// The product of 16 x k and k x 8, with a sum before of row + 100.
fn product(depth: usize) -> Vec<u32> {
    let mut result = Vec::new();
    for row in 0..16 {
        for column in 0..8 {
            let sum: f32 = (0..depth).map(|k| number(row, k, 1) * number(k, column, 2)).sum();
            result.push((sum + row as f32 + 100.0).to_bits());
        }
    }
    result
}

/// Loads and stores the fragment of the sums: registers `%f0` to `%f3` of a row-major matrix of 16 x 8.
const SUMS: &str = "
    shr.u32 %r1, %r31, 2;
    and.b32 %r2, %r31, 3;
    cvt.rn.f32.u32 %f0, %r1;
    add.rn.f32 %f0, %f0, 0f42C80000;
    mov.f32 %f1, %f0;
    add.rn.f32 %f2, %f0, 0f41000000;
    mov.f32 %f3, %f2;
    shl.b32 %r3, %r1, 3;
    shl.b32 %r4, %r2, 1;
    add.u32 %r3, %r3, %r4;
    mad.wide.u32 %rd8, %r3, 4, %rd0;
    ";
const STORE_SUMS: &str = "
    st.global.v2.f32 [%rd8], {%f0, %f1};
    st.global.v2.f32 [%rd8+256], {%f2, %f3};";

/// Words of a matrix whose elements are halves, two in a word.
fn pairs(rows: usize, columns: usize, at: impl Fn(usize, usize) -> f32, to_bits: impl Fn(f32) -> u16) -> Vec<u32> {
    let element = |index: usize| u32::from(to_bits(at(index / columns, index % columns)));
    (0..rows * columns / 2).map(|word| element(2 * word) | element(2 * word + 1) << 16).collect()
}

#[test]
fn matrices_are_multiplied_by_their_fragments() {
    // A is 16 x 16 by rows in the second buffer, B is 16 x 8 by columns in the third: a lane loads the words that the manual says are its own.
    let body = |kind: &str| {
        format!(
            "{SUMS}
        mad.lo.u32 %r5, %r1, 8, %r2;
        mad.wide.u32 %rd9, %r5, 4, %rd1;
        ld.global.b32 %r10, [%rd9];
        ld.global.b32 %r11, [%rd9+256];
        ld.global.b32 %r12, [%rd9+16];
        ld.global.b32 %r13, [%rd9+272];
        mad.wide.u32 %rd10, %r5, 4, %rd2;
        ld.global.b32 %r14, [%rd10];
        ld.global.b32 %r15, [%rd10+16];
        mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{%f0, %f1, %f2, %f3}}, {{%r10, %r11, %r12, %r13}}, {{%r14, %r15}}, {{%f0, %f1, %f2, %f3}};
        {STORE_SUMS}"
        )
    };
    let buffers = [(128, Access::Write), (128, Access::Read), (64, Access::Read)];
    for (kind, to_bits) in [
        ("f16", (|x| half::f16::from_f32(x).to_bits()) as fn(f32) -> u16),
        ("bf16", |x| half::bf16::from_f32(x).to_bits()),
    ] {
        let a = pairs(16, 16, |row, k| number(row, k, 1), to_bits);
        let b = pairs(8, 16, |column, k| number(k, column, 2), to_bits);
        let found = Case::new(&body(kind)).threads(32).buffers(&buffers).run_with(&[&[], &a, &b]).unwrap();
        assert_eq!(found[0], product(16), "{kind}");
    }
}

#[test]
fn matrices_of_tf32_have_words() {
    let body = format!(
        "{SUMS}
        mad.lo.u32 %r5, %r1, 8, %r2;
        mad.wide.u32 %rd9, %r5, 4, %rd1;
        ld.global.b32 %r10, [%rd9];
        ld.global.b32 %r11, [%rd9+256];
        ld.global.b32 %r12, [%rd9+16];
        ld.global.b32 %r13, [%rd9+272];
        mad.wide.u32 %rd10, %r5, 4, %rd2;
        ld.global.b32 %r14, [%rd10];
        ld.global.b32 %r15, [%rd10+16];
        mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%f0, %f1, %f2, %f3}}, {{%r10, %r11, %r12, %r13}}, {{%r14, %r15}}, {{%f0, %f1, %f2, %f3}};
        {STORE_SUMS}"
    );
    // The low 13 bits of a word are not looked at.
    let word = |x: f32| x.to_bits() | 0x0fff;
    let a: Vec<u32> = (0..128).map(|index| word(number(index / 8, index % 8, 1))).collect();
    let b: Vec<u32> = (0..64).map(|index| word(number(index % 8, index / 8, 2))).collect();
    let buffers = [(128, Access::Write), (128, Access::Read), (64, Access::Read)];
    assert_eq!(Case::new(&body).threads(32).buffers(&buffers).run_with(&[&[], &a, &b]).unwrap()[0], product(8));
}

#[test]
fn matrices_are_loaded_from_rows_of_shared_memory() {
    // Element e of the tile is e; four matrices of 8 x 8 lie one behind the other, so row r of matrix m begins at 16 * (8 m + r).
    let body = |form: &str| {
        format!(
            "
        mov.u64 %rd9, tile;
        mad.wide.u32 %rd10, %r31, 16, %rd9;
        shl.b32 %r1, %r31, 3;
        add.u32 %r2, %r1, 1;
        mov.u32 %r20, 0;
      fill:
        cvt.u16.u32 %rs0, %r1;
        cvt.u16.u32 %rs1, %r2;
        mov.b32 %r3, {{%rs0, %rs1}};
        mad.wide.u32 %rd11, %r20, 4, %rd10;
        st.shared.b32 [%rd11], %r3;
        add.u32 %r1, %r1, 2;
        add.u32 %r2, %r2, 2;
        add.u32 %r20, %r20, 1;
        setp.lt.u32 %p0, %r20, 4;
        @%p0 bra fill;
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x4{form}.shared.b16 {{%r4, %r5, %r6, %r7}}, [%rd10];
        mad.wide.u32 %rd8, %r31, 16, %rd0;
        st.global.v4.b32 [%rd8], {{%r4, %r5, %r6, %r7}};"
        )
    };
    let run = |form| {
        let case = Case::new(&body(form)).module(".shared .align 16 .b8 tile[512];").threads(32);
        case.buffers(&[(128, Access::Write)]).run()
    };
    let expected = |at: &dyn Fn(u32, u32, u32) -> u32| -> Vec<u32> {
        let word = |index: u32| {
            let (lane, matrix) = (index / 4, index % 4);
            let (row, column) = (lane / 4, lane % 4 * 2);
            at(matrix, row, column) | at(matrix, row, column + 1) << 16
        };
        (0..128).map(word).collect()
    };
    assert_eq!(run(""), expected(&|matrix, row, column| matrix * 64 + row * 8 + column));
    assert_eq!(run(".trans"), expected(&|matrix, row, column| matrix * 64 + column * 8 + row));
}

/// Copies 16 bytes for each of 32 threads to shared memory; what is between waits, then each takes those of the thread across.
pub(super) fn copies(between: &str) -> Case {
    let body = format!(
        "
        mov.u64 %rd9, tile;
        mad.wide.u32 %rd10, %r31, 16, %rd9;
        mad.wide.u32 %rd11, %r31, 16, %rd1;
        cp.async.cg.shared.global [%rd10], [%rd11], 16;
        cp.async.commit_group;
        {between}
        xor.b32 %r1, %r31, 31;
        mad.wide.u32 %rd12, %r1, 16, %rd9;
        ld.shared.b32 %r0, [%rd12];
        {STORE}"
    );
    let case = Case::new(&body).module(".shared .align 16 .b8 tile[512];").threads(32);
    case.buffers(&[(32, Access::Write), (128, Access::Read)])
}

#[test]
fn copies_are_there_when_they_were_waited_for() {
    let input: Vec<u32> = (0..128).collect();
    let expected: Vec<u32> = (0..32).map(|thread| (thread ^ 31) * 4).collect();
    for seed in 0..4 {
        let found = copies("cp.async.wait_group 0;\nbar.sync 0;").seed(seed).run_with(&[&[], &input]).unwrap();
        assert_eq!(found[0], expected);
    }
    // Two groups, of which one may be under way.
    let between = "
        mad.wide.u32 %rd13, %r31, 16, %rd9;
        cp.async.ca.shared.global [%rd13+512], [%rd11], 16, 8;
        cp.async.commit_group;
        cp.async.wait_group 1;
        bar.sync 0;";
    let mut case = copies(between);
    case.module = ".shared .align 16 .b8 tile[1024];".to_string();
    assert_eq!(case.run_with(&[&[], &input]).unwrap()[0], expected);
}
