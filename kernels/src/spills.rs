//! What the compiler says of registers.

/// Lines of a compiler's log that speak of spilled registers; NVRTC's with the option
/// `--ptxas-options=-v` says of each function how many bytes it spills.
///
/// ```
/// let log = "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
/// assert!(millstream_kernels::spills(log).is_empty());
/// let log = "    120 bytes stack frame, 120 bytes spill stores, 120 bytes spill loads";
/// assert_eq!(millstream_kernels::spills(log), [log]);
/// ```
pub fn spills(log: &str) -> Vec<&str> {
    // With the space before it: 120 bytes end in 0 bytes.
    const NONE: &str = " 0 bytes spill stores, 0 bytes spill loads";
    let spills = |line: &&str| line.contains("spill") && !line.contains(NONE);
    log.lines().filter(spills).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spills_are_seen() {
        let line = |stores: u32, loads: u32| {
            format!(
                "ptxas . 0 bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads"
            )
        };
        assert_eq!(spills(&line(0, 0)), [""; 0]);
        for (stores, loads) in [(4, 0), (40, 0), (120, 0), (0, 40), (120, 120)] {
            let line = line(stores, loads);
            assert_eq!(spills(&format!("first\n{line}\nlast")), [line.as_str()]);
        }
        let warning = "warning: Registers are spilled to local memory in function 'filter'";
        assert_eq!(spills(warning), [warning]);
    }
}
