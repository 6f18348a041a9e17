pub(crate) fn multiprocessors() -> u32 {
    4
}
