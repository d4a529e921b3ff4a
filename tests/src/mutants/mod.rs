//! Small faults planted in the project, and whether its tests notice: what `./x mutants` runs.
//!
//! [`list`] reads the faults from `tests/mutants/*.txt`. [`plant`] copies the project and turns all of them into switches there, so that one
//! build serves all: a process has the fault that an environment variable names. [`run`] runs the tests of that copy with one fault after the
//! other, those first that are likely to notice, until one fails. The project itself has no switches.

pub mod list;
pub mod plant;
pub mod run;
