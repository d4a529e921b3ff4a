//! Kernels that are broken on purpose: each is caught where it breaks, and told what is wrong.

use warpweft_compiler::program::Access;

use super::Case;
use super::warps::copies;
use crate::emulator::counters::Taken;

/// Each thread's element of the first buffer.
const OWN: &str = "mad.wide.u32 %rd8, %r31, 4, %rd0;\n";

const LOCAL: &str = ".local .align 4 .b8 own[32];\n";
const TILE: &str = ".shared .align 16 .b8 tile[512];";

#[test]
fn an_access_out_of_bounds() {
    let case = |body: &str| Case::new(body).threads(33).buffers(&[(32, Access::Write)]);
    let (text, message) = case(&format!("{OWN}st.global.b32 [%rd8], %r31;")).fault(&[]);
    assert_eq!(text, "st.global.b32 [%rd8], %r31;");
    assert_eq!(message, "4 bytes at byte 128 of parameter 0, which has 128: out of bounds");
    let (_, message) = Case::new("mov.u32 %r0, 1;\nst.global.b32 [%rd0+-4], %r0;").fault(&[]);
    assert_eq!(message, "4 bytes at byte -4 of parameter 0, which has 256: out of bounds");
    let (_, message) = Case::new(&format!("{LOCAL}st.local.b32 [own+30], %r31;")).fault(&[]);
    assert_eq!(message, "4 bytes at byte 30 of `own`, which has 32: out of bounds");
    let (_, message) = Case::new("st.shared.b32 [tile+512], %r31;").module(TILE).fault(&[]);
    assert_eq!(message, "4 bytes at byte 512 of `tile`, which has 512: out of bounds");
}

#[test]
fn a_misaligned_access() {
    let (_, message) = Case::new("st.global.v2.b32 [%rd0+4], {%r31, %r31};").fault(&[]);
    assert_eq!(message, "byte 4 of parameter 0 is no multiple of 8, the bytes accessed: misaligned");
    let (_, message) = Case::new("st.shared.b32 [tile+2], %r31;").module(TILE).fault(&[]);
    assert!(message.ends_with("misaligned"), "{message}");
}

#[test]
fn a_race_in_global_memory() {
    // All threads store to one element.
    let case = Case::new("st.global.b32 [%rd0], %r31;");
    let (_, message) = case.threads(2).fault(&[]);
    assert!(message.ends_with("of this block accessed with no barrier between: a race"), "{message}");
    // Threads of different blocks have no barrier.
    let (_, message) =
        Case::new("mov.u32 %r0, %ctaid.x;\nbar.sync 0;\nst.global.b32 [%rd0], %r0;").blocks(2).fault(&[]);
    assert_eq!(message, "writes what thread 0 of block 0 accessed with no barrier between: a race");
    // One reads what another writes, in the order of some seeds before and of some after.
    let neighbour = "st.global.b32 [%rd8], %r31;\nxor.b32 %r1, %r31, 1;\nmad.wide.u32 %rd9, %r1, 4, %rd0;\nld.global.b32 %r0, [%rd9];";
    let mut messages: Vec<String> = (0..8)
        .map(|seed| {
            let case = Case::new(&format!("{OWN}{neighbour}")).threads(2).buffers(&[(2, Access::ReadWrite)]);
            case.seed(seed).fault(&[]).1
        })
        .collect();
    assert!(messages.iter().all(|message| message.ends_with("a race")), "{messages:?}");
    messages.sort();
    messages.dedup();
    assert!(messages.len() > 1, "threads run in one order alone: {messages:?}");
    // Atomic accesses do not race with each other.
    assert_eq!(
        Case::new("mov.u32 %r0, 1;\nred.global.add.u32 [%rd0], %r0;")
            .threads(64)
            .buffers(&[(1, Access::ReadWrite)])
            .run(),
        [64]
    );
}

/// Each of 64 threads stores to shared memory, then reads what the thread across stored.
fn exchange(between: &str) -> Case {
    let body = format!(
        "{OWN}
        mov.u64 %rd9, tile;
        mad.wide.u32 %rd10, %r31, 4, %rd9;
        st.shared.b32 [%rd10], %r31;
        {between}
        xor.b32 %r1, %r31, 63;
        mad.wide.u32 %rd11, %r1, 4, %rd9;
        ld.shared.b32 %r0, [%rd11];
        st.global.b32 [%rd8], %r0;"
    );
    Case::new(&body).module(TILE).threads(64).buffers(&[(64, Access::Write)])
}

#[test]
fn a_missing_barrier() {
    exchange("bar.sync 0;").run();
    for seed in 0..4 {
        let (text, message) = exchange("").seed(seed).fault(&[]);
        let is_known = text.starts_with("ld.shared") && message == "shared memory is read that nothing has written"
            || message.ends_with("a race");
        assert!(is_known, "{text}: {message}");
    }
    // A barrier of each warp does not order two warps.
    let (_, message) = exchange("bar.warp.sync -1;").seed(1).fault(&[]);
    assert!(message.ends_with("a race") || message.ends_with("nothing has written"), "{message}");
    // It does order the lanes of one.
    let within = exchange("bar.warp.sync -1;");
    Case { body: within.body.replace("%r31, 63", "%r31, 31"), ..within }.run();
}

#[test]
fn a_missing_barrier_before_the_next_round() {
    // Behind the reads the tile is written again: without a barrier somebody may not have read yet.
    let again = |barrier: &str| {
        let case = exchange("bar.sync 0;");
        Case { body: case.body + &format!("\n{barrier}\nst.shared.b32 [%rd10], %r0;"), ..case }
    };
    again("bar.sync 0;").run();
    let (text, message) = again("").fault(&[]);
    assert!(message.ends_with("a race"), "{text}: {message}");
}

#[test]
fn a_missing_wait_for_a_copy() {
    let input: Vec<u32> = (0..128).collect();
    let (text, message) = copies("bar.sync 0;").fault(&[&[], &input]);
    assert_eq!(text, "ld.shared.b32 %r0, [%rd12];");
    assert_eq!(message, "bytes that a cp.async still copies, which has not been waited for");
    // One group too many is left under way.
    let (_, message) = copies("cp.async.wait_group 1;\nbar.sync 0;").fault(&[&[], &input]);
    assert!(message.starts_with("bytes that a cp.async still copies"), "{message}");
    // Who waits sees its own copies: for those of others a barrier is needed too.
    for seed in 0..4 {
        let (_, message) = copies("cp.async.wait_group 0;").seed(seed).fault(&[&[], &input]);
        let is_known = ["a race", "nothing has written", "has not been waited for"];
        assert!(is_known.iter().any(|end| message.ends_with(end)), "{message}");
    }
}

#[test]
fn a_register_that_was_never_written() {
    let (text, message) = Case::new("add.u32 %r1, %r0, 1;").fault(&[]);
    assert_eq!((text.as_str(), message.as_str()), ("add.u32 %r1, %r0, 1;", "%r0 is read, which nothing has written"));
    // Written on one of two ways, and read behind both: a fault for the threads that went the other one.
    let body = "setp.lt.u32 %p0, %r31, 1;\n@%p0 bra skip;\nmov.u32 %r0, 1;\nskip:\nadd.u32 %r1, %r0, 1;";
    assert_eq!(Case::new(body).fault(&[]).1, "%r0 is read, which nothing has written");
    Case::new(&body.replace("%r31, 1", "%r31, 0")).run();
    // Under a guard that does not hold.
    let body =
        "setp.lt.u32 %p0, %r31, 0;\n@%p0 mov.u32 %r0, 1;\n@%p0 add.u32 %r1, %r0, 1;\nst.global.b32 [%rd0], %r31;";
    Case::new(body).run();
    assert!(Case::new(&body.replace("@%p0 add", "add")).fault(&[]).1.starts_with("%r0 is read"));
}

#[test]
fn memory_that_was_never_written() {
    let (_, message) = Case::new("ld.global.b32 %r0, [%rd0+8];").fault(&[]);
    assert_eq!(message, "byte 8 of parameter 0 is read, which nothing has written");
    let (_, message) = Case::new("ld.shared.b32 %r0, [tile+8];").module(TILE).fault(&[]);
    assert_eq!(message, "shared memory is read that nothing has written");
    let body = format!("{LOCAL}st.local.b32 [own], %r31;\nld.local.v2.b32 {{%r0, %r1}}, [own];");
    let (_, message) = Case::new(&body).fault(&[]);
    assert_eq!(message, "local memory is read that nothing has written");
    let body = "st.local.b32 [own+4], %r31;\nld.local.b32 %r0, [own+4];\nst.global.b32 [%rd0], %r0;";
    Case::new(&format!("{LOCAL}{body}")).run();
}

#[test]
fn a_store_to_what_is_only_read_and_a_read_only_load_of_what_is_written() {
    let (_, message) = Case::new("st.global.b32 [%rd0], %r31;").buffers(&[(4, Access::Read)]).fault(&[]);
    assert_eq!(message, "parameter 0 is written to, which is only read");
    let (_, message) = Case::new("st.global.b32 [%rd0], %r31;\nld.global.nc.b32 %r0, [%rd0];").fault(&[]);
    assert_eq!(message, "a load by the read-only path of what this launch has written");
}

#[test]
fn a_divergent_barrier() {
    let some = "setp.lt.u32 %p0, %r31, 16;\n@%p0 bra skip;\nbar.sync 0;\nskip:\n";
    for seed in 0..4 {
        let (text, message) = Case::new(some).threads(32).seed(seed).fault(&[]);
        assert_eq!(text, "bar.sync 0;");
        assert!(message.ends_with("of the warp has left the kernel without it: divergent barrier"), "{message}");
    }
    // Two barriers for the two halves of a warp.
    let two = "setp.lt.u32 %p0, %r31, 16;\n@%p0 bra other;\nbar.sync 0;\nbra end;\nother:\nbar.sync 0;\nend:\n";
    assert!(Case::new(two).threads(32).fault(&[]).1.ends_with("divergent barrier"));
    // A warp that has left the kernel is not waited for.
    Case::new(&some.replace("%r31, 16", "%r31, 32")).threads(64).run();
    // A shuffle whose mask names a lane that is elsewhere.
    let shuffle = "setp.lt.u32 %p0, %r31, 16;\n@%p0 bra skip;\nshfl.sync.idx.b32 %r0, %r31, 20, 31, -1;\nskip:\n";
    assert!(Case::new(shuffle).threads(32).fault(&[]).1.ends_with("has left the kernel: divergent"));
    let wrong = "shfl.sync.idx.b32 %r0, %r31, 20, 31, 0x0000FFFF;";
    assert!(Case::new(wrong).threads(32).fault(&[]).1.contains("lane "));
}

#[test]
fn divisions_without_a_value() {
    assert_eq!(Case::new("div.u32 %r0, 1, 0;").fault(&[]).1, "division by 0, which has no value in PTX");
    assert!(Case::new("rem.s32 %r0, -2147483648, -1;").fault(&[]).1.starts_with("the least number"));
}

/// Each lane reads 16 bytes of its row of a tile of 32 rows of 64 bytes; the chunk of the row is what the swizzle says.
fn swizzled(chunk: &str) -> (Vec<u32>, Vec<Taken>) {
    let body = format!(
        "
        mov.u64 %rd9, tile;
        shr.u32 %r2, %r31, 1;
        {chunk}
        shl.b32 %r4, %r31, 6;
        mad.lo.u32 %r4, %r3, 16, %r4;
        cvt.u64.u32 %rd10, %r4;
        add.s64 %rd10, %rd9, %rd10;
        st.shared.v4.b32 [%rd10], {{%r31, %r31, %r31, %r31}};
        bar.sync 0;
        ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd10];
        mad.wide.u32 %rd8, %r31, 4, %rd0;
        st.global.b32 [%rd8], %r12;"
    );
    let case =
        Case::new(&body).module(".shared .align 128 .b8 tile[2048];").threads(32).buffers(&[(32, Access::Write)]);
    case.counted()
}

#[test]
fn a_wrong_swizzle_is_seen_in_the_conflicts() {
    // Rows of 64 bytes: two rows fill the banks once, so the chunk must go by half of the row's number.
    let (values, taken) = swizzled("and.b32 %r3, %r2, 3;");
    assert_eq!(values, (0..32).collect::<Vec<u32>>());
    let quarters = Taken { is_shared: true, accesses: 1, taken: 4, least: 4 };
    assert_eq!(taken[..2], [quarters; 2]);
    assert_eq!(taken[2], Taken { is_shared: false, accesses: 1, taken: 4, least: 4 });
    // Without one, the lanes of a quarter meet in two chunks: four turns for each.
    let (values, taken) = swizzled("mov.u32 %r3, 0;");
    assert_eq!(values, (0..32).collect::<Vec<u32>>());
    assert_eq!(taken[0], Taken { taken: 16, ..quarters });
}

#[test]
fn what_accesses_take_is_told_as_a_table() {
    let case = Case::new(&format!("{OWN}st.global.b32 [%rd8], %r31;")).threads(32).buffers(&[(32, Access::Write)]);
    let kernel = case.kernel().unwrap();
    kernel.count_memory();
    case.launch(&*kernel, &[]).unwrap();
    let line = "       1 take       4 sectors        of       4 at least |   17: st.global.b32 [%rd8], %r31;";
    let wanted = format!("by_hand: accesses of warps, in the first blocks\n{line}");
    assert_eq!(kernel.memory_report(), Some(wanted));
    assert_eq!(kernel.memory_report().unwrap().lines().count(), 1, "it has been told");
}
