//! Whole-system programs of Millstream.
