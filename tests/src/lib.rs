//! Whole-system tests of Millstream; they are in `tests/`.
