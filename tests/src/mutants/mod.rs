//! Small faults planted in the project, and whether its tests notice: what `./x mutants` runs.
//!
//! [`list`] reads the faults from `tests/mutants/*.txt`. [`plant`] copies the project and turns all of them into switches there, so that one
//! build serves all: a process has the fault that an environment variable names. [`suite`] builds the tests of that copy and sees what each
//! takes and reaches, [`run`] runs one of them, and [`judge`] asks for each fault the tests that reach it, until one fails. The project
//! itself has no switches.

pub mod judge;
pub mod list;
pub mod plant;
pub mod run;
pub mod suite;
