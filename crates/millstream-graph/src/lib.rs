//! CSR graphs: readers, writers, generators, partitioners, references, validators.
