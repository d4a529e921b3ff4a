//! The oracles of the fuzz targets on random bytes: a smoke run in every test run. A failure prints a filetest.

use proptest::collection::vec;
use proptest::prelude::*;
use warpweft_tests::oracle;

fn check(result: Result<(), String>) -> Result<(), TestCaseError> {
    result.map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_roundtrip(bytes in vec(any::<u8>(), 0..120)) {
        check(oracle::text_roundtrip(&bytes))?;
    }

    #[test]
    fn memory_plan_legal(bytes in vec(any::<u8>(), 0..300)) {
        check(oracle::memory_plan_legal(&bytes))?;
    }

    #[test]
    fn rewrite_keeps_value(bytes in vec(any::<u8>(), 0..160)) {
        check(oracle::rewrite_keeps_value(&bytes))?;
    }

    #[test]
    fn conditions_keep_value(bytes in vec(any::<u8>(), 0..100)) {
        check(oracle::conditions_keep_value(&bytes))?;
    }

    #[test]
    fn view_elements(bytes in vec(any::<u8>(), 0..100)) {
        check(oracle::view_elements(&bytes))?;
    }

    #[test]
    fn substitution_is_evaluation(bytes in vec(any::<u8>(), 0..100)) {
        check(oracle::substitution_is_evaluation(&bytes))?;
    }

    #[test]
    fn writes_through_views(bytes in vec(any::<u8>(), 0..220)) {
        check(oracle::writes_through_views(&bytes, false))?;
    }

    #[test]
    fn effects(bytes in vec(any::<u8>(), 40..240)) {
        check(oracle::effects(&bytes, false))?;
    }

    #[test]
    fn fusion_same_value(bytes in vec(any::<u8>(), 0..60)) {
        check(oracle::fusion_same_value(&bytes, false))?;
    }

    #[test]
    fn value_is_itself(bytes in vec(any::<u8>(), 0..60)) {
        check(oracle::value_is_itself(&bytes, false))?;
    }

    #[test]
    fn elementwise_bits(bytes in vec(any::<u8>(), 0..60)) {
        check(oracle::elementwise_bits(&bytes, false))?;
    }

    #[test]
    fn schedule_same_value(bytes in vec(any::<u8>(), 0..120)) {
        check(oracle::schedule_same_value(&bytes, false))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_rule_keeps_the_value(bytes in vec(any::<u8>(), 8..60)) {
        check(oracle::rule_keeps_value(&bytes))?;
    }
}

proptest! {
    // Each case compiles several kernels with LLVM.
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn writes_through_views_on_the_cpu(bytes in vec(any::<u8>(), 60..220)) {
        check(oracle::writes_through_views(&bytes, true))?;
    }

    #[test]
    fn fusion_same_value_on_the_cpu(bytes in vec(any::<u8>(), 4..60)) {
        check(oracle::fusion_same_value(&bytes, true))?;
    }

    #[test]
    fn value_is_itself_on_the_cpu(bytes in vec(any::<u8>(), 10..60)) {
        check(oracle::value_is_itself(&bytes, true))?;
    }

    #[test]
    fn elementwise_bits_on_the_cpu(bytes in vec(any::<u8>(), 10..60)) {
        check(oracle::elementwise_bits(&bytes, true))?;
    }

    #[test]
    fn schedule_same_value_on_the_cpu(bytes in vec(any::<u8>(), 0..120)) {
        check(oracle::schedule_same_value(&bytes, true))?;
    }
}
