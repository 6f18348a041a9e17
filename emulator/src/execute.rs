//! Runs a kernel's blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::block;
use crate::image::Kernel;

/// A launch, with its arguments copied.
pub(crate) struct Launch {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) grid: [u32; 3],
    pub(crate) threads: [u32; 3],
    /// All parameters, each at its offset.
    pub(crate) arguments: Vec<u64>,
    /// Blocks that may run at once, each on a thread of its own.
    pub(crate) resident: u32,
}

/// What ended a kernel before its time; the text says where.
#[derive(Clone, Debug)]
pub(crate) struct Fault(pub(crate) String);

/// Runs all blocks to their ends, on the calling thread and others.
///
/// # Errors
/// A trap; threads that wait for each other for ever; `stop` was set.
pub(crate) fn run(launch: &Launch, stop: &AtomicBool) -> Result<(), Fault> {
    let blocks: u64 = launch.grid.iter().map(|count| u64::from(*count)).product();
    let (next, first_fault) = (AtomicU64::new(0), Mutex::new(None));
    let work = || {
        loop {
            // Relaxed: only numbers, here and below.
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= blocks {
                return;
            }
            let (x, y) = (u64::from(launch.grid[0]), u64::from(launch.grid[1]));
            let place = [(at % x) as u32, (at / x % y) as u32, (at / x / y) as u32];
            if let Err(fault) = block::run(launch, place, seed(), stop) {
                first_fault.lock().get_or_insert(fault);
                stop.store(true, Ordering::Relaxed);
                next.store(blocks, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..blocks.min(u64::from(launch.resident)) {
            scope.spawn(work);
        }
        work();
    });
    first_fault.into_inner().map_or(Ok(()), Err)
}

/// Another one for each block, from `MILLSTREAM_EMULATOR_SEED` on.
fn seed() -> u64 {
    static NEXT: std::sync::LazyLock<AtomicU64> = std::sync::LazyLock::new(|| {
        let seed =
            std::env::var("MILLSTREAM_EMULATOR_SEED").ok().and_then(|seed| seed.parse().ok());
        AtomicU64::new(seed.unwrap_or(1))
    });
    NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::{GRANULE, mark};
    use crate::compiler::compile;
    use crate::image::Image;

    fn launch(text: &str, name: &str, blocks: u32, threads: u32, arguments: &[u64]) -> Launch {
        let code = compile(text).unwrap();
        // SAFETY: just compiled.
        let image = unsafe { Image::load(code.as_ptr()) }.unwrap();
        Launch {
            kernel: image.kernel(name).unwrap(),
            grid: [blocks, 1, 1],
            threads: [threads, 1, 1],
            arguments: arguments.to_vec(),
            resident: 4,
        }
    }

    fn runs(launch: &Launch) -> Result<(), String> {
        run(launch, &AtomicBool::new(false)).map_err(|fault| fault.0)
    }

    #[test]
    fn warps_blocks_and_atomic_operations() {
        let text = r#"
            __device__ unsigned sum_of_block(unsigned value) {
                __shared__ unsigned sums[32];
                for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
                if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
                __syncthreads();
                unsigned sum = 0;
                for (unsigned at = 0; at < blockDim.x / 32; ++at) sum += sums[at];
                return sum;
            }
            extern "C" __global__ void __launch_bounds__(128) sums(
                unsigned char small, const __grid_constant__ unsigned long long* numbers,
                unsigned long long* result) {
                const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
                const unsigned sum = sum_of_block(numbers[at]) + small;
                if (threadIdx.x == 0) atomicAdd(result, sum);
            }"#;
        let numbers: Vec<u64> = (0..1280).collect();
        let mut result = 0_u64;
        let arguments = [3, numbers.as_ptr() as u64, &raw mut result as u64];
        let launch = launch(text, "sums", 10, 128, &arguments);
        assert_eq!(launch.kernel.parameters, [(0, 1), (8, 8), (16, 8)]);
        for _ in 0..10 {
            runs(&launch).unwrap();
        }
        assert_eq!(result, 10 * (1279 * 1280 / 2 + 30));
    }

    #[test]
    fn blocks_wait_for_each_other() {
        let text = r#"
            extern "C" __global__ void meet(unsigned* arrived) {
                unsigned before;
                asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;"
                             : "=r"(before) : "l"(arrived), "r"(1u) : "memory");
                unsigned now;
                do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
                while (now < gridDim.x * blockDim.x);
            }"#;
        let mut arrived = 0_u32;
        runs(&launch(text, "meet", 4, 100, &[&raw mut arrived as u64])).unwrap();
        assert_eq!(arrived, 400);
    }

    #[test]
    fn faults_say_what_they_are() {
        let text = r#"
            extern "C" __global__ void divergent(unsigned most) {
                if (threadIdx.x < most) __syncthreads();
                else if (threadIdx.x % 2 == 1) __shfl_sync(~0u, 1, 0);
            }
            extern "C" __global__ void traps(unsigned at) {
                if (threadIdx.x == at) asm volatile("trap;");
                __syncthreads();
            }"#;
        // Those that have ended are not waited for.
        runs(&launch(text, "divergent", 2, 64, &[64])).unwrap();
        let fault = runs(&launch(text, "divergent", 2, 64, &[40])).unwrap_err();
        assert!(fault.contains("wait for each other for ever; 12 have ended"), "{fault}");
        assert!(fault.contains("barrier 0") && fault.contains("shuffle"), "{fault}");
        let fault = runs(&launch(text, "traps", 2, 64, &[40])).unwrap_err();
        assert!(fault.starts_with("traps, block [") && fault.ends_with("a trap"), "{fault}");
    }

    #[test]
    fn accesses_outside_of_memory_are_faults() {
        let text = r#"
            extern "C" __global__ void sum(const unsigned* numbers, unsigned from, unsigned* sums) {
                sums[threadIdx.x] = numbers[from + threadIdx.x];
            }"#;
        // Leaked: its addresses stay marked.
        let memory = vec![7_u32; 1024].leak();
        let start = memory.as_ptr().align_offset(GRANULE);
        let (numbers, mut sums) = (&memory[start..start + 100], [0_u32; 64]);
        let mut sum = |from| {
            launch(text, "sum", 1, 64, &[numbers.as_ptr() as u64, from, &raw mut sums as u64])
        };
        runs(&sum(200)).unwrap();
        mark(numbers.as_ptr().cast(), 400, true);
        runs(&sum(36)).unwrap();
        let fault = runs(&sum(37)).unwrap_err();
        assert!(fault.contains("thread 63 uses 4 bytes at"), "{fault}");
        mark(numbers.as_ptr().cast(), 400, false);
        assert!(runs(&sum(0)).is_err());
    }

    #[test]
    fn a_blocks_own_memory_is_not_global() {
        let text = r#"
            extern "C" __global__ void add(unsigned* word, unsigned is_own) {
                __shared__ unsigned own;
                unsigned before;
                asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
                             : "=r"(before) : "l"(is_own ? &own : word), "r"(1u) : "memory");
            }"#;
        // Leaked: its address stays marked.
        let memory = vec![0_u32; 512].leak();
        let word = &mut memory[memory.as_ptr().align_offset(GRANULE)];
        mark((&raw const *word).cast(), 4, true);
        runs(&launch(text, "add", 2, 3, &[&raw mut *word as u64, 0])).unwrap();
        assert_eq!(*word, 6);
        let fault = runs(&launch(text, "add", 1, 1, &[&raw mut *word as u64, 1])).unwrap_err();
        assert!(fault.contains("thread 0 uses 4 bytes at"), "{fault}");
    }

    #[test]
    fn shared_variables_hold_anything_at_first() {
        let text = r#"
            extern "C" __global__ void look(unsigned* words) {
                __shared__ unsigned shared[64];
                words[threadIdx.x] = shared[threadIdx.x];
                shared[threadIdx.x] = 1;
            }"#;
        let mut words = [0_u32; 64];
        for _ in 0..2 {
            runs(&launch(text, "look", 3, 64, &[&raw mut words as u64])).unwrap();
            assert_eq!(words, [0xA5A5_A5A5; 64]);
        }
    }

    #[test]
    fn what_does_not_compile_names_the_line() {
        let error = compile("\nextern \"C\" __global__ void k() { no_such(); }").unwrap_err();
        assert!(error.contains("kernel.cu(2):"), "{error}");
    }
}
