#!/usr/bin/env python3
"""NCCL's collectives through PyTorch, in the table of the bench `collectives`.

    scripts/nccl-collectives.py [--gpus N] [--least BYTES] [--most BYTES] [--step K] [--awaited]

One process a GPU; operations on f32, back to back or each awaited before the next,
microseconds of one and bus bandwidth in GB/s. NVLink's multicast stays off
(NCCL_NVLS_ENABLE=0), as Millstream does not use it.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def operations(buffer, ranks, rank):
    """Name, what of a vector each link carries, and the call."""
    part = buffer.numel() // ranks
    own = buffer[rank * part : (rank + 1) * part]
    other = torch.empty_like(buffer)
    share = (ranks - 1) / ranks
    return [
        ("broadcast", 1.0, lambda: dist.broadcast(buffer, 0)),
        ("reduce", 1.0, lambda: dist.reduce(buffer, 0)),
        ("all-reduce", 2 * share, lambda: dist.all_reduce(buffer)),
        ("reduce-scatter", share, lambda: dist.reduce_scatter_tensor(own, buffer)),
        ("all-gather", share, lambda: dist.all_gather_into_tensor(buffer, own)),
        ("all-to-all", share, lambda: dist.all_to_all_single(other, buffer)),
    ]


def seconds(call, size, awaited):
    """Of one operation, among as many as take a while; the best of three times."""
    rounds = min(200, max(20, (256 << 20) // size))
    best = float("inf")
    for _ in range(4):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(rounds):
            call()
            if awaited:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / rounds)
    return best


def run(rank, arguments):
    ranks = arguments.gpus
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    size, is_first = arguments.least, True
    while size <= arguments.most:
        items = -(-size // 4 // ranks) * ranks
        buffer = torch.zeros(items, dtype=torch.float32, device="cuda")
        row = [f"{size:>10}"]
        calls = operations(buffer, ranks, rank)
        for _, share, call in calls:
            time_of_one = torch.tensor([seconds(call, items * 4, arguments.awaited)], device="cuda")
            dist.all_reduce(time_of_one, op=dist.ReduceOp.MAX)
            time_of_one = time_of_one.item()
            row.append(f"{time_of_one * 1e6:9.1f} {share * items * 4 / time_of_one / 1e9:6.1f}")
        if rank == 0:
            if is_first:
                names = " | ".join(f"{name:>16}" for name, _, _ in calls)
                print(f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}, {ranks} GPUs")
                print(f"{'bytes':>10} | {names}")
            print(" | ".join(row), flush=True)
        is_first = False
        size *= arguments.step
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=torch.cuda.device_count())
    parser.add_argument("--least", type=int, default=1 << 10)
    parser.add_argument("--most", type=int, default=1 << 30)
    parser.add_argument("--step", type=int, default=4)
    parser.add_argument("--awaited", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29517")
    mp.spawn(run, args=(arguments,), nprocs=arguments.gpus)


if __name__ == "__main__":
    main()
