//! Fixtures shared by the suites of this folder.
