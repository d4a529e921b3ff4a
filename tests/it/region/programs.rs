//! Random programs of allocations and views.

use proptest::collection::vec;
use proptest::prelude::*;
use warpweft_tests::alias_programs;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs(bytes in vec(any::<u8>(), 20..160)) {
        alias_programs::check_program(&bytes).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn random_strided_views(bytes in vec(any::<u8>(), 10..60)) {
        alias_programs::check_strided_views(&bytes).map_err(TestCaseError::fail)?;
    }
}
